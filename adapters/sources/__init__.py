"""Telemetry sources of a controller: one module per kind, found by its file name.

The module of kind `some-kind` is `some_kind.py`. It defines `read(fields, at, name)`, which parses one entry of the
config into hashable settings and records every problem, and `build(settings, context)`, which creates the source.
Settings that did not change compare equal, so that a reload keeps the source running.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from functools import cache
from typing import Protocol, cast

from skewscope.adapters.config.kinds import find_kinds
from skewscope.adapters.mapping.names import MetricResolver
from skewscope.adapters.runtime.clock import Clock
from skewscope.adapters.sources.common.base import TelemetrySource
from skewscope.engine.model.topology import Topology
from skewscope.kb.field_reader import FieldReader
from skewscope.kb.yamlfile import FieldPath


@dataclass(slots=True)
class SourceContext:
    """What sources need from the controller."""

    topology: Topology
    names: MetricResolver
    clock: Clock
    version: int = 0
    """Counts the topologies: a source maps its series anew when there is another one."""
    trusts_sources: bool = False
    """Whether a source may report for everything unless its entry says otherwise: where labels make the topology, there
    is nothing else that says what is whose."""

    def change_topology(self, topology: Topology, names: MetricResolver) -> None:
        """Makes the running sources map their series to another topology."""
        self.topology, self.names, self.version = topology, names, self.version + 1


class SourceKind(Protocol):
    """A module of this folder that the config can select."""

    def read(self, fields: FieldReader, at: FieldPath, name: str) -> Hashable:
        """Parses the settings of one source; problems are added to `fields`."""
        ...

    def build(self, settings: Hashable, context: SourceContext) -> TelemetrySource:
        """Creates the source."""
        ...


@cache
def source_kinds() -> dict[str, SourceKind]:
    """Returns the available source modules by kind: those of this folder, and those of plug-ins."""
    return cast("dict[str, SourceKind]", find_kinds(__name__, __path__, "skewscope.sources"))
