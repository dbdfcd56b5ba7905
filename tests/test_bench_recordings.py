"""Recordings that benchmarks write can be read."""

import numpy as np
import pytest

from bench import backtest_load, long_replay
from skewscope.adapters.inputs.recording import load, open_recording
from skewscope.kb.loader import catalogue

pytest.importorskip("pyarrow")


@pytest.mark.parametrize(
    ("write", "period"),
    [
        pytest.param(lambda folder: long_replay.write_recording(folder, 2, 3 * 86_400, 7200), 7200, id="long replay"),
        pytest.param(lambda folder: backtest_load.write_recording(folder, 2, 21), 1, id="backtest"),
    ],
)
def test_counters_go_on_from_table_to_table(tmp_path, monkeypatch, write, period):
    monkeypatch.setattr(backtest_load, "TABLE_S", 10)
    write(tmp_path / "made")
    data = load(open_recording(tmp_path / "made"), catalogue())
    (number,) = (n for n, key in enumerate(data.table.keys) if (key.signal, key.entity) == ("port.rx_bytes", "n0/p0"))
    mine = np.flatnonzero(data.block.series == number)
    mine = mine[np.argsort(data.block.time[mine])]
    steps = np.diff(data.block.value[mine])
    assert np.diff(data.block.time[mine]).tolist() == [period] * len(steps)
    assert (steps > 0.5 * 4e9 * 0.7 * period).all()
    assert (steps < 1.5 * 4e9 * 0.9 * period).all()
