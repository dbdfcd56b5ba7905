"""Who acknowledged or snoozed what, until when: a list that only grows, kept in a file of one JSON object a line."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from skewscope.engine.incident import Incident

ACTS = ("acknowledged", "taken back", "snoozed", "woken", "looked at the plan", "was refused", "recorded")
MOST_LINE = 4096
MOST_ENTRIES = 10_000


@dataclass(frozen=True, slots=True)
class Entry:
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
class Standing:
    """What holds of an incident by the ledger."""

    state: str = ""
    """acknowledged, snoozed, silenced or ''."""
    who: str = ""
    until: float | None = None


@dataclass
class Ledger:
    """All entries, oldest first; without a path they last as long as the console."""

    path: Path | None = None
    entries: tuple[Entry, ...] = ()
    fault: str = ""
    _by: tuple[int, dict[str, list[Entry]]] = field(default_factory=lambda: (-1, {}), repr=False, compare=False)
    """How many entries were sorted, and they by incident."""

    def add(self, entry: Entry) -> None:
        """Note one more; written at once where there is a file."""
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(entry), ensure_ascii=False, allow_nan=False) + "\n")
        self.entries = (*self.entries, entry)

    def _of(self, incident: str) -> list[Entry]:
        if self._by[0] != len(self.entries):
            found: dict[str, list[Entry]] = {}
            for entry in self.entries:
                found.setdefault(entry.incident, []).append(entry)
            self._by = len(self.entries), found
        return self._by[1].get(incident, [])

    def standings(self, incidents: Iterable[Incident], now: float) -> dict[str, Standing]:
        """What holds of each incident of which something does, by its id."""
        found = ((incident.id, self.standing(incident, now)) for incident in incidents)
        return {id_: standing for id_, standing in found if standing.state}

    def standing(self, incident: Incident, now: float) -> Standing:
        """What holds of an incident now; what came back after it had ended is news again."""
        for entry in reversed(self._of(incident.id)):
            if entry.time > now:
                continue
            if entry.did in ("taken back", "woken"):
                return Standing()
            if entry.did == "snoozed":
                # An end is an end: what goes on after it is told again.
                return Standing("snoozed", entry.who, entry.until) if now < (entry.until or now) else Standing()
            if entry.did == "acknowledged":
                return Standing("acknowledged", entry.who)
        return Standing()


def read(path: Path) -> Ledger:
    """The ledger of a file; lines that are none are passed over and told."""
    entries, bad = [], 0
    if path.exists():
        with path.open(encoding="utf-8", errors="replace") as file:
            for text in file:
                entry = _entry(text)
                bad += entry is None
                entries += [entry] if entry else []
    fault = f"{path}: {bad} lines that are no entries were passed over" if bad else ""
    return Ledger(path, tuple(entries[-MOST_ENTRIES:]), fault)


def _entry(text: str) -> Entry | None:
    try:
        told = json.loads(text[:MOST_LINE])
        entry = Entry(**told)
        sound = isinstance(entry.time, int | float) and isinstance(entry.until, int | float | None)
    except (ValueError, TypeError):
        return None
    return entry if sound and entry.did in ACTS and isinstance(entry.incident, str) else None
