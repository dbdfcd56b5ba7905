"""How evidence becomes log-odds and a probability."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewscope.engine.incidents.alerts import EvidenceSnapshot, EvidenceSpec, RuleInfo
from skewscope.engine.incidents.confidence import (
    GAIN,
    UNSEEN_HOLDS,
    Calibration,
    prior_log_odds,
    probability,
    weigh_evidence,
)
from skewscope.engine.incidents.diagnosis import DiagnosisState
from skewscope.engine.model.locality import Entity

WEIGHTS, AGAINST = (3.0, 2.0, 2.0), (False, False, True)


def weigh(verdicts, weights=WEIGHTS, against=AGAINST, required=()):
    return float(weigh_evidence(weights, against, np.array(verdicts, np.int8)[:, None], required)[0])


def diagnosis(verdicts, calibration=None, coverage=1.0, **how):
    items = tuple(EvidenceSpec(n, w, a) for n, w, a in zip("abc", WEIGHTS, AGAINST, strict=True))
    info = RuleInfo("r", "late", items, calibration=calibration or Calibration(), fire=how.pop("fire", -math.inf))
    evidence = EvidenceSnapshot(info, 0.0, 5.0, coverage, -0.3, verdicts, (2.0, 1.0, 0.0))
    return DiagnosisState("late", Entity("rank", "A:n1"), 0.0, 0.0, peak_evidence=evidence, **how)


def test_full_evidence_is_nearly_sure_and_nothing_seen_adds_nothing():
    assert diagnosis((1, 1, -1)).confidence == pytest.approx(0.953, abs=0.001)
    assert weigh((0, 0, 0)) == 0.0


@pytest.mark.parametrize(
    ("more", "less"),
    [
        pytest.param((1, 1, -1), (1, 0, -1), id="an item unseen"),
        pytest.param((1, 0, -1), (1, -1, -1), id="an item that says no"),
        pytest.param((1, 1, -1), (1, 1, 1), id="something against"),
    ],
)
def test_less_evidence_is_less_sure(more, less):
    assert diagnosis(more).confidence > diagnosis(less).confidence


@pytest.mark.parametrize("verdicts", [(1, 0, -1), (1, 1, 0), (-1, 0, 0)])
def test_what_is_not_seen_counts_neither_way(verdicts):
    seen = [(w, a, v) for w, a, v in zip(WEIGHTS, AGAINST, verdicts, strict=True)]
    signs = sum((w if v > 0 else w / 2 * v) for w, a, v in seen if not a)
    assert weigh(verdicts) == pytest.approx(GAIN * signs / 5.0)
    assert diagnosis(verdicts, coverage=0.4).confidence == diagnosis(verdicts).confidence


def test_rules_that_agree_make_surer():
    assert diagnosis((1, 0, -1), agreeing_rules=1).confidence > diagnosis((1, 0, -1)).confidence


def test_counter_evidence_that_would_decide_and_is_not_seen_makes_less_sure():
    known, unknown, harmless = (
        diagnosis(v, fire=fire) for v, fire in [((1, 1, -1), 4), ((1, 1, 0), 4), ((1, 1, 0), 3)]
    )
    assert unknown.peak_evidence.decisive_unknowns == ("c",)
    assert harmless.peak_evidence.decisive_unknowns == ()
    assert harmless.confidence == known.confidence
    # The expectation over its states: where it held, the rule would not fire.
    assert unknown.confidence == pytest.approx((1 - UNSEEN_HOLDS) * known.confidence)
    assert unknown.posterior.none > known.posterior.none
    assert sum(unknown.posterior.probabilities.values()) + unknown.posterior.none == pytest.approx(1.0)


def test_what_is_common_is_likelier_before_any_evidence():
    assert prior_log_odds("common") > prior_log_odds("occasional") > prior_log_odds("rare")


@pytest.mark.parametrize("weights", [(), (0.0, 0.0), (float("inf"), 1.0), (float("nan"), 1.0)])
def test_without_weights_nothing_is_learnt(weights):
    assert weigh((1,) * len(weights), weights, (False,) * len(weights)) == 0.0


@pytest.mark.parametrize("others", [(1, 1, -1), (1, 1, 0), (0, 1, 1)])
def test_a_required_item_that_says_no_rules_it_out_whatever_stands_beside_it(others):
    weights, against, required = (3.0, *WEIGHTS), (False, *AGAINST), (True, False, False, False)
    assert weigh((-1, *others), weights, against, required) < 0
    assert weigh((-1, *others), weights, against) > weigh((-1, *others), weights, against, required)


evidence = st.lists(
    st.tuples(st.floats(0.1, 10), st.booleans(), st.sampled_from([-1, 0, 1]), st.booleans()), min_size=1, max_size=8
)


def split(items):
    """Weights, against, verdicts and required of drawn items."""
    return map(list, zip(*items, strict=True))


@given(evidence)
def test_evidence_never_adds_more_than_the_gain(items):
    weights, against, verdicts, required = split(items)
    assert abs(weigh(verdicts, weights, against, required)) <= GAIN + 1e-9


@given(evidence, st.data())
def test_a_yes_more_never_makes_it_less_sure(items, data):
    weights, against, verdicts, required = split(items)
    n = data.draw(st.integers(0, len(items) - 1))
    better = [*verdicts[:n], -1 if against[n] else 1, *verdicts[n + 1 :]]
    assert weigh(better, weights, against, required) >= weigh(verdicts, weights, against, required) - 1e-9


@given(st.lists(evidence.map(tuple), min_size=1, max_size=1), st.data())
def test_many_at_once_are_as_sure_as_each_alone(drawn, data):
    weights, against, _, required = split(drawn[0])
    rows = st.lists(st.sampled_from([-1, 0, 1]), min_size=len(weights), max_size=len(weights))
    every = data.draw(st.lists(rows, min_size=1, max_size=6))
    many = weigh_evidence(weights, against, np.array(every, np.int8).T, required)
    assert many.tolist() == pytest.approx([weigh(v, weights, against, required) for v in every])


def test_the_formula_of_the_module_is_the_one_that_is_used():
    calibration = Calibration(shift=0.3, scale=0.8, rules={"r": -0.2}, root_shift=-0.1, root_scale=0.9)
    state = diagnosis((1, 0, -1), calibration, agreeing_rules=2)
    rule = math.log(0.03) + 0.3 - 0.2 + 0.8 * 4.4 * 3.0 / 5.0
    scaled = -0.1 + 0.9 * (rule + 0.4 * 2)
    assert state.confidence == pytest.approx(probability(scaled))


def test_findings_of_the_surest_form_count():
    calibration = Calibration(forms={"": 2.0, "total": 0.0})
    assert calibration.finding_confidence(["total"]) == 0.5
    assert calibration.finding_confidence(["total", "past"]) == pytest.approx(probability(2.0))
