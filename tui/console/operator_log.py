"""The operator log: who acknowledged or snoozed which incident. Append-only JSON lines."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from skewscope.engine.model.incident import Incident
from skewscope.tui.render.incident_table import TriageState

ACTIONS = ("acknowledged", "unacknowledged", "snoozed", "unsnoozed", "refused", "recorded")
UNDO_ACTIONS = ("unacknowledged", "unsnoozed")
_FORMER_ACTIONS = {"taken back": "unacknowledged", "woken": "unsnoozed", "was refused": "refused"}
"""Actions in logs of earlier versions."""
MAX_LINE = 4096
MAX_ENTRIES = 10_000


@dataclass(frozen=True, slots=True)
class OperatorLogEntry:
    """One action of an operator."""

    time: float
    """Seconds since 1970, in the data's time."""
    who: str
    did: str
    incident: str = ""
    until: float | None = None
    note: str = ""


@dataclass
class OperatorLog:
    """All entries, oldest first; kept in memory only if there is no path."""

    path: Path | None = None
    entries: tuple[OperatorLogEntry, ...] = ()
    fault: str = ""
    _by_incident: tuple[int, dict[str, list[OperatorLogEntry]]] = field(
        default_factory=lambda: (-1, {}), repr=False, compare=False
    )
    """The number of entries indexed, and the entries by incident id."""

    def add(self, entry: OperatorLogEntry) -> None:
        """Append an entry, in memory and to the file."""
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
        """Returns the triage state of each incident that has one, by incident id."""
        found = ((incident.id, self.triage_state(incident, now)) for incident in incidents)
        return {id_: triage for id_, triage in found if triage.state}

    def triage_state(self, incident: Incident, now: float) -> TriageState:
        """Returns the triage state of an incident at a time."""
        for entry in reversed(self._entries_of(incident.id)):
            if entry.time > now:
                continue
            if entry.did in UNDO_ACTIONS:
                return TriageState()
            if entry.did == "snoozed":
                # An expired snooze ends the search: earlier entries no longer apply.
                return TriageState("snoozed", entry.who, entry.until) if now < (entry.until or now) else TriageState()
            if entry.did == "acknowledged":
                return TriageState("acknowledged", entry.who)
        return TriageState()


def read_log(path: Path) -> OperatorLog:
    """Load an operator log; invalid lines are skipped and counted in `fault`."""
    entries, bad = [], 0
    if path.exists():
        with path.open(encoding="utf-8", errors="replace") as file:
            for text in file:
                entry = _parse_entry(text)
                bad += entry is None
                entries += [entry] if entry else []
    fault = f"{path}: {bad} invalid lines were skipped" if bad else ""
    return OperatorLog(path, tuple(entries[-MAX_ENTRIES:]), fault)


def _parse_entry(text: str) -> OperatorLogEntry | None:
    try:
        entry = OperatorLogEntry(**json.loads(text[:MAX_LINE]))
        valid = isinstance(entry.time, int | float) and isinstance(entry.until, int | float | None)
        entry = replace(entry, did=_FORMER_ACTIONS.get(entry.did, entry.did))
    except (ValueError, TypeError):
        return None
    return entry if valid and entry.did in ACTIONS and isinstance(entry.incident, str) else None
