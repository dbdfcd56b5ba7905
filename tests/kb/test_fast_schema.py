"""The quick check never says yes where the full check says no, and is quick because it mostly says yes."""

import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from skewscope.kb.entry_kinds import KINDS, builtin_folder
from skewscope.kb.fast_schema import compile_schema
from skewscope.kb.schema_validation import schema
from skewscope.kb.yamlfile import read
from skewscope.rules.loader import RULES_FOLDER
from skewscope.rules.schema_validation import fast_check, validator

SINGULAR = [kind.removesuffix("s") for kind in KINDS]
SAMPLES = [
    (kind.removesuffix("s"), read(path).data)
    for kind in KINDS
    for path in sorted((builtin_folder() / kind).glob("*.yaml"))[::9]
]
OF_RULES = {"rule": "*.yaml", "cases": "cases/*.yaml", "policy": "policies/*.yaml"}
SAMPLES += [
    (kind, read(path).data) for kind, files in OF_RULES.items() for path in sorted(RULES_FOLDER.glob(files))[::9]
]
JUNK = [
    None,
    True,
    0,
    -1,
    1.5,
    float("nan"),
    "",
    "x",
    "x" * 900,
    "two\nlines",
    [],
    [[]],
    ["a", "a"],
    {},
    {"x": 1},
    10**30,
]
QUICK = {kind: compile_schema(schema(kind)) for kind in SINGULAR} | {kind: fast_check(kind) for kind in OF_RULES}
FULL = {kind: Draft202012Validator(schema(kind)) for kind in SINGULAR} | {kind: validator(kind) for kind in OF_RULES}


@pytest.mark.parametrize("kind", [*SINGULAR, *OF_RULES])
def test_what_is_sound_is_quickly_known_to_be(kind):
    sound = [data for of, data in SAMPLES if of == kind]
    assert sound
    assert all(QUICK[kind](data) for data in sound)


def paths(value, path=()):
    """Every place inside a document."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from paths(inner, (*path, key))


def damaged(data, path, junk, how):
    """A document with one place replaced, removed, or given company."""
    if not path:
        return junk
    data = copy.deepcopy(data)
    holder = data
    for key in path[:-1]:
        holder = holder[key]
    if how == "gone":
        del holder[path[-1]]
    elif how == "more" and isinstance(holder, dict):
        holder["more"] = junk
    elif how == "more":
        holder.append(junk)
    else:
        holder[path[-1]] = junk
    return data


@given(st.sampled_from(SAMPLES), st.data(), st.sampled_from(JUNK), st.sampled_from(["other", "gone", "more"]))
def test_what_the_full_check_refuses_is_never_let_through(sample, data, junk, how):
    kind, document = sample
    wrong = damaged(document, data.draw(st.sampled_from(list(paths(document)))), junk, how)
    if QUICK[kind](wrong):
        assert FULL[kind].is_valid(wrong)


@given(st.recursive(st.sampled_from(JUNK), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_any_value_is_answered(value):
    assert all(not check(value) or FULL[kind].is_valid(value) for kind, check in QUICK.items())


def test_a_keyword_that_it_does_not_know_is_refused_and_not_passed_over():
    with pytest.raises(KeyError):
        compile_schema({"type": "object", "properties": {"x": {"oneOf": []}}})
    with pytest.raises(KeyError):
        compile_schema({"if": {"type": "integer"}, "then": {"minimum": 0}, "else": {}})


def test_schemas_are_plain_json_of_known_keywords():
    for kind in SINGULAR:
        assert json.loads(json.dumps(schema(kind))) == schema(kind)
        compile_schema(schema(kind))
