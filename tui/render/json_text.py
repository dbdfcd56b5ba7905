"""Dataclasses as JSON. Pure."""

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from skewscope.rules.expression import Expr


def to_jsonable(value: object) -> Any:
    """Returns the value as JSON types; the field `file`, a path on this machine, is omitted."""
    if isinstance(value, Expr):
        return str(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_jsonable(getattr(value, f.name)) for f in fields(value) if f.name != "file"}
    if isinstance(value, Mapping):
        return {str(key): to_jsonable(inner) for key, inner in value.items()}
    if isinstance(value, tuple | list | set | frozenset):
        return [to_jsonable(inner) for inner in (sorted(value) if isinstance(value, set | frozenset) else value)]
    return value


def to_json(value: object) -> str:
    """Returns the value as indented JSON."""
    return json.dumps(to_jsonable(value), ensure_ascii=False, indent=2)
