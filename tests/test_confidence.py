"""How evidence becomes a chance."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewscope.engine.confidence import GAIN, PRIOR, log_odds, probability

WEIGHTS, AGAINST = (3.0, 2.0, 2.0), (False, False, True)


def sure(verdicts, coverage=1.0, **how):
    return probability(log_odds(WEIGHTS, AGAINST, verdicts, coverage), **how)


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
    assert sure((1, 0, 0), agreeing=1) > sure((1, 0, 0)) > sure((1, 0, 0), rival=0.9)


@pytest.mark.parametrize("weights", [(), (0.0, 0.0), (float("inf"), 1.0), (float("nan"), 1.0)])
def test_without_weights_nothing_is_learnt(weights):
    assert log_odds(weights, (False,) * len(weights), (1,) * len(weights), 1.0) == PRIOR


def test_a_coverage_that_is_no_number_covers_nothing():
    assert log_odds(WEIGHTS, AGAINST, (1, 1, -1), float("nan")) == PRIOR


evidence = st.lists(st.tuples(st.floats(0.1, 10), st.booleans(), st.sampled_from([-1, 0, 1])), min_size=1, max_size=8)


@given(evidence, st.floats(0, 1))
def test_log_odds_stay_within_the_gain_of_the_prior(items, coverage):
    weights, against, verdicts = zip(*items, strict=True)
    assert abs(log_odds(weights, against, verdicts, coverage) - PRIOR) <= GAIN + 1e-9


@given(evidence, st.floats(0, 1), st.data())
def test_a_yes_more_never_makes_it_less_sure(items, coverage, data):
    weights, against, verdicts = map(list, zip(*items, strict=True))
    n = data.draw(st.integers(0, len(items) - 1))
    better = [*verdicts[:n], -1 if against[n] else 1, *verdicts[n + 1 :]]
    assert log_odds(weights, against, better, coverage) >= log_odds(weights, against, verdicts, coverage)


@given(st.floats(-1e6, 1e6), st.integers(0, 50), st.floats(0, 1))
def test_a_chance_is_never_certain(odds, agreeing, rival):
    assert 0 < probability(odds, agreeing=agreeing, rival=rival) < 1
