"""What confidence has been worth so far: how often each rule was right when it spoke, as labelled telemetry showed.

The evidence of a rule gives log-odds by its weights (`confidence`). What those are worth differs from rule to rule: one
fires on nothing but its own condition, another on whatever slows a host. Held against labelled telemetry, the log-odds
become `shift + scale * log-odds + the rule's own bias`, as in J. Platt's scaling ("Probabilistic outputs for support
vector machines", 1999), with a bias for each rule that is drawn to nought where the rule was heard seldom. The chance
of a root, which has won against what competes with it, is scaled once more.

The numbers come from `skewscope assess --calibrate`; they are measured on generated telemetry.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

FILE_NAME = "calibration.json"
RULE_SPREAD = 1.5
"""How far the biases of rules lie from nought: the standard deviation of the prior that draws them there."""
SCALE_SPREAD = 1.0
MAX_ITERATIONS = 50

F64 = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Calibration:
    """How log-odds by weights become log-odds that are right as often as they say."""

    shift: float = 0.0
    scale: float = 1.0
    rules: Mapping[str, float] = field(default_factory=dict)
    """Bias by rule; none for rules that were never heard."""
    root_shift: float = 0.0
    root_scale: float = 1.0
    of: str = ""
    """What it was measured on."""

    def bias(self, rule: str) -> float:
        """What to add to the scaled log-odds of a rule."""
        return self.shift + self.rules.get(rule, 0.0)

    def as_text(self) -> str:
        """As the file has it."""
        rounded = asdict(self) | {"rules": {rule: round(b, 3) for rule, b in sorted(self.rules.items())}}
        return json.dumps(rounded, indent=2, sort_keys=True) + "\n"


@cache
def load_calibration() -> Calibration:
    """The calibration that comes with Skewscope."""
    return Calibration(**json.loads((files("skewscope.engine.attribution") / FILE_NAME).read_text(encoding="utf-8")))


@dataclass(frozen=True, slots=True)
class CalibrationSample:
    """A rule that spoke once: how surely, and whether it was right."""

    rule: str
    log_odds: float
    """By the weights of its evidence."""
    correct: bool


def fit_calibration(heard: Sequence[CalibrationSample]) -> Calibration:
    """Shift, scale and biases under which what was heard is likeliest, each drawn towards having no effect."""
    rules = sorted({one.rule for one in heard})
    at = {rule: n for n, rule in enumerate(rules)}
    columns = np.zeros((len(heard), 2 + len(rules)))
    columns[:, 0] = 1.0
    columns[:, 1] = [one.log_odds for one in heard]
    columns[np.arange(len(heard)), [2 + at[one.rule] for one in heard]] = 1.0
    expected = np.array([0.0, 1.0, *[0.0] * len(rules)])
    spread = np.array([10.0, SCALE_SPREAD, *[RULE_SPREAD] * len(rules)])
    found = _fit_logistic(columns, np.array([one.correct for one in heard], float), expected, spread)
    return Calibration(float(found[0]), max(float(found[1]), 0.0), dict(zip(rules, found[2:].tolist(), strict=True)))


def fit_scale(log_odds: Sequence[float], right: Sequence[bool]) -> tuple[float, float]:
    """(shift, scale) under which chances are right as often as they say."""
    columns = np.stack([np.ones(len(log_odds)), np.asarray(log_odds, float)], axis=1)
    found = _fit_logistic(columns, np.asarray(right, float), np.array([0.0, 1.0]), np.array([10.0, SCALE_SPREAD]))
    return float(found[0]), max(float(found[1]), 0.0)


def _fit_logistic(x: F64, y: F64, expected: F64, spread: F64) -> F64:
    """Coefficients of a logistic regression with a normal prior on each, by Newton's method."""
    found = expected.copy()
    for _ in range(MAX_ITERATIONS):
        chance = 1 / (1 + np.exp(-np.clip(x @ found, -30, 30)))
        slope = x.T @ (y - chance) - (found - expected) / spread**2
        bend = (x * (chance * (1 - chance))[:, None]).T @ x + np.diag(1 / spread**2)
        step = np.linalg.solve(bend, slope)
        found = found + np.clip(step, -2, 2)
        if np.abs(step).max() < 1e-9:
            break
    return found
