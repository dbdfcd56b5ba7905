"""Builds the template of a new entry: every required field, each below its description."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from skewscope.kb.problems import InputError, Problem
from skewscope.kb.schema_validation import schema

INDENT = "  "


def template(kind: str, id_: str) -> str:
    """Returns the text of a new entry of a kind (`condition`, `signal`, ...).

    The lint reports its empty fields one by one. Optional fields are in comments.

    Raises:
        InputError: the id is invalid for this kind.
    """
    known = schema(kind)
    pattern = _resolve_ref(known["properties"]["id"], known).get("pattern", "")
    longest = _resolve_ref(known["properties"]["id"], known).get("maxLength", 60)
    if not re.search(pattern, id_) or len(id_) > longest:
        expected = f"at most {longest} characters like {pattern}"
        raise InputError([Problem("kb", 0, "id", repr(id_), expected, "The file is called by it.")])
    return "\n".join([*_field_group_lines(known, known, "", {"id": id_}), ""])


def _field_group_lines(
    shape: Mapping[str, Any], root: Mapping[str, Any], indent: str, given: Mapping[str, str]
) -> Iterator[str]:
    needed = shape.get("required", ())
    for name, inner in shape["properties"].items():
        prop = _resolve_ref(inner, root)
        told = prop.get("description", "")
        if told:
            yield f"{indent}# {told}"
        choice = [str(word) for word in prop.get("enum") or _resolve_ref(prop.get("items", {}), root).get("enum") or ()]
        if not all(word in told for word in choice):
            yield f"{indent}# {'One' if 'enum' in prop else 'Some'} of: {', '.join(choice)}."
        lines = list(_field_lines(name, prop, root, indent, given))
        yield from lines if name in needed else (f"{indent}# {line[len(indent) :]}" for line in lines)


def _field_lines(
    name: str, prop: Mapping[str, Any], root: Mapping[str, Any], indent: str, given: Mapping[str, str]
) -> Iterator[str]:
    if name in given:
        yield f"{indent}{name}: {given[name]}"
    elif "properties" in prop:
        yield f"{indent}{name}:"
        yield from _field_group_lines(prop, root, indent + INDENT, {})
    elif prop.get("type") == "array":
        item = _resolve_ref(prop["items"], root)
        if "deployment" in item.get("properties", {}):
            # Every deployment is listed once.
            yield f"{indent}{name}:"
            for deployment in item["properties"]["deployment"]["enum"]:
                rest = ", ".join(f'{key}: ""' for key in item["anyOf"][0]["required"])
                yield f"{indent}- {{deployment: {deployment}, {rest}, needs: []}}"
        elif "properties" in item:
            inner = ", ".join(f"{key}: " for key in item.get("required", ())).rstrip()
            yield f"{indent}{name}: []  # - {{{inner}}}"
        else:
            yield f"{indent}{name}: []"
    elif prop.get("type") == "object":
        yield f"{indent}{name}: {{}}"
    else:
        yield f'{indent}{name}: ""'


def _resolve_ref(prop: Mapping[str, Any], root: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a property with its reference resolved."""
    ref = str(prop.get("$ref", "")).removeprefix("#/$defs/")
    return {**root["$defs"][ref], **prop} if ref else dict(prop)
