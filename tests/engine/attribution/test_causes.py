"""Finding the roots among faults of many conditions."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewscope.engine.attribution.cause_graph import CauseGraph
from skewscope.engine.attribution.explanation import (
    AttributionCandidate,
    attribute_candidates,
    closeness,
    locate_candidate,
)
from skewscope.engine.incidents.state import CAUSE_BEFORE_S
from skewscope.engine.model.locality import Entity
from skewscope.kb.model import CausalLink
from skewscope.rules.policy import FACTS
from tests.support.incidents import NAMES, catalogue, places


def rank(name):
    return Entity("rank", name)


def suspect(condition, kind, name, since=100.0, score=5.0, others=()):
    return AttributionCandidate(f"{condition}@{name}", condition, (Entity(kind, name), *others), since, score)


def located(candidate):
    return locate_candidate(candidate, places())


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


def test_where_samples_are_far_apart_an_effect_may_come_longer_before_its_cause():
    early = suspect("late", "rank", "A:n1", since=60.0)
    found = attribute_candidates([LOSSY, early], CauseGraph(catalogue()), places(), before_s=45.0)
    assert found == {early.id: LOSSY.id}


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
    assert [closeness(located(cause), located(suspect("late", *name))) for name in names] == [4, 3, 2, 1, 0]


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
