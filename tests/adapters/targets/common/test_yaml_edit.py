"""Edits of single fields keep every other character, and are taken back to the very text."""

import json

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from skewscope.adapters.targets.common.base import TargetError
from skewscope.adapters.targets.common.yaml_edit import REMOVED, edit_yaml, parse_yaml

NAMES = st.text("abcdefgh", min_size=1, max_size=6)
SCALARS = st.integers(-5, 500) | NAMES | st.booleans()
ITEMS = st.lists(st.dictionaries(NAMES, SCALARS | st.dictionaries(NAMES, SCALARS), min_size=1), min_size=1, max_size=4)
WRITERS = (
    lambda data: json.dumps(data, indent=2),
    json.dumps,
    lambda data: "# first\n" + yaml.safe_dump(data, sort_keys=False) + "# last\n",
    lambda data: yaml.safe_dump(data, default_flow_style=None),
)


@settings(max_examples=30, deadline=None)
@given(ITEMS, st.data(), st.sampled_from(WRITERS))
def test_a_field_that_was_added_is_removed_to_the_very_text(items, data, write):
    text = write({"items": items})
    at = ("items", data.draw(st.integers(0, len(items) - 1)))
    mark = {"skewscope": {"action": "a-1", "reason": "it's slow: # 5"}}
    added = edit_yaml(text, "f", [((*at, "zz_mark"), mark)])
    assert parse_yaml(added, "f")["items"][at[1]].pop("zz_mark") == mark
    assert edit_yaml(added, "f", [((*at, "zz_mark"), REMOVED)]) == text


@settings(max_examples=30, deadline=None)
@given(ITEMS, st.data(), st.sampled_from(WRITERS))
def test_a_field_is_set_and_nothing_else(items, data, write):
    text = write({"items": items})
    n = data.draw(st.integers(0, len(items) - 1))
    name = data.draw(st.sampled_from(sorted(items[n])))
    found = parse_yaml(edit_yaml(text, "f", [(("items", n, name), 7)]), "f")
    assert found == {"items": [one | ({name: 7} if m == n else {}) for m, one in enumerate(items)]}


def test_comments_beside_a_field_stay():
    text = "a: # why\n- b: 1   # one\n  c:\n    d: 2 # two\n  e:\n"
    edits = [(("a", 0, "b"), 5), (("a", 0, "c", "d"), "x"), (("a", 0, "e"), [1])]
    assert edit_yaml(text, "f", edits) == 'a: # why\n- b: 5   # one\n  c:\n    d: "x" # two\n  e: [1]\n'
    assert edit_yaml(text, "f", [(("a", 0, "zz"), REMOVED)]) == text


@pytest.mark.parametrize("text", ["a: &x {b: 1}\nc: *x\n", "? [1]\n: 2\n", "a: {b: 1", "a: {b: 1}\na: 2\n"])
def test_what_is_no_plain_yaml_is_refused(text):
    with pytest.raises(TargetError, match="f:"):
        edit_yaml(text, "f", [(("a", "b"), 2)])
