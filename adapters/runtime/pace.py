"""Chooses how many seconds of data are judged at a time, so that a first answer on long telemetry takes seconds."""

import numpy as np

from skewscope.engine.ingest.feed import TICK_S, SeriesTable
from skewscope.engine.model.arrays import F64

SHORT_TICKS_S = (TICK_S, 2.0, 5.0, 10.0)
LONG_TICKS_S = (15.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 1800.0, 3600.0)
"""Lengths of ticks from which one is chosen. A long one must hold as many samples as the next one: ticks of 15 s led to
false diagnoses on telemetry scraped each 10 s."""
MANY_SAMPLES = 10
"""Samples of a series in a tick among which one more or less does not matter."""
MAX_WORK_S = 3.0
"""Seconds of work, on a fast machine, above which longer ticks are chosen."""
TICK_COST_S, SIGNAL_COST_S, SERIES_COST_S = 0.7e-3, 0.1e-3, 12e-9
"""Seconds of work of a tick, and for each signal and each series in it, on a fast machine: what is refused is too much
on any (`bench/test_bench_large.py`, `bench/hostile_inputs.py`)."""


def work_seconds(ticks: int, table: SeriesTable) -> float:
    """Returns the seconds of work that so many ticks of some series take, on a fast machine."""
    signals = len({key.signal for key in table.keys})
    return ticks * (TICK_COST_S + signals * SIGNAL_COST_S + len(table.keys) * SERIES_COST_S)


def choose_tick(times: F64, table: SeriesTable) -> float:
    """Returns the length of a tick in seconds: the shortest whose work is below `MAX_WORK_S`, else the longest.

    Args:
        times: [tick] numbers of the ticks of `TICK_S` in which samples come.
        table: the series of the samples.
    """
    period = float(np.median(np.diff(times))) * TICK_S if len(times) > 1 else TICK_S
    even = [tick for tick in LONG_TICKS_S if tick % period == 0 or tick >= MANY_SAMPLES * period]
    lengths = (*SHORT_TICKS_S, *even)
    fitting = (tick for tick in lengths if work_seconds(_count_ticks(times, tick), table) <= MAX_WORK_S)
    return next(fitting, lengths[-1])


def _count_ticks(times: F64, tick: float) -> int:
    return len(np.unique(np.ceil(times * TICK_S / tick)))
