"""A worker for many senders: the event loop goes on, who has had least comes first, and what waits is bounded."""

import asyncio
import gc
import threading
import weakref

import pytest

from skewscope.adapters.controller import fair_worker, server
from skewscope.adapters.controller.agent_receiver import OverShareError
from skewscope.adapters.controller.fair_worker import FairWorker, WorkerFullError
from skewscope.adapters.controller.server import ControllerApp
from tests.adapters.controller.test_connection import ANNOUNCED, ASKED, answer, post, talk  # noqa: F401


class Work:
    """A worker whose time is what its jobs say that they took."""

    def __init__(self):
        self.t, self.order, self.go = 0.0, [], threading.Event()
        self.worker = FairWorker("test", lambda: self.t)

    def job(self, name, seconds):
        def run():
            self.go.wait(10.0)
            self.t += seconds
            self.order.append(name)
            return name

        return run

    async def finish(self, jobs):
        """Submits (sender, seconds) before the first is run; what was told, in order."""
        told, all_told = [], asyncio.Event()

        def done(result):
            told.append(result)
            if len(told) == len(jobs):
                all_told.set()

        for sender, seconds in jobs:
            self.worker.submit(sender, self.job(sender, seconds), done)
        self.go.set()
        async with asyncio.timeout(20):
            await all_told.wait()
        self.worker.close()
        return told


def test_senders_with_little_work_come_before_one_with_much():
    work = Work()
    jobs = [("greedy", 2.0)] * 4 + [(f"n{n}", 0.001) for n in range(3)]
    told = asyncio.run(work.finish(jobs))
    assert told == ["greedy", "n0", "n1", "n2", "greedy", "greedy", "greedy"]


def test_a_small_job_comes_before_a_large_one_of_a_sender_not_heard_before():
    """Ten senders that begin at the same time with large bodies once held up all others until the last was read."""
    work, told = Work(), []

    async def submit_all():
        ended = asyncio.Event()

        def done(name):
            told.append(name)
            if len(told) == 6:
                ended.set()

        for sender, seconds in [("first", 0.0), *[(f"large{n}", 0.3) for n in range(3)], ("n0", 0.0), ("n1", 1e-5)]:
            work.worker.submit(sender, work.job(sender, seconds), done, seconds)
        work.go.set()
        async with asyncio.timeout(20):
            await ended.wait()
        work.worker.close()

    asyncio.run(submit_all())
    assert told == ["first", "n0", "n1", "large0", "large1", "large2"]


def test_a_long_job_gives_way_to_small_ones_which_count_for_their_senders():
    work, told = Work(), asyncio.Queue()

    def long():
        work.go.wait(10.0)
        assert not work.worker.is_way_due()
        work.t += 0.1
        assert work.worker.is_way_due()
        work.worker.give_way()
        assert not work.worker.is_way_due()
        work.order.append("long")

    async def play():
        work.worker.submit("long", long, told.put_nowait)
        work.worker.submit("long", work.job("next", 0.0), told.put_nowait)
        work.worker.submit("large", work.job("large", 0.3), told.put_nowait, 0.3)
        work.worker.submit("small", work.job("small", 0.06), told.put_nowait)
        work.go.set()
        async with asyncio.timeout(20):
            for _ in range(4):
                await told.get()
        work.worker.close()

    asyncio.run(play())
    assert work.order == ["small", "long", "next", "large"], "0.1 s are counted for the long one, not 0.16"


def test_a_small_job_that_comes_while_a_long_one_rests_does_not_wait_for_its_end():
    resting, order = threading.Event(), []
    worker = FairWorker("test", is_yielding=lambda: "small" not in order)

    def long():
        resting.set()
        worker.give_way()
        order.append("long")

    async def play():
        told = asyncio.Queue()
        worker.submit("long", long, told.put_nowait)
        await asyncio.to_thread(resting.wait, 10.0)
        worker.submit("small", lambda: order.append("small"), told.put_nowait)
        async with asyncio.timeout(20):
            await told.get()
            await told.get()
        worker.close()

    asyncio.run(play())
    assert order == ["small", "long"]


def test_a_long_job_yields_no_longer_than_it_may_in_all_its_rests(monkeypatch):
    """What is more important may itself wait for the job."""
    monkeypatch.setattr(fair_worker, "MAX_YIELD_S", 0.01)
    asked, counts = [], []

    def is_yielding():
        asked.append(None)
        return True

    worker = FairWorker("test", is_yielding=is_yielding)

    def long():
        for _ in range(3):
            worker.give_way()
            counts.append(len(asked))

    async def play():
        told = asyncio.Queue()
        worker.submit("long", long, told.put_nowait)
        async with asyncio.timeout(20):
            assert await told.get() is None
        worker.close()

    asyncio.run(play())
    assert counts[0] > 0
    assert counts == [counts[0]] * 3


def test_two_greedy_senders_take_turns():
    work = Work()
    told = asyncio.run(work.finish([("a", 2.0)] * 3 + [("b", 2.0)] * 3))
    assert told[:2] == ["a", "b"]
    assert sorted(told[2:4]) == sorted(told[4:]) == ["a", "b"]


def test_a_job_that_fails_is_told_and_ends_nothing():
    async def play():
        worker, told = FairWorker("test"), asyncio.Queue()
        worker.submit("a", lambda: 1 / 0, told.put_nowait)
        worker.submit("a", lambda: 7, told.put_nowait)
        async with asyncio.timeout(20):
            found = await told.get(), await told.get()
        worker.close()
        return found

    error, number = asyncio.run(play())
    assert isinstance(error, ZeroDivisionError)
    assert number == 7


def test_an_error_keeps_nothing_of_its_job_nor_of_the_long_one_that_gave_way():
    class Body:
        """What a job has read."""

    read, queued = [], threading.Event()
    worker = FairWorker("test", is_yielding=lambda: not read)

    def fail():
        body = Body()
        read.append(weakref.ref(body))
        raise ValueError(body)

    def long():
        body = Body()
        queued.wait(10.0)
        worker.give_way()
        read.append(weakref.ref(body))

    async def play():
        told = asyncio.Queue()
        worker.submit("long", long, lambda _: told.put_nowait(None))
        worker.submit("small", fail, lambda error: told.put_nowait(str(type(error))))
        queued.set()
        async with asyncio.timeout(20):
            found = {await told.get(), await told.get()}
        worker.close()
        return found

    gc.collect()
    gc.disable()
    try:
        assert asyncio.run(play()) == {None, "<class 'ValueError'>"}
        worker._thread.join(10.0)
        assert [body() for body in read] == [None, None]
    finally:
        gc.enable()


def test_what_waits_is_bounded_for_each_sender(monkeypatch):
    monkeypatch.setattr(fair_worker, "MAX_JOBS_OF_ONE", 3)
    work = Work()

    async def play():
        for _ in range(3):
            work.worker.submit("a", work.job("a", 0.0), lambda _: None)
        with pytest.raises(WorkerFullError):
            work.worker.submit("a", work.job("a", 0.0), lambda _: None)
        return await work.finish([("b", 0.0)])

    assert asyncio.run(play()) == ["b"]


def test_senders_are_forgotten_when_they_have_nothing_left_to_do():
    work = Work()
    asyncio.run(work.finish([(f"n{n}", 0.001) for n in range(5)]))
    assert not work.worker._senders


def test_other_requests_are_answered_while_a_body_is_read(talk, monkeypatch):  # noqa: F811
    reading, go_on = threading.Event(), threading.Event()
    receive = ControllerApp.receive_rows

    def slow(self, body, allowed):
        reading.set()
        assert go_on.wait(20.0)
        return receive(self, body, allowed)

    monkeypatch.setattr(ControllerApp, "receive_rows", slow)

    async def conversation(reader, writer):
        writer.write(post(ANNOUNCED) + ASKED)
        await asyncio.to_thread(reading.wait, 10.0)
        other, there = await asyncio.open_connection(*writer.get_extra_info("peername"))
        there.write(ASKED)
        meanwhile = await answer(other)
        there.close()
        go_on.set()
        return meanwhile, await answer(reader), await answer(reader)

    found, _ = talk(conversation)
    assert [status for status, _ in found] == [404, 200, 404], "the second answer waits for the first"


def test_a_sender_with_much_work_waits_for_what_is_more_important_and_others_do_not():
    work, judging, told = Work(), threading.Event(), []
    work.worker = FairWorker("test", lambda: work.t, judging.is_set)
    work.go.set()

    def submit(sender, seconds):
        done = asyncio.Event()
        work.worker.submit(sender, work.job(sender, seconds), lambda name: (told.append(name), done.set()))
        return done

    async def play():
        async with asyncio.timeout(20):
            await submit("greedy", 2.0).wait()
            judging.set()
            later = submit("greedy", 2.0)
            await submit("n0", 0.001).wait()
            before = list(told)
            judging.clear()
            await later.wait()
        work.worker.close()
        return before

    assert asyncio.run(play()) == ["greedy", "n0"]
    assert told == ["greedy", "n0", "greedy"]


def test_what_is_more_important_is_waited_for_no_longer_than_a_second(monkeypatch):
    monkeypatch.setattr(fair_worker, "MAX_YIELD_S", 0.05)
    work = Work()
    work.worker = FairWorker("test", is_yielding=lambda: True)
    assert asyncio.run(work.finish([("greedy", 2.0)] * 3)) == ["greedy"] * 3


def test_a_sender_over_its_share_hears_so_only_after_a_while_and_others_at_once(talk, monkeypatch):  # noqa: F811
    monkeypatch.setattr(server, "REFUSAL_DELAY_S", 0.3)

    def refuse(_self, body, _allowed):
        if body == ANNOUNCED:
            raise OverShareError("too much", 7.0)
        return 5

    monkeypatch.setattr(ControllerApp, "receive_rows", refuse)

    async def conversation(reader, writer):
        writer.write(post(ANNOUNCED))
        late = asyncio.create_task(answer(reader))
        other, there = await asyncio.open_connection(*writer.get_extra_info("peername"))
        there.write(post(b"other"))
        found = await answer(other)
        is_refused = late.done()
        there.close()
        return found, is_refused, await late

    (found, is_refused, refused), _ = talk(conversation)
    assert found == (200, {"taken": 5})
    assert not is_refused
    assert refused == (503, {"error": "too much"})
