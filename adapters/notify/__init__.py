"""Notifiers: send incidents to other systems. One module per kind, found by its file name.

The module of kind `some-kind` is `some_kind.py`. It defines `read(fields, at, name)`, which parses one entry of the
config into hashable settings and records every problem, and `build(settings, topology)`, which creates its notifiers.
Settings that did not change compare equal, so that a reload keeps the notifiers running.
"""

from collections.abc import Hashable
from functools import cache
from typing import Protocol, cast

from skewscope.adapters.config.kinds import find_kinds
from skewscope.adapters.notify.base import Notifier
from skewscope.engine.model.topology import Topology
from skewscope.kb.field_reader import FieldReader
from skewscope.kb.yamlfile import FieldPath


class NotifierKind(Protocol):
    """A module of this folder that the config can select."""

    def read(self, fields: FieldReader, at: FieldPath, name: str) -> Hashable:
        """Parses the settings of one entry; problems are added to `fields`."""
        ...

    def build(self, settings: Hashable, topology: Topology) -> tuple[Notifier, ...]:
        """Creates the notifiers, each with a unique name that starts with the entry's name."""
        ...


@cache
def kinds() -> dict[str, NotifierKind]:
    """Returns the available notifier modules by kind: those of this folder, and those of plug-ins."""
    return cast("dict[str, NotifierKind]", find_kinds(__name__, __path__, "skewscope.notifiers"))
