"""What routers without weights have to fulfil, driven for real: a worker is removed and added again."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from skewscope.adapters.actions.carry_out import ForeignStateError, make_change, undo_change
from skewscope.adapters.sources.common.http_client import FetchOptions, PostBody, exchange
from skewscope.adapters.targets.common.base import Target
from skewscope.adapters.targets.common.registration import is_registered
from skewscope.engine.actions.change import ABSENT, DRAIN, OURS, Change
from tests.support.openai_worker import OpenaiWorker
from tests.support.processes import answers, running, wait_until
from tests.support.target_contract import run_cycle, wait_for_standing
from tests.support.target_traffic import free_port

START_SECONDS = 30.0
MODEL = "m"


@dataclass
class RouterStart:
    """How a router is started, and the target made for it."""

    command: Callable[[int, int, list[str]], list[str]]
    """Returns the program, for its port, the port of its metrics and the URLs of workers."""
    target: Callable[[str, str, tuple[tuple[str, str], ...]], Target]
    """Returns the target, for the router's URL, that of its metrics, and members."""


@dataclass
class Rig:
    """A router with three workers."""

    target: Target
    url: str
    workers: list[OpenaiWorker]
    restart: Callable[[], AbstractAsyncContextManager[None]]

    def change(self, number: int = 2, action: str = "a-1") -> Change:
        """Returns the drain of a worker."""
        return Change(DRAIN, self.target.name, self.workers[number].url, action)

    async def send(self, count: int) -> Counter[str]:
        """Sends requests, one after the other, and returns the number of answers of each worker."""
        found: Counter[str] = Counter()
        body = PostBody(b'{"model": "m", "prompt": "hello", "max_tokens": 4}', "application/json")
        for _ in range(count):
            answer = await exchange(f"{self.url}/v1/completions", FetchOptions(10.0), body)
            assert answer.status == 200, answer
            found[answer.body.decode().partition('"worker": "')[2][:2]] += 1
        return found


@asynccontextmanager
async def router_rig(start: RouterStart, folder: Path) -> AsyncIterator[Rig]:
    """Yields a router that runs, with three workers."""
    async with AsyncExitStack() as stack:
        workers = [await stack.enter_async_context(OpenaiWorker(f"w{n}")) for n in range(3)]
        port, metrics = free_port(), free_port()
        command = start.command(port, metrics, [w.url for w in workers])
        url = f"http://127.0.0.1:{port}"

        @asynccontextmanager
        async def run() -> AsyncIterator[None]:
            async with running(command, folder / "router.log"):
                await wait_until(lambda: answers(f"{url}/workers", workers[2].url.encode()), START_SECONDS, "router")
                yield

        members = tuple((f"r{n}", w.url) for n, w in enumerate(workers))
        rig = Rig(start.target(url, f"http://127.0.0.1:{metrics}/metrics", members), url, workers, run)
        async with run():
            yield rig


def check_cycle(start: RouterStart, folder: Path) -> tuple[str, ...]:
    """A removed worker gets no requests, its counter stands still, and it gets requests again after the undo."""

    async def run() -> tuple[str, ...]:
        async with router_rig(start, folder) as rig:
            assert set(await rig.send(30)) == {"w0", "w1", "w2"}

            async def check() -> None:
                work = await rig.target.read_work()
                assert work[rig.workers[2].url] > 0
                assert set(await rig.send(12)) == {"w0", "w1"}
                moved = await rig.target.read_work()
                assert moved[rig.workers[2].url] == work[rig.workers[2].url]
                assert sum(moved.values()) == sum(work.values()) + 12
                assert not (await rig.target.read_state()).members[rig.workers[2].url].serving

            calls = await run_cycle(rig.target, rig.change(), check)
            assert set(await rig.send(60)) == {"w0", "w1", "w2"}
            return calls

    return asyncio.run(run())


def check_drain(start: RouterStart, folder: Path) -> None:
    """A request under way at the removed worker is answered."""

    async def run() -> None:
        async with router_rig(start, folder) as rig:
            for worker in rig.workers:
                worker.delay = 1.5
            under_way = [asyncio.create_task(rig.send(1)) for _ in range(12)]
            await asyncio.sleep(0.5)
            change = rig.change()
            before = (await rig.target.read_state()).members[change.member]
            await make_change(rig.target, change, before)
            await wait_for_standing(rig.target, change, before, OURS)
            found = sum((await asyncio.gather(*under_way)), Counter())
            assert found["w2"] > 0, "no request was under way at the worker"
            assert found.total() == 12

    asyncio.run(run())


def check_others_removal(start: RouterStart, folder: Path) -> None:
    """What was removed by somebody else is neither removed by us nor added again."""

    async def run() -> None:
        async with router_rig(start, folder) as rig:
            change = rig.change()
            before = (await rig.target.read_state()).members[change.member]
            await make_change(rig.target, rig.change(action="theirs"), before)
            await wait_for_standing(rig.target, change, before, OURS)
            theirs = (await rig.target.read_state()).members[change.member]
            assert not is_registered(theirs)
            with pytest.raises(ForeignStateError, match="changed by somebody else"):
                await make_change(rig.target, change, theirs)
            assert await undo_change(rig.target, change, theirs) == ()

    asyncio.run(run())


def check_restart(start: RouterStart, folder: Path) -> None:
    """A router that restarts has its workers again: nothing of ours is left, and the undo does nothing."""

    async def run() -> None:
        async with router_rig(start, folder) as rig:
            change = rig.change()
            before = (await rig.target.read_state()).members[change.member]
            await make_change(rig.target, change, before)
            await wait_for_standing(rig.target, change, before, OURS)
        async with AsyncExitStack() as stack:
            for worker in rig.workers:
                await stack.enter_async_context(worker)
            await stack.enter_async_context(rig.restart())
            state = await rig.target.read_state()
            assert rig.target.find_standing(change, before, state) == ABSENT
            assert await undo_change(rig.target, change, before) == ()

    asyncio.run(run())


def check_probe(start: RouterStart, folder: Path) -> None:
    """A removed worker is probed directly."""

    async def run() -> None:
        async with router_rig(start, folder) as rig:
            change = rig.change()
            before = (await rig.target.read_state()).members[change.member]
            await make_change(rig.target, change, before)
            rig.workers[2].delay = 0.3
            slow, quick = await rig.target.probe(rig.workers[2].url), await rig.target.probe(rig.workers[0].url)
            assert slow is not None
            assert quick is not None
            assert slow > 0.3 > quick

    asyncio.run(run())
