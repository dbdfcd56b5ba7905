"""What an action gave back, measured on the work of its pool or group."""

from dataclasses import replace

import numpy as np
import pytest

from skewscope.adapters.actions.effect import EffectMeter, _SignalSums
from skewscope.engine.actions.action import ActionScope, Measurement
from skewscope.engine.engine import Engine
from skewscope.engine.ingest.feed import Block, SeriesKey, SeriesTable
from skewscope.engine.model.incident import Incident
from skewscope.engine.model.topology import Group, Node, Pool, Topology
from skewscope.kb.loader import catalogue
from tests.support.acting_world import SimulatedFault, build_incident
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
        self.firing: tuple[Incident, ...] = ()

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
            self.meter.record(self.engine, self.t, self.firing)

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


def test_a_signal_that_fell_silent_does_not_stop_the_measurement():
    pool = MeasuredPool()
    pool.run(T0)
    measured = act_on(pool)
    # Two signals lost as much, and one of them has no value any more.
    levels = {"serve.e2e": (0.2, 0.6), "serve.itl": (0.2, 0.6)}
    trial = replace(next(iter(pool.meter._trials.values())), levels=levels)
    pool.meter._trials = {"a-1": trial}
    pool.meter._sums["serve.itl"] = _SignalSums(len(pool.meter.scopes))
    found = pool.meter.measure(build_action(state="applied", started_at=T0, applied_at=T0), pool.t)
    assert (found.basis, found.before, found.after) == ("serve.e2e", 0.6, measured.after)


def test_an_earlier_fault_is_no_part_of_the_healthy_level():
    pool = MeasuredPool()
    pool.run(T0 - 250)
    earlier = replace(build_incident(SimulatedFault("r2", T0 - 255, T0, 0.2), T0), opened_at=T0 - 245, state="firing")
    pool.firing = (earlier,)
    pool.run(T0 - 50, r2=2.0)
    pool.firing = ()
    found = act_on(pool, r2=None)
    # Against a healthy level with that fault in it, the present one would have lost nothing.
    assert found.before < 0.65
    assert found.after == pytest.approx(1.0)


def test_what_is_kept_does_not_grow_with_time():
    pool = MeasuredPool()
    pool.run(T0)
    sums = pool.meter._sums
    before = {name: each.spans.nbytes + each.healthy.nbytes for name, each in sums.items()}
    pool.run(T0 + 600)
    assert {name: each.spans.nbytes + each.healthy.nbytes for name, each in sums.items()} == before
    assert set(before) == {"serve.e2e", "serve.generation_tokens"}


def test_levels_of_changes_that_are_over_are_dropped():
    pool = MeasuredPool()
    act_on(pool, r2=None)
    assert set(pool.meter._trials) == {"a-1"}
    pool.run(pool.t + 90)
    assert not pool.meter._trials


def test_a_counter_from_zero_again_and_a_clock_set_back_are_survived():
    pool = MeasuredPool()
    pool.run(T0 - 200)
    pool.totals = dict.fromkeys(pool.totals, 0.0)
    found = act_on(pool, r2=None)
    assert found.recovery == pytest.approx(1.0)
    pool.t -= 3600.0
    pool.run(pool.t + 20)
    assert pool.meter.measure(build_action(state="applied", started_at=T0, applied_at=T0), pool.t).after is None
