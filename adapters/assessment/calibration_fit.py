"""Fits the calibration of confidence to labelled telemetry (`skewscope assess --calibrate`).

The log-odds of a condition become `prior + shift + scale * evidence + bias of the rule`, as in J. Platt's scaling
("Probabilistic outputs for support vector machines", 1999). A normal prior draws the bias of a rule with few samples to
zero. `reliability` scales the distributions of incidents once more. `engine.incidents.confidence` applies the result.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from skewscope.engine.incidents.confidence import Calibration
from skewscope.engine.model.arrays import F64

RULE_SPREAD = 1.5
"""Standard deviation of the prior of the rules' biases."""
SCALE_SPREAD = 1.0
"""Standard deviation of the prior of the scale."""
MAX_ITERATIONS = 50


@dataclass(frozen=True, slots=True)
class CalibrationSample:
    """One incident of a rule: its evidence and whether its condition was present."""

    rule: str
    weight: float
    """Of its evidence, before calibration."""
    correct: bool
    prior: float = 0.0
    """Log-odds of its condition before any evidence."""


def fit_calibration(samples: Sequence[CalibrationSample]) -> Calibration:
    """Returns the shift, scale and biases of highest posterior probability."""
    rules = sorted({sample.rule for sample in samples})
    column_of = {rule: n for n, rule in enumerate(rules)}
    columns = np.zeros((len(samples), 2 + len(rules)))
    columns[:, 0] = 1.0
    columns[:, 1] = [sample.weight for sample in samples]
    columns[np.arange(len(samples)), [2 + column_of[sample.rule] for sample in samples]] = 1.0
    expected = np.array([0.0, 1.0, *[0.0] * len(rules)])
    spread = np.array([10.0, SCALE_SPREAD, *[RULE_SPREAD] * len(rules)])
    priors = np.array([sample.prior for sample in samples], float)
    found = _fit_logistic(columns, np.array([sample.correct for sample in samples], float), expected, spread, priors)
    return Calibration(float(found[0]), max(float(found[1]), 0.0), dict(zip(rules, found[2:].tolist(), strict=True)))


def _fit_logistic(x: F64, y: F64, expected: F64, spread: F64, offset: F64) -> F64:
    """Returns `[column]` coefficients of a logistic regression with an offset and a normal prior on each, by Newton."""
    found = expected.copy()
    for _ in range(MAX_ITERATIONS):
        p = 1 / (1 + np.exp(-np.clip(offset + x @ found, -30, 30)))
        gradient = x.T @ (y - p) - (found - expected) / spread**2
        hessian = (x * (p * (1 - p))[:, None]).T @ x + np.diag(1 / spread**2)
        step = np.linalg.solve(hessian, gradient)
        found = found + np.clip(step, -2, 2)
        if np.abs(step).max() < 1e-9:
            break
    return found
