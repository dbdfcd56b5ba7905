"""Actions as an API sends them: what is not an action is refused, whatever it is."""

import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewscope.adapters.actions.action_json import MitigationOutcomes, parse_action_json, parse_outcomes
from skewscope.engine.actions.action import action_to_json
from skewscope.tui.render.actions import action_line, action_lines
from skewscope.tui.render.detail import DisplayNames
from skewscope.tui.render.text import to_plain_text
from tests.support.action_samples import build_proposal, build_refused, build_verified
from tests.tui.samples import catalogue

SAMPLES = (build_proposal(), build_verified(), build_refused())
JSON_VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.just([]), st.just({}), st.just([1])
)


@pytest.mark.parametrize("action", SAMPLES, ids=lambda one: one.state)
def test_what_a_controller_sends_is_the_action(action):
    assert parse_action_json(json.loads(json.dumps(action_to_json(action)))) == action


def paths(value, at=()):
    yield at
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in children:
        yield from paths(each, (*at, key))


PLACES = list(paths(action_to_json(build_verified())))[1:]


@given(st.sampled_from(PLACES), JSON_VALUES)
def test_any_damage_is_a_value_error_or_an_action_that_can_be_shown(place, value):
    data = copy.deepcopy(action_to_json(build_verified()))
    inner = data
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    try:
        action = parse_action_json(data)
    except ValueError:
        return
    names = DisplayNames(catalogue())
    assert to_plain_text([action_line(action, names), *action_lines(action, names, None, 80)])


@pytest.mark.parametrize("data", [None, [], "x", 3, {}, {"change": []}])
def test_what_is_no_action_is_refused(data):
    with pytest.raises(ValueError, match="action"):
        parse_action_json(data)


def test_outcomes_are_read_by_mitigation_and_checked():
    one = {"mitigation": "m", "carried_out": 3, "helped": 2, "not_helped": 1, "unproven": 0, "recovery": None}
    assert parse_outcomes([one]) == {"m": MitigationOutcomes("m", 3, 2, 1, 0, None)}
    for wrong in ({**one, "helped": "2"}, {**one, "more": 1}, [], {"mitigation": "m"}, {**one, "recovery": True}):
        with pytest.raises(ValueError, match=r"outcomes|action"):
            parse_outcomes([wrong])
