"""Who is told what a controller found: one module a kind of teller, found by its name.

A module for tellers of kind `some-kind` is called `some_kind`. It has `read(fields, at, name)`, which gives the
settings of one entry of the config and notes every fault, and `build(settings, topology)`, which gives its tellers.
Settings compare equal when nothing changed, so that a reload leaves the tellers running.
"""

import importlib
import pkgutil
from collections.abc import Hashable
from functools import cache
from typing import Protocol

from skewscope.adapters.notify.base import Notifier
from skewscope.engine.model.topology import Topology
from skewscope.kb.field_reader import FieldReader
from skewscope.kb.yamlfile import FieldPath


class NotifierKind(Protocol):
    """A module of this folder that a config can ask for."""

    def read(self, fields: FieldReader, at: FieldPath, name: str) -> Hashable:
        """The settings of one entry; faults are noted in `fields`."""
        ...

    def build(self, settings: Hashable, topology: Topology) -> tuple[Notifier, ...]:
        """Its tellers, each with a name of its own that begins with the entry's."""
        ...


@cache
def kinds() -> dict[str, NotifierKind]:
    """The kinds of teller there are, by name."""
    found: dict[str, NotifierKind] = {}
    for module in pkgutil.iter_modules(__path__):
        made = importlib.import_module(f"{__name__}.{module.name}")
        if hasattr(made, "read") and hasattr(made, "build"):
            found[module.name.replace("_", "-")] = made
    return dict(sorted(found.items()))
