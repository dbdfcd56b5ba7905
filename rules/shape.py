"""Whether a YAML document has the shape that a schema asks for, told with lines."""

import json
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skewscope.kb.problems import Problem, nearest
from skewscope.kb.quick import Check, checker
from skewscope.kb.yamlfile import Document, kind_of

if TYPE_CHECKING:
    from jsonschema import ValidationError
    from jsonschema.protocols import Validator

SCHEMAS = Path(__file__).parent / "schema"

_types = {
    "object": "a mapping",
    "array": "a list",
    "string": "text",
    "number": "a number",
    "integer": "a whole number",
    "boolean": "yes or no (true or false)",
}


def misshapen(document: Document, schema: str) -> Iterator[Problem]:
    """What in a document is not as `schema/<schema>.json` says."""
    if quick(schema)(document.data):
        return
    for error in sorted(validator(schema).iter_errors(document.data), key=lambda e: [str(p) for p in e.absolute_path]):
        yield from _told(document, error)


@cache
def schema(name: str) -> dict[str, Any]:
    """The schema of a rule, of cases or of a policy."""
    found: dict[str, Any] = json.loads((SCHEMAS / f"{name}.json").read_text(encoding="utf-8"))
    return found


@cache
def quick(name: str) -> Check:
    """Whether a document is surely as a schema says: see `kb.quick`."""
    plain = {key: value for key, value in schema(name).items() if key != "oneOf"}
    wanted = [frozenset(one["required"]) for one in schema(name).get("oneOf", ())]
    check = checker(plain)
    return lambda data: check(data) and (not wanted or sum(fields <= data.keys() for fields in wanted) == 1)


@cache
def validator(name: str) -> "Validator":
    """The full check of a schema."""
    from jsonschema import Draft202012Validator  # noqa: PLC0415 - 0.1 s, and only where something is wrong

    return Draft202012Validator(schema(name))


def _told(document: Document, error: "ValidationError") -> Iterator[Problem]:
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
        yield document.problem(path, _short(value), f"one of {', '.join(choices)}", nearest(str(value), choices))
    else:
        yield document.problem(path, *_bounds(str(error.validator), value, want))


def _bounds(what: str, value: Any, want: Any) -> tuple[str, str]:
    """(found, expected) for a value of the wrong type, size or look."""
    if what == "type":
        wanted = [want] if isinstance(want, str) else want
        return kind_of(value), " or ".join(_types.get(name, name) for name in wanted)
    told = {
        "pattern": (_short(value), f"a text like {want}"),
        "minLength": (_short(value), f"at least {want} characters"),
        "maxLength": (f"{len(str(value))} characters", f"at most {want}"),
        "minItems": ("an empty list", f"at least {want} items"),
        "maxItems": ("a longer list", f"at most {want} items"),
        "minimum": (_short(value), f"at least {want}"),
        "exclusiveMinimum": (_short(value), f"more than {want}"),
        "maximum": (_short(value), f"at most {want}"),
        "uniqueItems": ("an item for the second time", "each item once"),
    }
    return told.get(what, (_short(value), f"{what} {want}"[:120]))


def _short(value: Any) -> str:
    return kind_of(value) if isinstance(value, dict | list) else repr(value)[:60]
