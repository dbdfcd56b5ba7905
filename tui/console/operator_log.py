"""Who acknowledged or snoozed what, until when: a list that only grows, kept in a file of one JSON object a line."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from skewscope.engine.model.incident import Incident

ACTIONS = ("acknowledged", "taken back", "snoozed", "woken", "looked at the plan", "was refused", "recorded")
MAX_LINE = 4096
MAX_ENTRIES = 10_000


@dataclass(frozen=True, slots=True)
class OperatorLogEntry:
    """One thing that somebody did."""

    time: float
    """Seconds since 1970, by the data."""
    who: str
    did: str
    incident: str = ""
    until: float | None = None
    note: str = ""


SILENCED = "silenced"
"""A controller tells nobody else; `who` is the silence then."""


@dataclass(frozen=True, slots=True)
class TriageState:
    """What holds of an incident by the ledger."""

    state: str = ""
    """acknowledged, snoozed, silenced or ''."""
    actor: str = ""
    until: float | None = None


@dataclass
class OperatorLog:
    """All entries, oldest first; without a path they last as long as the console."""

    path: Path | None = None
    entries: tuple[OperatorLogEntry, ...] = ()
    fault: str = ""
    _by_incident: tuple[int, dict[str, list[OperatorLogEntry]]] = field(
        default_factory=lambda: (-1, {}), repr=False, compare=False
    )
    """How many entries were sorted, and they by incident."""

    def add(self, entry: OperatorLogEntry) -> None:
        """Note one more; written at once where there is a file."""
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(entry), ensure_ascii=False, allow_nan=False) + "\n")
        self.entries = (*self.entries, entry)

    def _entries_of(self, incident: str) -> list[OperatorLogEntry]:
        if self._by_incident[0] != len(self.entries):
            found: dict[str, list[OperatorLogEntry]] = {}
            for entry in self.entries:
                found.setdefault(entry.incident, []).append(entry)
            self._by_incident = len(self.entries), found
        return self._by_incident[1].get(incident, [])

    def triage_states(self, incidents: Iterable[Incident], now: float) -> dict[str, TriageState]:
        """What holds of each incident of which something does, by its id."""
        found = ((incident.id, self.triage_state(incident, now)) for incident in incidents)
        return {id_: standing for id_, standing in found if standing.state}

    def triage_state(self, incident: Incident, now: float) -> TriageState:
        """What holds of an incident now; what came back after it had ended is news again."""
        for entry in reversed(self._entries_of(incident.id)):
            if entry.time > now:
                continue
            if entry.did in ("taken back", "woken"):
                return TriageState()
            if entry.did == "snoozed":
                # An end is an end: what goes on after it is told again.
                return TriageState("snoozed", entry.who, entry.until) if now < (entry.until or now) else TriageState()
            if entry.did == "acknowledged":
                return TriageState("acknowledged", entry.who)
        return TriageState()


def read_log(path: Path) -> OperatorLog:
    """The ledger of a file; lines that are none are passed over and told."""
    entries, bad = [], 0
    if path.exists():
        with path.open(encoding="utf-8", errors="replace") as file:
            for text in file:
                entry = _parse_entry(text)
                bad += entry is None
                entries += [entry] if entry else []
    fault = f"{path}: {bad} lines that are no entries were passed over" if bad else ""
    return OperatorLog(path, tuple(entries[-MAX_ENTRIES:]), fault)


def _parse_entry(text: str) -> OperatorLogEntry | None:
    try:
        told = json.loads(text[:MAX_LINE])
        entry = OperatorLogEntry(**told)
        sound = isinstance(entry.time, int | float) and isinstance(entry.until, int | float | None)
    except (ValueError, TypeError):
        return None
    return entry if sound and entry.did in ACTIONS and isinstance(entry.incident, str) else None
