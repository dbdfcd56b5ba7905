"""Which diagnosis explains a symptom: the first one at its place, or at what its place waits for."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from skewscope.engine.incidents.result_cache import ResultCache
from skewscope.engine.model.locality import Entity
from skewscope.engine.symptoms.places import PlaceTokens

WAITING_HOPS = 2
"""From a pipeline over its stages to the other pipelines of a job."""


@dataclass(frozen=True, slots=True)
class DiagnosedPlace:
    """Where a diagnosis is."""

    id: str
    """Of its root."""
    entities: tuple[Entity, ...]


@dataclass
class SymptomExplainer:
    """The diagnoses that may explain symptoms, by the tokens of what they may explain."""

    tokens: PlaceTokens
    _diagnoses: tuple[DiagnosedPlace, ...] = ()
    _indexes: ResultCache[Mapping[str, int]] = field(default_factory=ResultCache)
    _by_token: Mapping[str, int] = field(default_factory=dict)
    """Numbers of the first diagnoses."""
    _explainable: dict[tuple[Entity, ...], frozenset[str]] = field(default_factory=dict)
    """What a diagnosis may explain, by its entities; of the present ones only."""
    _waiting: dict[frozenset[str], frozenset[str]] = field(default_factory=dict)
    """The training groups that wait for some, as tokens; a topology has few such sets."""

    def update(self, diagnoses: tuple[DiagnosedPlace, ...]) -> None:
        """Replaces the diagnoses; those that come first count first."""
        self._diagnoses = diagnoses
        self._by_token = self._indexes.get(diagnoses, self._index)

    def find(self, tokens: Iterable[str]) -> str:
        """Returns the id of the first diagnosis that has one of some tokens; or ''."""
        first = min((self._by_token[token] for token in tokens if token in self._by_token), default=-1)
        return self._diagnoses[first].id if first >= 0 else ""

    def _index(self) -> Mapping[str, int]:
        before, self._explainable = self._explainable, {}
        found: dict[str, int] = {}
        for n, diagnosis in enumerate(self._diagnoses):
            tokens = before.get(diagnosis.entities) or self._find_explainable(diagnosis.entities)
            self._explainable[diagnosis.entities] = tokens
            for token in tokens:
                found.setdefault(token, n)
        return found

    def _find_explainable(self, entities: Iterable[Entity]) -> frozenset[str]:
        """Returns the tokens of all places that a diagnosis may explain; a pool reaches its replicas."""
        found: set[str] = set()
        locality = self.tokens.locality
        for entity in entities:
            location = locality.location_of(entity)
            found |= self.tokens.of(entity) | location.groups | self._waiting_groups(location.groups)
            if entity.kind == "pool":
                found |= locality.replicas_of([f"pool:{entity.name}"])
            elif entity.kind == "fleet":
                found |= locality.replicas_of(f"pool:{pool.name}" for pool in locality.topology.pools)
        return frozenset(found)

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
