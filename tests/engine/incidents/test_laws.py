"""Laws of incidents: whatever is judged in whatever order, nothing is lost, doubled or left without a root."""

import json
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from skewscope.engine.incidents.tracker import order_for_contract
from skewscope.engine.model.verdict import NO, UNKNOWN, YES
from tests.support.incidents import DERIVE, LOST, MORE, N1, REST, Says, advised, incidents, ranks, verdict

says = st.builds(
    Says,
    fires=st.booleans(),
    state=st.sampled_from([NO, UNKNOWN, YES]),
    score=st.sampled_from([2.0, 5.0, 7.0]),
    impact=st.sampled_from([float("nan"), -0.1, -0.5]),
    severity=st.integers(0, 2),
    value=st.sampled_from([float("nan"), 1.0, 5.0]),
)
names = st.sampled_from([f"{g}:{n}" for g, n in ranks()])
ticks = st.lists(
    st.dictionaries(
        st.sampled_from(["late", "lossy", "backlog", "hot", "blind"]), st.dictionaries(names, says, max_size=5)
    ),
    max_size=12,
)


@settings(max_examples=10, deadline=None)
@given(ticks, st.randoms(), st.sampled_from([1.0, 7.0, 25.0]))
@pytest.mark.slow
def test_the_order_of_verdicts_and_of_entities_changes_nothing(script, random, pace):
    one, other = advised(REST, MORE, DERIVE), advised(MORE, DERIVE, REST)
    for n, said in enumerate(script):
        verdicts = [verdict(condition, those) for condition, those in said.items()]
        order = [f"{g}:{m}" for g, m in ranks()]
        random.shuffle(order)
        mixed = [verdict(condition, those, names=order) for condition, those in said.items()]
        random.shuffle(mixed)
        assert one.step(n * pace, verdicts) == other.step(n * pace, mixed)
    assert [i.as_line() for i in order_for_contract(one.list_incidents(), "")] == [
        i.as_line() for i in order_for_contract(other.list_incidents(), "")
    ]


FAINT = Says(state=UNKNOWN, score=2.0, impact=float("nan"), severity=0, value=float("nan"))
# The part that takes the other one in as it resolves was a part of that one before.
IN_TURNS = [
    {"blind": {"C:n9": replace(FAINT, score=7.0), "D:n13": FAINT}},
    {"blind": {"C:n10": FAINT, "D:n13": FAINT, "C:n11": replace(FAINT, state=0)}},
    {"blind": {"C:n9": replace(FAINT, fires=False, state=0), "C:n8": replace(FAINT, value=5.0)}},
    {"blind": {}},
]


@settings(max_examples=10, deadline=None)
@example(IN_TURNS, 25.0)
@given(ticks, st.sampled_from([1.0, 7.0, 25.0]))
def test_whatever_fires_is_told_and_every_explanation_leads_to_a_root(script, pace):
    engine = incidents()
    for n, said in enumerate(script):
        engine.step(n * pace, [verdict(condition, those) for condition, those in said.items()])
        told = {i.id: i for i in engine.list_incidents()}
        firing = {(i.condition, name) for i in told.values() if i.state == "firing" for name in (i.name, *i.also)}
        for condition, those in said.items():
            for name, what in those.items():
                assert not what.fires or (condition, name.partition(":")[2]) in firing
        for i in told.values():
            assert i.explained_by is None or told[i.root_id].explained_by is None
            assert (i.state == "firing") == (i.resolved_at is None)
            assert i.resolved_at is None or i.resolved_at >= i.opened_at


@settings(max_examples=10, deadline=None)
@given(ticks, st.sampled_from([1.0, 7.0, 25.0]))
def test_a_run_again_gives_the_same_text_and_no_id_twice(script, pace):
    def text():
        engine = advised(REST, MORE, DERIVE)
        for n, said in enumerate(script):
            engine.step(n * pace, [verdict(condition, those) for condition, those in said.items()])
        return [one.as_line() for one in order_for_contract(engine.list_incidents(), "")]

    lines = text()
    assert text() == lines
    assert len({json.loads(line)["id"] for line in lines}) == len(lines)


@settings(max_examples=10, deadline=None)
@given(ticks, st.sampled_from([1.0, 7.0, 25.0]), st.sampled_from([0.0, 5.0, 60.0]))
@pytest.mark.slow
def test_forgetting_keeps_what_is_open_and_every_root_that_is_named(script, pace, age):
    engine, whole = incidents(), incidents()
    for n, said in enumerate(script):
        verdicts = [verdict(condition, those) for condition, those in said.items()]
        assert engine.step(n * pace, verdicts) == whole.step(n * pace, verdicts)
        engine.forget(n * pace - age)
        told = {i.id: i for i in engine.list_incidents()}
        every = {i.id: i for i in whole.list_incidents()}
        assert {i for i, one in every.items() if one.state == "firing"} <= set(told)
        assert all(told[i].explained_by == every[i].explained_by for i in told)
        assert {i.root_id for i in told.values() if i.explained_by} <= set(told)


@given(st.lists(st.integers(1, 29), min_size=1, max_size=8))
def test_flapping_within_the_cool_down_is_one_incident_however_often(gaps):
    engine, t = incidents(), 0.0
    for gap in gaps:
        engine.step(t, [verdict("late", {N1: Says()})])
        engine.step(t + 1, [verdict("late", {})])
        t += 1 + gap
    engine.step(t, [verdict("late", {N1: Says()})])
    (one,) = engine.list_incidents()
    assert (one.state, one.resolved_at, one.opened_at, one.flaps) == ("firing", None, 0.0, len(gaps))


@given(st.lists(st.sampled_from(["unknown", "unjudged"]), max_size=30), st.booleans())
def test_what_cannot_be_judged_neither_opens_nor_closes(gap, fires):
    engine = incidents()
    engine.step(0.0, [verdict("late", {N1: Says()} if fires else {})])
    lost = {N1: LOST} if fires else {N1: Says(fires=False, state=UNKNOWN, score=0.0, coverage=0.0)}
    for n, kind in enumerate(gap):
        assert engine.step(n + 1.0, [verdict("late", lost)] if kind == "unknown" else []) == ()
    assert [one.state for one in engine.list_incidents()] == ["firing"] * fires
