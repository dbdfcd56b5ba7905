"""What confidence has been worth: fitted to what was right, never turned upside down."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewscope.adapters.assessment.calibration_fit import (
    CalibrationSample,
    fit_calibration,
    fit_scale,
    to_log_odds,
)
from skewscope.engine.incidents.confidence import Calibration, load_calibration, probability
from skewscope.kb.loader import catalogue
from skewscope.rules.loader import load_strict


def spoke(rule, right, wrong, log_odds=2.0):
    return [CalibrationSample(rule, log_odds, correct=True)] * right + [
        CalibrationSample(rule, log_odds, correct=False)
    ] * wrong


def chance(found, rule, log_odds=2.0):
    return probability(found.rule_log_odds(rule, log_odds))


def test_a_rule_that_is_mostly_wrong_is_believed_less_than_one_that_is_mostly_right():
    found = fit_calibration([*spoke("good", 40, 2), *spoke("bad", 5, 40)])
    assert chance(found, "good") == pytest.approx(40 / 42, abs=0.05)
    assert chance(found, "bad") == pytest.approx(5 / 45, abs=0.05)


def test_a_rule_that_was_never_heard_is_as_good_as_all():
    found = fit_calibration([*spoke("good", 40, 2), *spoke("bad", 2, 40)])
    assert chance(found, "bad") < chance(found, "new") < chance(found, "good")


def test_once_wrong_is_not_always_wrong():
    found = fit_calibration([*spoke("others", 60, 6), *spoke("unlucky", 0, 1)])
    assert 0.2 < chance(found, "unlucky") < chance(found, "others")


def test_chances_are_scaled_to_what_was_so():
    random = np.random.default_rng(3)
    said = random.uniform(-3, 3, 4000)
    right = random.uniform(size=4000) < 1 / (1 + np.exp(-(0.5 + 2 * said)))
    shift, scale = fit_scale(said.tolist(), right.tolist())
    assert (shift, scale) == pytest.approx((0.5, 2.0), abs=0.2)


rows = st.lists(st.builds(CalibrationSample, st.sampled_from("abc"), st.floats(-6, 6), st.booleans()), max_size=40)


@given(rows)
def test_whatever_was_heard_more_evidence_is_never_less_sure(heard):
    found = fit_calibration(heard)
    assert found.scale >= 0
    assert all(math.isfinite(bias) for bias in found.rules.values())


@given(rows)
def test_it_is_written_and_read_back(heard):
    found = fit_calibration(heard)
    again = Calibration(**json.loads(found.as_text()))
    assert again.as_text() == found.as_text()


@given(st.floats(0, 1))
def test_chances_and_log_odds_are_two_ways_to_say_the_same(value):
    assert probability(to_log_odds(value)) == pytest.approx(min(max(value, 0.00248), 0.99752), abs=1e-4)


def test_the_one_that_comes_with_skewscope_is_about_its_rules():
    assert set(load_calibration().rules) <= set(load_strict(catalogue()))
