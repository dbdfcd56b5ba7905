"""What confidence has been worth: fitted to what was right, never turned upside down."""

import json
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewscope.adapters.assessment.calibration_fit import (
    CalibrationSample,
    fit_calibration,
)
from skewscope.engine.incidents.confidence import Calibration, load_calibration, probability
from skewscope.kb.loader import catalogue
from skewscope.rules.loader import load_strict


def spoke(rule, right, wrong, weight=2.0):
    return [CalibrationSample(rule, weight, correct=True)] * right + [
        CalibrationSample(rule, weight, correct=False)
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


def test_a_prior_is_no_merit_of_the_rule():
    def bias(prior):
        samples = [replace(one, prior=prior) for one in spoke("this", 20, 2)]
        return fit_calibration([*spoke("others", 60, 20), *samples]).rules["this"]

    assert bias(2.0) < bias(0.0) < bias(-2.0)


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


def test_the_one_that_comes_with_skewscope_is_about_its_rules():
    assert set(load_calibration().rules) <= set(load_strict(catalogue()))
