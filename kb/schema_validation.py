"""Validates entries against the JSON Schema of their kind, with problems in our own format."""

import json
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from skewscope.kb.fast_schema import SchemaCheck, compile_schema
from skewscope.kb.field_reader import is_finite_number
from skewscope.kb.problems import Problem, join_names, suggest_name
from skewscope.kb.yamlfile import Document, FieldPath, type_label

if TYPE_CHECKING:
    from jsonschema import ValidationError
    from jsonschema.protocols import Validator

TYPE_LABELS = {
    "object": "a mapping",
    "array": "a list",
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
}
MAX_VALUE_LENGTH = 60
LINE_CHARACTERS = str.maketrans("", "", "\n\t")


@cache
def schema(kind: str) -> dict[str, Any]:
    """Returns the schema of a kind: condition, signal, mitigation, source, finding or symptom."""
    text = files("skewscope.kb").joinpath(f"schema/{kind}.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


@cache
def _validator(kind: str) -> "Validator":
    from jsonschema import Draft202012Validator  # noqa: PLC0415 - 0.1 s, and only where a catalogue is read

    return Draft202012Validator(schema(kind))


@cache
def _fast_check(kind: str) -> SchemaCheck:
    return compile_schema(schema(kind))


def validate_entry(kind: str, document: Document) -> tuple[Problem, ...]:
    """Returns the problems of an entry against its schema, in the order of lines."""
    if _fast_check(kind)(document.data):
        return tuple(_check_values(document))
    found = [p for error in _validator(kind).iter_errors(document.data) for p in _to_problems(error, document)]
    return tuple(sorted({*found, *_check_values(document)}, key=lambda p: (p.line, p)))


def _to_problems(error: "ValidationError", document: Document) -> Iterator[Problem]:
    path: FieldPath = tuple(error.absolute_path)
    tell = _problem_builders.get(str(error.validator), _other_keyword)
    yield from tell(error, document, path)


def _unknown_field(error: "ValidationError", document: Document, path: FieldPath) -> Iterator[Problem]:
    known = list(error.schema.get("properties", ())) if isinstance(error.schema, dict) else []
    for key in _instance(error):
        if key not in known:
            yield document.unknown_key((*path, key), known)


def _missing_field(error: "ValidationError", document: Document, path: FieldPath) -> Iterator[Problem]:
    # One error for each missing field, and none says which: report all of them; the caller drops duplicates.
    wanted = error.validator_value
    for name in wanted if isinstance(wanted, list) else ():
        if name not in _instance(error):
            yield document.problem((*path, name), "no value", f"the field {name!r}")


def _no_alternative(error: "ValidationError", document: Document, path: FieldPath) -> Iterator[Problem]:
    """Yields the fields that the first alternative lacks, with the names of the others."""
    wanted, instance = error.validator_value, _instance(error)
    choices = [choice.get("required", ()) for choice in wanted] if isinstance(wanted, list) else []
    if not isinstance(instance, dict) or not all(choices):
        yield from _other_keyword(error, document, path)
        return
    others = " or ".join(repr(name) for names in choices[1:] for name in names)
    for name in choices[0]:
        if name not in instance:
            yield document.problem((*path, name), "no value", f"the field {name!r}, or {others}")


def _wrong_type(error: "ValidationError", document: Document, path: FieldPath) -> Iterator[Problem]:
    wanted = error.validator_value
    names = [TYPE_LABELS.get(t, t) for t in (wanted if isinstance(wanted, list) else [str(wanted)])]
    hint = "Put it in quotes." if wanted == "string" and not isinstance(error.instance, dict | list) else ""
    yield document.problem(path, _format_value(error.instance), " or ".join(names), hint)


def _not_in_enum(error: "ValidationError", document: Document, path: FieldPath) -> Iterator[Problem]:
    choice = [str(c) for c in error.validator_value] if isinstance(error.validator_value, list) else []
    yield document.problem(
        path,
        _format_value(error.instance),
        f"one of {join_names(choice, 30)}",
        suggest_name(str(error.instance), choice),
    )


def _length_out_of_bounds(error: "ValidationError", document: Document, path: FieldPath) -> Iterator[Problem]:
    counted = "characters" if isinstance(error.instance, str) else "items"
    bound = "at least" if str(error.validator).startswith("min") else "at most"
    yield document.problem(path, f"{len(_instance(error))} {counted}", f"{bound} {error.validator_value} {counted}")


def _pattern_mismatch(error: "ValidationError", document: Document, path: FieldPath) -> Iterator[Problem]:
    yield document.problem(path, _format_value(error.instance), f"text like {error.validator_value}")


def _other_keyword(error: "ValidationError", document: Document, path: FieldPath) -> Iterator[Problem]:
    wanted = f"{error.validator} {error.validator_value}"
    yield document.problem(path, _format_value(error.instance), wanted[:MAX_VALUE_LENGTH])


def _duplicate_item(_: "ValidationError", document: Document, path: FieldPath) -> Iterator[Problem]:
    yield document.problem(path, "an item for the second time", "each item once")


def _instance(error: "ValidationError") -> Any:
    """Returns the invalid value; the library's type allows for an unset one."""
    return error.instance


_problem_builders = {
    "additionalProperties": _unknown_field,
    "required": _missing_field,
    "anyOf": _no_alternative,
    "type": _wrong_type,
    "enum": _not_in_enum,
    "minLength": _length_out_of_bounds,
    "maxLength": _length_out_of_bounds,
    "minItems": _length_out_of_bounds,
    "maxItems": _length_out_of_bounds,
    "pattern": _pattern_mismatch,
    "uniqueItems": _duplicate_item,
}


def _format_value(value: object) -> str:
    return (
        type_label(value)
        if isinstance(value, dict | list)
        else f"{type_label(value)} ({repr(value)[:MAX_VALUE_LENGTH]})"
    )


def _check_values(document: Document) -> Iterator[Problem]:
    """Yields problems of texts with control characters and of numbers that are not finite."""
    for path, value in _iter_leaves(document.data, ()):
        if isinstance(value, str):
            # Lines of a file are given as they are.
            text = value.translate(LINE_CHARACTERS) if path[:1] == ("samples",) else value
            if not text.isprintable():
                found = "a line break or a character that does not print"
                yield document.problem(path, found, "one paragraph of plain text")
        elif isinstance(value, int | float) and not isinstance(value, bool) and not is_finite_number(value):
            yield document.problem(path, _format_value(value), "a finite number")


def _iter_leaves(value: object, path: FieldPath) -> Iterator[tuple[FieldPath, object]]:
    """Yields every scalar with its path."""
    inner: Iterable[tuple[str | int, object]]
    if isinstance(value, dict):
        inner = value.items()
    elif isinstance(value, list):
        inner = enumerate(value)
    else:
        yield path, value
        return
    for key, child in inner:
        yield from _iter_leaves(child, (*path, key))
