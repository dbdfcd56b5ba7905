"""How sure a diagnosis is, from its evidence alone.

Evidence is added up as log-odds: the weight-of-evidence form of Bayes' rule (I. J. Good, "Probability and the Weighing
of Evidence", 1950), with the weights of a rule's items in the place of measured likelihood ratios, since labelled
faults to measure those on hardly exist. With W the weight of all items for the diagnosis:

    balance  = (weight of yes - half the weight of no - weight of yes against) / W        clipped to -1..1
    log-odds = PRIOR + coverage * GAIN * balance + CORROBORATED per further rule that agrees - RIVAL * p(best rival)

So full evidence, all of it seen, gives 0.95; nothing seen gives the prior; what could not be seen pulls towards the
prior twice, once because it adds no weight and once through the coverage. A no counts half of a yes: an item that does
not show is weaker news than one that does. Where a required item says no, the rule itself rules the diagnosis out,
and no yes beside it counts. So one more yes never makes it less sure, nor does more coverage of what speaks for it.
PRIOR, GAIN, CORROBORATED and RIVAL are judgements until they are calibrated on labelled data.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

PRIOR = -1.4
"""Before any evidence: 0.2, since a rule is only asked where its kind of work goes on."""
GAIN = 4.4
"""What full evidence adds: 0.2 becomes 0.95."""
CORROBORATION = 0.4
ALTERNATIVE_WEIGHT = 1.0
MAX_LOG_ODDS = 6.0
"""Nothing is surer than this, either way."""


def log_odds(
    weights: Sequence[float],
    against: Sequence[bool],
    verdicts: Sequence[int],
    coverage: float,
    required: Sequence[bool] = (),
) -> float:
    """The log-odds of a diagnosis whose items have these weights, sides and verdicts (-1 no, 0 unknown, 1 yes)."""
    total = sum(w for w, other in zip(weights, against, strict=True) if not other)
    if total <= 0 or not math.isfinite(total):
        return PRIOR
    ruled_out = any(r and v < 0 and not o for r, v, o in zip(required, verdicts, against, strict=False))
    balance = 0.0
    for weight, other, verdict in zip(weights, against, verdicts, strict=True):
        if verdict > 0 and other:
            balance -= weight
        elif verdict > 0 and not ruled_out:
            balance += weight
        elif verdict < 0 and not other:
            balance -= weight / 2
    seen = min(max(coverage, 0.0), 1.0) if math.isfinite(coverage) else 0.0
    return PRIOR + seen * GAIN * min(max(balance / total, -1.0), 1.0)


def log_odds_array(
    weights: Sequence[float],
    against: Sequence[bool],
    verdicts: NDArray[np.int8],
    coverage: NDArray[np.floating],
    required: Sequence[bool],
) -> NDArray[np.float64]:
    """`log_odds` of many entities at once: verdicts are [items, entities]."""
    weight, other, needed = np.array(weights, np.float64), np.array(against, np.bool_), np.array(required, np.bool_)
    total = float(weight[~other].sum())
    if total <= 0 or not math.isfinite(total):
        return np.full(verdicts.shape[1], PRIOR)
    ruled_out = ((verdicts < 0) & (needed & ~other)[:, None]).any(axis=0)
    yes = np.where(other, 0.0, weight) @ (verdicts > 0)
    no = np.where(other, 0.0, weight / 2) @ (verdicts < 0) + np.where(other, weight, 0.0) @ (verdicts > 0)
    balance = (np.where(ruled_out, 0.0, yes) - no) / total
    seen = np.clip(np.nan_to_num(coverage.astype(np.float64), nan=0.0, posinf=0.0, neginf=0.0), 0.0, 1.0)
    return np.asarray(PRIOR + seen * GAIN * np.clip(balance, -1.0, 1.0))


def probability(log_odds: float, *, agreeing: int = 0, rival: float = 0.0) -> float:
    """The chance behind log-odds, raised by further rules that agree and lowered by the best rival's chance."""
    shifted = log_odds + CORROBORATION * agreeing - ALTERNATIVE_WEIGHT * rival
    return 1.0 / (1.0 + math.exp(-min(max(shifted, -MAX_LOG_ODDS), MAX_LOG_ODDS)))


def to_log_odds(chance: float) -> float:
    """The log-odds behind a chance, no surer than anything may be."""
    least = 1.0 / (1.0 + math.exp(MAX_LOG_ODDS))
    kept = min(max(chance, least), 1.0 - least)
    return math.log(kept / (1.0 - kept))
