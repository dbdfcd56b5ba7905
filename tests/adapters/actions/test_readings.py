"""Whoever looks at targets shares one reading of each for a second."""

import asyncio

import pytest

from skewscope.adapters.actions.readings import KEPT_S, TargetReadings
from skewscope.adapters.targets.common.base import TargetError
from tests.adapters.actions.test_dry_run import dry_run
from tests.support.memory_target import MemoryTarget


class SlowTarget(MemoryTarget):
    """Counts its readings, each of which waits for others to begin."""

    def __init__(self, trouble=""):
        super().__init__(members={f"r{n}": f"w{n}" for n in range(4)})
        self.reads, self.trouble_of_reads = 0, trouble

    async def read_state(self):
        self.reads += 1
        for _ in range(5):
            await asyncio.sleep(0)
        if self.trouble_of_reads:
            raise TargetError(self.trouble_of_reads)
        return await super().read_state()


def play(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 10))


def test_many_at_once_share_a_reading_and_it_is_kept_for_a_second():
    async def go():
        target, t = SlowTarget(), [100.0]
        readings = TargetReadings(lambda: t[0])
        await asyncio.gather(*(readings.read(target) for _ in range(300)))
        t[0] += KEPT_S
        await readings.read(target)
        assert target.reads == 1
        t[0] += 0.1
        await readings.read(target)
        assert target.reads == 2

    play(go())


def test_a_failure_is_shared_too():
    async def go():
        target, readings = SlowTarget("silent"), TargetReadings()
        for _ in range(2):
            with pytest.raises(TargetError, match="silent"):
                await readings.read(target)
        assert target.reads == 1

    play(go())


def test_who_leaves_does_not_end_the_reading_of_others():
    async def go():
        target, readings = SlowTarget(), TargetReadings()
        first, other = (asyncio.ensure_future(readings.read(target)) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        assert (await other).members
        assert target.reads == 1

    play(go())


def test_a_target_that_replaces_another_is_read_anew():
    async def go():
        before, after, readings = SlowTarget(), SlowTarget(), TargetReadings()
        await readings.read(before)
        await readings.read(after)
        assert (before.reads, after.reads) == (1, 1)

    play(go())


def test_a_dry_run_reads_each_target_once():
    target = SlowTarget()
    assert dry_run(target)[0]
    assert target.reads == 1
