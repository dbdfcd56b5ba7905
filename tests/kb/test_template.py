"""A new entry names every field of its kind, and the lint tells all that is still empty."""

import pytest
import yaml

from skewscope.kb.entry_kinds import KINDS
from skewscope.kb.problems import InputError
from skewscope.kb.schema_validation import schema, validate_entry
from skewscope.kb.template import template
from skewscope.kb.yamlfile import parse

IDS = {"signal": "wire.one_more", "source": "more2026"}
SINGULAR = [kind.removesuffix("s") for kind in KINDS]


def made(kind):
    return template(kind, IDS.get(kind, "one-more"))


@pytest.mark.parametrize("kind", SINGULAR)
def test_every_field_is_there_and_those_that_are_needed_are_open(kind):
    text = made(kind)
    assert set(parse(text).data) == set(schema(kind)["required"])
    for name in schema(kind)["properties"]:
        assert f"\n{name}:" in text or f"\n# {name}:" in text


@pytest.mark.parametrize("kind", SINGULAR)
def test_every_empty_field_is_a_fault_with_its_line_and_nothing_else_is(kind):
    problems = validate_entry(kind, parse(made(kind), "new.yaml"))
    lines = made(kind).splitlines()
    assert problems
    assert all(lines[p.line - 1].strip() and not lines[p.line - 1].startswith("#") for p in problems)
    told = {p.field.split(".")[0].split("[")[0] for p in problems}
    empty = {name for name, value in parse(made(kind)).data.items() if value in ("", [], {})}
    assert empty <= told


@pytest.mark.parametrize("kind", SINGULAR)
def test_what_stands_in_comments_is_yaml_once_it_is_opened(kind):
    lines = [line for line in made(kind).splitlines() if not line.startswith("# ") or _is_field(line[2:], kind)]
    opened = "\n".join(line.removeprefix("# ") for line in lines if not line.startswith("#   #"))
    assert set(schema(kind)["properties"]) == set(yaml.safe_load(opened))


def _is_field(text, kind):
    return text.split(":")[0].strip() in schema(kind)["properties"] or text.startswith("  ")


@pytest.mark.parametrize("id_", ["", "Upper", "two words", "../escape", "a" * 99, "-x", "x\ny"])
def test_an_id_that_is_none_is_refused(id_):
    with pytest.raises(InputError):
        template("condition", id_)
