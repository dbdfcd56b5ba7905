"""From the kernel's own names of counters to signals of the catalogue."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from skewscope.adapters.mapping.entities import ENTITY_KINDS
from skewscope.adapters.mapping.names import expand_placeholder
from skewscope.engine.ingest.feed import SeriesKey
from skewscope.kb.model import Catalogue

Sample = tuple[SeriesKey, float]


class CounterMapping(NamedTuple):
    """One signal that a name of the kernel delivers."""

    signal: str
    entity_word: str
    """The catalogue's word for what is measured."""
    rank: int
    """Its place among the names that deliver this signal: the lowest that is there counts."""
    scale: float
    token: str
    """What the name says of the selector: a priority, a lane."""

    @property
    def on_port(self) -> bool:
        """Whether it belongs to a port; else it is its node's."""
        return ENTITY_KINDS.get(self.entity_word) == "port"


class CounterNames:
    """The names of one interface of the kernel, as the catalogue lists them."""

    def __init__(self, catalogue: Catalogue, exporter: str) -> None:
        self._mappings: dict[str, list[CounterMapping]] = {}
        for signal in catalogue.signals.values():
            for rank, raw in enumerate(signal.sources.get(exporter, ())):
                scale = signal.scale.get(exporter, 1.0)
                for name, token in expand_placeholder(raw, signal):
                    meant = CounterMapping(signal.id, signal.entity, rank, scale, token)
                    self._mappings.setdefault(name, []).append(meant)

    def __contains__(self, name: str) -> bool:
        return name in self._mappings

    def select(self, names: Iterable[str]) -> list[tuple[str, CounterMapping]]:
        """Of the names that are there, which to read for which signal, each signal from its best name only."""
        every = [(name, meant) for name in names for meant in self._mappings.get(name, ())]
        best: dict[str, int] = {}
        for _, meant in every:
            best[meant.signal] = min(meant.rank, best.get(meant.signal, meant.rank))
        return [(name, meant) for name, meant in every if meant.rank == best[meant.signal]]


class DeviceEntity(NamedTuple):
    """Where the numbers of a device belong."""

    node: str
    port: str
    """`node/port`."""
    device_selector: str = ""
    """What tells it from other devices of its port, as part of a selector."""

    def series_key(self, meant: CounterMapping) -> SeriesKey:
        """The series of a signal."""
        parts = (meant.token, self.device_selector)
        kind, entity = ("port", self.port) if meant.on_port else ("node", self.node)
        return SeriesKey(meant.signal, kind, entity, ",".join(filter(None, parts)))


def device_entities(node: str, ports: Mapping[str, str]) -> Iterator[tuple[str, DeviceEntity]]:
    """Each device and its place; several devices of a port are told apart, for their numbers add up."""
    shared = list(ports.values())
    for device, port in ports.items():
        yield device, DeviceEntity(node, port, f"device={device}" if shared.count(port) > 1 else "")
