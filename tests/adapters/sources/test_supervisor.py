"""Sources fail, hang, flood and end; none hurts another."""

import asyncio

import numpy as np
import pytest

from skewscope.adapters.sources.common.base import (
    BATCH_COST,
    BatchSink,
    SourceBatch,
    SourceSeriesRegistry,
    redact_message,
)
from skewscope.adapters.sources.common.supervisor import SourceSupervisor
from tests.adapters.controller.clocks import FakeClock


class Steady:
    """Hands a value over each second."""

    name, period = "steady", 1.0

    def __init__(self, clock):
        self.clock = clock

    async def run(self, sink):
        while True:
            sink.put(one(self.clock.now()))
            await self.clock.sleep(1.0)


class Failing(Steady):
    name = "failing"
    runs = 0

    async def run(self, sink):
        self.runs += 1
        raise OSError("no way to http://user:geheim@host/?token=s3cret (Bearer abc.def)")


class Hanging(Steady):
    name = "hanging"
    runs = 0

    async def run(self, sink):
        self.runs += 1
        sink.put(one(self.clock.now()))
        await asyncio.Event().wait()


def one(t, size=1):
    return SourceBatch(SourceSeriesRegistry(), np.zeros(size, np.int32), t, np.zeros(size))


def test_a_source_that_fails_is_started_again_more_and_more_rarely_and_hurts_no_other():
    async def play():
        clock = FakeClock()
        supervisor = SourceSupervisor(clock)
        failing = Failing(clock)
        supervisor.start(failing)
        supervisor.start(Steady(clock))
        await clock.pass_(0.5)
        runs = []
        for _ in range(40):
            await clock.pass_(1.0)
            supervisor.check()
            runs.append(failing.runs)
        bad, good = supervisor.statuses()
        assert (bad.name, bad.up, good.name, good.up) == ("failing", False, "steady", True)
        assert good.values == 41
        assert runs[-1] == 6  # after 0, 1, 3, 7, 15, 31 s
        assert "geheim" not in bad.trouble
        assert "s3cret" not in bad.trouble
        assert "abc" not in bad.trouble
        await supervisor.close()

    asyncio.run(play())


def test_a_source_that_fails_for_days_is_still_started_again():
    async def play():
        clock = FakeClock()
        supervisor = SourceSupervisor(clock)
        failing = Failing(clock)
        supervisor.start(failing)
        await clock.pass_(2 * 86400.0)
        assert failing.runs > 2800
        before = failing.runs
        await clock.pass_(600.0)
        assert failing.runs == before + 10
        await supervisor.close()

    asyncio.run(play())


def test_a_source_that_hangs_is_down_and_started_again():
    async def play():
        clock = FakeClock()
        supervisor = SourceSupervisor(clock)
        hanging = Hanging(clock)
        supervisor.start(hanging)
        await clock.pass_(1.0)
        supervisor.check()
        assert supervisor.statuses()[0].up
        await clock.pass_(10.0)
        supervisor.check()
        (standing,) = supervisor.statuses()
        assert not standing.up
        assert "no batch for 11 s" in standing.trouble
        await clock.pass_(1.0)
        supervisor.check()
        assert hanging.runs == 2
        assert supervisor.statuses()[0].up
        await supervisor.close()

    asyncio.run(play())


@pytest.mark.parametrize("answer", [OSError("closed"), None])
def test_a_source_that_answers_its_cancellation_with_something_else_ends(answer):
    class Stubborn(Hanging):
        async def run(self, sink):
            try:
                await super().run(sink)
            except asyncio.CancelledError:
                if answer:
                    raise answer from None

    async def play():
        clock = FakeClock()
        supervisor = SourceSupervisor(clock)
        stubborn = Stubborn(clock)
        supervisor.start(stubborn)
        await clock.pass_(1.0)
        (task,) = (one for one in asyncio.all_tasks() if one.get_name() == "source hanging")
        await supervisor.close()
        assert task.cancelled()
        assert stubborn.runs == 1

    asyncio.run(play())


def test_a_flood_drops_its_own_oldest_and_counts_them():
    sink = BatchSink(FakeClock(), max_values=10 + 2 * BATCH_COST)
    batches = [one(float(n), 4) for n in range(4)]
    for batch in batches:
        sink.put(batch)
    assert sink.take() == batches[2:]
    assert (sink.values, sink.dropped) == (16, 8)
    assert sink.take() == []


def test_two_sources_of_one_name_are_refused():
    async def play():
        supervisor = SourceSupervisor(FakeClock())
        supervisor.start(Hanging(supervisor.clock))
        with pytest.raises(ValueError, match="two sources"):
            supervisor.start(Hanging(supervisor.clock))
        await supervisor.close()

    asyncio.run(play())


def test_what_is_told_of_a_fault_is_one_short_line():
    assert redact_message("a\n\x1b[2Jb" + "c" * 500) == "a ?[2Jb" + "c" * 190 + "..."
