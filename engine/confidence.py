"""How sure a diagnosis is, from its evidence alone.

Evidence is added up as log-odds. With W the weight of all items for the diagnosis:

    balance  = (weight of yes - half the weight of no - weight of yes against) / W        clipped to -1..1
    log-odds = PRIOR + coverage * GAIN * balance + CORROBORATED per further rule that agrees - RIVAL * p(best rival)

So full evidence, all of it seen, gives 0.95; nothing seen gives the prior; what could not be seen pulls towards the
prior twice, once because it adds no weight and once through the coverage. A no counts half of a yes: an item that does
not show is weaker news than one that does. The constants are a judgement until they are calibrated on labelled data.
"""

import math
from collections.abc import Sequence

PRIOR = -1.4
GAIN = 4.4
CORROBORATED = 0.4
RIVAL = 1.0
MOST = 6.0
"""Nothing is surer than this, either way."""


def log_odds(weights: Sequence[float], against: Sequence[bool], verdicts: Sequence[int], coverage: float) -> float:
    """The log-odds of a diagnosis whose items have these weights, sides and verdicts (-1 no, 0 unknown, 1 yes)."""
    total = sum(w for w, other in zip(weights, against, strict=True) if not other)
    if total <= 0 or not math.isfinite(total):
        return PRIOR
    balance = 0.0
    for weight, other, verdict in zip(weights, against, verdicts, strict=True):
        if verdict > 0:
            balance += -weight if other else weight
        elif verdict < 0 and not other:
            balance -= weight / 2
    seen = min(max(coverage, 0.0), 1.0) if math.isfinite(coverage) else 0.0
    return PRIOR + seen * GAIN * min(max(balance / total, -1.0), 1.0)


def probability(log_odds: float, *, agreeing: int = 0, rival: float = 0.0) -> float:
    """The chance behind log-odds, raised by further rules that agree and lowered by the best rival's chance."""
    shifted = log_odds + CORROBORATED * agreeing - RIVAL * rival
    return 1.0 / (1.0 + math.exp(-min(max(shifted, -MOST), MOST)))
