"""What an incident is of: one distribution over its candidates and none of the catalogue, for rules and symptoms alike.

    log-odds    = prior by prevalence + weight of evidence of rules + weight of evidence of findings
    scaled      = root_shift + root_scale * log-odds                 at most 6; none of the catalogue has 0
    probability = exp(scaled) / sum of exp(scaled) over all candidates and none

One of them is taken to be there. Rules add what `incidents.confidence` describes, findings what `signature_evidence`
does. What is not seen adds nothing. Where it would decide, as counter-evidence with which a rule would not fire, the
distribution is the mean over its states: the candidate keeps its share only as far as the counter-evidence is absent.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from skewscope.engine.incidents.confidence import MAX_LOG_ODDS, UNSEEN_HOLDS, Calibration

BOTH_THERE = -2.3
"""Log-odds that a condition loses as an alternative where it has an incident of its own: two faults may be there, and
then neither speaks against the other (judgement: one time in ten they are one fault)."""

MAX_LISTED, MIN_LISTED = 6, 3
"""Candidates that are listed at most, and that are listed however unlikely they are."""
MIN_PROBABILITY = 0.02
"""Of the others that are listed."""


@dataclass(frozen=True, slots=True)
class Posterior:
    """Probabilities of some conditions, of which at most one is there."""

    probabilities: Mapping[str, float]
    """By condition, likeliest first."""
    none: float
    """Probability that it is none of the catalogue."""

    def list_likeliest(self) -> tuple[tuple[str, float], ...]:
        """Returns (condition, probability) of the candidates that are worth listing, likeliest first."""
        ranked = list(self.probabilities.items())[:MAX_LISTED]
        return tuple(each for n, each in enumerate(ranked) if n < MIN_LISTED or each[1] >= MIN_PROBABILITY)


def find_posterior(
    log_odds: Mapping[str, float], calibration: Calibration, own: str = "", undecided: int = 0
) -> Posterior:
    """Returns the distribution over candidates and none of the catalogue.

    Args:
        log_odds: of each candidate against none of the catalogue.
        calibration: holds the scaling.
        own: the candidate whose rule fires; '' for none.
        undecided: items of its counter-evidence that are not seen, each of which would exclude it.
    """
    scaled = {name: calibration.root_shift + calibration.root_scale * odds for name, odds in log_odds.items()}
    # Never certain that it is in the catalogue; what tells candidates apart stays.
    excess = max(max(scaled.values(), default=0.0) - MAX_LOG_ODDS, 0.0)
    weights = {name: math.exp(each - excess) for name, each in scaled.items()}
    total = 1.0 + sum(weights.values())
    if own in weights and undecided:
        kept = weights[own] / total * (1.0 - UNSEEN_HOLDS) ** undecided
        total = (total - weights[own]) / (1.0 - kept)
        weights[own] = kept * total
    ranked = sorted(weights.items(), key=lambda item: (-item[1], item[0]))
    # Sums are rounded: what none has may not exceed what all have.
    return Posterior({name: weight / total for name, weight in ranked}, min(1.0 / total, 1.0))
