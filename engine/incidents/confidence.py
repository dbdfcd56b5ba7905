"""Weights of evidence: how items of rules and findings become log-odds of a condition.

    balance    = (weight of yes - weight of no / 2 - weight of yes against) / weight of all items for it
    evidence   = GAIN * balance                                      balance clipped to -1..1
    rule       = prior + shift + bias of the rule + scale * evidence `Calibration.rule_log_odds`
    incident   = rule + CORROBORATION * further rules that agree

The verdicts are those of the incident's peak so far, so the confidence does not fall while the fault clears. From the
log-odds of all candidates `attribution.posterior` makes one distribution.

Evidence is summed as log-odds, the weight-of-evidence form of Bayes' rule (I. J. Good, "Probability and the Weighing
of Evidence", 1950). The weights of a rule's items replace measured likelihood ratios, because labelled faults to
measure those are rare. Full evidence of a condition that occurs occasionally gives 0.95 before calibration. An item
that is not seen adds nothing, for or against. A no counts half of a yes, because an absent symptom is weaker evidence
than a present one. If a required item is no, the rule excludes the condition and no yes counts. So one more yes never
lowers the confidence.

Calibration maps log-odds to observed frequencies (J. Platt, "Probabilistic outputs for support vector machines",
1999), with one bias per rule, the log-odds of what is found by its form, and one scaling of all distributions. Its
numbers come from `skewscope assess --calibrate FILE`, which fits simulated and recorded telemetry together. The prior
of a condition is its prevalence in the catalogue. GAIN, CORROBORATION and the numbers of PREVALENCE are judgements.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib.resources import files
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

PREVALENCE = {"common": 0.1, "occasional": 0.03, "rare": 0.01, "": 0.03}
"""Odds of a condition against none of the catalogue before any evidence, by the catalogue's word."""
GAIN = 4.4
"""Log-odds that full evidence adds."""
CORROBORATION = 0.4
"""Log-odds that each further rule adds which fires for the same condition."""
UNSEEN_HOLDS = PREVALENCE[""]
"""Probability that counter-evidence holds that is not seen: the prior of what it would be of."""
HEARSAY_CONFIDENCE = 0.35
"""Most confidence of what only one node reports of another one, whose own telemetry does not confirm it: a suspicion,
until a second node agrees (judgement)."""
MAX_LOG_ODDS = 6.0
"""Limit of all log-odds that become a probability."""
CALIBRATION_FILE = "calibration.json"

LogOdds = TypeVar("LogOdds", float, NDArray[np.float64])


@dataclass(frozen=True, slots=True)
class Calibration:
    """Maps log-odds by weights to log-odds that match observed frequencies."""

    shift: float = 2.1
    """Log-odds that a rule adds by holding. As a default it makes full evidence of what occurs occasionally 0.95."""
    scale: float = 1.0
    rules: Mapping[str, float] = field(default_factory=dict)
    """Bias by rule id; a rule without calibration samples has none."""
    forms: Mapping[str, float] = field(default_factory=lambda: {"": 2.2, "total": 0.0})
    """Log-odds that a finding is of something wrong, by its form; '' for a form without calibration samples."""
    root_shift: float = 0.0
    root_scale: float = 1.0
    of: str = ""
    """Data that it was fitted to."""

    def rule_log_odds(self, rule: str, evidence: LogOdds) -> LogOdds:
        """Returns the calibrated weight of a rule's evidence, of one entity or of an array of entities."""
        return self.shift + self.rules.get(rule, 0.0) + self.scale * evidence

    def finding_confidence(self, forms: Iterable[str]) -> float:
        """Returns the probability that findings of some forms are of something wrong: that of the surest one."""
        return probability(max(self.forms.get(form, self.forms[""]) for form in forms))

    def as_text(self) -> str:
        """Returns the content of the calibration file."""
        tables = {
            name: {key: round(value, 3) for key, value in sorted(table.items())}
            for name, table in (("rules", self.rules), ("forms", self.forms))
        }
        rounded = {name: round(each, 4) if isinstance(each, float) else each for name, each in asdict(self).items()}
        rounded |= tables
        return json.dumps(rounded, indent=2, sort_keys=True) + "\n"


@cache
def load_calibration() -> Calibration:
    """Loads the calibration that is shipped with Skewscope."""
    text = (files("skewscope.engine.incidents") / CALIBRATION_FILE).read_text(encoding="utf-8")
    return Calibration(**json.loads(text))


def prior_log_odds(prevalence: str) -> float:
    """Returns the log-odds of a condition against none of the catalogue before any evidence."""
    return math.log(PREVALENCE[prevalence])


def weigh_evidence(
    weights: Sequence[float], against: Sequence[bool], verdicts: NDArray[np.int8], required: Sequence[bool] = ()
) -> NDArray[np.float64]:
    """Returns `[entity]` float64: the log-odds that evidence adds to a condition, before calibration.

    Args:
        weights: of the items.
        against: whether each is evidence against the condition.
        verdicts: `[item, entity]` int8: -1 no, 0 not seen, 1 yes.
        required: whether each is required; empty for none.
    """
    weight, other = np.array(weights, np.float64), np.array(against, np.bool_)
    needed = np.array(required or [False] * len(weights), np.bool_)
    total = float(weight[~other].sum())
    if total <= 0 or not math.isfinite(total):
        return np.zeros(verdicts.shape[1])
    excluded = ((verdicts < 0) & (needed & ~other)[:, None]).any(axis=0)
    yes = np.where(other, 0.0, weight) @ (verdicts > 0)
    no = np.where(other, 0.0, weight / 2) @ (verdicts < 0) + np.where(other, weight, 0.0) @ (verdicts > 0)
    balance = (np.where(excluded, 0.0, yes) - no) / total
    return np.asarray(GAIN * np.clip(balance, -1.0, 1.0))


def probability(log_odds: float) -> float:
    """Returns the probability of log-odds, which are clipped to +-MAX_LOG_ODDS."""
    return 1.0 / (1.0 + math.exp(-min(max(log_odds, -MAX_LOG_ODDS), MAX_LOG_ODDS)))
