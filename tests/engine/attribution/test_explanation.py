"""What begins together in one place is one fault with several signs; what does not stays apart."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewscope.engine.attribution.cause_graph import CauseGraph
from skewscope.engine.attribution.explanation import (
    AFTER_END_S,
    BEFORE_END_S,
    SIMULTANEOUS_S,
    AttributionCandidate,
    Explainer,
    find_coincident,
)
from skewscope.engine.incidents.diagnosis import DiagnosisState
from skewscope.engine.incidents.state import IncidentTiming, final_explanation
from skewscope.engine.model.incident import RELATIONS, Explanation, parse_explanation, parse_incident
from skewscope.engine.model.locality import Entity, LocalityIndex
from skewscope.engine.model.topology import Topology
from skewscope.kb.loader import catalogue
from tests.support.incidents import N1, N2, QUIET, SPEAKS, Says, info, places, play, track, verdict
from tests.support.symptom_world import SymptomWorld, pool_of_replicas


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


def test_where_samples_are_far_apart_what_is_simultaneous_may_be_further_apart():
    ended = suspect("blind", "rank", "A:n1", sure=3.0, until=500.0)
    later = suspect("late", "rank", "A:n1", since=540.0)
    assert find_coincident([ended, later], places()) == {}
    assert find_coincident([ended, later], places(), 45.0) == {later.id: ended.id}


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


LOSSY_THEN_LATE = {("lossy", N1): [(10, 40, Says())], ("late", N1): [(12, 999, Says())]}


@pytest.mark.parametrize(
    ("script", "until", "expected"),
    [
        pytest.param(LOSSY_THEN_LATE, 30, ("late", "lossy", "caused"), id="the cause fires"),
        pytest.param(LOSSY_THEN_LATE, 55, ("late", "lossy", "caused"), id="the cause has just resolved"),
        pytest.param(LOSSY_THEN_LATE, 90, ("late", "lossy", "lingering"), id="the effect lingers"),
        pytest.param(LOSSY_THEN_LATE, 110, None, id="a root again"),
        pytest.param(
            {("late", N1): [(10, 60, Says())], ("blind", N1): [(12, 60, Says(score=4.0, coverage=0.6))]},
            30,
            ("blind", "late", "coincident"),
            id="one fault with two signs",
        ),
        pytest.param(
            {("late", N1): [(10, 40, QUIET)], ("late", N2): [(10, 20, QUIET), (20, 40, Says(value=19.0))]},
            30,
            ("late", "late", "merged"),
            id="part of another one",
        ),
    ],
)
def test_each_relation_of_an_incident_to_the_one_that_explains_it(script, until, expected):
    told = play(script, until=until).list_incidents()
    by_id = {one.id: one for one in told}
    found = [
        (one.condition, by_id[one.explained_by.id].condition, one.explained_by.relation)
        for one in told
        if one.explained_by
    ]
    assert found == ([expected] if expected else [])
    assert all(parse_incident(one.as_json()).explained_by == one.explained_by for one in told)


def state(name, explanation=None):
    made = DiagnosisState(
        "late", Entity("rank", name), 0.0, 0.0, peak_evidence=track("late", "rank", name).peak_evidence, id=name
    )
    made.explanation = explanation
    return made


@pytest.mark.parametrize(
    ("first", "second", "relation"),
    [
        ("merged", "caused", "caused"),
        ("caused", "merged", "caused"),
        ("merged", "merged", "merged"),
        ("lingering", "coincident", "lingering"),
    ],
)
def test_a_chain_of_explanations_ends_at_its_root(first, second, relation):
    chain = [state("a", Explanation("b", first)), state("b", Explanation("c", second)), state("c")]
    states = {one.id: one for one in chain}
    assert final_explanation(chain[0], states) == Explanation("c", relation)
    assert final_explanation(chain[2], states) is None


@pytest.mark.parametrize(("merged_into", "lingers"), [("", True), ("a", False), ("c", False)])
def test_an_incident_does_not_linger_after_a_part_of_itself(merged_into, lingers):
    """An open incident `a` was explained by `b`, which has resolved; `b` may have become a part of `a`, through `c`."""
    a, b, c = state("a", Explanation("b", "coincident")), state("b"), state("c")
    b.resolved_at, b.merged_into, c.merged_into = 5.0, merged_into, "a"
    explainer = Explainer(CauseGraph(catalogue()), LocalityIndex(Topology()), IncidentTiming())
    found = explainer.find_lingering(6.0, [a], {one.id: one for one in (a, b, c)})
    assert found == ({"a": Explanation("b", "lingering")} if lingers else {})


@pytest.mark.parametrize(
    ("condition", "peak_at", "age", "lingers"),
    [
        pytest.param("kv-capacity-preemption-thrash", 90.0, 900.0, True, id="a backlog that drains"),
        pytest.param("kv-capacity-preemption-thrash", 90.0, 1001.0, False, id="one that lasts"),
        pytest.param("kv-capacity-preemption-thrash", 150.0, 900.0, False, id="one that grows again"),
        pytest.param("kv-capacity-preemption-thrash", 150.0, 199.0, True, id="one that grows soon after"),
        pytest.param("tp-straggler", 90.0, 900.0, False, id="no backlog"),
    ],
)
def test_a_backlog_lingers_until_it_has_drained(condition, peak_at, age, lingers):
    one, root = state("a", Explanation("b", "caused")), state("b")
    one.condition, one.peak_evidence = condition, replace(one.peak_evidence, t=peak_at)
    root.resolved_at = 100.0
    explainer = Explainer(CauseGraph(catalogue()), LocalityIndex(Topology()), IncidentTiming())
    assert bool(explainer.find_lingering(100.0 + age, [one], {"a": one, "b": root})) is lingers


@pytest.mark.parametrize(("name", "peak_at", "lingers"), [("A", 150.0, True), ("B", 150.0, False), ("B", 90.0, True)])
def test_what_grows_on_another_replica_once_a_fault_is_over_is_one_of_its_own(name, peak_at, lingers):
    one, root = state("a", Explanation("b", "caused")), state("b")
    root.primary_entity, one.primary_entity = Entity("replica", "A"), Entity("replica", name)
    one.peak_evidence, root.resolved_at = replace(one.peak_evidence, t=peak_at), 100.0
    explainer = Explainer(CauseGraph(catalogue()), LocalityIndex(Topology()), IncidentTiming())
    assert bool(explainer.find_lingering(151.0, [one], {"a": one, "b": root})) is lingers


def test_what_works_again_shows_its_aftermath_however_sure_that_is():
    hung = suspect("hung", "replica", "A", since=100.0, sure=1.0, until=500.0)
    slow = suspect("slow", "replica", "A", since=495.0, sure=3.0)
    assert find_coincident([hung, slow], places()) == {slow.id: hung.id}
    elsewhere = suspect("slow", "replica", "B", since=495.0, sure=3.0)
    assert find_coincident([hung, elsewhere], places()) == {}


def test_what_begins_on_one_replica_as_another_recovers_is_a_fault_of_its_own():
    full = suspect("backlog", "replica", "B", since=100.0, sure=3.0, until=500.0)
    hung = suspect("hung", "replica", "A", since=505.0)
    assert find_coincident([full, hung], places(), late_s=45.0) == {}
    assert find_coincident([full, replace(hung, since=140.0)], places(), late_s=45.0) == {hung.id: full.id}
    here = replace(hung, entities=full.entities)
    assert find_coincident([full, here], places(), late_s=45.0) == {here.id: full.id}


def test_lost_telemetry_is_no_effect_of_the_load_of_others():
    load = suspect("backlog", "replica", "B", sure=3.0)
    lost = replace(suspect("blind", "replica", "A"), is_of_work=False)
    assert find_coincident([load, lost], places()) == {}
    assert find_coincident([load, replace(lost, is_of_work=True)], places()) == {lost.id: load.id}


@pytest.mark.parametrize("field", [None, "x", {"id": "x", "relation": "coincident"}])
def test_both_versions_of_an_explanation_are_read(field):
    expected = None if field is None else Explanation("x", "caused" if field == "x" else "coincident")
    assert parse_explanation(field) == expected
    assert set(RELATIONS) == {"merged", "lingering", "caused", "coincident"}


MESSAGE = ("event.nixl_transfer_failed", "replica", "A")
BACKLOG, TRANSFER = "burst-admission-backlog", "kv-transfer-bottleneck"


@pytest.mark.parametrize(
    ("condition", "message_at", "explained"),
    [
        pytest.param(BACKLOG, 2, {(BACKLOG, "reported-event")}, id="a queue after what the message is a sign of"),
        pytest.param(BACKLOG, 5, {("reported-event", BACKLOG)}, id="a message within a queue"),
        pytest.param(TRANSFER, 18, {("reported-event", TRANSFER)}, id="what the message is a sign of"),
        pytest.param(TRANSFER, 2, set(), id="a message that is much older"),
        pytest.param("weights-cold-start", 2, set(), id="what no message leads to"),
    ],
)
def test_a_message_is_before_what_it_announces_and_no_effect_of_what_is_younger(condition, message_at, explained):
    rule = info(condition)
    world = SymptomWorld(fleet=pool_of_replicas(1), rules={rule.rule: rule})
    start = 4 if message_at == 5 else 20
    for n in range(40):
        world.tick({MESSAGE: 1.0} if n == message_at else {})
        said = {"A": SPEAKS} if n >= start else {}
        world.tracker.step(world.t, [verdict(condition, said, "replica", ("A",)), world.findings()])
    told = world.incidents()
    names = {one.id: one.condition for one in told}
    assert {(one.condition, names[one.explained_by.id]) for one in told if one.explained_by} == explained


@pytest.mark.parametrize(
    ("begin", "later_change", "is_explained"), [(130, 999, True), (230, 999, False), (230, 240, False)]
)
def test_what_begins_once_a_pool_has_settled_is_no_effect_of_its_change(begin, later_change, is_explained):
    full = "kv-capacity-preemption-thrash"
    rule = info(full)
    world = SymptomWorld(fleet=pool_of_replicas(3), rules={rule.rule: rule})
    for n in range(280):
        heard = "AB" if 100 <= n < later_change else "ABC"
        world.tick({("serve.running", "replica", name): 20.0 for name in heard})
        said = {"A": SPEAKS} if n >= begin else {}
        world.tracker.step(world.t, [verdict(full, said, "replica", ("A", "B", "C")), world.findings()])
    (incident,) = [one for one in world.incidents() if one.condition == full]
    assert bool(incident.root_id) is is_explained
