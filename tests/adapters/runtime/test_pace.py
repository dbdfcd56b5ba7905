import numpy as np
import pytest

from skewscope.adapters.runtime.pace import choose_tick
from skewscope.engine.ingest.feed import SeriesKey, SeriesTable


def table_of(signals):
    table = SeriesTable()
    for number in range(signals):
        table.number(SeriesKey(f"a.signal_{number}", "node", "n0", ""))
    return table


@pytest.mark.parametrize(
    ("seconds", "every", "signals", "tick"),
    [
        (600, 1, 10, 1.0),
        (1200, 1, 30, 2.0),
        (3600, 1, 10, 5.0),
        (3600, 15, 200, 30.0),
        (20_000, 10, 10, 20.0),
        (30_000, 10, 10, 20.0),
        (40_000, 10, 30, 60.0),
        (86_400, 1, 10, 60.0),
        (86_400 * 30, 60, 10, 1800.0),
        (0, 1, 0, 1.0),
    ],
)
def test_the_more_is_to_be_judged_the_longer_are_the_ticks(seconds, every, signals, tick):
    assert choose_tick(np.arange(0.0, seconds, every), table_of(signals)) == tick
