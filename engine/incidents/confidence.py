"""The confidence of an incident: one formula from evidence to the number that is shown and that policies match.

    balance    = (weight of yes - weight of no / 2 - weight of yes against) / weight of all items for it
    evidence   = PRIOR + coverage * GAIN * balance                   balance clipped to -1..1
    rule       = shift + bias of the rule + scale * evidence         `Calibration.rule_log_odds`
    incident   = rule + CORROBORATION * further rules that agree     `corroborated_log_odds`
    calibrated = root_shift + root_scale * (incident - ALTERNATIVE_WEIGHT * p)
    confidence = 1 / (1 + exp(-calibrated))                          calibrated clipped to -6..6

The verdicts and the coverage are those of the incident's peak so far, so the confidence does not fall while the fault
clears. p is the highest probability so far, 1 / (1 + exp(-incident)), of another unexplained incident in the same
place.

Evidence is summed as log-odds, the weight-of-evidence form of Bayes' rule (I. J. Good, "Probability and the Weighing
of Evidence", 1950). The weights of a rule's items replace measured likelihood ratios, because labelled faults to
measure those are rare. Full evidence with full coverage gives 0.95 before calibration; no evidence gives the prior.
Unknown items pull towards the prior twice: they add no weight, and they lower the coverage. A no counts half of a yes,
because an absent symptom is weaker evidence than a present one. If a required item is no, the rule excludes the
condition and no yes counts. So one more yes never lowers the confidence, and neither does more coverage of evidence
for the condition.

Calibration maps log-odds to observed frequencies (J. Platt, "Probabilistic outputs for support vector machines",
1999), with one bias per rule and a second scaling for incidents that won against their alternatives. Its numbers come
from `skewscope assess --calibrate` and are measured on generated telemetry. PRIOR, GAIN, CORROBORATION and
ALTERNATIVE_WEIGHT are judgements.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib.resources import files
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

PRIOR = -1.4
"""Log-odds before any evidence: 0.2, because a rule is only evaluated where its kind of work runs."""
GAIN = 4.4
"""Log-odds that full evidence adds: 0.2 becomes 0.95."""
CORROBORATION = 0.4
"""Log-odds that each further rule adds which fires for the same condition."""
ALTERNATIVE_WEIGHT = 1.0
"""Log-odds that a certain alternative in the same place subtracts."""
HEARSAY_CONFIDENCE = 0.35
"""Most confidence of what only one node reports of another one, whose own telemetry does not confirm it: a suspicion,
until a second node agrees (judgement)."""
SYMPTOM_CONFIDENCE = 0.9
"""That something is really wrong. Fitted on the simulated corpus at medium severity, seed 7, where all of 100 symptoms
that no diagnosis explained were right: 0.9 is the one-sided lower bound, at 95 %, of the smallest class, 31 of 31
symptoms of signals that follow the load (0.05 ** (1 / 31))."""
TOTAL_CONFIDENCE = 0.5
"""...where all that is known are sums since counters began: they may be of a fault that is over (judgement)."""
MAX_LOG_ODDS = 6.0
"""Limit of all log-odds that become a probability."""
CALIBRATION_FILE = "calibration.json"

LogOdds = TypeVar("LogOdds", float, NDArray[np.float64])


@dataclass(frozen=True, slots=True)
class Calibration:
    """Maps log-odds by weights to log-odds that match observed frequencies."""

    shift: float = 0.0
    scale: float = 1.0
    rules: Mapping[str, float] = field(default_factory=dict)
    """Bias by rule id; a rule without calibration samples has none."""
    root_shift: float = 0.0
    root_scale: float = 1.0
    of: str = ""
    """Data that it was fitted to."""

    def rule_log_odds(self, rule: str, evidence: LogOdds) -> LogOdds:
        """Returns the calibrated log-odds of a rule's evidence, of one entity or of an array of entities."""
        return self.shift + self.rules.get(rule, 0.0) + self.scale * evidence

    def as_text(self) -> str:
        """Returns the content of the calibration file."""
        rounded = asdict(self) | {"rules": {rule: round(b, 3) for rule, b in sorted(self.rules.items())}}
        return json.dumps(rounded, indent=2, sort_keys=True) + "\n"


@cache
def load_calibration() -> Calibration:
    """Loads the calibration that is shipped with Skewscope."""
    text = (files("skewscope.engine.incidents") / CALIBRATION_FILE).read_text(encoding="utf-8")
    return Calibration(**json.loads(text))


def incident_confidence(log_odds: float, alternative_probability: float, calibration: Calibration) -> float:
    """Returns the confidence of an incident, 0..1: the number that is shown and that policies match.

    Args:
        log_odds: the incident's, from `corroborated_log_odds`.
        alternative_probability: the highest probability of another unexplained incident in the same place.
        calibration: holds the shift and scale of incidents.
    """
    discounted = log_odds - ALTERNATIVE_WEIGHT * alternative_probability
    return probability(calibration.root_shift + calibration.root_scale * discounted)


def corroborated_log_odds(rule_log_odds: float, agreeing_rules: int) -> float:
    """Returns the log-odds of an incident: those of its best rule, raised by further rules that agree."""
    return rule_log_odds + CORROBORATION * agreeing_rules


def evidence_log_odds(
    weights: Sequence[float],
    against: Sequence[bool],
    verdicts: Sequence[int],
    coverage: float,
    required: Sequence[bool] = (),
) -> float:
    """Returns the uncalibrated log-odds of a condition from the verdicts (-1 no, 0 unknown, 1 yes) of its items."""
    total = sum(w for w, other in zip(weights, against, strict=True) if not other)
    if total <= 0 or not math.isfinite(total):
        return PRIOR
    excluded = any(r and v < 0 and not o for r, v, o in zip(required, verdicts, against, strict=False))
    balance = 0.0
    for weight, other, verdict in zip(weights, against, verdicts, strict=True):
        if verdict > 0 and other:
            balance -= weight
        elif verdict > 0 and not excluded:
            balance += weight
        elif verdict < 0 and not other:
            balance -= weight / 2
    known = min(max(coverage, 0.0), 1.0) if math.isfinite(coverage) else 0.0
    return PRIOR + known * GAIN * min(max(balance / total, -1.0), 1.0)


def evidence_log_odds_array(
    weights: Sequence[float],
    against: Sequence[bool],
    verdicts: NDArray[np.int8],
    coverage: NDArray[np.floating],
    required: Sequence[bool],
) -> NDArray[np.float64]:
    """Returns `[entity]` float64 log-odds, as `evidence_log_odds`; `verdicts` is `[item, entity]`."""
    weight, other, needed = np.array(weights, np.float64), np.array(against, np.bool_), np.array(required, np.bool_)
    total = float(weight[~other].sum())
    if total <= 0 or not math.isfinite(total):
        return np.full(verdicts.shape[1], PRIOR)
    excluded = ((verdicts < 0) & (needed & ~other)[:, None]).any(axis=0)
    yes = np.where(other, 0.0, weight) @ (verdicts > 0)
    no = np.where(other, 0.0, weight / 2) @ (verdicts < 0) + np.where(other, weight, 0.0) @ (verdicts > 0)
    balance = (np.where(excluded, 0.0, yes) - no) / total
    known = np.clip(np.nan_to_num(coverage.astype(np.float64), nan=0.0, posinf=0.0, neginf=0.0), 0.0, 1.0)
    return np.asarray(PRIOR + known * GAIN * np.clip(balance, -1.0, 1.0))


def probability(log_odds: float) -> float:
    """Returns the probability of log-odds, which are clipped to +-MAX_LOG_ODDS."""
    return 1.0 / (1.0 + math.exp(-min(max(log_odds, -MAX_LOG_ODDS), MAX_LOG_ODDS)))
