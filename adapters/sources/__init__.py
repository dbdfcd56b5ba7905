"""Where a controller reads telemetry: one module a kind of source, found by its name.

A module for sources of kind `some-kind` is called `some_kind`. It has `read(fields, at, name)`, which gives the
settings of one source out of the config and notes every fault, and `build(settings, world)`, which gives the source.
Settings compare equal when nothing changed, so that a reload leaves the source running.
"""

import importlib
import pkgutil
from collections.abc import Hashable
from dataclasses import dataclass
from functools import cache
from typing import Protocol

from skewscope.adapters.mapping.names import MetricResolver
from skewscope.adapters.runtime.clock import Clock
from skewscope.adapters.sources.base import TelemetrySource
from skewscope.engine.model.topology import Topology
from skewscope.kb.field_reader import FieldReader
from skewscope.kb.yamlfile import FieldPath


@dataclass(frozen=True, slots=True)
class SourceContext:
    """What sources need to know."""

    topology: Topology
    names: MetricResolver
    clock: Clock


class SourceKind(Protocol):
    """A module of this folder that a config can ask for."""

    def read(self, fields: FieldReader, at: FieldPath, name: str) -> Hashable:
        """The settings of one source; faults are noted in `fields`."""
        ...

    def build(self, settings: Hashable, world: SourceContext) -> TelemetrySource:
        """The source."""
        ...


@cache
def source_kinds() -> dict[str, SourceKind]:
    """The kinds of source there are, by name."""
    found: dict[str, SourceKind] = {}
    for module in pkgutil.iter_modules(__path__):
        made = importlib.import_module(f"{__name__}.{module.name}")
        if hasattr(made, "read") and hasattr(made, "build"):
            found[module.name.replace("_", "-")] = made
    return dict(sorted(found.items()))
