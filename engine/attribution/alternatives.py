"""What else it could be: the look-alikes of a diagnosis, and what fires beside it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from skewscope.engine.attribution.causes import MAX_CAUSAL_STEPS, CauseGraph
from skewscope.engine.attribution.confidence import GAIN, PRIOR, log_odds_array, probability
from skewscope.engine.attribution.neighbourhood import NeighbourIndex
from skewscope.engine.incidents.state import IncidentState
from skewscope.engine.judge.alerts import AlertTracker, EvidenceSpec, RuleInfo
from skewscope.engine.model.locality import NODE_BOUND, Entity
from skewscope.engine.model.sets import Index
from skewscope.engine.model.verdict import UNKNOWN, YES, RuleVerdict
from skewscope.kb.model import Catalogue
from skewscope.rules.entity_kinds import GROUP_LIKE

NO_EVIDENCE_LOG_ODDS = PRIOR - GAIN / 2
"""Log-odds of a condition that is judged, but that nothing near speaks for: all seen, and every item says no."""
MAX_LOCATIONS = 16
"""Names of where else a candidate may be."""
PATH_KINDS = frozenset({"port", "link", "peer"})
"""Kinds of entities that suffer from what is wrong elsewhere on their paths."""
NearbyVerdict = tuple[RuleInfo, RuleVerdict, Index]
"""A rule, what it says in this tick, and which of its entities are near."""
EntityLogOdds = tuple[Index, NDArray[np.float64]]
"""Entities of a rule, in order, and the log-odds of its condition on each."""


class AlternativeFinder:
    """Compares cases with what else could be the matter."""

    def __init__(
        self, catalogue: Catalogue, causes: CauseGraph, neighbours: NeighbourIndex, tracks: AlertTracker
    ) -> None:
        self.catalogue, self.cause_graph, self.alerts = catalogue, causes, tracks
        self.locality, self._neighbours = neighbours.locality, neighbours
        self._separating_tests: dict[str, dict[str, str]] = {}

    def compare(self, t: float, cases: Sequence[IncidentState]) -> None:
        """Note what else each of some cases could be, as the rules see it in this tick.

        That is how likely each look-alike is by its own rules; and which look-alikes and causes cannot be judged here.
        """
        near = [self._lookalikes_near(case) for case in cases]
        alike = [
            near_[name]
            for case, near_ in zip(cases, near, strict=True)
            for name in self._separating_tests[case.condition]
        ]
        odds = _log_odds_by_rule(entry for some in alike for entry in some)
        for case, near_ in zip(cases, near, strict=True):
            for condition, test in self._separating_tests[case.condition].items():
                case.alternatives[condition] = (_best_probability(near_[condition], odds), test)
            open_ = self._candidates(case, near_)
            places = {name: found for name, said in open_.items() if (found := self._unknown_locations(case, said))}
            # What else a cause does may show a little later: a case that has just come up is looked at once more, and
            # what could not be judged as it came up stays a candidate.
            again = case.comparison_count == 1
            case.candidates = tuple(dict.fromkeys([*case.candidates, *open_] if again else open_))
            case.candidate_locations = tuple(
                ({**dict(case.candidate_locations), **places} if again else places).items()
            )
            case.comparison_count += 1
            case.compared_at, case.needs_comparison = t, case.comparison_count == 1

    def _find_separating_tests(self, condition: str) -> dict[str, str]:
        """Look-alikes and what separates them, whichever side says so."""
        conditions = self.catalogue.conditions
        tests = {
            id_: look.separate_by
            for id_, other in sorted(conditions.items())
            for look in other.lookalikes
            if look.condition == condition
        }
        known = conditions.get(condition)
        return tests | {look.condition: look.separate_by for look in (known.lookalikes if known else ())}

    def _candidates(
        self, case: IncidentState, near: Mapping[str, Sequence[NearbyVerdict]]
    ) -> dict[str, Sequence[NearbyVerdict]]:
        """Look-alikes and causes that no rule can judge here, and what may lie behind those and cannot be judged.

        The nearest ones first: what would need more steps to have led here follows.
        """
        found: dict[str, Sequence[NearbyVerdict]] = {}
        edge = (
            self._verdicts_near(case, near, wide=True)
            if case.primary_entity.kind in (*PATH_KINDS, *GROUP_LIKE)
            else near
        )
        for _ in range(MAX_CAUSAL_STEPS):
            open_ = {name: said for name, said in sorted(edge.items()) if not self._is_judgeable(said)}
            found |= open_
            behind = {cause for name in open_ for cause in self.cause_graph.direct_causes(name)} - {
                *near,
                *found,
                case.condition,
            }
            edge = self._verdicts_near(case, behind)
        return found

    def _is_judgeable(self, near: Sequence[NearbyVerdict]) -> bool:
        """Whether a rule can tell of a condition wherever it may be near; one without a rule is no candidate."""
        unknown = [self.alerts.unknown_mask(verdict, at) for _, verdict, at in near if len(at)]
        return not unknown or not all(each.any() for each in unknown)

    def _unknown_locations(self, case: IncidentState, near: Sequence[NearbyVerdict]) -> tuple[str, ...]:
        """Names of where something cannot be judged, the case's own first if it is one; none if it is the only one."""
        unknown = [
            Entity(v.kind, v.names[i]) for _, v, at in near for i in at[self.alerts.unknown_mask(v, at)].tolist()
        ]
        apart = [one for one in unknown if self._are_apart(case.primary_entity, one)]
        names = sorted({self.locality.display_name(one)[1] for one in apart})[:MAX_LOCATIONS]
        here = [self.locality.display_name(case.primary_entity)[1]] if len(apart) < len(unknown) else []
        return (*here, *names) if names else ()

    def _are_apart(self, one: Entity, other: Entity) -> bool:
        """Whether two share no node; of groups and pools, whether they share none and neither is in the other."""
        a, b = self.locality.location_of(one), self.locality.location_of(other)
        if {one.kind, other.kind} <= {*NODE_BOUND}:
            return (a.self_tokens | a.nodes).isdisjoint(b.self_tokens | b.nodes)
        inside = not (a.self_tokens.isdisjoint(b.pools) and b.self_tokens.isdisjoint(a.pools))
        return not inside and self._neighbours.tokens(one).isdisjoint(self._neighbours.tokens(other))

    def _lookalikes_near(self, case: IncidentState) -> dict[str, list[NearbyVerdict]]:
        """What the rules of each look-alike and cause say near a case."""
        if case.condition not in self._separating_tests:
            self._separating_tests[case.condition] = self._find_separating_tests(case.condition)
        return self._verdicts_near(
            case, self._separating_tests[case.condition].keys() | self.cause_graph.direct_causes(case.condition)
        )

    def _verdicts_near(
        self, case: IncidentState, conditions: Iterable[str], *, wide: bool = False
    ) -> dict[str, list[NearbyVerdict]]:
        """What the rules of some conditions say of a case's entity and of those next to it.

        Where both sit on a node it must be the same one: that another member is late does not make this link bad. Only
        what other ports of the group suffer may lie on the paths of this one, and what another replica has may reach
        this one where the catalogue says so: these are taken in where the look is `wide`.
        """
        entity = case.primary_entity
        place, around = self.locality.location_of(entity), self._neighbours.tokens(entity)
        known: dict[tuple[str, int, bool], Index] = {}
        found: dict[str, list[NearbyVerdict]] = {name: [] for name in conditions}
        for name, own in found.items():
            for info, verdict in self.alerts.verdicts_of(name):
                siblings = wide and {entity.kind, verdict.kind} <= {*GROUP_LIKE}
                siblings = siblings and self.cause_graph.reaches_siblings(name, case.condition)
                key = verdict.kind, id(verdict.names), siblings
                if key not in known:
                    same_node = entity.kind in NODE_BOUND and verdict.kind in NODE_BOUND
                    same_node = same_node and not (wide and verdict.kind in PATH_KINDS)
                    tokens = place.self_tokens | place.nodes if same_node else around | place.pools
                    if siblings:
                        tokens |= self.locality.replicas_of(place.pools)
                    known[key] = self._neighbours.find_near(verdict.kind, verdict.names, tokens)
                own.append((info, verdict, known[key]))
        return found

    def weigh(self, roots: Sequence[IncidentState]) -> None:
        """Note the other roots that fire in the same place; the likeliest of them makes a case less sure."""
        at: dict[str, list[IncidentState]] = {}
        for case in roots:
            for token in self._neighbours.tokens(case.primary_entity):
                at.setdefault(token, []).append(case)
        for case in roots:
            near = {other.id: other for token in self._neighbours.tokens(case.primary_entity) for other in at[token]}
            for _, other in sorted(near.items()):
                if other.condition != case.condition:
                    self._record_alternative(case, other)

    def _record_alternative(self, case: IncidentState, other: IncidentState) -> None:
        chance = probability(other.log_odds)
        before, test = case.alternatives.get(other.condition, (0.0, ""))
        case.alternatives[other.condition] = (max(before, chance), test or _separating_measurement(case, other))
        case.alternative_probability = max(case.alternative_probability, chance)


def _log_odds_by_rule(near: Iterable[NearbyVerdict]) -> dict[str, EntityLogOdds]:
    """How likely each rule's condition is by what it says of all who are near anybody, each rule asked but once."""
    asked: dict[str, list[NearbyVerdict]] = {}
    for entry in near:
        asked.setdefault(entry[0].rule, []).append(entry)
    found = {}
    for rule, some in asked.items():
        info, verdict, _ = some[0]
        at = np.unique(np.concatenate([each for _, _, each in some]))
        if not len(at):
            found[rule] = at, np.empty(0)
            continue
        said = verdict.evidence_of(at, numbers=False)
        odds = log_odds_array(info.weights, info.against, said.evidence, said.coverage, info.required)
        # What a rule was worth was measured where it spoke; where it does not, its evidence alone counts.
        speaks = verdict.firing[at] | (verdict.state[at] == YES)
        odds = np.where(speaks, info.calibrate(odds), odds)
        found[rule] = at, np.where(said.applies, odds, NO_EVIDENCE_LOG_ODDS)
    return found


def _best_probability(near: Sequence[NearbyVerdict], odds: Mapping[str, EntityLogOdds]) -> float:
    """How likely a condition is by what its rules say of these: the prior where it has none."""
    best = NO_EVIDENCE_LOG_ODDS if near else PRIOR
    for info, _, at in near:
        whose, known = odds[info.rule]
        best = max(best, float(known[np.searchsorted(whose, at)].max(initial=NO_EVIDENCE_LOG_ODDS)))
    return probability(best)


def _separating_measurement(case: IncidentState, other: IncidentState) -> str:
    """The measurement that would tell two apart where the catalogue names none; '' where nothing more could be seen.

    That is the heaviest item of either that could not be judged, else the heaviest that the other needs and that rests
    on signals which this one does not read: should it fall, the other falls, and this one stands.
    """
    missing = [i for which in (case, other) for i, v in _evidence_items(which) if v == UNKNOWN and i.signals]
    read = {signal for item, _ in _evidence_items(case) for signal in item.signals}
    own = [
        i for i, v in _evidence_items(other) if v == YES and not i.against and i.signals and read.isdisjoint(i.signals)
    ]
    heaviest = min(missing or own, key=lambda i: (-i.weight, i.name), default=None)
    return f"{', '.join(heaviest.signals)} ({heaviest.name})" if heaviest else ""


def _evidence_items(case: IncidentState) -> Iterator[tuple[EvidenceSpec, int]]:
    return zip(case.peak_evidence.info.items, case.peak_evidence.verdicts, strict=True)
