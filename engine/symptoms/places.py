"""What findings share that belong together, and which signals are judged there."""

import math
from array import array
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from skewscope.engine.model.locality import Entity, LocalityIndex
from skewscope.engine.symptoms.cells import CELLS_PER_GROWTH_S, JudgedCells

MAX_PORTS = 16
"""judgement: ports of a node beyond which it is a switch, whose ports fail one by one."""


@dataclass
class PlaceTokens:
    """What findings share that belong together, as tokens: the entity, its node and its groups."""

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
class JudgedPlaces:
    """The cells by the names of the nodes that they lie on."""

    cells: JudgedCells
    tokens: PlaceTokens
    _cells_at: "dict[str, array[int]]" = field(default_factory=dict)
    """'' for those on no node."""
    _seen: int = 0

    def prepare(self) -> None:
        """Indexes some more cells, so that the first symptom does not wait for all of a large fleet."""
        self._index(CELLS_PER_GROWTH_S)

    def delivered_near(self, tokens: Collection[str]) -> set[str]:
        """Returns the signals of which some cell whose place has one of some tokens has had a sample."""
        cells = self.cells
        return {cells.signals[n].id for n in self.find_near(tokens) if not math.isnan(cells.time[n])}

    def find_near(self, tokens: Collection[str]) -> Iterator[int]:
        """Yields the cells whose places have one of some tokens."""
        self._index(len(self.cells))
        # A place that shares a group lies on a node of the group, or is no place of one node.
        parts = (token.partition(":") for token in tokens)
        nodes = {""}.union(*(self._nodes_of(kind, name) for kind, _, name in parts))
        places = self.cells.places
        # By the identity of a place: there are many cells of each.
        is_near: dict[int, bool] = {}
        for node in sorted(nodes):
            for cell in self._cells_at.get(node, ()):
                found = is_near.get(id(places[cell]))
                if found is None:
                    found = is_near[id(places[cell])] = not self.tokens.of(places[cell]).isdisjoint(tokens)
                if found:
                    yield cell

    def _nodes_of(self, kind: str, name: str) -> Collection[str]:
        locality = self.tokens.locality
        return locality.nodes_of_group(name) if kind == "group" else locality.nodes_of(kind, name)

    def _index(self, count: int) -> None:
        """Indexes so many more cells."""
        places, end = self.cells.places, min(self._seen + count, len(self.cells))
        for n in range(self._seen, end):
            for node in self.tokens.locality.nodes_of(places[n].kind, places[n].name) or ("",):
                self._cells_at.setdefault(node, array("i")).append(n)
        self._seen = end
