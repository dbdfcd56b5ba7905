"""One distribution over candidates and none of the catalogue."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewscope.engine.attribution.posterior import find_posterior
from skewscope.engine.incidents.confidence import UNSEEN_HOLDS, Calibration

odds = st.dictionaries(st.sampled_from("abcdefgh"), st.floats(-50, 50), min_size=1)
scaling = st.builds(Calibration, root_shift=st.floats(-3, 3), root_scale=st.floats(0, 3))


@given(odds, scaling, st.integers(0, 5))
def test_candidates_and_none_are_all_there_is(log_odds, calibration, undecided):
    found = find_posterior(log_odds, calibration, min(log_odds), undecided)
    assert sum(found.probabilities.values()) + found.none == pytest.approx(1.0)
    assert list(found.probabilities.values()) == sorted(found.probabilities.values(), reverse=True)
    assert 0 < found.none <= 1


@given(odds, scaling)
def test_the_likelier_candidate_stays_the_likelier_one(log_odds, calibration):
    found = find_posterior(log_odds, calibration).probabilities
    best = max(log_odds, key=lambda name: log_odds[name])
    assert found[best] == pytest.approx(max(found.values()))


def test_without_candidates_it_is_none_of_the_catalogue():
    assert find_posterior({}, Calibration()).none == 1.0


def test_more_evidence_outranks_a_prior():
    common, rare = math.log(0.1), math.log(0.01)
    found = find_posterior({"common": common, "rare": rare + 4.0}, Calibration())
    assert next(iter(found.probabilities)) == "rare"


def test_each_item_that_would_exclude_the_own_candidate_takes_a_share_which_the_others_get():
    sure, unsure = (find_posterior({"own": 3.0, "other": 0.0}, Calibration(), "own", n) for n in (0, 2))
    assert unsure.probabilities["own"] == pytest.approx(sure.probabilities["own"] * (1 - UNSEEN_HOLDS) ** 2)
    assert unsure.probabilities["other"] / unsure.none == pytest.approx(sure.probabilities["other"] / sure.none)
