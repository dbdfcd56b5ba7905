"""What is advised for incidents, and the incidents that policies derive."""

from dataclasses import replace

import pytest

from skewscope.engine.advice.advice import ContextFact, PolicyEvaluator, encode_value, quantise
from skewscope.engine.incidents.confidence import GAIN, Calibration, prior_log_odds, probability
from skewscope.engine.incidents.tracker import IncidentTracker
from skewscope.engine.model.locality import Entity
from skewscope.rules.policy import FACTS
from tests.support.incidents import (
    CRITICAL,
    DERIVE,
    LATE,
    MORE,
    N1,
    N2,
    REST,
    RULES,
    Says,
    advised,
    catalogue,
    cluster,
    verdict,
)
from tests.support.policies import policy, program


def encode(confidence):
    return encode_value(FACTS["diagnosis"].properties["confidence"], confidence)


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


def matched_confidence(engine, entity):
    """The confidence in the diagnosis fact that the policies last had."""
    fact = engine.policies.matcher._facts["diagnosis:late", f"rank {entity}"]
    return dict(fact.values)["confidence"]


def test_policies_match_the_confidence_that_the_incident_shows():
    calibrated = {
        name: replace(info, calibration=Calibration(shift=1.8, root_shift=-0.1, root_scale=0.8))
        for name, info in RULES.items()
    }
    for rival, lower in (({}, 0.05), ({"D:n15": Says()}, 0.05), ({N1: Says()}, 0.1)):
        engine = IncidentTracker(calibrated, catalogue(), cluster(), PolicyEvaluator(program(REST)))
        for t in range(3):
            engine.step(float(t), [verdict("late", {N1: Says(), N2: Says(value=0.1)}), verdict("blind", rival)])
            late = next(one for one in engine.list_incidents() if one.condition == "late")
            assert matched_confidence(engine, N1) == encode(quantise(late.confidence))
            assert matched_confidence(engine, N2) == encode(quantise(late.confidence))
        alone = probability(prior_log_odds("") + Calibration().rule_log_odds("late-rule", GAIN))
        assert late.confidence < alone - lower


def test_a_policy_whose_confidence_is_not_reached_beside_a_rival_gives_no_advice():
    sure = policy(
        id="sure",
        when=[{**LATE, "confidence": {"at_least": 0.95}}],
        advise={"mitigation": "rest", "why": "It is the thing to do."},
    )
    engine = advised(sure)
    engine.step(1.0, [verdict("late", {N1: Says()})])
    assert [a.id for a in engine.list_incidents()[0].mitigations] == ["rest"]
    engine.step(2.0, [verdict("late", {N1: Says()}), verdict("blind", {N1: Says(score=4.0)})])
    late = next(one for one in engine.list_incidents() if one.condition == "late")
    assert late.confidence < 0.9
    assert late.mitigations == ()
