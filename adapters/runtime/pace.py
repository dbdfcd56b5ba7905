"""Chooses how many seconds of data are judged at a time, so that a first answer on long telemetry takes seconds."""

import numpy as np

from skewscope.engine.ingest.feed import TICK_S, SeriesTable
from skewscope.engine.model.arrays import F64

TICKS_S = (TICK_S, 2.0, 5.0, 10.0)
"""Lengths of ticks from which one is chosen. Ticks of 15 s led to false diagnoses on telemetry scraped each 10 s."""
MAX_WORK = 80_000.0
"""Judgements, each of one signal in one tick, above which longer ticks are chosen: about 15 s of one core."""


def choose_tick(times: F64, table: SeriesTable) -> float:
    """Returns the length of a tick in seconds: the shortest below `MAX_WORK`, else the longest.

    Args:
        times: [tick] numbers of the ticks of `TICK_S` in which samples come.
        table: the series of the samples.
    """
    signals = len({key.signal for key in table.keys})
    for tick in TICKS_S[:-1]:
        if len(np.unique(np.ceil(times * TICK_S / tick))) * signals <= MAX_WORK:
            return tick
    return TICKS_S[-1]
