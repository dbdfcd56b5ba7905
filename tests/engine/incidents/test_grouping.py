"""One condition on several entities that share a path is one incident."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewscope.engine.incidents.grouping import Grouping, dominates, group_alerts, primary_entity_of
from skewscope.engine.model.locality import Entity
from tests.support.incidents import NAMES, SILENT, UNSEEN, Says, incidents, places, track, verdict


def rank(name):
    return Entity("rank", name)


def leaders(tracks, before=None):
    """The entities that speak for themselves."""
    folds = group_alerts(tracks, places(), before or {})
    return sorted({primary_entity_of(t.entity, folds).name for t in tracks})


@pytest.mark.parametrize(
    ("tracks", "expected"),
    [
        pytest.param([("rank", "A:n1", 2), ("rank", "B:n5", 2)], ["A:n1", "B:n5"], id="two groups stay two"),
        pytest.param([("rank", "A:n1", 2), ("rank", "A:n2", 2)], ["A:n1", "A:n2"], id="two alike in a group stay two"),
        pytest.param([("rank", "A:n1", 9), ("rank", "A:n2", 2)], ["A:n1"], id="one clearly the loudest of its group"),
        pytest.param([("rank", f"A:n{i}", 2) for i in range(3)], ["A:n0"], id="most of a group is one"),
        pytest.param([("rank", "A:n1", 2), ("node", "n1", 2)], ["A:n1"], id="a node and the rank on it"),
        pytest.param([("rank", "A:n1", 2), ("node", "n2", 2)], ["A:n1", "n2"], id="a rank and another node"),
        pytest.param([("port", "n1/ew", 2), ("node", "n1", 2)], ["n1/ew"], id="a node and its port"),
        pytest.param([("rank", "A:n1", 2), ("group", "A", 9)], ["A:n1"], id="a group and its member"),
        pytest.param([("group", "A", 2), ("replica", "A", 2)], ["A"], id="a group is the replica"),
        pytest.param([("replica", "A", 2), ("pool", "lab", 9)], ["A"], id="one replica speaks for its pool"),
        pytest.param([("replica", "A", 2), ("replica", "B", 2), ("pool", "lab", 1)], ["lab"], id="a pool for several"),
        pytest.param([("replica", "A", 3), ("replica", "B", 2)], ["A"], id="all replicas of a pool are one"),
        pytest.param([("group", "A", 3), ("group", "B", 2)], ["A", "B"], id="groups are not their pool's replicas"),
        pytest.param([("replica", "C", 2), ("pool", "lab", 9)], ["C", "lab"], id="not in that pool"),
        pytest.param([("port", f"n{i}/ew", 2) for i in range(5)], ["n0/ew"], id="most ports of a leaf are one"),
        pytest.param(
            [("port", f"n{i}/ew", 2) for i in (0, 1, 4, 5)], ["n0/ew", "n1/ew", "n4/ew", "n5/ew"], id="half is not most"
        ),
        pytest.param([("gpu", f"n1/gpu{i}", 2) for i in range(5)], ["n1/gpu0"], id="most GPUs of a host are one"),
        pytest.param(
            [("gpu", f"n1/gpu{i}", 2) for i in range(4)],
            [f"n1/gpu{i}" for i in range(4)],
            id="half of them are not",
        ),
        pytest.param(
            [("peer", "n1/ew>n2/ew", 3), ("peer", "n2/ew>n1/ew", 2)], ["n1/ew>n2/ew"], id="two ends of one flow are one"
        ),
        pytest.param([("node", "n1", 2), ("node", "n9", 2), ("fleet", "fleet", 1)], ["fleet"], id="the fleet"),
        pytest.param([("node", "stranger", 2), ("node", "n9", 2)], ["n9", "stranger"], id="not in the topology"),
    ],
)
def test_one_condition_folds_where_a_path_is_shared(tracks, expected):
    made = [track("late", kind, name, Says(value=value)) for kind, name, value in tracks]
    assert leaders(made) == expected
    assert leaders(made[::-1]) == expected


def test_who_was_stood_for_stays_so_until_nearly_as_loud():
    before = {rank("A:n2"): Grouping(rank("A:n1"), "louder")}
    loud = track("late", "rank", "A:n1", Says(value=9))
    assert leaders([loud, track("late", "rank", "A:n2", Says(value=6))], before) == ["A:n1"]
    assert leaders([loud, track("late", "rank", "A:n2", Says(value=6))]) == ["A:n1", "A:n2"]
    assert leaders([loud, track("late", "rank", "A:n2", Says(value=8))], before) == ["A:n1", "A:n2"]


@pytest.mark.parametrize(
    ("unseen", "expected"),
    [((), 4), (("n2", "n3"), 1), (("n2",), 1), (("n8", "n9"), 4)],
    ids=[
        "half is not most",
        "most of those seen are one",
        "one more than half",
        "unseen elsewhere",
    ],
)
def test_who_cannot_be_judged_is_none_of_those_who_are_well(unseen, expected):
    ports = {f"n{i}/ew": Says() if i in {0, 1, 4, 5} else UNSEEN if f"n{i}" in unseen else SILENT for i in range(16)}
    engine = incidents()
    engine.step(1.0, [verdict("late", ports, "port")])
    roots = [one for one in engine.list_incidents() if one.explained_by is None]
    assert len(roots) == expected
    assert {name for one in roots for name in (one.name, *one.also)} == {"n0/ew", "n1/ew", "n4/ew", "n5/ew"}


def test_a_crowd_stays_one_while_it_thins_out():
    before = {rank("A:n1"): Grouping(rank("A:n0"), "crowd")}
    assert leaders([track("late", "rank", "A:n0"), track("late", "rank", "A:n1")], before) == ["A:n0"]


@pytest.mark.parametrize(
    ("loud", "quiet", "expected"),
    [
        ({"score": 8.0}, {"score": 4.0}, True),
        ({"score": 7.0}, {"score": 4.0}, False),
        ({"impact": -0.6}, {"impact": -0.3}, True),
        ({"impact": -0.6}, {"impact": float("nan")}, False),
        ({"impact": -0.6, "score": 4.0}, {"impact": -0.3, "score": 5.0}, False),
        ({"value": 4.0}, {"value": 2.0}, True),
        ({"value": float("nan")}, {"value": 2.0}, False),
        ({"value": 2.0}, {"value": 0.0}, False),
    ],
)
def test_dominance_is_by_score_then_impact_then_numbers(loud, quiet, expected):
    a, b = (
        track("late", "rank", "A:n1", Says(**loud)).peak_evidence,
        track("late", "rank", "A:n2", Says(**quiet)).peak_evidence,
    )
    assert dominates(a, b, 2.0) is expected


kinds = st.sampled_from(
    [("rank", f"{'ABCD'[i // 4]}:{n}") for i, n in enumerate(NAMES)] + [("pool", "lab"), ("group", "A")]
)
loudnesses = st.lists(
    st.builds(lambda e, v: track("late", *e, Says(value=v)), kinds, st.sampled_from([1.0, 2.0, 9.0])),
    max_size=10,
    unique_by=lambda t: t.entity,
)


@given(loudnesses, st.randoms())
def test_folding_does_not_depend_on_the_order_and_ends_at_leaders(tracks, random):
    shuffled = list(tracks)
    random.shuffle(shuffled)
    folds = group_alerts(tracks, places(), {})
    assert group_alerts(shuffled, places(), {}) == folds
    assert all(primary_entity_of(entity, folds) not in folds for entity in folds)
