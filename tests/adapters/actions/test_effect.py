"""What an action gave back, measured on the work of its pool or group."""

from dataclasses import replace

import numpy as np
import pytest

from skewscope.adapters.actions.effect import EffectMeter
from skewscope.engine.actions.action import ActionScope, Measurement
from skewscope.engine.engine import Engine
from skewscope.engine.ingest.feed import Block, SeriesKey, SeriesTable
from skewscope.engine.model.topology import Group, Node, Pool, Topology
from skewscope.kb.loader import catalogue
from tests.support.actions import T0, build_action

NAMES = ("r0", "r1", "r2")
TOPOLOGY = Topology(
    tuple(Node(f"n{n}") for n in range(3)),
    (*(Group(name, "tensor-parallel", (f"n{n}",)) for n, name in enumerate(NAMES)),),
    (Pool("pool", NAMES),),
)
SIGNALS = ("serve.e2e", "serve.itl", "serve.generation_tokens")


class MeasuredPool:
    """Three replicas of which each answers some requests a second, in some seconds each."""

    def __init__(self) -> None:
        self.table = SeriesTable()
        self.meter = EffectMeter(TOPOLOGY, catalogue())
        self.engine = Engine((), catalogue(), TOPOLOGY, also_read=self.meter.signals)
        self.t = T0 - 400
        self.totals: dict[SeriesKey, float] = {}

    def run(self, until: float, **latency: float | None) -> None:
        """Lets time pass; a replica without a latency gets no requests."""
        while self.t < until:
            self.t += 1.0
            for name in NAMES:
                seconds = latency.get(name, 0.2)
                requests = 0.0 if seconds is None else 2.0
                self._add("serve.e2e", name, "sum", requests * (seconds or 0.0))
                self._add("serve.e2e", name, "count", requests)
                self._add("serve.generation_tokens", name, "", 100 * requests)
            keys = list(self.totals)
            block = Block(
                np.full(len(keys), self.t),
                np.array([self.table.number(key) for key in keys], np.int32),
                np.array([self.totals[key] for key in keys]),
            )
            self.engine.step(self.t, block, self.table)
            self.meter.record(self.engine, self.t)

    def _add(self, signal: str, name: str, selector: str, more: float) -> None:
        key = SeriesKey(signal, "replica", name, selector)
        self.totals[key] = self.totals.get(key, 0.0) + more


def act_on(pool: MeasuredPool, **after: float | None) -> Measurement:
    """Returns what was measured of an action for a fault that made r2 five times slower."""
    pool.run(T0 - 10)
    pool.run(T0, r2=1.0)
    pool.run(T0 + 60, **after)
    reason = replace(build_action().reason, opened_at=T0 - 5, condition="none")
    action = build_action(state="applied", started_at=T0, applied_at=T0, reason=reason)
    return pool.meter.measure(action, pool.t)


def test_latency_that_is_back_counts_as_recovered():
    found = act_on(MeasuredPool(), r2=None)
    assert found.basis == "serve.e2e"
    # Of three replicas one takes five times as long, 0.467 s instead of 0.2 s; some healthy seconds are counted too.
    assert 0.2 / ((0.2 + 0.2 + 1.0) / 3) < found.before < 0.65
    assert found.after == pytest.approx(1.0)
    assert found.recovery == pytest.approx(1.0)


def test_what_stays_slow_is_not_recovered():
    assert act_on(MeasuredPool(), r2=1.0).recovery == pytest.approx(0.0, abs=0.35)


@pytest.mark.parametrize(("seconds", "working"), [(20, True), (40, False)])
def test_work_that_ended_is_told_from_work_that_is_well(seconds, working):
    pool = MeasuredPool()
    pool.run(T0)
    pool.run(T0 + 10, r2=1.0)
    pool.run(T0 + 10 + seconds, r0=None, r1=None, r2=None)
    reason = replace(build_action().reason, opened_at=T0 - 5, condition="none")
    action = build_action(state="applied", started_at=T0, applied_at=T0, reason=reason)
    assert pool.meter.measure(action, pool.t).working is working


def test_without_telemetry_nothing_is_measured():
    pool = MeasuredPool()
    action = build_action(state="applied", started_at=T0, applied_at=T0)
    assert pool.meter.measure(action, T0 + 60) == Measurement()
    elsewhere = replace(action, scope=ActionScope("n9", "node", ("n9",), (), ""))
    assert pool.meter.measure(elsewhere, T0 + 60) == Measurement()
