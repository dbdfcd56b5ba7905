"""What begins together in one place is one fault with several signs; what does not stays apart."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewscope.engine.attribution.closeness import AttributionCandidate
from skewscope.engine.attribution.coincidence import AFTER_END_S, BEFORE_END_S, SIMULTANEOUS_S, find_coincident
from skewscope.engine.model.locality import Entity
from tests.support.incidents import places


def suspect(condition, kind, name, since=100.0, sure=1.0, until=math.inf):
    return AttributionCandidate(f"{condition}@{name}", condition, (Entity(kind, name),), since, 5.0, sure, until)


SURE = suspect("throttled", "node", "n1", sure=3.0)


@pytest.mark.parametrize(
    ("other", "one"),
    [
        pytest.param(suspect("late", "rank", "A:n1"), True, id="on the same node"),
        pytest.param(suspect("late", "rank", "A:n2"), True, id="in the same group"),
        pytest.param(suspect("late", "rank", "D:n15"), False, id="elsewhere"),
        pytest.param(suspect("late", "rank", "B:n5"), False, id="another replica's member"),
        pytest.param(suspect("backlog", "replica", "B"), True, id="the load of a sibling replica"),
        pytest.param(suspect("backlog", "pool", "lab"), True, id="the pool around it"),
        pytest.param(suspect("late", "rank", "A:n1", since=100.0 + SIMULTANEOUS_S), True, id="just together"),
        pytest.param(suspect("late", "rank", "A:n1", since=100.1 + SIMULTANEOUS_S), False, id="too late"),
        pytest.param(suspect("late", "rank", "A:n1", since=99.9 - SIMULTANEOUS_S), False, id="too early"),
        pytest.param(suspect("throttled", "rank", "A:n1"), False, id="the same condition"),
    ],
)
def test_a_surer_root_stands_for_what_begins_with_it_in_its_place(other, one):
    assert find_coincident([SURE, other], places()) == ({other.id: SURE.id} if one else {})


@pytest.mark.parametrize(
    ("after", "one"),
    [(0.0, True), (AFTER_END_S, True), (AFTER_END_S + 0.1, False), (-BEFORE_END_S, True), (-0.1 - BEFORE_END_S, False)],
)
def test_what_begins_as_another_ends_is_its_aftermath(after, one):
    ended = suspect("throttled", "node", "n1", sure=3.0, until=500.0)
    assert bool(find_coincident([ended, suspect("late", "rank", "A:n1", since=500.0 + after)], places())) is one


def test_signs_stand_under_a_root_and_never_under_one_another():
    most, more, less = (suspect(c, "node", "n1", sure=s) for c, s in (("hot", 3.0), ("late", 2.0), ("blind", 1.0)))
    assert find_coincident([less, more, most], places()) == {more.id: most.id, less.id: most.id}


some = st.lists(
    st.builds(
        suspect,
        st.sampled_from(["late", "hot", "blind", "lossy"]),
        st.just("node"),
        st.sampled_from(["n0", "n1", "n5", "n12"]),
        st.sampled_from([100.0, 110.0, 125.0, 200.0]),
        st.sampled_from([0.5, 1.0, 2.0]),
    ),
    max_size=8,
    unique_by=lambda one: one.id,
)


@given(some, st.randoms())
def test_the_order_changes_nothing_and_every_sign_has_a_root(suspects, random):
    found = find_coincident(suspects, places())
    mixed = list(suspects)
    random.shuffle(mixed)
    assert find_coincident(mixed, places()) == found
    assert not set(found.values()) & found.keys()
