"""Which deviations belong together, by their places, and which diagnosis explains them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from skewscope.engine.incidents.result_cache import ResultCache
from skewscope.engine.incidents.state import DiagnosedPlace
from skewscope.engine.model.locality import Entity, LocalityIndex

WAITING_HOPS = 2
"""From a pipeline over its stages to the other pipelines of a job."""
MAX_PORTS = 16
"""Ports of a node beyond which it is a switch: its ports fail one by one."""


@dataclass
class PlaceTokens:
    """What deviations share that belong together, as tokens: the entity, its node and its groups."""

    locality: LocalityIndex
    _tokens: dict[Entity, frozenset[str]] = field(default_factory=dict)

    def of(self, place: Entity) -> frozenset[str]:
        """Returns the tokens of a place."""
        found = self._tokens.get(place)
        if found is None:
            found = self._tokens[place] = self._find(place)
        return found

    def _find(self, place: Entity) -> frozenset[str]:
        location = self.locality.location_of(place)
        topology = self.locality.topology
        port = topology.port.get(place.name) if place.kind == "port" else None
        if port is None:
            return location.self_tokens | location.nodes | location.groups
        ends = {f"port:{port.peer}"} if port.peer else set()
        nodes = {f"node:{port.node}"} if len(topology.node[port.node].ports) <= MAX_PORTS else set()
        return location.self_tokens | ends | nodes | location.groups


@dataclass
class ExplainingPlaces:
    """The diagnoses that may explain symptoms, by the tokens of what they may explain."""

    tokens: PlaceTokens
    _diagnoses: tuple[DiagnosedPlace, ...] = ()
    _indexes: ResultCache[Mapping[str, Sequence[int]]] = field(default_factory=ResultCache)
    _by_token: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """Numbers of the diagnoses, in their order."""
    _explainable: dict[tuple[Entity, ...], frozenset[str]] = field(default_factory=dict)
    """What a diagnosis may explain, by its entities; of the present ones only."""
    _waiting: dict[frozenset[str], frozenset[str]] = field(default_factory=dict)
    """The training groups that wait for some, as tokens; a topology has few such sets."""

    def update(self, diagnoses: tuple[DiagnosedPlace, ...]) -> None:
        """Replaces the diagnoses; those that come first count first."""
        self._diagnoses = diagnoses
        self._by_token = self._indexes.get(diagnoses, self._index)

    def find(self, tokens: Iterable[str], ended_after: float) -> str:
        """Returns the id of the first diagnosis that has one of some tokens and did not end before a time; or ''."""
        first = min((n for token in tokens for n in self._first_at(token, ended_after)), default=-1)
        return self._diagnoses[first].id if first >= 0 else ""

    def _first_at(self, token: str, ended_after: float) -> Iterator[int]:
        """Yields the number of the first diagnosis at a token that did not end before a time, if any."""
        for n in self._by_token.get(token, ()):
            ended = self._diagnoses[n].resolved_at
            if ended is None or ended >= ended_after:
                yield n
                return

    def _index(self) -> Mapping[str, Sequence[int]]:
        before, self._explainable = self._explainable, {}
        found: dict[str, list[int]] = {}
        for n, diagnosis in enumerate(self._diagnoses):
            tokens = before.get(diagnosis.entities) or self._find_explainable(diagnosis.entities)
            self._explainable[diagnosis.entities] = tokens
            for token in tokens:
                found.setdefault(token, []).append(n)
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
