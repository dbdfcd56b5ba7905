"""Fast schema check that accepts most valid documents; only the others need the full check.

It supports the keywords that our schemas use, and refuses any other. The full check reports the problems.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

SchemaCheck = Callable[[Any], bool]
Schema = Mapping[str, Any]

ANNOTATION_KEYWORDS = frozenset(("$schema", "$id", "$defs", "title", "description", "default"))
"""Keywords that put no condition on a document."""


def compile_schema(schema: Schema) -> SchemaCheck:
    """Compiles a schema to a function that returns whether a document surely matches it.

    Raises:
        KeyError: the schema uses an unsupported keyword.
    """
    return _compile(schema, schema.get("$defs", {}), {})


def _compile(schema: Schema, defs: Mapping[str, Schema], made: dict[str, SchemaCheck]) -> SchemaCheck:
    if not _OBJECT_KEYWORDS.isdisjoint(schema):
        return _compile_object(schema, defs, made)
    parts = [
        _keyword_compilers[key](value)
        for key, value in sorted(schema.items(), key=_type_first)
        if key not in _APPLICATOR_KEYWORDS | ANNOTATION_KEYWORDS
    ]
    if "$ref" in schema:
        name = str(schema["$ref"]).removeprefix("#/$defs/")
        if name not in made:
            made[name] = _compile(defs[name], defs, made)
        parts.insert(0, made[name])
    # Both iterate over items: those of a mapping are its names.
    parts += [_each_item(_compile(schema[key], defs, made)) for key in ("items", "propertyNames") if key in schema]
    if "anyOf" in schema:
        parts.append(_any_of([_compile(part, defs, made) for part in schema["anyOf"]]))
    if "if" in schema:
        parts.append(_if_then_else(schema["if"], *(_compile(schema[key], defs, made) for key in ("then", "else"))))
    return _all_of(parts)


_OBJECT_KEYWORDS = frozenset(("properties", "additionalProperties", "required"))
_APPLICATOR_KEYWORDS = frozenset(("$ref", "items", "propertyNames", "anyOf", "if", "then", "else"))


def _type_first(pair: tuple[str, object]) -> bool:
    """Sorts the type before the length."""
    return pair[0] != "type"


def _compile_object(schema: Schema, defs: Mapping[str, Schema], made: dict[str, SchemaCheck]) -> SchemaCheck:
    rest = {k: v for k, v in schema.items() if k not in ("properties", "additionalProperties", "required")}
    fields = {name: _compile(inner, defs, made) for name, inner in schema.get("properties", {}).items()}
    more = schema.get("additionalProperties", True)
    others: SchemaCheck = _compile(more, defs, made) if isinstance(more, dict) else lambda _: bool(more)
    needed = frozenset(schema.get("required", ()))
    whole = _compile(rest, defs, made)

    def check(value: Any) -> bool:
        return (
            isinstance(value, dict)
            and whole(value)
            and needed <= value.keys()
            and all(fields.get(name, others)(inner) for name, inner in value.items())
        )

    return check


def _all_of(parts: list[SchemaCheck]) -> SchemaCheck:
    if len(parts) == 1:
        return parts[0]
    return lambda value: all(part(value) for part in parts)


def _any_of(parts: list[SchemaCheck]) -> SchemaCheck:
    return lambda value: any(part(value) for part in parts)


def _if_then_else(asked: Schema, then: SchemaCheck, otherwise: SchemaCheck) -> SchemaCheck:
    # Only for these types is a negative answer certain too.
    (kind,) = [{"object": dict, "array": list, "string": str}[asked[key]] for key in asked]
    return lambda value: then(value) if isinstance(value, kind) else otherwise(value)


def _each_item(item: SchemaCheck) -> SchemaCheck:
    return lambda value: all(map(item, value))


def _type(wanted: str | list[str]) -> SchemaCheck:
    # bool is an int in Python, never in a schema; 1.0 is an integer in a schema, which the full check decides.
    kinds: dict[str, tuple[type, ...]]
    kinds = {"object": (dict,), "array": (list,), "string": (str,), "boolean": (bool,), "integer": (int,)}
    kinds |= {"number": (int, float)}
    known = frozenset(kind for name in ([wanted] if isinstance(wanted, str) else wanted) for kind in kinds[name])
    return lambda value: type(value) in known


def _enum(choice: list[str | int]) -> SchemaCheck:
    known = frozenset((type(one), one) for one in choice)
    return lambda value: isinstance(value, str | int) and (type(value), value) in known


def _pattern(text: str) -> SchemaCheck:
    search = re.compile(text).search
    return lambda value: isinstance(value, str) and search(value) is not None


def _unique(wanted: bool) -> SchemaCheck:
    def check(value: Any) -> bool:
        return not wanted or (all(isinstance(item, str) for item in value) and len(set(value)) == len(value))

    return check


_keyword_compilers: Mapping[str, Callable[[Any], SchemaCheck]] = {
    "type": _type,
    "enum": _enum,
    "pattern": _pattern,
    "uniqueItems": _unique,
    "const": lambda wanted: _enum([wanted]),
    "minLength": lambda least: lambda value: not isinstance(value, str) or len(value) >= least,
    "maxLength": lambda most: lambda value: not isinstance(value, str) or len(value) <= most,
    "minItems": lambda least: lambda value: len(value) >= least,
    "maxItems": lambda most: lambda value: len(value) <= most,
    "minProperties": lambda least: lambda value: len(value) >= least,
    "maxProperties": lambda most: lambda value: len(value) <= most,
    "minimum": lambda least: lambda value: value >= least,
    "maximum": lambda most: lambda value: value <= most,
    "exclusiveMinimum": lambda least: lambda value: value > least,
}
