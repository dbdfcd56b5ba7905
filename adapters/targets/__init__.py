"""Targets: systems that place work or traffic, which an action changes. One module per kind, found by its file name.

The module of kind `some-kind` is `some_kind.py`. It defines `read(fields, at, name)`, which parses one entry of the
section `targets` into hashable settings and records every problem, and `build(settings)`, which creates the target.
`common/base.py` describes what a target offers.
"""

import importlib
import pkgutil
from collections.abc import Hashable
from functools import cache
from typing import Protocol

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
    """Returns the available target modules by kind."""
    found: dict[str, TargetKind] = {}
    for module in pkgutil.iter_modules(__path__):
        made = importlib.import_module(f"{__name__}.{module.name}")
        if hasattr(made, "read") and hasattr(made, "build"):
            found[module.name.replace("_", "-")] = made
    return dict(sorted(found.items()))
