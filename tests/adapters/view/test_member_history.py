"""The values of all series that a controller keeps for pictures: when a moment is added, and how many are kept."""

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest

from skewscope.adapters.view import member_history
from skewscope.adapters.view.member_history import LEAST_MOMENTS, MemberHistory
from skewscope.adapters.view.snapshot import SeriesIndex, SeriesInfo, SignalView, ViewFrame, ViewSnapshot
from skewscope.engine.model.topology import Topology
from tests.tui.samples import ROOT

SERIES = 10


@dataclass
class Builder:
    """Stands for what reads an engine."""

    engine: object
    sink: MemberHistory

    def update(self, snapshot):
        count = self.engine.count
        index = SeriesIndex(tuple(SeriesInfo("gpu.util", "gpu", f"n{n}/gpu0") for n in range(count)))
        columns = (np.full(count, snapshot.time, np.float32) for _ in range(6))
        frame = ViewFrame(snapshot.time, *columns, np.zeros(count, bool))
        view = ViewSnapshot(snapshot.time, 0.0, 0.0, Topology(), (ROOT,), signals=SignalView(index, ()))
        self.sink.add(view, frame)


@pytest.fixture(autouse=True)
def _builder(monkeypatch):
    monkeypatch.setattr(member_history, "ViewBuilder", Builder)


def play(history, seconds, engine):
    for t in range(seconds):
        history.update(engine, SimpleNamespace(time=float(t)))


def test_a_moment_is_added_each_period_and_has_no_incidents():
    history = MemberHistory(period=5.0)
    assert history.view() is None
    play(history, 21, SimpleNamespace(count=SERIES))
    view = history.view()
    assert view.signals.times().tolist() == [0.0, 5.0, 10.0, 15.0, 20.0]
    assert view.incidents == ()


def test_no_more_values_are_kept_than_allowed():
    history = MemberHistory(period=1.0, max_cells=SERIES * 30)
    play(history, 500, SimpleNamespace(count=SERIES))
    times = history.view().signals.times()
    assert 15 <= len(times) <= 30
    assert times[-1] == 499.0


def test_of_too_many_series_nothing_is_kept():
    history = MemberHistory(period=1.0, max_cells=SERIES * LEAST_MOMENTS)
    play(history, 30, SimpleNamespace(count=SERIES + 1))
    assert history.view() is None
    play(history, 30, SimpleNamespace(count=SERIES))  # another engine
    assert history.view() is not None
