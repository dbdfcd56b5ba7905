"""A controller whose clock jumps."""

import asyncio
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest

from skewscope.adapters.controller import config
from skewscope.adapters.controller.agent_receiver import AgentTable
from skewscope.adapters.controller.controller import Controller
from skewscope.adapters.controller.store import StoreReader
from skewscope.adapters.inputs.recording import demo_path
from skewscope.adapters.runtime.elapsed_time import ClockChanges
from skewscope.adapters.sources.common.base import SourceBatch
from skewscope.engine.model.incident import parse_incident
from tests.adapters.controller.clocks import FakeClock
from tests.adapters.controller.processes import KEYS

NOW = 1_700_000_000.0


def test_small_changes_of_a_clock_count_once_they_add_up():
    clock = Jumping(NOW)
    changes = ClockChanges(clock, 5.0)
    assert changes.take() == 0.0
    clock.off = 3.0
    assert changes.take() == 0.0
    clock.off = 6.0
    assert changes.take() == 6.0
    assert changes.take() == 0.0
    clock.off = -TEN_YEARS
    assert changes.take() == -TEN_YEARS - 6.0


class Jumping(FakeClock):
    """One that is set, while those who sleep wake when they would have."""

    off = 0.0

    def now(self):
        return self.t + self.off


@pytest.fixture
def settings(tmp_path):
    (tmp_path / "topology.yaml").write_bytes((demo_path() / "topology.yaml").read_bytes())
    (tmp_path / "skewscope.yaml").write_text(
        """version: 1
topology: topology.yaml
tell: [{kind: cloudevents, name: events, urls: ["127.0.0.1:1"]}]
sources: [{kind: remote-write, name: pushed}]
"""
    )
    return config.read(tmp_path / "skewscope.yaml")


def ticking(settings, jump):
    """The times of the ticks judged: three, then a jump of the clock, and four after it; and the seconds skipped."""

    async def play():
        clock, times = Jumping(NOW), []
        controller = Controller(settings, clock)
        controller.subscribers.append(lambda known: times.append(known.snapshot.time))
        await controller.start()
        running = asyncio.create_task(controller.run(stop := asyncio.Event()))
        for second in range(7):
            if second == 3:
                clock.off = jump
            await passed(clock, times)
        assert controller.supervisor.names == ("agents", "pushed")
        assert controller.dispatcher.names == ("events",)
        stop.set()
        with suppress(asyncio.CancelledError):
            await running
        return times, controller.tick_stats.skipped

    return asyncio.run(play())


async def passed(clock, times):
    """A second later, with the tick that ends in it."""
    count = len(times)
    await clock.pass_(1.0)
    for _ in range(150):
        if len(times) > count:
            return
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("jump", [pytest.param(-3600.0, marks=pytest.mark.slow), -86400.0, 3600.0])
def test_a_clock_that_jumps_stops_no_diagnosing(settings, jump):
    times, skipped = ticking(settings, jump)
    assert skipped == 0
    after = [t for t in times if abs(t - NOW - jump) < 60.0]
    assert len(after) >= 3, times
    assert after == sorted(after)
    lines, _ = StoreReader(settings.store).verify_audit()
    assert lines == (3 if jump < 0 else 2)


@pytest.mark.slow
def test_a_clock_that_is_corrected_a_little_is_waited_for(settings):
    times, _ = ticking(settings, -2.0)
    assert times == sorted(set(times))


TEN_YEARS = 3650 * 86400.0


@pytest.mark.slow
@pytest.mark.parametrize("jump", [-TEN_YEARS, TEN_YEARS])
def test_no_incident_ends_before_it_began_and_none_is_lost_whatever_the_clock_does(settings, jump):
    """A node's host is silent before the clock is set, and heard again after it."""

    async def play():
        clock, times = Jumping(NOW), []
        controller = Controller(replace(settings, store_retention=86400.0), clock)
        controller.subscribers.append(lambda known: times.append(known.snapshot.time))
        await controller.start()
        running = asyncio.create_task(controller.run(stop := asyncio.Event()))
        table = AgentTable("n0/0")
        table.keys.extend(KEYS)
        for second in range(190):
            if second == 60:
                clock.off = jump
            host = np.nan if 20 <= second < 70 else float(second)
            row = np.array([host, 5.0])
            controller.receiver.sink.put(SourceBatch(table, None, clock.now() + 0.5, row))
            await passed(clock, times)
        stop.set()
        with suppress(asyncio.CancelledError):
            await running

    asyncio.run(play())
    found = [parse_incident(one) for one in StoreReader(settings.store).incidents()]
    assert [(one.condition, one.state) for one in found] == [("telemetry-blackout", "resolved")]
    assert all(one.opened_at <= one.resolved_at for one in found)
    assert all(one.resolved_at <= NOW + max(jump, 0.0) + 200.0 for one in found)
