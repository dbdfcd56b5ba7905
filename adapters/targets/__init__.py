"""Targets: systems that place work or traffic, which an action changes. One module per kind, found by its file name.

The module of kind `some-kind` is `some_kind.py`. It defines `read(fields, at, name)`, which parses one entry of the
section `targets` into hashable settings and records every problem, and `build(settings)`, which creates the target.
`common/base.py` describes what a target offers.
"""

from collections.abc import Hashable
from functools import cache
from typing import Protocol, cast

from skewscope.adapters.config.kinds import find_kinds
from skewscope.adapters.targets.common.base import Target
from skewscope.kb.field_reader import FieldReader
from skewscope.kb.yamlfile import FieldPath


class TargetKind(Protocol):
    """A module of this folder that the config can select."""

    def read(self, fields: FieldReader, at: FieldPath, name: str) -> Hashable:
        """Parses the settings of one entry; problems are added to `fields`."""
        ...

    def build(self, settings: Hashable) -> Target:
        """Creates the target; opens no connection."""
        ...


@cache
def target_kinds() -> dict[str, TargetKind]:
    """Returns the available target modules by kind: those of this folder, and those of plug-ins."""
    return cast("dict[str, TargetKind]", find_kinds(__name__, __path__, "skewscope.targets"))
