"""The difference between what two versions of the rules tell, incident by incident."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf

from skewscope.adapters.backtest.verdicts import OPEN, VersionScore
from skewscope.engine.model.incident import Incident

NEW, GONE, SOONER, LATER, CHANGED, SAME = "new", "gone", "sooner", "later", "changed", "same"
NEAR_S = 300.0
"""Incidents of one condition and place that open within so many seconds are the same one, if they do not overlap."""
LEAST_S = 1e-3
"""Smaller differences of time are none."""
LEAST_CONFIDENCE = 0.005


@dataclass(frozen=True, slots=True)
class IncidentDifference:
    """One incident in both versions, or in one of them."""

    kind: str
    recording: str
    before: Incident | None
    after: Incident | None
    seconds: float = 0.0
    """By how much it opens later; negative: sooner."""
    fields: tuple[str, ...] = ()
    """What else differs."""
    verdict: str = OPEN
    """Whether labels say that it is right."""

    @property
    def incident(self) -> Incident:
        """The incident as the new version tells it, or as the old one did."""
        found = self.after or self.before
        assert found is not None
        return found


def compare_versions(
    recordings: Sequence[tuple[str, Sequence[Incident], Sequence[Incident]]], before: VersionScore, after: VersionScore
) -> list[IncidentDifference]:
    """Returns the differences in order of recording and time, and the incidents that are the same.

    Args:
        recordings: (name, incidents of the old version, incidents of the new one).
        before: the account of the old version.
        after: the account of the new one.
    """
    found = []
    for name, old, new in recordings:
        here = [_difference(name, *pair, before, after) for pair in _pair_incidents(old, new)]
        found += sorted(here, key=lambda one: (one.incident.opened_at, one.incident.condition, one.incident.name))
    return found


def _pair_incidents(
    old: Sequence[Incident], new: Sequence[Incident]
) -> Iterator[tuple[Incident | None, Incident | None]]:
    """Yields (old, new) pairs: of one condition, at one place rather than at one it also names, the nearest in time."""
    fits = [
        (_places_differ(one, other), abs(one.opened_at - other.opened_at), n, m)
        for n, one in enumerate(old)
        for m, other in enumerate(new)
        if _may_be_same(one, other)
    ]
    of_old: dict[int, int] = {}
    taken: set[int] = set()
    for *_, n, m in sorted(fits):
        if n not in of_old and m not in taken:
            of_old[n] = m
            taken.add(m)
    for n, one in enumerate(old):
        yield one, new[of_old[n]] if n in of_old else None
    yield from ((None, other) for m, other in enumerate(new) if m not in taken)


def _may_be_same(one: Incident, other: Incident) -> bool:
    if (one.category, one.condition, one.kind) != (other.category, other.condition, other.kind):
        return False
    if not {one.name, *one.also} & {other.name, *other.also}:
        return False
    overlap = one.opened_at <= _end(other) and other.opened_at <= _end(one)
    return overlap or abs(one.opened_at - other.opened_at) <= NEAR_S


def _places_differ(one: Incident, other: Incident) -> bool:
    return one.name != other.name


def _end(one: Incident) -> float:
    return inf if one.resolved_at is None else one.resolved_at


def _difference(
    recording: str, old: Incident | None, new: Incident | None, before: VersionScore, after: VersionScore
) -> IncidentDifference:
    if new is None:
        assert old is not None
        return IncidentDifference(GONE, recording, old, None, verdict=before.verdicts.get((recording, old.id), OPEN))
    verdict = after.verdicts.get((recording, new.id), OPEN)
    if old is None:
        return IncidentDifference(NEW, recording, None, new, verdict=verdict)
    seconds, fields = new.opened_at - old.opened_at, tuple(_changed_fields(old, new))
    moved = abs(seconds) >= LEAST_S
    kind = (LATER if seconds > 0 else SOONER) if moved else CHANGED if fields else SAME
    return IncidentDifference(kind, recording, old, new, seconds if moved else 0.0, fields, verdict)


def _changed_fields(old: Incident, new: Incident) -> Iterator[str]:
    """Yields what a reader would notice besides the time of opening."""
    if old.name != new.name:
        yield "place"
    if old.severity != new.severity:
        yield "severity"
    if abs(old.confidence - new.confidence) >= LEAST_CONFIDENCE:
        yield "confidence"
    if abs(_end(old) - _end(new)) >= LEAST_S:
        yield "end"
    if (old.explained_by is None) != (new.explained_by is None):
        yield "explanation"
