"""What stated probabilities are worth: outcomes by labels, their scaling, and each origin judged without itself."""

import math
from dataclasses import replace

import numpy as np
import pytest

from skewscope.adapters.assessment.reliability import (
    RootSample,
    candidate_outcomes,
    fit_posterior,
    incident_outcomes,
    leave_out,
    root_samples,
)
from skewscope.adapters.assessment.runner import AssessmentRun, FaultLabel, ReportedIncident
from skewscope.adapters.assessment.score import expected_calibration_error
from skewscope.engine.incidents.confidence import Calibration, probability

LABEL = FaultLabel("tp-straggler", "mild", ("n2",), 60.0, 100.0, or_else=("gpu-fail-slow",))
KNOWN = Calibration()


def told(posterior, opened=65.0, is_symptom=True, **how):
    none = 1.0 - sum(share for _, share in posterior) - how.pop("others", 0.0)
    name = "late-member" if is_symptom else posterior[0][0]
    confidence = 0.9 if is_symptom else posterior[0][1]
    return ReportedIncident(
        name, "n2", opened, confidence, "", "", posterior=posterior, none=none, is_symptom=is_symptom, **how
    )


def samples(*found, labels=(LABEL,)):
    return list(root_samples([AssessmentRun("run", 8, 8640.0, found, labels)], KNOWN))


def test_a_first_candidate_is_as_fine_as_the_labels():
    some = samples(told((("pp-bubble", 0.4), ("tp-straggler", 0.3), ("gpu-fail-slow", 0.2))))
    assert candidate_outcomes(some, KNOWN) == [(pytest.approx(0.5, abs=1e-3), True, 1.0)]
    finer = samples(told((("pp-bubble", 0.4), ("tp-straggler", 0.3), ("power-cap", 0.2))))
    assert candidate_outcomes(finer, KNOWN) == [(pytest.approx(0.4, abs=1e-3), False, 1.0)]


def test_a_diagnosis_is_right_in_its_condition_and_a_symptom_where_something_is_wrong():
    late = told((("tp-straggler", 0.8), ("pp-bubble", 0.1)), is_symptom=False)
    wrong = told((("pp-bubble", 0.8),), is_symptom=False)
    early = told((("tp-straggler", 0.5),), opened=0.0)
    found = incident_outcomes(samples(late, wrong, told((("pp-bubble", 0.6),)), early), KNOWN)
    sure, high = pytest.approx(probability(KNOWN.forms[""])), pytest.approx(0.8, abs=1e-3)
    assert found == [(high, True, 1.0), (high, False, 1.0), (sure, True, 1.0), (sure, False, 1.0)]


def test_what_tells_the_same_of_one_fault_counts_once():
    same = [told((("tp-straggler", 0.6),), opened=65.0 + n) for n in range(3)]
    found = candidate_outcomes(samples(*same, told((("tp-straggler", 0.5),), is_symptom=False)), KNOWN)
    assert [weight for *_, weight in found] == pytest.approx([1 / 3] * 3 + [1.0])
    # However often a fault is injected, the scaling is that of one observation of it.
    often = samples(*(told((("pp-bubble", 0.6),), opened=61.0 + n / 10) for n in range(100)))
    assert fit_posterior({"one": often}, KNOWN) == replace(
        fit_posterior({"one": often[:1]}, KNOWN), forms=fit_posterior({"one": often}, KNOWN).forms
    )


def test_what_another_incident_explains_is_left_out():
    part = ReportedIncident("tp-straggler", "n2", 65.0, 0.9, "fabric-loss", "", none=0.1)
    assert samples(part) == []


def test_the_scaling_that_made_probabilities_is_taken_back():
    known = Calibration(root_shift=0.5, root_scale=2.0)
    one = told((("tp-straggler", 0.7), ("pp-bubble", 0.2)))
    (found,) = root_samples([AssessmentRun("run", 8, 8640.0, (one,), (LABEL,))], known)
    assert found.log_odds[0] == pytest.approx((math.log(0.7 / 0.1) - 0.5) / 2.0)


def drawn(seed, scale):
    """Samples whose odds are `scale` times too large."""
    random = np.random.default_rng(seed)
    found = []
    for _ in range(300):
        odds = random.normal(0.5, 1.5, 3)
        weights = np.exp(np.append(odds, 0.0))
        is_right = np.arange(3) == random.choice(4, p=weights / weights.sum())
        accepted = (*is_right.tolist(), False)
        found.append(RootSample((*(odds * scale).tolist(), -20.0), accepted, (0, 1, 2, -1), 0, bool(is_right.any())))
    return found


def test_odds_that_are_too_large_are_scaled_to_what_was_so():
    by_origin = {name: drawn(seed, 3.0) for name, seed in (("one", 1), ("two", 2), ("three", 3))}
    fitted = fit_posterior(by_origin, KNOWN)
    assert fitted.root_scale == pytest.approx(1 / 3, abs=0.1)
    every = [one for some in by_origin.values() for one in some]
    before, after = (
        expected_calibration_error([(said, right) for said, right, _ in incident_outcomes(every, each)])
        for each in (KNOWN, fitted)
    )
    assert after < 0.06 < before


def test_an_origin_is_judged_by_a_calibration_that_has_not_seen_it():
    right = drawn(1, 1.0)
    found = leave_out({"simulated": right, "one": right, "two": drawn(2, 1.0)}, KNOWN, always="simulated")
    assert set(found) == {"one", "two"}
    assert len(found["one"][0]) == len(right)
