"""Pauses of a job that come at like distances from the beginning on, as for checkpoints, and their share of the time.

A rhythm that a job always had is its work, so that nothing in its past says that it is bad. What it costs is known all
the same: each pause, beside the time since the one before it.
"""

import numpy as np

from skewscope.engine.model.arrays import F64
from skewscope.engine.model.parameters import ALIKE, APART, BURST_S, HALF, PAUSE_S, RUN


def find_pause_shares(times: F64, apart: F64) -> tuple[F64, F64]:
    """Returns ([k] seconds since 1970 when regular pauses ended, [k] percent of the time since the one before).

    Args:
        times: [step] seconds since 1970, in their order.
        apart: seconds since 1970 at which the job did other work between two steps, such as an evaluation.
    """
    interval = np.diff(times)
    usual = float(np.median(interval)) if len(interval) else 0.0
    with_other = np.histogram(apart, times)[0] > 0 if len(interval) else np.empty(0, bool)
    is_long = (interval > ALIKE * usual) & (interval - usual >= PAUSE_S) & ~with_other
    start, lost = times[:-1][is_long], (interval - usual)[is_long]
    distance = np.diff(start)
    typical = float(np.median(distance)) if len(distance) else 0.0
    # Longer steps that follow one another are longer work, and shorter distances are those of accumulated gradients.
    is_regular = (np.abs(distance - typical) <= APART * typical) & (np.diff(np.flatnonzero(is_long)) > 1)
    if typical < BURST_S or is_regular.sum() < max(RUN - 1, (1 - HALF**2) * len(distance)):
        return np.empty(0), np.empty(0)
    return times[1:][is_long][1:][is_regular], (100 * lost[1:] / distance)[is_regular]
