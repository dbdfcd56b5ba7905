"""What would have been told with other telemetry or another rule, and why something was not told."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewscope.adapters.backtest.edits import SignalEdit, build_editor, parse_edit
from skewscope.adapters.backtest.rule_set import load_rule_set
from skewscope.adapters.backtest.telemetry import TelemetrySpan, open_telemetry
from skewscope.adapters.backtest.track import Segment
from skewscope.adapters.backtest.what_if import Supposition, ask_why_not, suppose
from skewscope.engine.ingest.feed import Block, SeriesKey
from skewscope.engine.model.topology import Group, Node, Topology
from skewscope.kb.loader import catalogue
from skewscope.kb.problems import InputError
from skewscope.rules.loader import RULES_FOLDER

RULE = "tp-straggler-on-the-wire"
SET_LAG = (SignalEdit("wire.peer_onset_lag", 0.0005), SignalEdit("wire.own_onset_lag", 0.0, "*"))
FLEET = Topology(tuple(Node(f"n{n}", gpus=1) for n in range(3)), (Group("A", "tensor-parallel", ("n0", "n1")),))
KEYS = (
    SeriesKey("gpu.temperature", "gpu", "n1/gpu0"),
    SeriesKey("gpu.temperature", "gpu", "n2/gpu0"),
    SeriesKey("host.tcp_timeouts", "node", "n1"),
)


def segments(values, size=3):
    """A segment for each row: one sample of each series each second."""
    found = []
    for n, row in enumerate(values):
        at = np.arange(size, dtype=np.int32)
        block = Block(np.full(size, 100.0 + n), at, np.asarray(row, float))
        found.append(Segment(np.array([100.0 + n]), np.array([size]), block))
    return found


def edited(edits, values, here=("n1",)):
    editor = build_editor(edits, KEYS, catalogue(), FLEET, here)
    return [editor.edit(one) for one in segments(values)]


@given(st.lists(st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=3), min_size=1, max_size=5))
def test_a_gauge_is_set_where_the_incident_is_and_nowhere_else(values):
    for before, after in zip(values, edited([SignalEdit("gpu.temperature", 60.0)], values), strict=True):
        assert after.block.value.tolist() == [60.0, *before[1:]]


def test_a_counter_grows_evenly_from_its_first_value():
    found = edited([SignalEdit("host.tcp_timeouts", 2.0)], [[0, 0, 7], [0, 0, 50], [0, 0, 51]])
    assert [one.block.value[2] for one in found] == [7.0, 9.0, 11.0]


@pytest.mark.parametrize(("place", "left"), [("", [1, 2]), ("n2/gpu0", [0, 2]), ("*", [2]), ("A", [1, 2])])
def test_a_signal_is_left_out_at_a_place(place, left):
    (found,) = edited([SignalEdit("gpu.temperature", None, place)], [[1, 2, 3]])
    assert found.block.series.tolist() == left
    assert found.sizes.tolist() == [len(left)]


@pytest.mark.parametrize("edit", [SignalEdit("gpu.power", 1.0), SignalEdit("gpu.temperature", 1.0, "n0")])
def test_a_change_of_nothing_is_refused(edit):
    with pytest.raises(InputError, match=f"no series of {edit.signal}"):
        edited([edit], [[1, 2, 3]])


@pytest.mark.parametrize(
    ("text", "expected"),
    [("gpu.power=3.5", SignalEdit("gpu.power", 3.5)), ("gpu.power@n1/gpu0=3", SignalEdit("gpu.power", 3.0, "n1/gpu0"))],
)
def test_a_change_is_read(text, expected):
    assert parse_edit(text, catalogue(), has_value=True) == expected
    assert parse_edit(text.partition("=")[0], catalogue(), has_value=False) == replace(expected, value=None)


@pytest.mark.parametrize("text", ["gpu.powr=3", "gpu.power", "gpu.power=hot", "gpu.power=nan", "gpu.power="])
def test_a_change_that_cannot_be_read_is_refused(text):
    with pytest.raises(InputError):
        parse_edit(text, catalogue(), has_value=True)


@pytest.fixture(scope="module")
def world(brief, tmp_path_factory):
    """A recording in which a rank becomes slow, and the one rule that tells it."""
    recording = open_telemetry(str(brief), TelemetrySpan(), tmp_path_factory.mktemp("x"), lambda _stage, _share: None)
    return recording, load_rule_set(RULE, catalogue())


def test_without_the_lag_it_is_not_told_and_the_lag_is_what_turns_it(world):
    found = suppose(world[0], "", Supposition(SET_LAG), rules=world[1])
    assert (found.incident.condition, found.difference.kind) == ("tp-straggler", "gone")
    before, after = ({item.name: item.verdict for item in state.items} for state in (found.before, found.after))
    assert {name for name in before if before[name] != after[name]} == {"rank_is_late"}
    assert (before["rank_is_late"], after["rank_is_late"]) == ("yes", "no")
    assert found.before.firing
    assert not found.after.firing


def test_what_another_rule_would_tell(world, tmp_path):
    text = (RULES_FOLDER / f"{RULE}.yaml").read_text()
    file = tmp_path / f"{RULE}.yaml"
    file.write_text(text.replace("fire: {score: 5, hold: 4*s}", "fire: {score: 5, hold: 9*s}"))
    found = suppose(world[0], "", Supposition(rule=str(file)), rules=world[1])
    assert (found.difference.kind, found.difference.seconds) == ("later", 5.0)
    assert (found.after.hold, found.others) == (9.0, ())


def test_an_incident_that_there_is_not_is_refused(world):
    with pytest.raises(InputError, match="no incident of the recording"):
        suppose(world[0], "xyz", Supposition(SET_LAG), rules=world[1])


def test_why_a_healthy_rank_was_not_told(world):
    at = suppose(world[0], "", Supposition(SET_LAG), rules=world[1]).told_at
    (state,) = ask_why_not(world[0], ("tp-straggler", "n3", at), rules=world[1]).states
    assert (state.kind, state.name, state.firing, state.time) == ("rank", "n3", False, at)
    reasons = " ".join(state.reasons())
    assert "rank_is_late is required and is no." in reasons
    assert "less than 5" in reasons
    late = next(item for item in state.items if item.name == "rank_is_late")
    assert late.value is not None
    assert late.thresholds[0].startswith("> 0.12 * mean(")
    unseen = next(item for item in state.items if item.name == "rank_was_stopped")
    assert (unseen.verdict, unseen.missing) == ("unknown", ("wire.stopped_time was never delivered",))
    told = ask_why_not(world[0], ("tp-straggler", "rank n2", at), rules=world[1])
    assert [one.condition for one in told.incidents] == ["tp-straggler"]
    assert [list(one.reasons()) for one in told.states] == [[]]


@pytest.mark.parametrize(
    ("question", "message"),
    [
        (("tp-stragler", "n3", 1.0), "tp-stragler"),
        (("tp-straggler", "n3", 1.0), "before the data"),
        (("tp-straggler", "n99", None), "do not judge"),
    ],
)
def test_a_question_without_an_answer_is_refused(world, question, message):
    begin = suppose(world[0], "", Supposition(SET_LAG), rules=world[1]).told_at
    with pytest.raises(InputError, match=message):
        ask_why_not(world[0], (*question[:2], question[2] or begin), rules=world[1])
