"""How evidence becomes a chance."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewscope.engine.incidents.alerts import EvidenceSnapshot, EvidenceSpec, RuleInfo
from skewscope.engine.incidents.confidence import (
    GAIN,
    PRIOR,
    Calibration,
    corroborated_log_odds,
    evidence_log_odds,
    evidence_log_odds_array,
    incident_confidence,
    probability,
)
from skewscope.engine.incidents.diagnosis import DiagnosisState
from skewscope.engine.model.locality import Entity

WEIGHTS, AGAINST = (3.0, 2.0, 2.0), (False, False, True)


def sure(verdicts, coverage=1.0, agreeing=0, alternative=0.0):
    odds = corroborated_log_odds(evidence_log_odds(WEIGHTS, AGAINST, verdicts, coverage), agreeing)
    return incident_confidence(odds, alternative, Calibration())


def test_full_evidence_is_nearly_sure_and_none_is_the_prior():
    assert sure((1, 1, -1)) == pytest.approx(0.953, abs=0.001)
    assert sure((0, 0, 0), 0.0) == pytest.approx(probability(PRIOR))


@pytest.mark.parametrize(
    ("more", "less"),
    [
        pytest.param(((1, 1, -1), 1.0), ((1, 0, -1), 1.0), id="an item unseen"),
        pytest.param(((1, 0, -1), 1.0), ((1, -1, -1), 1.0), id="an item that says no"),
        pytest.param(((1, 1, -1), 1.0), ((1, 1, 1), 1.0), id="something against"),
        pytest.param(((1, 1, -1), 1.0), ((1, 1, -1), 0.5), id="half of it covered"),
    ],
)
def test_less_evidence_is_less_sure(more, less):
    assert sure(*more) > sure(*less)


def test_agreeing_rules_raise_and_rivals_lower():
    assert sure((1, 0, 0), agreeing=1) > sure((1, 0, 0)) > sure((1, 0, 0), alternative=0.9)


@pytest.mark.parametrize("weights", [(), (0.0, 0.0), (float("inf"), 1.0), (float("nan"), 1.0)])
def test_without_weights_nothing_is_learnt(weights):
    assert evidence_log_odds(weights, (False,) * len(weights), (1,) * len(weights), 1.0) == PRIOR


def test_a_coverage_that_is_no_number_covers_nothing():
    assert evidence_log_odds(WEIGHTS, AGAINST, (1, 1, -1), float("nan")) == PRIOR


@pytest.mark.parametrize("others", [(1, 1, -1), (1, 1, 0), (0, 1, 1)])
def test_a_required_item_that_says_no_rules_it_out_whatever_stands_beside_it(others):
    weights, against, required = (3.0, *WEIGHTS), (False, *AGAINST), (True, False, False, False)
    assert evidence_log_odds(weights, against, (-1, *others), 1.0, required) < PRIOR
    assert evidence_log_odds(weights, against, (-1, *others), 1.0) > evidence_log_odds(
        weights, against, (-1, *others), 1.0, required
    )


evidence = st.lists(
    st.tuples(st.floats(0.1, 10), st.booleans(), st.sampled_from([-1, 0, 1]), st.booleans()), min_size=1, max_size=8
)


def split(items):
    """Weights, against, verdicts and required of drawn items."""
    return map(list, zip(*items, strict=True))


@given(evidence, st.floats(0, 1))
def test_log_odds_stay_within_the_gain_of_the_prior(items, coverage):
    weights, against, verdicts, required = split(items)
    assert abs(evidence_log_odds(weights, against, verdicts, coverage, required) - PRIOR) <= GAIN + 1e-9


@given(evidence, st.floats(0, 1), st.data())
def test_a_yes_more_never_makes_it_less_sure(items, coverage, data):
    weights, against, verdicts, required = split(items)
    n = data.draw(st.integers(0, len(items) - 1))
    better = [*verdicts[:n], -1 if against[n] else 1, *verdicts[n + 1 :]]
    before = evidence_log_odds(weights, against, verdicts, coverage, required)
    assert evidence_log_odds(weights, against, better, coverage, required) >= before


@given(evidence, st.floats(0, 1), st.floats(0, 1))
def test_more_coverage_makes_surer_of_what_the_evidence_says(items, one, other):
    weights, against, verdicts, required = split(items)
    little, much = sorted((one, other))
    less = evidence_log_odds(weights, against, verdicts, little, required) - PRIOR
    more = evidence_log_odds(weights, against, verdicts, much, required) - PRIOR
    assert abs(more) >= abs(less)
    assert more * less >= 0


@given(evidence, st.data())
def test_an_item_more_that_is_seen_and_says_yes_raises_both_coverage_and_confidence(items, data):
    weights, against, verdicts, required = split(items)
    total = sum(weights)

    def sure_of(seen):
        coverage = sum(w for w, v in zip(weights, seen, strict=True) if v) / total
        return evidence_log_odds(weights, against, seen, coverage, required)

    n = data.draw(st.integers(0, len(items) - 1))
    unseen = [*verdicts[:n], 0, *verdicts[n + 1 :]]
    seen = [*verdicts[:n], -1 if against[n] else 1, *verdicts[n + 1 :]]
    assert sure_of(seen) >= sure_of(unseen) - 1e-9 or sure_of(unseen) < PRIOR


@given(st.lists(evidence.map(tuple), min_size=1, max_size=1), st.data())
def test_many_at_once_are_as_sure_as_each_alone(drawn, data):
    weights, against, _, required = split(drawn[0])
    rows = st.lists(st.sampled_from([-1, 0, 1]), min_size=len(weights), max_size=len(weights))
    every = data.draw(st.lists(rows, min_size=1, max_size=6))
    coverage = data.draw(st.lists(st.sampled_from([0.0, 0.3, 1.0, float("nan")]), min_size=6, max_size=6))[: len(every)]
    many = evidence_log_odds_array(weights, against, np.array(every, np.int8).T, np.array(coverage), required)
    alone = [evidence_log_odds(weights, against, v, c, required) for v, c in zip(every, coverage, strict=True)]
    assert many.tolist() == pytest.approx(alone)


@given(st.floats(-1e6, 1e6), st.integers(0, 50), st.floats(0, 1))
def test_confidence_is_never_certain(odds, agreeing, alternative):
    assert 0 < incident_confidence(corroborated_log_odds(odds, agreeing), alternative, Calibration()) < 1


def test_the_formula_of_the_module_is_the_one_that_is_used():
    calibration = Calibration(shift=0.3, scale=0.8, rules={"r": -0.2}, root_shift=-0.1, root_scale=0.9)
    info = RuleInfo(
        "r",
        "late",
        tuple(EvidenceSpec(n, w, a) for n, w, a in zip("abc", WEIGHTS, AGAINST, strict=True)),
        calibration=calibration,
    )
    evidence = EvidenceSnapshot(info, 0.0, 5.0, 0.7, -0.3, (1, 0, -1), (2.0, 1.0, 0.0))
    state = DiagnosisState("late", Entity("rank", "A:n1"), 0.0, 0.0, peak_evidence=evidence, agreeing_rules=2)
    state.alternative_probability = 0.6
    rule = 0.3 - 0.2 + 0.8 * (-1.4 + 0.7 * 4.4 * 3.0 / 5.0)
    calibrated = -0.1 + 0.9 * (rule + 0.4 * 2 - 1.0 * 0.6)
    assert state.confidence == pytest.approx(1 / (1 + math.exp(-calibrated)))
