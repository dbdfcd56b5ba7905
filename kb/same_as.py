"""`same_as` in `observability`: one deployment refers to another for what it does not say itself."""

from collections.abc import Iterable, Mapping
from typing import Any

EMPTY: Mapping[str, Any] = {"verdict": "not_visible", "reason": "", "basis": ""}
"""Stands in for a deployment that does not exist; a lint refuses the entry."""


def resolve_same_as(items: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Returns the observability of a condition with every field given; resolving twice changes nothing."""
    written = list(items)
    targets = {item["deployment"]: item for item in written if "same_as" not in item}
    return [{**targets.get(item["same_as"], EMPTY), **item} if "same_as" in item else dict(item) for item in written]


def resolve_entry(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns an entry's fields with `observability` resolved; the same fields where it has none."""
    return {**data, "observability": resolve_same_as(data["observability"])} if "observability" in data else data
