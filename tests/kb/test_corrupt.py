"""Every field of a sample of entries, corrupted in every way that a machine can know, is told with its line."""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import pytest
import yaml

from skewscope.kb.entry_kinds import KINDS, builtin_folder
from skewscope.kb.lint import lint_folder
from skewscope.kb.problems import Problem
from skewscope.kb.schema_validation import schema, validate_entry
from skewscope.kb.yamlfile import Document, format_path, parse
from tests.support.kb_damage import copied, written

Where = tuple[str | int, ...]


def sample(kind: str) -> list[str]:
    """Of a kind: the first, the middle and the last entry, and the one that says most."""
    paths = sorted((builtin_folder() / kind).iterdir())
    some = [paths[0], paths[len(paths) // 2], paths[-1], max(paths, key=lambda path: path.stat().st_size)]
    return sorted({path.stem for path in some})


def most(kind: str) -> str:
    """The entry of a kind that says most."""
    return max((builtin_folder() / kind).iterdir(), key=lambda path: path.stat().st_size).stem


SAMPLE = [
    pytest.param(kind, id_, marks=() if id_ == most(kind) else pytest.mark.slow)
    for kind in KINDS
    for id_ in sample(kind)
]


@dataclass(frozen=True)
class Broken:
    """A field and what it was made to hold."""

    how: str
    where: Where
    data: Any


def resolved(shape: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    ref = str(shape.get("$ref", "")).removeprefix("#/$defs/")
    return {**root["$defs"][ref], **shape} if ref else shape


def fields(data: Any, shape: dict[str, Any], root: dict[str, Any], at: Where = ()) -> Iterator[tuple[Where, Any, dict]]:
    """Every field and item of an entry with its schema, outermost first."""
    shape = resolved(shape, root)
    yield at, data, shape
    if isinstance(data, dict):
        for name, value in data.items():
            inner = shape.get("properties", {}).get(name) or shape.get("additionalProperties")
            if isinstance(inner, dict):
                yield from fields(value, inner, root, (*at, name))
    elif isinstance(data, list):
        for n, value in enumerate(data):
            yield from fields(value, shape["items"], root, (*at, n))


def put(data: Any, where: Where, value: Any) -> Any:
    """The entry with another value there; None takes the field away."""
    made = deepcopy(data)
    holder = made
    for step in where[:-1]:
        holder = holder[step]
    if value is None:
        del holder[where[-1]]
    else:
        holder[where[-1]] = value
    return made


def broken(kind: str, data: dict[str, Any]) -> Iterator[Broken]:
    """An entry in every way in which its shape can be wrong, one at a time."""
    root = schema(kind.removesuffix("s"))
    for where, value, shape in fields(data, root, root):
        if isinstance(value, dict):
            for name in shape.get("required", ()):
                yield Broken("a required field gone", (*where, name), put(data, (*where, name), None))
            if shape.get("additionalProperties") is False:
                yield Broken("an unknown field", (*where, "x_unknown"), put(data, (*where, "x_unknown"), "something"))
        if not where:
            continue
        wrong = {"no": "mapping"} if isinstance(value, str | int | float | list) else "a text in place of a mapping"
        yield Broken("a wrong type", where, put(data, where, wrong))
        if isinstance(value, str):
            yield Broken("an empty text", where, put(data, where, ""))
            yield Broken("a list for a text", where, put(data, where, ["x"]))
            if "enum" in shape:
                yield Broken("a word that is no choice", where, put(data, where, "perhaps"))
        if isinstance(value, list) and value and shape.get("uniqueItems"):
            yield Broken("an item twice", where, put(data, where, [*value, value[0]]))


def text_of(data: Any) -> str:
    return str(yaml.dump(data, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True, width=110))


def told_there(problem: Problem, document: Document, where: Where) -> bool:
    """Whether a problem is about a field, or what holds it, and names the line where that stands."""
    around = {document.line(*where[:n]) for n in range(len(where) + 1)}
    return problem.line in around and problem.field in {format_path(where[:n]) for n in range(1, len(where) + 1)}


@pytest.mark.parametrize(
    ("kind", "id_", "stride"),
    [
        *(pytest.param(kind, most(kind), 29, id=f"{kind} {most(kind)}") for kind in KINDS),
        *(pytest.param(*one.values, 1, marks=pytest.mark.slow) for one in SAMPLE),
    ],
)
def test_no_field_can_be_of_a_wrong_shape_without_being_told(kind, id_, stride):
    data = yaml.safe_load((builtin_folder() / kind / f"{id_}.yaml").read_text())
    assert validate_entry(kind.removesuffix("s"), parse(text_of(data), "x.yaml")) == ()
    ways = list(broken(kind, data))
    assert len(ways) > 3 * len(data)
    for way in ways[::stride]:
        document = parse(text_of(way.data), "x.yaml")
        problems = validate_entry(kind.removesuffix("s"), document)
        assert problems, (way.how, way.where)
        assert all(p.file == "x.yaml" and p.line > 0 for p in problems), (way.how, way.where)
        assert any(told_there(p, document, way.where) for p in problems), (way.how, way.where, problems)


# What only the whole catalogue can know.

REFERENCES = {
    "conditions": (
        *(("mitigations",), ("signature", "signal"), ("observability", "needs"), ("impacts", "source")),
        *(("lookalikes", "condition"), ("effects", "condition"), ("causes", "condition")),
    ),
    "mitigations": (("claims", "source"),),
    "findings": (("sources",), ("conditions",)),
    "signals": (),
    "symptoms": (),
}
"""Where an entry names others."""


def references(kind: str, data: dict[str, Any]) -> Iterator[Where]:
    for path in REFERENCES.get(kind, ()):
        for n, item in enumerate(data.get(path[0], ())):
            if len(path) == 1:
                yield (path[0], n)
            elif isinstance(item.get(path[1]), list):
                yield from ((path[0], n, path[1], k) for k in range(len(item[path[1]])))
            elif path[1] in item:
                yield (path[0], n, path[1])
    yield from (("judged", name) for name in ("given", "symptom") if name in data.get("judged", ()))
    yield from (("instead", form) for form in data.get("instead", ()))


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    return copied(tmp_path_factory.mktemp("corrupt"))


def linted(copy, kind: str, id_: str, data: Any, name: str = "") -> tuple[str, list[Problem]]:
    path = copy / kind / f"{name or id_}.yaml"
    with written(path, text_of(data)):
        return str(path), [p for p in lint_folder(copy) if p.file == str(path)]


@pytest.mark.parametrize(("kind", "id_"), [one for one in SAMPLE if one.values[0] in REFERENCES])
def test_no_id_can_dangle_without_being_told(copy, kind, id_):
    data = yaml.safe_load((builtin_folder() / kind / f"{id_}.yaml").read_text())
    every = list(references(kind, data))
    # One of each place, and the last of those: each costs a reading of the whole catalogue.
    some = {tuple(step for step in where if isinstance(step, str)): where for where in every}
    for where in some.values():
        wrong = "no_such_thing" if where[0] in ("impacts", "claims", "sources") else "no-such-thing"
        wrong = "no.such_thing" if {"signature", "needs", "given"} & set(where) else wrong
        changed = put(data, where, wrong)
        path, problems = linted(copy, kind, id_, changed)
        line = parse(text_of(changed), path).line(*where)
        assert any(p.line == line and "no" in p.found and "such" in p.found for p in problems), (where, problems)


def test_an_id_that_is_taken_is_told_with_the_file_that_takes_it(copy):
    data = yaml.safe_load((builtin_folder() / "conditions/tp-straggler.yaml").read_text())
    _, problems = linted(copy, "conditions", "tp-straggler", data, "tp-straggler-again")
    assert any(p.field == "id" and p.line == 1 for p in problems)


@pytest.mark.parametrize("id_", sample("signals"))
def test_a_unit_that_nobody_knows_is_told(copy, id_):
    data = yaml.safe_load((builtin_folder() / f"signals/{id_}.yaml").read_text())
    _, problems = linted(copy, "signals", id_, {**data, "unit": "furlong"})
    assert any(p.field == "unit" and "furlong" in p.found and p.line > 1 for p in problems)


@pytest.mark.parametrize("id_", sample("sources"))
def test_a_source_without_a_locator_that_leads_somewhere_is_told(copy, id_):
    data = yaml.safe_load((builtin_folder() / f"sources/{id_}.yaml").read_text())
    _, problems = linted(copy, "sources", id_, {**data, "locator": "in a drawer"})
    assert any(p.field == "locator" and p.line > 1 for p in problems)
