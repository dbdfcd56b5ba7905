"""A short form of the bench that plays a day of a busy fleet: nothing of it grows without end."""

import gc
import tracemalloc

import pytest

from bench import long_day
from skewscope.engine.model.incident import MAX_HISTORY


@pytest.mark.slow
def test_nothing_grows_while_a_busy_fleet_goes_on(tmp_path, monkeypatch):
    periods = {"flap": 20, "hot": 20, "boot": 50, "topology": 200, "rename": 400, "silence": 40, "delivery": 10}
    monkeypatch.setattr(long_day, "PERIODS", periods)
    day = long_day.LongDay(tmp_path)
    tracemalloc.start()
    try:
        allocated = []
        for _ in range(3):
            for _ in range(400):
                day.tick()
            gc.collect()
            allocated.append(tracemalloc.get_traced_memory()[0])
        sizes = day.sizes()
    finally:
        tracemalloc.stop()
        day.close()
    assert sizes["longest history"] <= MAX_HISTORY
    assert sizes["silences"] <= 1
    assert allocated[2] - allocated[1] < 2 << 20, allocated
