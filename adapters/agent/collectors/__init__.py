"""Collectors of the agent: each reads one interface of the kernel. One module per collector, found by its file name.

The collector `some-name` of `agent.yaml` is the module `some_name.py`. It defines `PERIOD`, the default seconds between
two reads, `PRIORITY`, which decides whose value counts when several collectors deliver one series (the lowest), and
`build(context)`, which creates the collector.
"""

import importlib
import pkgutil
from functools import cache
from typing import Protocol

from skewscope.adapters.agent.collectors.context import Collector, CollectorContext


class CollectorKind(Protocol):
    """A module of this folder that the configuration can select."""

    PERIOD: float
    PRIORITY: int

    def build(self, context: CollectorContext) -> Collector:
        """Creates the collector."""
        ...


@cache
def collector_kinds() -> dict[str, CollectorKind]:
    """Returns the available collector modules by name, in the order of their priority."""
    found: dict[str, CollectorKind] = {}
    for module in pkgutil.iter_modules(__path__):
        made = importlib.import_module(f"{__name__}.{module.name}")
        if hasattr(made, "PERIOD") and hasattr(made, "PRIORITY") and hasattr(made, "build"):
            found[module.name.replace("_", "-")] = made
    return dict(sorted(found.items(), key=lambda item: (item[1].PRIORITY, item[0])))
