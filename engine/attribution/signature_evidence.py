"""What findings say of each condition, by its signature: a network of two layers in the manner of QMR-DT.

Each condition shows in the signals of its signature with a probability (always, usually, sometimes); each signal may
also be abnormal for a reason outside the catalogue (the leak of a noisy-or). One cause is taken to be present. A signal
that is seen and normal speaks against the conditions that show in it; one that is not seen counts neither way.
Source: M. Shwe and others, "Probabilistic diagnosis using a reformulation of the INTERNIST-1/QMR knowledge base", 1991.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from skewscope.engine.incidents.confidence import prior_log_odds
from skewscope.engine.incidents.result_cache import KeyedCache
from skewscope.engine.model.finding import EVENT, MOVING, PAST, PATTERNS, PEERS, Finding
from skewscope.kb.model import Catalogue, Condition, SignatureItem
from skewscope.kb.signatures import is_detectable

SHOWS = {"always": 0.95, "usually": 0.7, "sometimes": 0.3}
"""Probability that a condition shows in a signal, by the catalogue's word."""
LEAK = 0.03
"""Probability that a signal is abnormal for a reason outside the catalogue."""
EVENT_LEAK = 0.001
"""The same of a message that an event recognises: programs seldom write it for another reason (judgement)."""
POWER = 0.6
"""Probability that the detector finds a signal in which a condition shows: some shifts are too small."""
OTHER_COMPARISON = 0.5
"""Weight of a finding against something else than the signature says."""
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
MAX_KEPT = 1024
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


@dataclass(frozen=True, slots=True)
class Candidate:
    """A condition that may cause some findings."""

    condition: str
    log_odds: float
    """Of it against none of the catalogue, by its prevalence and the findings."""
    explained: tuple[str, ...]
    """Ids of the abnormal signals in which it shows."""
    normal: tuple[str, ...]
    """Ids of signals in which it shows and that are normal."""
    unseen: tuple[str, ...]
    """Ids of signals in which it shows and that no source delivers here."""


@dataclass
class SignatureModel:
    """The conditions of a catalogue as causes of findings."""

    catalogue: Catalogue
    _items: Mapping[str, Mapping[str, Sequence[SignatureItem]]] = field(init=False)
    """Items of the signature by condition and signal."""
    _absent: Mapping[str, Mapping[str, float]] = field(init=False)
    """Logarithm of the probability that the detector finds nothing in a signal, by condition and signal."""
    _shows: Mapping[str, Mapping[str, float]] = field(init=False)
    """Probability that it shows in a signal at most, by condition and signal."""
    _weighed: KeyedCache[tuple[object, ...], tuple[Candidate, ...]] = field(init=False, repr=False)
    """Earlier results: of a fault of many places most symptoms look alike."""
    _decisive: KeyedCache[tuple[object, ...], str] = field(init=False, repr=False)
    """The same of `decisive_signal`."""

    def __post_init__(self) -> None:
        self._weighed, self._decisive = KeyedCache(MAX_KEPT), KeyedCache(MAX_KEPT)
        self._items = {
            name: _by_signal(one.signature)
            for name, one in sorted(self.catalogue.conditions.items())
            if one.signature and one.maturity != "withdrawn"
        }
        self._absent = {name: dict(self._absences(items)) for name, items in self._items.items()}
        self._shows = {name: _strengths(items) for name, items in self._items.items()}

    def _absences(self, items: Mapping[str, Sequence[SignatureItem]]) -> Iterator[tuple[str, float]]:
        """Yields what each normal signal says; a comparison by which a signal is not judged would find nothing."""
        for signal, parts in items.items():
            known = [item for item in parts if is_detectable(item, self.catalogue.signals[signal])]
            if known:
                yield signal, math.log(1 - POWER * max(SHOWS[item.shows] for item in known))

    def weigh(
        self,
        findings: Collection[Finding],
        delivered: Collection[str],
        group_kinds: Collection[str],
        machines: int = 1,
    ) -> tuple[Candidate, ...]:
        """Returns the conditions that explain some finding, likeliest first.

        Args:
            findings: what is abnormal.
            delivered: ids of the judged signals that are delivered at the place.
            group_kinds: kinds of the parallel groups at the place.
            machines: machines on which members are late.
        """
        looks = tuple(dict.fromkeys(_look(one) for one in findings))
        seen = looks, frozenset(delivered), frozenset(group_kinds), machines
        return self._weighed.get(seen, None, lambda: self._weigh(findings, delivered, group_kinds, machines))

    def _weigh(
        self, findings: Collection[Finding], delivered: Collection[str], group_kinds: Collection[str], machines: int
    ) -> tuple[Candidate, ...]:
        by_signal: dict[str, list[Finding]] = {}
        for finding in _leave_out_waits(self._as_in_signatures(findings)):
            by_signal.setdefault(finding.what.id, []).append(finding)
        more = max(min(machines, MAX_MACHINES) - 1, 0)
        kinds = _kinds_at(group_kinds, findings)
        found = [self._score(name, by_signal, frozenset(delivered), kinds, more) for name in self._items]
        # What shows in no finding explains it no better than none of the catalogue.
        return tuple(sorted((one for one in found if one.explained), key=lambda one: (-one.log_odds, one.condition)))

    def _as_in_signatures(self, findings: Collection[Finding]) -> list[Finding]:
        """Returns the findings; those of a reciprocal are of the signal that signatures name, unless it has some."""
        present = {one.what.id for one in findings}
        found = []
        for one in findings:
            name = one.what.judged.reciprocal_of if one.what.judged is not None else ""
            if name and name not in present and one.direction in OPPOSITE:
                signal, direction = self.catalogue.signals[name], OPPOSITE[one.direction]
                found.append(replace(one, what=signal, direction=direction, value=one.reference, reference=one.value))
            else:
                found.append(one)
        return found

    def _score(
        self,
        name: str,
        by_signal: Mapping[str, Sequence[Finding]],
        delivered: frozenset[str],
        group_kinds: Collection[str] | None,
        more: int,
    ) -> Candidate:
        """Returns a condition with its log-odds; `more` machines than one are late."""
        condition, items, absent = self.catalogue.conditions[name], self._items[name], self._absent[name]
        prior = prior_log_odds(condition.prevalence) * (1 + more if condition.group in LOCAL_GROUPS else 1)
        prior += 0.0 if _fits(condition, group_kinds) else math.log(OTHER_PARALLELISM)
        explained, normal, unseen = [], [], []
        found: dict[str, list[float]] = {}
        for signal, findings in by_signal.items():
            shown = max((_match(item, one) for item in items.get(signal, ()) for one in findings), default=0.0)
            found.setdefault(_source(signal), []).append(math.log(shown / _leak(findings[0]) + 1 - shown))
            if shown:
                explained.append(signal)
        against: dict[str, float] = {}
        for signal in items:
            if signal in by_signal:
                continue
            if signal not in delivered:
                unseen.append(signal)
            elif signal in absent:
                against[_source(signal)] = min(against.get(_source(signal), 0.0), absent[signal])
                normal.append(signal)
        # Signals of one source rise and fall together: n of them count as the root of n, what they do not show once.
        weight = sum(sum(some) / math.sqrt(len(some)) for some in found.values()) + sum(against.values())
        return Candidate(name, prior + weight, tuple(explained), tuple(normal), tuple(unseen))

    def decisive_signal(self, candidates: Sequence[Candidate]) -> str:
        """Returns the signal that is not delivered and would best tell the two likeliest candidates apart; or ''."""
        if len(candidates) < 2:
            return ""
        pair = tuple((one.condition, one.unseen) for one in candidates[:2])
        return self._decisive.get(pair, None, lambda: self._find_decisive(candidates[:2]))

    def _find_decisive(self, candidates: Sequence[Candidate]) -> str:
        first, second = (self._shows[one.condition] for one in candidates)
        unseen = (signal for one in candidates for signal in one.unseen)
        gains = {signal: abs(first.get(signal, 0.0) - second.get(signal, 0.0)) for signal in unseen}
        best = min(gains.items(), key=lambda item: (-item[1], item[0]), default=("", 0.0))
        return best[0] if best[1] > 0 else ""


def _source(signal: str) -> str:
    return signal.partition(".")[0]


def _look(finding: Finding) -> tuple[object, ...]:
    """Returns all of a finding that decides its likely causes."""
    reciprocal = finding.reference / finding.value if finding.value else 0.0
    small = (abs(ratio) <= SILENT_SHARE for ratio in (finding.ratio, reciprocal))
    return finding.what.id, finding.pattern, finding.direction, finding.place.kind, *small


def _leave_out_waits(findings: Collection[Finding]) -> Iterator[Finding]:
    """Yields the findings without the longer waits of all others where one member is late: any cause of it has these.

    Waiting and communicating take longer for the victims, computing for the culprit (Wu and others, "Greyhound", 2025).
    """
    late = any(
        one.pattern in (PEERS, MOVING) and one.place.kind in ("rank", "group") and _role(one) == "time-per-work"
        for one in findings
    )
    for one in findings:
        if not (late and _role(one) == "wait" and one.direction == "up" and one.pattern == PAST):
            yield one


def _leak(finding: Finding) -> float:
    """Returns the probability that a signal is abnormal for a reason outside the catalogue."""
    return EVENT_LEAK if finding.pattern == EVENT else LEAK


def _role(finding: Finding) -> str:
    judged = finding.what.judged
    return judged.role if judged is not None else ""


def _by_signal(items: Iterable[SignatureItem]) -> Mapping[str, Sequence[SignatureItem]]:
    found: dict[str, list[SignatureItem]] = {}
    for item in items:
        found.setdefault(item.signal, []).append(item)
    return found


def _strengths(items: Mapping[str, Sequence[SignatureItem]]) -> Mapping[str, float]:
    return {signal: max(SHOWS[item.shows] for item in parts) for signal, parts in items.items()}


def _fits(condition: Condition, group_kinds: Collection[str] | None) -> bool:
    if group_kinds is None:
        return True
    wanted = {word.split("-")[0] for word in condition.parallelism}
    present = {PARALLELISM.get(kind, kind) for kind in group_kinds}
    return "any" in wanted or bool(wanted & present)


def _kinds_at(group_kinds: Collection[str], findings: Iterable[Finding]) -> Collection[str] | None:
    """Returns the kinds of groups at a place; None where there may be others, as behind a port of a switch."""
    return group_kinds if group_kinds or all(one.place.kind == "gpu" for one in findings) else None


def _match(item: SignatureItem, finding: Finding) -> float:
    """Returns the probability of a finding, given the condition, by one item of its signature; 0 where it differs."""
    if not _same_direction(item, finding):
        return 0.0
    if _same_comparison(item, finding):
        weight = 1.0
    else:
        weight = COMMON_CHANGE if finding.pattern in (PEERS, MOVING) else OTHER_COMPARISON
    if item.direction == "uneven" and finding.pattern == PEERS:
        weight *= FIXED_MEMBER  # what moves between members rarely stays at one
    return SHOWS[item.shows] * weight


def _same_direction(item: SignatureItem, finding: Finding) -> bool:
    if item.direction == finding.direction:
        return True
    if finding.pattern == MOVING or item.direction == "uneven":
        return item.direction in ("uneven", "up") and finding.direction in ("uneven", "up", "down")
    if item.direction == "silent" and finding.direction == "down":
        return abs(finding.ratio) <= SILENT_SHARE
    return finding.direction in SIMILAR_DIRECTIONS.get(item.direction, ())


def _same_comparison(item: SignatureItem, finding: Finding) -> bool:
    return item.against in PATTERNS[finding.pattern].comparisons
