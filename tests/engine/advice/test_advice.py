"""What is advised for incidents, and the incidents that policies derive."""

import pytest

from skewscope.engine.advice.advice import ContextFact
from skewscope.engine.model.locality import Entity
from tests.support.incidents import CRITICAL, DERIVE, MORE, N1, REST, Says, advised, verdict


def test_advice_comes_ranked_with_who_can_do_it_and_why():
    engine = advised(REST, MORE)
    engine.step(1.0, [verdict("late", {N1: Says()})])
    (one,) = engine.list_incidents()
    assert [(a.id, a.actor, a.why) for a in one.mitigations] == [("rest", "scheduler", "n1 suffers from late.")]
    engine.step(2.0, [verdict("late", {N1: Says(severity=CRITICAL)})])
    assert [a.id for a in engine.list_incidents()[0].mitigations] == ["swap", "rest"]


@pytest.mark.parametrize(
    ("where", "kept"),
    [(("node", "n1"), 0), (("rank", N1), 0), (("group", "A"), 0), (("node", "n2"), 1), (("group", "B"), 1)],
)
def test_maintenance_silences_advice_where_it_applies(where, kept):
    engine = advised(REST)
    engine.step(1.0, [verdict("late", {N1: Says()})])
    engine.set_context([ContextFact("maintenance", Entity(*where))])
    engine.step(2.0, [verdict("late", {N1: Says()})])
    assert len(engine.list_incidents()[0].mitigations) == kept
    engine.set_context([])
    engine.step(3.0, [verdict("late", {N1: Says()})])
    assert len(engine.list_incidents()[0].mitigations) == 1


def test_what_is_explained_leaves_the_advice_to_its_root():
    engine = advised(REST)
    engine.step(1.0, [verdict("late", {N1: Says()}), verdict("lossy", {N1: Says()})])
    late = next(one for one in engine.list_incidents() if one.condition == "late")
    assert late.explained_by
    assert late.mitigations == ()


def test_a_derived_diagnosis_is_an_incident_with_the_evidence_it_rests_on():
    engine = advised(DERIVE)
    engine.step(1.0, [verdict("late", {N1: Says()})])
    assert [one.condition for one in engine.list_incidents()] == ["late"]
    engine.step(2.0, [verdict("late", {N1: Says(severity=CRITICAL)})])
    blind = next(one for one in engine.list_incidents() if one.condition == "blind")
    assert (blind.rule, blind.rule_hash, blind.name, blind.state) == ("it-is-blind", DERIVE.hash, "n1", "firing")
    assert blind.evidence[0].name == "main"
    engine.step(3.0, [verdict("late", {})])
    assert {one.state for one in engine.list_incidents()} == {"resolved"}


def test_a_measured_diagnosis_takes_over_from_a_derived_one():
    engine = advised(DERIVE)
    engine.step(1.0, [verdict("late", {N1: Says(severity=CRITICAL)})])
    engine.step(2.0, [verdict("late", {N1: Says(severity=CRITICAL)}), verdict("blind", {N1: Says(score=7.0)})])
    (blind,) = [one for one in engine.list_incidents() if one.condition == "blind"]
    assert blind.state == "firing"


def test_what_begins_after_its_cause_is_over_soon_speaks_for_itself():
    engine = advised(REST)
    for t in range(60):
        engine.step(
            float(t),
            [verdict("lossy", {N1: Says()} if t < 10 else {}), verdict("late", {N1: Says()} if t >= 15 else {})],
        )
        late = [one for one in engine.list_incidents() if one.condition == "late"]
        assert not late or bool(late[0].explained_by) == (t <= 30)


def test_what_a_withdrawn_root_explained_comes_back_with_advice_of_its_own():
    engine = advised(REST)
    for t in range(100):
        lossy = {N1: Says()} if 5 <= t < 15 else {}
        engine.step(float(t), [verdict("lossy", lossy), verdict("late", {N1: Says()} if t >= 6 else {})])
        late = [one for one in engine.list_incidents() if one.condition == "late"]
        if 6 <= t < 75:
            assert late[0].explained_by
            assert late[0].mitigations == ()
    (root, late) = engine.list_incidents()
    assert (root.state, late.state, late.explained_by) == ("resolved", "firing", None)
    assert [a.id for a in late.mitigations] == ["rest"]
    assert [what for _, what in late.history][-1] == "a root again"
