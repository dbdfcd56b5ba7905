"""What else it could be: the look-alikes of a diagnosis, and what fires beside it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from skewscope.engine.attribution import MOST_STEPS, Causes
from skewscope.engine.cases import Case
from skewscope.engine.confidence import GAIN, PRIOR, log_odds_of_all, probability
from skewscope.engine.neighbours import Neighbours
from skewscope.engine.places import NODE_BOUND, Entity
from skewscope.engine.sets import Index
from skewscope.engine.tracks import Item, RuleInfo, Tracks
from skewscope.engine.verdict import UNKNOWN, YES, RuleVerdict
from skewscope.kb.model import Catalogue
from skewscope.rules.kinds import GROUP_LIKE

NOTHING_SPEAKS = PRIOR - GAIN / 2
"""Log-odds of a condition that is judged, but that nothing near speaks for: all seen, and every item says no."""
MOST_NAMED = 16
"""Names of where else a candidate may be."""
ON_A_PATH = frozenset({"port", "link", "peer"})
"""Kinds of entities that suffer from what is wrong elsewhere on their paths."""
Near = tuple[RuleInfo, RuleVerdict, Index]
"""A rule, what it says in this tick, and which of its entities are near."""
Odds = tuple[Index, NDArray[np.float64]]
"""Entities of a rule, in order, and the log-odds of its condition on each."""


class Rivals:
    """Compares cases with what else could be the matter."""

    def __init__(self, catalogue: Catalogue, causes: Causes, neighbours: Neighbours, tracks: Tracks) -> None:
        self.catalogue, self.causes, self.tracks = catalogue, causes, tracks
        self.places, self._neighbours = neighbours.places, neighbours
        self._tests: dict[str, dict[str, str]] = {}

    def compare(self, t: float, cases: Sequence[Case]) -> None:
        """Note what else each of some cases could be, as the rules see it in this tick.

        That is how likely each look-alike is by its own rules; and which look-alikes and causes cannot be judged here.
        """
        near = [self._beside(case) for case in cases]
        alike = [near_[name] for case, near_ in zip(cases, near, strict=True) for name in self._tests[case.condition]]
        odds = _odds(entry for some in alike for entry in some)
        for case, near_ in zip(cases, near, strict=True):
            for condition, test in self._tests[case.condition].items():
                case.rivals[condition] = (_chance(near_[condition], odds), test)
            open_ = self._candidates(case, near_)
            places = {name: found for name, said in open_.items() if (found := self._places(case, said))}
            # What else a cause does may show a little later: a case that has just come up is looked at once more, and
            # what could not be judged as it came up stays a candidate.
            again = case.looks == 1
            case.candidates = tuple(dict.fromkeys([*case.candidates, *open_] if again else open_))
            case.elsewhere = tuple(({**dict(case.elsewhere), **places} if again else places).items())
            case.looks += 1
            case.compared_at, case.changed = t, case.looks == 1

    def _separating(self, condition: str) -> dict[str, str]:
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

    def _candidates(self, case: Case, near: Mapping[str, Sequence[Near]]) -> dict[str, Sequence[Near]]:
        """Look-alikes and causes that no rule can judge here, and what may lie behind those and cannot be judged.

        The nearest ones first: what would need more steps to have led here follows.
        """
        found: dict[str, Sequence[Near]] = {}
        edge = self._near(case, near, wide=True) if case.leader.kind in (*ON_A_PATH, *GROUP_LIKE) else near
        for _ in range(MOST_STEPS):
            open_ = {name: said for name, said in sorted(edge.items()) if not self._judged(said)}
            found |= open_
            behind = {cause for name in open_ for cause in self.causes.of(name)} - {*near, *found, case.condition}
            edge = self._near(case, behind)
        return found

    def _judged(self, near: Sequence[Near]) -> bool:
        """Whether a rule can tell of a condition wherever it may be near; one without a rule is no candidate."""
        unknown = [self.tracks.unknown(verdict, at) for _, verdict, at in near if len(at)]
        return not unknown or not all(each.any() for each in unknown)

    def _places(self, case: Case, near: Sequence[Near]) -> tuple[str, ...]:
        """Names of where something cannot be judged, the case's own first if it is one; none if it is the only one."""
        unknown = [Entity(v.kind, v.names[i]) for _, v, at in near for i in at[self.tracks.unknown(v, at)].tolist()]
        apart = [one for one in unknown if self._are_apart(case.leader, one)]
        names = sorted({self.places.shown(one)[1] for one in apart})[:MOST_NAMED]
        here = [self.places.shown(case.leader)[1]] if len(apart) < len(unknown) else []
        return (*here, *names) if names else ()

    def _are_apart(self, one: Entity, other: Entity) -> bool:
        """Whether two share no node; of groups and pools, whether they share none and neither is in the other."""
        a, b = self.places.of(one), self.places.of(other)
        if {one.kind, other.kind} <= {*NODE_BOUND}:
            return (a.own | a.nodes).isdisjoint(b.own | b.nodes)
        inside = not (a.own.isdisjoint(b.pools) and b.own.isdisjoint(a.pools))
        return not inside and self._neighbours.tokens(one).isdisjoint(self._neighbours.tokens(other))

    def _beside(self, case: Case) -> dict[str, list[Near]]:
        """What the rules of each look-alike and cause say near a case."""
        if case.condition not in self._tests:
            self._tests[case.condition] = self._separating(case.condition)
        return self._near(case, self._tests[case.condition].keys() | self.causes.of(case.condition))

    def _near(self, case: Case, conditions: Iterable[str], *, wide: bool = False) -> dict[str, list[Near]]:
        """What the rules of some conditions say of a case's entity and of those next to it.

        Where both sit on a node it must be the same one: that another member is late does not make this link bad. Only
        what other ports of the group suffer may lie on the paths of this one, and what another replica has may reach
        this one where the catalogue says so: these are taken in where the look is `wide`.
        """
        entity = case.leader
        place, around = self.places.of(entity), self._neighbours.tokens(entity)
        known: dict[tuple[str, int, bool], Index] = {}
        found: dict[str, list[Near]] = {name: [] for name in conditions}
        for name, own in found.items():
            for info, verdict in self.tracks.said_of(name):
                siblings = wide and {entity.kind, verdict.kind} <= {*GROUP_LIKE}
                siblings = siblings and self.causes.reach_siblings(name, case.condition)
                key = verdict.kind, id(verdict.names), siblings
                if key not in known:
                    same_node = entity.kind in NODE_BOUND and verdict.kind in NODE_BOUND
                    same_node = same_node and not (wide and verdict.kind in ON_A_PATH)
                    tokens = place.own | place.nodes if same_node else around | place.pools
                    if siblings:
                        tokens |= self.places.replicas_of(place.pools)
                    known[key] = self._neighbours.near(verdict.kind, verdict.names, tokens)
                own.append((info, verdict, known[key]))
        return found

    def weigh(self, roots: Sequence[Case]) -> None:
        """Note the other roots that fire in the same place; the likeliest of them makes a case less sure."""
        at: dict[str, list[Case]] = {}
        for case in roots:
            for token in self._neighbours.tokens(case.leader):
                at.setdefault(token, []).append(case)
        for case in roots:
            near = {other.id: other for token in self._neighbours.tokens(case.leader) for other in at[token]}
            for _, other in sorted(near.items()):
                if other.condition != case.condition:
                    self._fires_beside(case, other)

    def _fires_beside(self, case: Case, other: Case) -> None:
        chance = probability(other.log_odds)
        before, test = case.rivals.get(other.condition, (0.0, ""))
        case.rivals[other.condition] = (max(before, chance), test or _telling(case, other))
        case.rival = max(case.rival, chance)


def _odds(near: Iterable[Near]) -> dict[str, Odds]:
    """How likely each rule's condition is by what it says of all who are near anybody, each rule asked but once."""
    asked: dict[str, list[Near]] = {}
    for entry in near:
        asked.setdefault(entry[0].rule, []).append(entry)
    found = {}
    for rule, some in asked.items():
        info, verdict, _ = some[0]
        at = np.unique(np.concatenate([each for _, _, each in some]))
        if not len(at):
            found[rule] = at, np.empty(0)
            continue
        said = verdict.of(at, numbers=False)
        odds = log_odds_of_all(info.weights, info.against, said.evidence, said.coverage, info.required)
        # What a rule was worth was measured where it spoke; where it does not, its evidence alone counts.
        speaks = verdict.firing[at] | (verdict.state[at] == YES)
        odds = np.where(speaks, info.calibrated(odds), odds)
        found[rule] = at, np.where(said.applies, odds, NOTHING_SPEAKS)
    return found


def _chance(near: Sequence[Near], odds: Mapping[str, Odds]) -> float:
    """How likely a condition is by what its rules say of these: the prior where it has none."""
    best = NOTHING_SPEAKS if near else PRIOR
    for info, _, at in near:
        whose, known = odds[info.rule]
        best = max(best, float(known[np.searchsorted(whose, at)].max(initial=NOTHING_SPEAKS)))
    return probability(best)


def _telling(case: Case, other: Case) -> str:
    """The measurement that would tell two apart where the catalogue names none; '' where nothing more could be seen.

    That is the heaviest item of either that could not be judged, else the heaviest that the other needs and that rests
    on signals which this one does not read: should it fall, the other falls, and this one stands.
    """
    missing = [i for which in (case, other) for i, v in _items(which) if v == UNKNOWN and i.signals]
    read = {signal for item, _ in _items(case) for signal in item.signals}
    own = [i for i, v in _items(other) if v == YES and not i.against and i.signals and read.isdisjoint(i.signals)]
    heaviest = min(missing or own, key=lambda i: (-i.weight, i.name), default=None)
    return f"{', '.join(heaviest.signals)} ({heaviest.name})" if heaviest else ""


def _items(case: Case) -> Iterator[tuple[Item, int]]:
    return zip(case.voice.info.items, case.voice.verdicts, strict=True)
