"""What changed between two versions, and by how much the version has to rise."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewscope.kb.changes import LEVELS, bump_version, diff_catalogues

OLD = {
    "version": "1.2.3",
    "conditions": {"a": {"id": "a", "what": "x", "kind": "cause", "maturity": "sandbox"}, "b": {"id": "b"}},
    "signals": {"s.t": {"id": "s.t", "unit": "s", "note": "n"}},
}


def after(version="1.2.3", **edits):
    """The old state with entries replaced (`conditions={"a": {...}}`), added, or removed (None)."""
    new = copy.deepcopy(OLD)
    new["version"] = version
    for kind, entries in edits.items():
        for id_, fields in entries.items():
            if fields is None:
                del new.setdefault(kind, {})[id_]
            else:
                new.setdefault(kind, {}).setdefault(id_, {}).update(fields)
    return new


@pytest.mark.parametrize(
    ("edits", "told", "level", "due"),
    [
        ({}, [], "nothing", "1.2.3"),
        ({"conditions": {"a": {"what": "y"}}}, [("a", "changed", ("what",))], "patch", "1.2.4"),
        ({"conditions": {"c": {"id": "c"}}}, [("c", "added", ())], "minor", "1.3.0"),
        ({"findings": {"f": {"id": "f"}}}, [("f", "added", ())], "minor", "1.3.0"),
        ({"conditions": {"a": {"notes": ["n"]}}}, [("a", "changed", ("notes",))], "minor", "1.3.0"),
        ({"conditions": {"a": {"maturity": "withdrawn"}}}, [("a", "withdrawn", ("maturity",))], "minor", "1.3.0"),
        ({"conditions": {"b": None}}, [("b", "removed", ())], "major", "2.0.0"),
        ({"signals": {"s.t": {"unit": "ms"}}}, [("s.t", "changed", ("unit",))], "major", "2.0.0"),
        ({"signals": {"s.t": {"note": "m"}}}, [("s.t", "changed", ("note",))], "patch", "1.2.4"),
        (
            {"conditions": {"a": {"what": "y"}, "b": None, "c": {"id": "c"}}},
            [("a", "changed", ("what",)), ("b", "removed", ()), ("c", "added", ())],
            "major",
            "2.0.0",
        ),
    ],
)
def test_each_change_is_told_with_what_it_asks_of_the_version(edits, told, level, due):
    found = diff_catalogues(OLD, after(**edits))
    assert [(c.id, c.what, c.fields) for c in found.entries] == told
    assert (found.level, found.required_version) == (level, due)
    assert found.is_version_sufficient == (level == "nothing")
    assert diff_catalogues(OLD, after(version=due, **edits)).is_version_sufficient


def test_a_version_that_went_back_did_not_rise():
    assert not diff_catalogues(OLD, after("1.2.2")).is_version_sufficient
    assert diff_catalogues(OLD, after("10.0.0", conditions={"b": None})).is_version_sufficient


def test_a_folder_without_a_version_asks_for_none():
    found = diff_catalogues({}, OLD)
    assert (found.old, found.required_version, found.is_version_sufficient) == ("", "", True)
    assert {c.what for c in found.entries} == {"added"}


@given(st.integers(0, 999), st.integers(0, 999), st.integers(0, 999), st.sampled_from(LEVELS[1:]))
def test_a_raised_version_is_always_later(major, minor, patch, level):
    later = tuple(map(int, bump_version(f"{major}.{minor}.{patch}", level).split(".")))
    assert later > (major, minor, patch)
