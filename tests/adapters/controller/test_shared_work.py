"""Work for requests is done once for all who ask for the same, in a queue with a limit, and not for who is gone."""

import asyncio
import threading
from types import SimpleNamespace

import pytest
from starlette.requests import ClientDisconnect

from skewscope.adapters.controller import api, shared_work
from skewscope.adapters.controller.shared_work import KeptAnswers, SharedWork, WorkRefusedError
from skewscope.engine.model.topology import Node, Topology


class FakeClient:
    def __init__(self, gone=False):
        self.gone = gone

    async def is_disconnected(self):
        return self.gone


def play(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 10))


class Gate:
    """Work that waits until it is opened, and counts how often it is done."""

    def __init__(self):
        self.opened, self.calls = threading.Event(), 0

    def __call__(self):
        self.calls += 1
        assert self.opened.wait(5)
        return self.calls


async def started(*coroutines):
    """Tasks of coroutines, each of which has got as far as it can."""
    tasks = [asyncio.ensure_future(coroutine) for coroutine in coroutines]
    for _ in range(5):
        await asyncio.sleep(0)
    return tasks


def test_clients_that_ask_for_the_same_share_the_work():
    async def go():
        work, gate = SharedWork("test"), Gate()
        tasks = await started(*(work.run("a", gate, FakeClient()) for _ in range(100)))
        gate.opened.set()
        assert await asyncio.gather(*tasks) == [1] * 100
        assert await work.run("a", gate, FakeClient()) == 2

    play(go())


def test_a_request_above_the_limit_is_refused_at_once(monkeypatch):
    monkeypatch.setattr(shared_work, "MAX_PENDING", 2)

    async def go():
        work, gate = SharedWork("test"), Gate()
        tasks = await started(work.run("a", gate, FakeClient()), work.run("b", gate, FakeClient()))
        with pytest.raises(WorkRefusedError):
            await work.run("c", gate, FakeClient())
        joined = await started(work.run("b", gate, FakeClient()))
        gate.opened.set()
        await asyncio.gather(*tasks, *joined)
        assert gate.calls == 2

    play(go())


def test_work_for_clients_that_are_gone_is_dropped():
    async def go():
        work, first, second, third = SharedWork("test"), Gate(), Gate(), Gate()
        gone, staying = FakeClient(), FakeClient()
        tasks = await started(
            work.run("a", first, FakeClient()),
            work.run("b", second, gone),
            work.run("c", third, gone),
            work.run("c", third, staying),
        )
        gone.gone = True
        for gate in (first, second, third):
            gate.opened.set()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(result) for result in results] == [int, ClientDisconnect, int, int]
        assert second.calls == 0

    play(go())


def test_a_client_that_is_cancelled_leaves_the_work_to_others():
    async def go():
        work, gate = SharedWork("test"), Gate()
        first, other = await started(work.run("a", gate, FakeClient()), work.run("a", gate, FakeClient()))
        first.cancel()
        gate.opened.set()
        assert await other == 1

    play(go())


def test_an_error_reaches_everybody_and_is_not_kept():
    def fail():
        raise ValueError("once")

    async def go():
        answers, basis = KeptAnswers(SharedWork("test"), 2), object()
        for _ in range(2):
            with pytest.raises(ValueError, match="once"):
                await answers.get(basis, "a", fail, FakeClient())
        assert await answers.get(basis, "a", lambda: 1, FakeClient()) == 1

    play(go())


def test_answers_are_kept_until_there_is_another_basis_and_only_so_many():
    calls = []

    async def go():
        answers = KeptAnswers(SharedWork("test"), 2)

        async def ask(basis, key):
            return await answers.get(basis, key, lambda: calls.append(key) or len(calls), FakeClient())

        first, second = object(), object()
        assert [await ask(first, key) for key in "aba"] == [1, 2, 1]
        assert [await ask(first, key) for key in "cab"] == [3, 1, 4], "b is the one that was asked for longest ago"
        assert [await ask(second, key) for key in "aa"] == [5, 5]

    play(go())


@pytest.mark.parametrize(("nodes", "texts"), [(512, 1), (513, 2)])
def test_a_topology_is_written_once_however_many_agents_ask(monkeypatch, nodes, texts):
    written = []
    monkeypatch.setattr(api, "format_topology", lambda part: written.append(len(part.nodes)) or "text")
    config = SimpleNamespace(topology=Topology(tuple(Node(f"n{n}") for n in range(nodes))))
    kept = KeptAnswers(SharedWork("test"), 64)
    context = SimpleNamespace(controller=SimpleNamespace(config=config), topology_texts=kept)

    class Agent(FakeClient):
        def __init__(self, node):
            super().__init__()
            self.headers, self.query_params = {}, {"node": node}

    async def go():
        asking = (api.get_topology(Agent(f"n{n % 2}"), context) for n in range(100))
        assert {answer.body for answer in await asyncio.gather(*asking)} == {b"text"}

    play(go())
    # Of a large one each node has a part of its own.
    assert len(written) == texts
