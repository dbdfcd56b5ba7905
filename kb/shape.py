"""Whether an entry has the shape of its kind: JSON Schema, with faults told in our own way."""

import json
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from skewscope.kb.fields import finite
from skewscope.kb.problems import Problem, listed, nearest
from skewscope.kb.quick import Check, checker
from skewscope.kb.yamlfile import Document, Path_, kind_of

if TYPE_CHECKING:
    from jsonschema import ValidationError
    from jsonschema.protocols import Validator

TYPES = {
    "object": "a mapping",
    "array": "a list",
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
}
MOST_SHOWN = 60


@cache
def schema(kind: str) -> dict[str, Any]:
    """The schema of a kind: condition, signal, mitigation or source."""
    text = files("skewscope.kb").joinpath(f"schema/{kind}.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


@cache
def _validator(kind: str) -> "Validator":
    from jsonschema import Draft202012Validator  # noqa: PLC0415 - 0.1 s, and only where a catalogue is read

    return Draft202012Validator(schema(kind))


@cache
def _quick(kind: str) -> Check:
    return checker(schema(kind))


def faults(kind: str, document: Document) -> tuple[Problem, ...]:
    """All that an entry lacks to be one of its kind, in the order of its lines."""
    if _quick(kind)(document.data):
        return tuple(_unusable(document))
    found = [p for error in _validator(kind).iter_errors(document.data) for p in _told(error, document)]
    return tuple(sorted({*found, *_unusable(document)}, key=lambda p: (p.line, p)))


def _told(error: "ValidationError", document: Document) -> Iterator[Problem]:
    path: Path_ = tuple(error.absolute_path)
    tell = _tellers.get(str(error.validator), _other)
    yield from tell(error, document, path)


def _unknown(error: "ValidationError", document: Document, path: Path_) -> Iterator[Problem]:
    known = list(error.schema.get("properties", ())) if isinstance(error.schema, dict) else []
    for key in _instance(error):
        if key not in known:
            yield document.unknown_key((*path, key), known)


def _missing(error: "ValidationError", document: Document, path: Path_) -> Iterator[Problem]:
    # One error for each missing field, and none says which: tell them all, the caller drops what is told twice.
    wanted = error.validator_value
    for name in wanted if isinstance(wanted, list) else ():
        if name not in _instance(error):
            yield document.problem((*path, name), "no value", f"the field {name!r}")


def _wrong_type(error: "ValidationError", document: Document, path: Path_) -> Iterator[Problem]:
    wanted = error.validator_value
    names = [TYPES.get(t, t) for t in (wanted if isinstance(wanted, list) else [str(wanted)])]
    hint = "Put it in quotes." if wanted == "string" and not isinstance(error.instance, dict | list) else ""
    yield document.problem(path, _value(error.instance), " or ".join(names), hint)


def _no_choice(error: "ValidationError", document: Document, path: Path_) -> Iterator[Problem]:
    choice = [str(c) for c in error.validator_value] if isinstance(error.validator_value, list) else []
    yield document.problem(
        path, _value(error.instance), f"one of {listed(choice, 30)}", nearest(str(error.instance), choice)
    )


def _length(error: "ValidationError", document: Document, path: Path_) -> Iterator[Problem]:
    counted = "characters" if isinstance(error.instance, str) else "items"
    bound = "at least" if str(error.validator).startswith("min") else "at most"
    yield document.problem(path, f"{len(_instance(error))} {counted}", f"{bound} {error.validator_value} {counted}")


def _pattern(error: "ValidationError", document: Document, path: Path_) -> Iterator[Problem]:
    yield document.problem(path, _value(error.instance), f"text like {error.validator_value}")


def _other(error: "ValidationError", document: Document, path: Path_) -> Iterator[Problem]:
    wanted = f"{error.validator} {error.validator_value}"
    yield document.problem(path, _value(error.instance), wanted[:MOST_SHOWN])


def _twice(_: "ValidationError", document: Document, path: Path_) -> Iterator[Problem]:
    yield document.problem(path, "an item for the second time", "each item once")


def _instance(error: "ValidationError") -> Any:
    """What was found; the library's own type allows for a value that is not set yet."""
    return error.instance


_tellers = {
    "additionalProperties": _unknown,
    "required": _missing,
    "type": _wrong_type,
    "enum": _no_choice,
    "minLength": _length,
    "maxLength": _length,
    "minItems": _length,
    "maxItems": _length,
    "pattern": _pattern,
    "uniqueItems": _twice,
}


def _value(value: object) -> str:
    return kind_of(value) if isinstance(value, dict | list) else f"{kind_of(value)} ({repr(value)[:MOST_SHOWN]})"


def _unusable(document: Document) -> Iterator[Problem]:
    """Texts that would break a line or steer a terminal, and numbers that nobody can count with."""
    for path, value in _leaves(document.data, ()):
        if isinstance(value, str):
            if not value.isprintable():
                found = "a line break or a character that does not print"
                yield document.problem(path, found, "one paragraph of plain text")
        elif isinstance(value, int | float) and not isinstance(value, bool) and not finite(value):
            yield document.problem(path, _value(value), "a finite number")


def _leaves(value: object, path: Path_) -> Iterator[tuple[Path_, object]]:
    """Every value that holds no others, with where it stands."""
    inner: Iterable[tuple[str | int, object]]
    if isinstance(value, dict):
        inner = value.items()
    elif isinstance(value, list):
        inner = enumerate(value)
    else:
        yield path, value
        return
    for key, child in inner:
        yield from _leaves(child, (*path, key))
