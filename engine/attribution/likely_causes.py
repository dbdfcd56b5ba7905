"""The likely causes of a symptom: a network of two layers in the manner of QMR-DT.

Each condition shows in the signals of its signature with a probability (always, usually, sometimes); each signal may
also be abnormal for a reason outside the catalogue (the leak of a noisy-or). One cause is taken to be present. A signal
that is seen and normal speaks against the conditions that show in it; one that is not seen counts neither way.
Source: M. Shwe and others, "Probabilistic diagnosis using a reformulation of the INTERNIST-1/QMR knowledge base", 1991.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from skewscope.engine.symptoms.deviation import (
    EVENT,
    LESS,
    LIMIT,
    MOVING,
    PAST,
    PEERS,
    REPEATS,
    SHARES,
    START,
    TOTAL,
    ZERO,
    Deviation,
)
from skewscope.kb.model import Catalogue, Condition, SignatureItem
from skewscope.kb.signatures import is_detectable

SHOWS = {"always": 0.95, "usually": 0.7, "sometimes": 0.3}
"""Probability that a condition shows in a signal, by the catalogue's word."""
PRIORS = {"common": 0.1, "occasional": 0.03, "rare": 0.01, "": 0.03}
LEAK = 0.03
"""Probability that a signal is abnormal for a reason outside the catalogue."""
EVENT_LEAK = 0.001
"""The same of a message that an event recognises: programs seldom write it for another reason (judgement)."""
POWER = 0.6
"""Probability that the detector finds a signal in which a condition shows: some shifts are too small."""
OTHER_COMPARISON = 0.5
"""Weight of a deviation against something else than the signature says."""
COMMON_CHANGE = 0.2
"""The same of a member that stands out, where the signature says that the signal changes and not that members differ:
what all share shows in their past and not against one another (judgement)."""
FIXED_MEMBER = 0.5
"""Weight of a member that stays the slow one for a condition that moves between members."""
OTHER_PARALLELISM = 0.3
"""Weight of a condition of a kind of parallel group that the topology does not have at the place."""
LOCAL_GROUPS = frozenset({"gpu", "host", "pcie"})
"""Groups of conditions that hit one machine: of several late machines each would need a fault of its own."""
MAX_MACHINES = 3
"""Machines from which on more of them say no more."""
SILENT_SHARE = 0.05
"""A value that falls to this part of what it was may be that of something silent."""
MIN_PROBABILITY = 0.02
MAX_CANDIDATES = 6
MAX_RANKED = 1024
"""Results that are kept."""
PARALLELISM = {
    "tensor-parallel": "tensor",
    "pipeline-parallel": "pipeline",
    "data-parallel": "data",
    "expert-parallel": "expert",
    "prefill-decode": "disaggregated",
}
SIMILAR_DIRECTIONS = {
    "up": ("begins",),
    "begins": ("up",),
    "down": ("stops",),
    "stops": ("down",),
    "silent": ("stops",),
}
OPPOSITE = {"up": "down", "down": "up"}
COMPARISONS = {
    PAST: ("past", "nominal"),
    PEERS: ("peers", "siblings"),
    MOVING: ("peers", "siblings"),
    ZERO: ("siblings", "peers"),
    REPEATS: ("past", "nominal"),
    LESS: ("siblings", "peers"),
    SHARES: ("siblings", "peers"),
    START: ("past", "nominal"),
    EVENT: ("nominal", "past"),
    LIMIT: ("nominal", "past"),
    TOTAL: ("nominal", "past"),
}
"""What a signature may compare with to mean a deviation of a form."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A condition that may cause a symptom."""

    condition: str
    probability: float
    explained: tuple[str, ...]
    """Ids of the abnormal signals in which it shows."""
    normal: tuple[str, ...]
    """Ids of signals in which it shows and that are normal."""
    unseen: tuple[str, ...]
    """Ids of signals in which it shows and that no source delivers here."""


@dataclass
class CauseModel:
    """The conditions of a catalogue as causes of symptoms."""

    catalogue: Catalogue
    _items: Mapping[str, Mapping[str, Sequence[SignatureItem]]] = field(init=False)
    """Items of the signature by condition and signal."""
    _absent: Mapping[str, Mapping[str, float]] = field(init=False)
    """Logarithm of the probability that the detector finds nothing in a signal, by condition and signal."""
    _ranked: dict[tuple[object, ...], tuple[Candidate, ...]] = field(default_factory=dict, repr=False)
    """Earlier results: of a fault of many places most symptoms look alike."""
    _decisive: dict[tuple[object, ...], str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self._items = {
            name: _by_signal(one.signature)
            for name, one in sorted(self.catalogue.conditions.items())
            if one.signature and one.maturity != "withdrawn"
        }
        self._absent = {name: dict(self._absences(items)) for name, items in self._items.items()}

    def _absences(self, items: Mapping[str, Sequence[SignatureItem]]) -> Iterator[tuple[str, float]]:
        """Yields what each normal signal says; a comparison by which a signal is not judged would find nothing."""
        for signal, parts in items.items():
            known = [item for item in parts if is_detectable(item, self.catalogue.signals[signal])]
            if known:
                yield signal, math.log(1 - POWER * max(SHOWS[item.shows] for item in known))

    def rank(
        self,
        deviations: Collection[Deviation],
        delivered: Collection[str],
        group_kinds: Collection[str],
        machines: int = 1,
    ) -> tuple[Candidate, ...]:
        """Returns the likeliest causes of some deviations, likeliest first.

        Args:
            deviations: what is abnormal.
            delivered: ids of the judged signals that are delivered at the place.
            group_kinds: kinds of the parallel groups at the place.
            machines: machines on which members are late.
        """
        looks = tuple(dict.fromkeys(_look(one) for one in deviations))
        seen = looks, frozenset(delivered), frozenset(group_kinds), machines
        if seen not in self._ranked:
            if len(self._ranked) >= MAX_RANKED:
                self._ranked.clear()
            self._ranked[seen] = self._rank(deviations, delivered, group_kinds, machines)
        return self._ranked[seen]

    def _rank(
        self, deviations: Collection[Deviation], delivered: Collection[str], group_kinds: Collection[str], machines: int
    ) -> tuple[Candidate, ...]:
        by_signal: dict[str, list[Deviation]] = {}
        for deviation in _leave_out_waits(self._as_in_signatures(deviations)):
            by_signal.setdefault(deviation.signal.id, []).append(deviation)
        more = max(min(machines, MAX_MACHINES) - 1, 0)
        kinds = _kinds_at(group_kinds, deviations)
        scores = {name: self._score(name, by_signal, frozenset(delivered), kinds, more) for name in self._items}
        # The leak alone: none of the catalogue's conditions.
        none = sum(math.log(_leak(some[0])) for some in by_signal.values())
        top = max([*(score for score, *_ in scores.values()), none])
        total = sum(math.exp(score - top) for score, *_ in scores.values()) + math.exp(none - top)
        found = [
            Candidate(name, round(math.exp(score - top) / total, 3), *parts)
            for name, (score, *parts) in scores.items()
            if parts[0]
        ]
        found.sort(key=lambda one: (-one.probability, one.condition))
        return tuple(one for one in found[:MAX_CANDIDATES] if one.probability >= MIN_PROBABILITY)

    def _as_in_signatures(self, deviations: Collection[Deviation]) -> list[Deviation]:
        """Returns the deviations; those of a reciprocal are of the signal that signatures name, unless it has some."""
        present = {one.signal.id for one in deviations}
        found = []
        for one in deviations:
            name = one.signal.judged.reciprocal_of if one.signal.judged is not None else ""
            if name and name not in present and one.direction in OPPOSITE:
                signal, direction = self.catalogue.signals[name], OPPOSITE[one.direction]
                found.append(replace(one, signal=signal, direction=direction, value=one.before, before=one.value))
            else:
                found.append(one)
        return found

    def _score(
        self,
        name: str,
        by_signal: Mapping[str, Sequence[Deviation]],
        delivered: frozenset[str],
        group_kinds: Collection[str] | None,
        more: int,
    ) -> tuple[float, tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
        """Returns (score, signals explained, normal, unseen); `more` machines than one are late."""
        condition, items, absent = self.catalogue.conditions[name], self._items[name], self._absent[name]
        score = math.log(PRIORS.get(condition.prevalence, PRIORS[""]))
        score *= 1 + more if condition.group in LOCAL_GROUPS else 1
        score += math.log(1.0 if _fits(condition, group_kinds) else OTHER_PARALLELISM)
        explained, normal, unseen = [], [], []
        against: dict[str, float] = {}
        for signal, deviations in by_signal.items():
            shown = max((_match(item, one) for item in items.get(signal, ()) for one in deviations), default=0.0)
            score += math.log(shown + _leak(deviations[0]) * (1 - shown))
            if shown:
                explained.append(signal)
        for signal in items:
            if signal in by_signal:
                continue
            if signal not in delivered:
                unseen.append(signal)
            elif signal in absent:
                source = signal.partition(".")[0]
                against[source] = min(against.get(source, 0.0), absent[signal])
                normal.append(signal)
        # Signals of one source rise and fall together: what they do not show counts once.
        score += sum(against.values())
        return score, tuple(explained), tuple(normal), tuple(unseen)

    def decisive_signal(self, candidates: Sequence[Candidate]) -> str:
        """Returns the signal that is not delivered and would best tell the two likeliest candidates apart; or ''."""
        if len(candidates) < 2:
            return ""
        parts = tuple((one.condition, one.unseen) for one in candidates[:2])
        if parts not in self._decisive:
            if len(self._decisive) >= MAX_RANKED:
                self._decisive.clear()
            self._decisive[parts] = self._decisive_signal(candidates)
        return self._decisive[parts]

    def _decisive_signal(self, candidates: Sequence[Candidate]) -> str:
        first, second = (self._items[one.condition] for one in candidates[:2])
        gains = {signal: abs(_strength(first, signal) - _strength(second, signal)) for signal in candidates[0].unseen}
        gains |= {signal: abs(_strength(first, signal) - _strength(second, signal)) for signal in candidates[1].unseen}
        best = min(gains.items(), key=lambda item: (-item[1], item[0]), default=("", 0.0))
        return best[0] if best[1] > 0 else ""


def _look(deviation: Deviation) -> tuple[object, ...]:
    """Returns all of a deviation that decides its likely causes."""
    reciprocal = deviation.before / deviation.value if deviation.value else 0.0
    small = (abs(ratio) <= SILENT_SHARE for ratio in (deviation.ratio, reciprocal))
    return deviation.signal.id, deviation.form, deviation.direction, deviation.place.kind, *small


def _leave_out_waits(deviations: Collection[Deviation]) -> Iterator[Deviation]:
    """Yields the deviations without the longer waits of all others where one member is late: any cause of it has these.

    Waiting and communicating take longer for the victims, computing for the culprit (Wu and others, "Greyhound", 2025).
    """
    late = any(
        one.form in (PEERS, MOVING) and one.place.kind in ("rank", "group") and _role(one) == "time-per-work"
        for one in deviations
    )
    for one in deviations:
        if not (late and _role(one) == "wait" and one.direction == "up" and one.form == PAST):
            yield one


def _leak(deviation: Deviation) -> float:
    """Returns the probability that a signal is abnormal for a reason outside the catalogue."""
    return EVENT_LEAK if deviation.form == EVENT else LEAK


def _role(deviation: Deviation) -> str:
    judged = deviation.signal.judged
    return judged.role if judged is not None else ""


def _by_signal(items: Iterable[SignatureItem]) -> Mapping[str, Sequence[SignatureItem]]:
    found: dict[str, list[SignatureItem]] = {}
    for item in items:
        found.setdefault(item.signal, []).append(item)
    return found


def _strength(items: Mapping[str, Sequence[SignatureItem]], signal: str) -> float:
    return max((SHOWS[item.shows] for item in items.get(signal, ())), default=0.0)


def _fits(condition: Condition, group_kinds: Collection[str] | None) -> bool:
    if group_kinds is None:
        return True
    wanted = {word.split("-")[0] for word in condition.parallelism}
    present = {PARALLELISM.get(kind, kind) for kind in group_kinds}
    return "any" in wanted or bool(wanted & present)


def _kinds_at(group_kinds: Collection[str], deviations: Iterable[Deviation]) -> Collection[str] | None:
    """Returns the kinds of groups at a place; None where there may be others, as behind a port of a switch."""
    return group_kinds if group_kinds or all(one.place.kind == "gpu" for one in deviations) else None


def _match(item: SignatureItem, deviation: Deviation) -> float:
    """Returns the probability of a deviation, given the condition, by one item of its signature; 0 where it differs."""
    if not _same_direction(item, deviation):
        return 0.0
    if _same_comparison(item, deviation):
        weight = 1.0
    else:
        weight = COMMON_CHANGE if deviation.form in (PEERS, MOVING) else OTHER_COMPARISON
    if item.direction == "uneven" and deviation.form == PEERS:
        weight *= FIXED_MEMBER  # what moves between members rarely stays at one
    return SHOWS[item.shows] * weight


def _same_direction(item: SignatureItem, deviation: Deviation) -> bool:
    if item.direction == deviation.direction:
        return True
    if deviation.form == MOVING or item.direction == "uneven":
        return item.direction in ("uneven", "up") and deviation.direction in ("uneven", "up", "down")
    if item.direction == "silent" and deviation.direction == "down":
        return abs(deviation.ratio) <= SILENT_SHARE
    return deviation.direction in SIMILAR_DIRECTIONS.get(item.direction, ())


def _same_comparison(item: SignatureItem, deviation: Deviation) -> bool:
    return item.against in COMPARISONS[deviation.form]
