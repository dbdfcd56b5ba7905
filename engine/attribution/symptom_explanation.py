"""Which diagnosis explains a symptom: the first one at its place, or at what its place waits for.

A symptom names no cause, so no causal graph leads to it: whatever a diagnosis at its place is of may show in it.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from skewscope.engine.attribution.cause_graph import CauseGraph
from skewscope.engine.incidents.diagnosis import DiagnosisState
from skewscope.engine.incidents.state import CAUSE_BEFORE_S, IncidentState, final_explanation
from skewscope.engine.incidents.symptom import SymptomState
from skewscope.engine.model.finding import EVENT
from skewscope.engine.model.locality import Entity
from skewscope.engine.model.parameters import MAJORITY
from skewscope.engine.symptoms.places import PlaceTokens
from skewscope.engine.symptoms.roles import follows_load

SERVING_KINDS = frozenset({"replica", "pool"})
"""Places where the load of other replicas shows."""
WAITING_HOPS = 2
"""From a pipeline over its stages to the other pipelines of a job."""


@dataclass(frozen=True, slots=True, order=True)
class PossibleRoot:
    """What may explain symptoms of some places."""

    number: int
    """Its place in the order of the diagnoses."""
    id: str
    since: float
    until: float
    """When it resolved; infinite while it is open."""


@dataclass
class SymptomExplainer:
    """The diagnoses that may explain symptoms, by the tokens of what they may explain."""

    tokens: PlaceTokens
    causes: CauseGraph
    _revision: int = -1
    _basis: Sequence[tuple[object, ...]] = ()
    """All by which the diagnoses explain, as of the last update."""
    _roots: Mapping[str, Sequence[PossibleRoot]] = field(default_factory=dict)
    """By token: what may explain what has the token, the first one first; each ends later than those before it."""
    _of_siblings: Mapping[str, Sequence[PossibleRoot]] = field(default_factory=dict)
    """The same of what shows at replicas of the same pool, and at the pool."""
    _explainable: dict[tuple[Entity, ...], frozenset[str]] = field(default_factory=dict)
    """What a diagnosis may explain, by its entities; of the present ones only."""
    _waiting: dict[frozenset[str], frozenset[str]] = field(default_factory=dict)
    """The training groups that wait for some, as tokens; a topology has few such sets."""

    def update(self, revision: int, diagnoses: Collection[DiagnosisState], states: Mapping[str, IncidentState]) -> None:
        """Replaces the diagnoses, of which the oldest count first, unless they are of the same revision.

        Args:
            revision: of the diagnoses.
            diagnoses: those that are open or have resolved a short time ago.
            states: all incidents, among them the roots of these.
        """
        if revision == self._revision:
            return
        self._revision = revision
        basis = [(one.id, one.since, one.primary_entity, one.members, *_list_ends(one, states)) for one in diagnoses]
        if basis == self._basis:
            return
        self._basis = basis
        before, self._explainable = self._explainable, {}
        found: dict[str, list[PossibleRoot]] = {}
        of_siblings: dict[str, list[PossibleRoot]] = {}
        for n, one in enumerate(sorted(diagnoses, key=lambda each: each.sort_key)):
            entities = tuple(sorted({one.primary_entity, *one.members}))
            tokens = self._explainable[entities] = before.get(entities) or self._find_explainable(entities)
            roots = [PossibleRoot(n, id_, one.since, until) for id_, until in _list_ends(one, states)]
            for token in tokens:
                _add_later(found.setdefault(token, []), roots)
            if self.causes.has_sibling_effects(one.condition):
                for token in self._find_siblings(entities):
                    _add_later(of_siblings.setdefault(token, []), roots)
        self._roots, self._of_siblings = found, of_siblings

    def find(self, one: SymptomState) -> str:
        """Returns the root of the first diagnosis that may explain a symptom; '' if none may.

        What resolved before the symptom began does not explain it. A message has its time: what began later than it
        does not explain it either.
        """
        latest = one.since + CAUSE_BEFORE_S if one.primary.pattern == EVENT else math.inf
        near = [root for token in one.tokens for root in self._roots.get(token, ())]
        if one.primary.place.kind in SERVING_KINDS or follows_load(one.primary):
            near += [root for token in one.tokens for root in self._of_siblings.get(token, ())]
        if one.primary.place.kind in SERVING_KINDS:
            near += self._find_roots_of_half(one)
        fitting = (root for root in near if root.since <= latest and root.until >= one.since and root.id != one.id)
        return min(fitting, default=PossibleRoot(0, "", 0.0, 0.0)).id

    def _find_roots_of_half(self, one: SymptomState) -> list[PossibleRoot]:
        """Returns the roots at the other replicas of its pool where half of these have some.

        Beside such peers the replica that is as before differs, and what most of a pool shows is theirs.
        """
        locality = self.tokens.locality
        location = locality.location_of(one.primary.place)
        others = locality.replicas_of(location.pools | location.self_tokens) - location.self_tokens
        found = [
            there
            for token in others
            if (there := [root for root in self._roots.get(token, ()) if root.until >= one.since])
        ]
        least = MAJORITY if one.primary.place.kind == "pool" else 1
        return [root for there in found for root in there] if 2 * len(found) >= len(others) >= least else []

    def find_change(self, one: SymptomState, changes: Iterable[SymptomState]) -> str:
        """Returns the change of its pool with which a symptom of a replica or of the pool began; '' for none."""
        if one.primary.place.kind not in SERVING_KINDS:
            return ""
        pools = self.tokens.locality.location_of(one.primary.place).pools
        own = (each for each in changes if each is not one and f"pool:{each.primary.place.name}" in pools)
        return next((each.id for each in own if one.since >= each.since - CAUSE_BEFORE_S), "")

    def _find_explainable(self, entities: Iterable[Entity]) -> frozenset[str]:
        """Returns the tokens of what a diagnosis may explain: a pool reaches its replicas, all of them the pool."""
        found: set[str] = set()
        locality = self.tokens.locality
        for entity in entities:
            location = locality.location_of(entity)
            found |= self.tokens.of(entity) | location.groups | self._waiting_groups(location.groups)
            if entity.kind == "pool":
                found |= locality.replicas_of([f"pool:{entity.name}"])
            elif entity.kind == "fleet":
                found |= locality.replicas_of(f"pool:{pool.name}" for pool in locality.topology.pools)
        pools = {pool for entity in entities for pool in locality.location_of(entity).pools}
        return frozenset(found | {pool for pool in pools if locality.replicas_of([pool]) <= found})

    def _find_siblings(self, entities: Iterable[Entity]) -> frozenset[str]:
        """Returns the tokens of the pools of some replicas, and of all replicas of these."""
        locality = self.tokens.locality
        pools = {pool for entity in entities for pool in locality.location_of(entity).pools}
        return locality.replicas_of(pools) | pools

    def _waiting_groups(self, groups: frozenset[str]) -> frozenset[str]:
        """Returns tokens of the training groups that wait for some: a pipeline for its stages, these for the others."""
        if groups not in self._waiting:
            self._waiting[groups] = self._find_waiting(groups)
        return self._waiting[groups]

    def _find_waiting(self, groups: frozenset[str]) -> frozenset[str]:
        locality = self.tokens.locality
        serving = {f"group:{name}" for name in locality.topology.serving_groups}
        found = {*groups} - serving
        for _ in range(WAITING_HOPS):
            names = [token.partition(":")[2] for token in found]
            nodes = {node for name in names for node in locality.nodes_of_group(name)}
            found |= {token for node in nodes for token in locality.location_of(Entity("node", node)).groups}
            found -= serving
        return frozenset(found)


def _list_ends(one: DiagnosisState, states: Mapping[str, IncidentState]) -> list[tuple[str, float]]:
    """Returns id and end of the root of a diagnosis, then of the diagnosis itself, which may last longer."""
    link = final_explanation(one, states) if one.explanation else None
    found = [states[link.id]] if link else []
    if not (link and one.merged_into):
        found.append(one)
    return [(each.id, _end_of(each)) for each in found]


def _end_of(one: IncidentState) -> float:
    return math.inf if one.resolved_at is None else one.resolved_at


def _add_later(there: list[PossibleRoot], roots: Iterable[PossibleRoot]) -> None:
    """Adds those that end later than all that are there: only these can explain what the others do not."""
    for root in roots:
        if not there or root.until > there[-1].until:
            there.append(root)
