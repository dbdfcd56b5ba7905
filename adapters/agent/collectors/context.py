"""What the collectors of one agent have in common."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from skewscope.adapters.agent.collectors.counter_names import Sample
from skewscope.adapters.agent.collectors.kernel_files import KernelFiles, ReadFailures
from skewscope.kb.model import Catalogue


@dataclass(frozen=True)
class CollectorContext:
    """Where collectors read, and which node and ports the values belong to."""

    files: KernelFiles
    failures: ReadFailures
    catalogue: Catalogue
    node: str
    runs_on: str
    """`dpu` or `host`."""
    ports: Mapping[str, str]
    """`node/port` by device."""


class Collector(Protocol):
    """Reads some values."""

    def read(self, now: float) -> Iterator[Sample]:
        """Yields the present values; missing values are omitted."""
        ...


@runtime_checkable
class ClosableCollector(Collector, Protocol):
    """A collector that holds a resource."""

    def close(self) -> None:
        """Frees the resource."""
        ...
