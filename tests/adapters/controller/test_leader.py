"""Of several controllers one tells, and another takes over when it does not go on."""

import asyncio
import fcntl
import multiprocessing
import signal
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skewscope.adapters.controller import config
from skewscope.adapters.controller.election_participant import ControllerParticipant
from skewscope.adapters.controller.leader_election import LeaderElection
from skewscope.adapters.controller.lease import SAFE_SHARE, FileLease, LeaseConfig
from skewscope.kb.problems import InputError
from tests.adapters.controller.processes import Sender, running
from tests.adapters.notify.servers import listening


@dataclass
class Now:
    t: float = 100.0

    def __call__(self):
        return self.t


RELEASED = "\n-\n\n"
"""Content of a lock file that its last leader has released."""


def released(path: Path, lease: float = 1.0) -> LeaseConfig:
    """A lock that is free at once: of a file that is not there nobody knows."""
    path.write_text(RELEASED)
    return LeaseConfig(path, lease)


def pair(folder: Path, lease: float = 10.0):
    """Two controllers whose clocks tell quite different times."""
    lock, here, there = released(folder / "lock", lease), Now(100.0), Now(5e6)
    return FileLease(lock, "one", here), FileLease(lock, "two", there), (here, there)


def passes(clocks, seconds):
    for clock in clocks:
        clock.t += seconds


def test_the_first_has_the_turn_and_the_second_waits(tmp_path):
    one, two, clocks = pair(tmp_path)
    for _ in range(20):
        assert one.acquire()
        assert not two.acquire()
        passes(clocks, 4.0)


def test_the_leader_reads_once_what_a_follower_writes(tmp_path):
    one, two, clocks = pair(tmp_path)
    assert one.acquire()
    two.message = "an opening"
    assert not two.acquire()
    two.message = ""
    for lease, said in ((two, ""), (one, "an opening")):
        lease.acquire()
        assert lease.received == said
    one.received = ""
    passes(clocks, 1.0)
    assert one.acquire()
    assert one.received == ""
    assert not (tmp_path / "lock.missed").exists()


def test_a_message_that_cannot_be_written_or_read_takes_no_lease_away(tmp_path):
    one, two, _ = pair(tmp_path)
    (tmp_path / "lock.missed").mkdir()
    two.message = "an opening"
    assert one.acquire()
    assert not two.acquire()
    assert one.acquire()
    assert one.received == ""


def test_who_does_not_renew_has_lost_it_before_another_takes_it(tmp_path):
    one, two, clocks = pair(tmp_path)
    assert one.acquire()
    assert not two.acquire()
    passes(clocks, 10.0 * SAFE_SHARE)
    assert not one.is_held
    assert not two.acquire()
    passes(clocks, 10.0 - 10.0 * SAFE_SHARE)
    assert two.acquire()
    assert not one.acquire()


def test_who_ends_in_order_leaves_it_to_another_at_once(tmp_path):
    one, two, _ = pair(tmp_path)
    assert one.acquire()
    assert not two.acquire()
    one.release()
    assert not one.is_held
    assert two.acquire()
    one.release()
    assert two.acquire()


@given(st.lists(st.tuples(st.sampled_from("ot-"), st.floats(0.0, 8.0)), max_size=60))
@settings(max_examples=60, deadline=None)
def test_never_two_have_it(tmp_path_factory, steps):
    one, two, clocks = pair(tmp_path_factory.mktemp("lease"))
    for who, seconds in steps:
        passes(clocks, seconds)
        if who != "-":
            (one if who == "o" else two).acquire()
        assert not (one.is_held and two.is_held)


def test_who_finds_another_name_in_the_file_has_lost_it_at_once(tmp_path):
    """The machine of the first stood still, and its clock with it."""
    one, two, clocks = pair(tmp_path)
    assert one.acquire()
    for _ in range(4):
        two.acquire()
        clocks[1].t += 4.0
    assert two.acquire()
    assert one.is_held  # nothing has told it yet
    assert not one.acquire()
    assert not one.is_held


@pytest.mark.parametrize("content", [None, b""])
def test_a_file_that_is_removed_under_the_leader_leaves_one_leader(tmp_path, content):
    one, two, clocks = pair(tmp_path)
    assert one.acquire()
    assert not two.acquire()
    for who in (two, one, two, one, two):
        (tmp_path / "lock").unlink() if content is None else (tmp_path / "lock").write_bytes(content)
        passes(clocks, 2.0)
        assert who.acquire() == (who is one)
        assert one.is_held
        assert not two.is_held
    assert one.term == 1


def test_a_file_that_is_removed_without_a_leader_is_free_after_a_lease(tmp_path):
    one, two, clocks = pair(tmp_path)
    (tmp_path / "lock").unlink()
    for _ in range(3):
        assert not one.acquire()
        assert not two.acquire()
        passes(clocks, 3.0)
    passes(clocks, 1.0)
    assert one.acquire()
    assert not two.acquire()


def test_a_file_that_is_replaced_while_it_is_locked_is_not_written(tmp_path, monkeypatch):
    one, _, _ = pair(tmp_path)
    lock = fcntl.lockf

    def replaced_meanwhile(*arguments):
        lock(*arguments)
        (tmp_path / "new").write_text(RELEASED)
        (tmp_path / "new").replace(tmp_path / "lock")

    monkeypatch.setattr(fcntl, "lockf", replaced_meanwhile)
    with pytest.raises(BlockingIOError, match="was replaced"):
        one.acquire()
    assert (tmp_path / "lock").read_text() == RELEASED


@pytest.mark.parametrize("text", [b"", b"\n", b"\xff\x00nonsense", b"x" * 5000])
def test_a_file_of_anything_is_taken_after_a_lease_at_most(tmp_path, text):
    one, _, clocks = pair(tmp_path)
    (tmp_path / "lock").write_bytes(text)
    one.acquire()
    passes(clocks, 10.0)
    assert one.acquire()
    assert len((tmp_path / "lock").read_bytes()) < 100


def hold(path, ready, done):
    turn = FileLease(LeaseConfig(path))
    with turn._open():
        ready.set()
        done.wait(20)


def test_while_another_process_looks_at_the_file_nothing_happens(tmp_path):
    context = multiprocessing.get_context("fork")
    ready, done = context.Event(), context.Event()
    other = context.Process(target=hold, args=(tmp_path / "lock", ready, done))
    other.start()
    try:
        assert ready.wait(20)
        with pytest.raises(BlockingIOError):
            FileLease(LeaseConfig(tmp_path / "lock")).acquire()
    finally:
        done.set()
        other.join(20)
    assert FileLease(released(tmp_path / "lock")).acquire()


@dataclass
class Part:
    """What a test wants of a controller."""

    is_able: bool = True
    said: str = "said"
    heard: list[str] = field(default_factory=list)
    changes: list[bool] = field(default_factory=list)

    def progress(self):
        return self.said

    def receive_progress(self, said):
        self.heard.append(said)

    def list_omissions(self):
        return ""

    def receive_omissions(self, text):
        raise AssertionError(text)

    async def on_leadership_change(self, leads):
        self.changes.append(leads)


def test_storage_that_fails_is_told_and_nobody_leads(tmp_path, caplog):
    part = Part()

    async def scenario():
        leader = LeaderElection(LeaseConfig(tmp_path / "gone" / "lock", 1.0), part)
        leader.start()
        await asyncio.sleep(0.5)
        assert not leader.is_leader
        await leader.close()

    asyncio.run(scenario())
    assert part.changes == [False]
    assert [r.getMessage() for r in caplog.records if "gone" in r.getMessage()]


def test_without_a_lock_a_controller_leads():
    part = Part()

    async def scenario():
        leader = LeaderElection(None, part)
        leader.start()
        assert leader.is_leader
        await leader.close()

    asyncio.run(scenario())
    assert part.changes == []


def test_the_next_one_hears_what_the_one_before_said_and_only_then_leads(tmp_path):
    lock, first, second = released(tmp_path / "lock"), Part(said="told until 5"), Part()

    async def scenario():
        one, two = LeaderElection(lock, first), LeaderElection(lock, second)
        one.start()
        await until(lambda: one.is_leader)
        two.start()
        await until(lambda: "told until 5" in second.heard)
        first.said = "told until 7"
        await one.close()
        await until(lambda: two.is_leader)
        assert second.heard[-1] == "told until 7"
        await two.close()

    asyncio.run(scenario())
    assert (first.heard, first.changes, second.changes) == ([""], [True], [False, True])


def test_who_does_not_judge_leaves_it_to_another(tmp_path):
    lock, first, second = released(tmp_path / "lock"), Part(), Part()

    async def scenario():
        one, two = LeaderElection(lock, first), LeaderElection(lock, second)
        one.start()
        await until(lambda: one.is_leader)
        two.start()
        first.is_able = False
        await until(lambda: two.is_leader)
        assert not one.is_leader
        await asyncio.gather(one.close(), two.close())

    asyncio.run(scenario())


def test_a_leader_whose_task_fails_goes_on(tmp_path, caplog):
    class Buggy(Part):
        calls = 0

        def progress(self):
            self.calls += 1
            if self.calls == 2:
                raise RuntimeError("a bug")
            return "said"

    part = Buggy()

    async def scenario():
        leader = LeaderElection(released(tmp_path / "lock", 2.0), part)
        leader.start()
        await until(lambda: part.calls > 3)
        assert leader.is_leader
        await leader.close()

    asyncio.run(scenario())
    assert "leader: failed" in caplog.text
    assert part.changes == [True]


def test_a_close_in_the_middle_of_an_acquire_leaves_the_lease_to_another(tmp_path, monkeypatch):
    lock, begun, go_on = released(tmp_path / "lock", 5.0), threading.Event(), threading.Event()
    write = FileLease._write

    def slow(*arguments):
        begun.set()
        go_on.wait(10)
        write(*arguments)

    monkeypatch.setattr(FileLease, "_write", slow)

    async def scenario():
        leader = LeaderElection(lock, Part())
        leader.start()
        await until(begun.is_set)
        closing = asyncio.create_task(leader.close())
        await asyncio.sleep(0.1)
        go_on.set()
        await closing

    asyncio.run(scenario())
    assert FileLease(lock).acquire()


async def until(done):
    async with asyncio.timeout(20):
        while not done():  # noqa: ASYNC110 - what is waited for happens in a thread
            await asyncio.sleep(0.02)


def test_what_is_wrong_with_it_is_told(tmp_path):
    (tmp_path / "topology.yaml").write_text("version: 1\nnodes: [{name: n0}]\n")
    path = tmp_path / "skewscope.yaml"
    path.write_text("version: 1\ntopology: topology.yaml\nleader: {lock: gone/lock, lease: 0}\n")
    with pytest.raises(InputError) as told:
        config.read(path)
    assert {problem.field for problem in told.value.problems} == {"leader.lock", "leader.lease"}


def leads(found):
    return "skewscope_leads 1.0" in found.ask("/metrics")[2].decode()


@pytest.mark.slow
def test_of_two_controllers_the_other_takes_over_from_one_that_is_killed(tmp_path):
    more = f"leader: {{lock: {released(tmp_path / 'lock').path}, lease: 3}}\n"
    with ExitStack() as stack:
        found = []
        for name in "ab":
            (tmp_path / name).mkdir()
            found.append(stack.enter_context(running(tmp_path / name, more)))
        found[0].until(lambda: any(map(leads, found)))
        first, second = found if leads(found[0]) else reversed(found)
        for _ in range(10):
            assert [leads(first), leads(second)] == [True, False]
            time.sleep(0.1)
        first.process.send_signal(signal.SIGKILL)
        second.until(lambda: leads(second))


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_what_happens_between_a_leader_and_the_next_is_told_once(tmp_path, how):
    """A fault that begins after the leader is gone, or stands still, and before the other has taken over."""
    with ExitStack() as stack:
        ear = stack.enter_context(listening())
        tell = f"tell: [{{kind: cloudevents, name: events, urls: ['http://127.0.0.1:{ear.port}/']}}]\n"
        more = f"leader: {{lock: {released(tmp_path / 'lock').path}, lease: 15}}\n{tell}"
        found = []
        for name in "ab":
            (tmp_path / name).mkdir()
            found.append(stack.enter_context(running(tmp_path / name, more)))
        found[0].until(lambda: any(map(leads, found)))
        first, second = found if leads(found[0]) else reversed(found)
        senders = [Sender(first), Sender(second)]
        for sender in senders:
            sender.send(8, 10.0)
        first.process.send_signal(how)
        stack.callback(first.process.send_signal, signal.SIGCONT)
        sender = senders[1]
        sender.send(14, np.nan)
        second.until(lambda: (sender.send(1, np.nan, pause=0.2), second.json("/api/v1/incidents")["incidents"])[1], 40)
        assert not leads(second)
        assert ear.posts == []
        second.until(lambda: (sender.send(1, np.nan, pause=0.2), leads(second))[1], 40)
        (event,) = ear.heard()
        assert event.json["type"] == "io.skewscope.incident.opened"
        assert event.json["data"]["id"] == second.json("/api/v1/incidents")["incidents"][0]["id"]
        if how == signal.SIGSTOP:
            first.process.send_signal(signal.SIGCONT)
            for _ in range(20):
                sender.send(1, np.nan, pause=0.2)
                assert (leads(first), leads(second)) == (False, True)
        assert len(ear.posts) == 1


def test_a_controller_whose_ticks_are_slow_is_able_to_lead_and_one_that_stalls_is_not():
    since, lasted = [0.0], [0.2]
    part = ControllerParticipant(None, None, lambda: since[0], lambda: lasted[0], None)
    for seconds, tick, able in [(9.0, 0.2, True), (11.0, 0.2, False), (20.0, 12.0, True), (25.0, 12.0, False)]:
        since[0], lasted[0] = seconds, tick
        assert part.is_able is able
    since[0], lasted[0] = 301.0, 1000.0
    assert not part.is_able
    since[0] = None
    assert not part.is_able
