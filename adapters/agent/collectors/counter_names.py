"""Maps the kernel's counter names to signals of the catalogue."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from skewscope.adapters.mapping.entities import ENTITY_KINDS
from skewscope.adapters.mapping.names import expand_placeholder
from skewscope.engine.ingest.feed import SeriesKey
from skewscope.kb.model import Catalogue

Sample = tuple[SeriesKey, float]


class CounterMapping(NamedTuple):
    """One signal that a kernel name delivers."""

    signal: str
    entity_word: str
    """The catalogue's word for the measured entity."""
    rank: int
    """Its rank among the names that deliver this signal: the lowest available one counts."""
    scale: float
    token: str
    """The selector in the name: a priority, a lane."""

    @property
    def on_port(self) -> bool:
        """Returns whether it belongs to a port; otherwise it belongs to the node."""
        return ENTITY_KINDS.get(self.entity_word) == "port"


class CounterNames:
    """The names of one kernel interface, as listed in the catalogue."""

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
        """Returns which of the available names to read for which signal: the best name per signal."""
        every = [(name, meant) for name in names for meant in self._mappings.get(name, ())]
        best: dict[str, int] = {}
        for _, meant in every:
            best[meant.signal] = min(meant.rank, best.get(meant.signal, meant.rank))
        return [(name, meant) for name, meant in every if meant.rank == best[meant.signal]]


class DeviceEntity(NamedTuple):
    """The entity that the values of a device belong to."""

    node: str
    port: str
    """`node/port`."""
    device_selector: str = ""
    """Distinguishes it from other devices of its port, as part of a selector."""

    def series_key(self, meant: CounterMapping) -> SeriesKey:
        """Returns the series of a signal."""
        parts = (meant.token, self.device_selector)
        kind, entity = ("port", self.port) if meant.on_port else ("node", self.node)
        return SeriesKey(meant.signal, kind, entity, ",".join(filter(None, parts)))


def device_entities(node: str, ports: Mapping[str, str]) -> Iterator[tuple[str, DeviceEntity]]:
    """Yields each device and its entity; several devices of a port get selectors, since their values add up."""
    shared = list(ports.values())
    for device, port in ports.items():
        yield device, DeviceEntity(node, port, f"device={device}" if shared.count(port) > 1 else "")
