"""Folding one condition on many entities, and finding the roots among many conditions."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewscope.engine.attribution.causes import (
    CAUSE_BEFORE_S,
    CauseGraph,
    Grouping,
    attribute_candidates,
    dominates,
    group_alerts,
    primary_entity_of,
)
from skewscope.engine.attribution.closeness import AttributionCandidate, closeness
from skewscope.engine.model.locality import Entity
from skewscope.kb.model import CausalLink
from skewscope.rules.policy import FACTS
from tests.support.incidents import NAMES, SILENT, UNSEEN, Says, catalogue, incidents, places, track, verdict


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


def suspect(condition, kind, name, since=100.0, score=5.0, others=()):
    return AttributionCandidate(f"{condition}@{name}", condition, (Entity(kind, name), *others), since, score)


def roots(*suspects):
    return attribute_candidates(suspects, CauseGraph(catalogue()), places())


LOSSY = suspect("lossy", "port", "n1/ew")


@pytest.mark.parametrize(
    ("suspects", "expected"),
    [
        pytest.param([LOSSY, suspect("late", "rank", "A:n1")], {"late@A:n1": "lossy@n1/ew"}, id="same node"),
        pytest.param([LOSSY, suspect("late", "rank", "A:n2")], {"late@A:n2": "lossy@n1/ew"}, id="same group"),
        pytest.param([LOSSY, suspect("late", "group", "A")], {"late@A": "lossy@n1/ew"}, id="its group"),
        pytest.param([LOSSY, suspect("late", "group", "B")], {"late@B": "lossy@n1/ew"}, id="the port's leaf carries"),
        pytest.param([LOSSY, suspect("late", "group", "C")], {}, id="another leaf does not"),
        pytest.param([suspect("lossy", "node", "n1"), suspect("late", "group", "B")], {}, id="a node is no leaf"),
        pytest.param([LOSSY, suspect("blind", "node", "n1")], {}, id="no causal link"),
        pytest.param(
            [LOSSY, suspect("backlog", "pool", "lab")], {"backlog@lab": "lossy@n1/ew"}, id="through what nobody saw"
        ),
        pytest.param(
            [suspect("late", "replica", "A"), suspect("backlog", "replica", "B")], {}, id="siblings in a pool"
        ),
        pytest.param(
            [suspect("late", "replica", "A"), suspect("backlog", "pool", "lab")],
            {"backlog@lab": "late@A"},
            id="the pool of a replica",
        ),
        pytest.param(
            [suspect("late", "rank", "A:n2"), suspect("backlog", "node", "n0")],
            {"backlog@n0": "late@A:n2"},
            id="the front end of the group",
        ),
        pytest.param(
            [suspect("lossy", "fleet", "fleet"), suspect("late", "rank", "D:n15")],
            {"late@D:n15": "lossy@fleet"},
            id="the fleet reaches everyone",
        ),
        pytest.param(
            [suspect("lossy", "rank", "A:n1", others=[rank("B:n5")]), suspect("late", "group", "B")],
            {"late@B": "lossy@A:n1"},
            id="what a root stands for counts",
        ),
    ],
)
def test_a_cause_explains_what_it_can_reach(suspects, expected):
    assert roots(*suspects) == expected


@pytest.mark.parametrize(("ahead", "explained"), [(CAUSE_BEFORE_S, True), (CAUSE_BEFORE_S + 0.1, False)])
def test_an_effect_cannot_come_long_before_its_cause(ahead, explained):
    assert bool(roots(LOSSY, suspect("late", "rank", "A:n1", since=100.0 - ahead))) is explained


def test_what_a_replica_draws_its_siblings_lack():
    known = catalogue()
    known.conditions["late"] = replace(known.conditions["late"], effects=(CausalLink("backlog", "it", siblings=True),))
    own, sibling, other = (suspect("backlog", "replica", name) for name in "ABC")
    found = attribute_candidates([suspect("late", "replica", "A"), own, sibling, other], CauseGraph(known), places())
    assert found == {own.id: "late@A", sibling.id: "late@A"}


def test_a_chain_has_one_root():
    made = [LOSSY, suspect("late", "rank", "A:n1"), suspect("backlog", "pool", "lab")]
    assert roots(*made) == {"late@A:n1": "lossy@n1/ew", "backlog@lab": "lossy@n1/ew"}


def test_the_nearest_of_two_roots_explains():
    near, far = suspect("lossy", "rank", "A:n1"), suspect("lossy", "rank", "A:n2", since=50.0)
    assert roots(far, near, suspect("late", "rank", "A:n1")) == {"late@A:n1": "lossy@A:n1"}


def test_of_two_equally_near_roots_the_earlier_explains():
    one, two = suspect("lossy", "rank", "A:n1", since=90.0), suspect("hot", "rank", "A:n1", since=80.0)
    assert roots(one, two, suspect("late", "rank", "A:n1")) == {"late@A:n1": "hot@A:n1"}


def test_closeness_falls_with_distance():
    cause = suspect("lossy", "port", "n1/ew")
    names = [("port", "n1/ew"), ("node", "n1"), ("rank", "A:n2"), ("group", "B"), ("node", "n15")]
    assert [closeness(cause, suspect("late", *name), places()) for name in names] == [4, 3, 2, 1, 0]


kinds = st.sampled_from(
    [("rank", f"{'ABCD'[i // 4]}:{n}") for i, n in enumerate(NAMES)] + [("pool", "lab"), ("group", "A")]
)
conditions = st.sampled_from(sorted(catalogue().conditions))
many = st.lists(
    st.builds(lambda c, e, since: suspect(c, *e, since=since), conditions, kinds, st.integers(90, 120)),
    max_size=10,
    unique_by=lambda s: s.id,
)


@given(many, st.randoms())
def test_attribution_does_not_depend_on_the_order(suspects, random):
    shuffled = list(suspects)
    random.shuffle(shuffled)
    assert roots(*shuffled) == roots(*suspects)


@given(many)
def test_roots_explain_and_none_of_them_could_be_explained_by_another(suspects):
    explained = roots(*suspects)
    assert not set(explained.values()) & set(explained)
    left = [s for s in suspects if s.id not in explained]
    assert roots(*left) == {}


@pytest.mark.parametrize(
    ("entity", "expected"),
    [
        (("rank", "A:n1"), {"siblings": 1, "rails": 1, "members": 4, "nodes": 4, "front_end": "no"}),
        (("node", "n0"), {"siblings": 1, "rails": 1, "members": 4, "nodes": 4, "front_end": "yes"}),
        (("group", "C"), {"siblings": 0, "rails": 1, "members": 4, "nodes": 4, "front_end": "no"}),
        (("node", "stranger"), {"siblings": 0, "rails": 0, "members": 0, "nodes": 1, "front_end": "no"}),
        (("pool", "lab"), {"siblings": 2, "rails": 0, "members": 0, "nodes": 8, "front_end": "no"}),
    ],
)
def test_policies_may_ask_where_something_is(entity, expected):
    about = places().topology_facts(Entity(*entity))
    assert {name: about[name] for name in expected} == expected
    assert set(about) == set(FACTS["topology"].properties)


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
