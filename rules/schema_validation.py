"""Validation of YAML documents against a JSON Schema, with line numbers."""

import json
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skewscope.kb.fast_schema import SchemaCheck, compile_schema
from skewscope.kb.problems import Problem, suggest_name
from skewscope.kb.yamlfile import Document, type_label

if TYPE_CHECKING:
    from jsonschema import ValidationError
    from jsonschema.protocols import Validator

SCHEMA_FOLDER = Path(__file__).parent / "schema"

_type_labels = {
    "object": "a mapping",
    "array": "a list",
    "string": "text",
    "number": "a number",
    "integer": "a whole number",
    "boolean": "yes or no (true or false)",
}


def validate_document(document: Document, schema: str) -> Iterator[Problem]:
    """Yield the differences of a document from `schema/<schema>.json`."""
    if fast_check(schema)(document.data):
        return
    for error in sorted(validator(schema).iter_errors(document.data), key=lambda e: [str(p) for p in e.absolute_path]):
        yield from _to_problems(document, error)


@cache
def schema(name: str) -> dict[str, Any]:
    """Load the schema of a rule, of cases or of a policy."""
    found: dict[str, Any] = json.loads((SCHEMA_FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return found


@cache
def fast_check(name: str) -> SchemaCheck:
    """Returns the quick check of a schema, which may reject valid documents: see `kb.fast_schema`."""
    plain = {key: value for key, value in schema(name).items() if key != "oneOf"}
    wanted = [frozenset(one["required"]) for one in schema(name).get("oneOf", ())]
    check = compile_schema(plain)
    return lambda data: check(data) and (not wanted or sum(fields <= data.keys() for fields in wanted) == 1)


@cache
def validator(name: str) -> "Validator":
    """Returns the full check of a schema."""
    from jsonschema import Draft202012Validator  # noqa: PLC0415 - 0.1 s, and only where something is wrong

    return Draft202012Validator(schema(name))


def _to_problems(document: Document, error: "ValidationError") -> Iterator[Problem]:
    path, value, want = tuple(error.absolute_path), error.instance, error.validator_value
    if error.validator == "additionalProperties" and isinstance(error.schema, dict):
        known = sorted(error.schema.get("properties", {}))
        extra = sorted({str(key) for key in dict(value)} - set(known)) if isinstance(value, dict) else []
        yield from (document.unknown_key((*path, key), known) for key in extra)
    elif error.validator == "required" and isinstance(want, list) and isinstance(value, dict):
        for key in want:
            if key not in value:
                yield document.problem(path, f"no field {key!r}", f"the field {key!r}")
    elif error.validator == "enum" and isinstance(want, Sequence):
        choices = [str(choice) for choice in want]
        yield document.problem(
            path, _format_value(value), f"one of {', '.join(choices)}", suggest_name(str(value), choices)
        )
    else:
        yield document.problem(path, *_found_and_expected(str(error.validator), value, want))


def _found_and_expected(what: str, value: Any, want: Any) -> tuple[str, str]:
    """Returns (found, expected) for a value of the wrong type, size or pattern."""
    if what == "type":
        wanted = [want] if isinstance(want, str) else want
        return type_label(value), " or ".join(_type_labels.get(name, name) for name in wanted)
    told = {
        "pattern": (_format_value(value), f"a text like {want}"),
        "minLength": (_format_value(value), f"at least {want} characters"),
        "maxLength": (f"{len(str(value))} characters", f"at most {want}"),
        "minItems": ("an empty list", f"at least {want} items"),
        "maxItems": ("a longer list", f"at most {want} items"),
        "minimum": (_format_value(value), f"at least {want}"),
        "exclusiveMinimum": (_format_value(value), f"more than {want}"),
        "maximum": (_format_value(value), f"at most {want}"),
        "uniqueItems": ("an item for the second time", "each item once"),
    }
    return told.get(what, (_format_value(value), f"{what} {want}"[:120]))


def _format_value(value: Any) -> str:
    return type_label(value) if isinstance(value, dict | list) else repr(value)[:60]
