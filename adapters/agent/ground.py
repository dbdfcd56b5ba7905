"""What collectors of one agent have in common."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from skewscope.adapters.agent.files import Files, Troubles
from skewscope.adapters.agent.kernel import Sample
from skewscope.kb.model import Catalogue


@dataclass(frozen=True)
class Ground:
    """Where collectors read, and whose numbers these are."""

    files: Files
    troubles: Troubles
    catalogue: Catalogue
    node: str
    runs_on: str
    """dpu or host."""
    ports: Mapping[str, str]
    """`node/port` by device."""


class Collector(Protocol):
    """Reads some numbers."""

    def read(self, now: float) -> Iterator[Sample]:
        """What is there now; what is missing is left out."""
        ...
