"""Of several controllers one tells, and another takes over when it does not go on."""

import asyncio
import multiprocessing
import signal
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skewscope.adapters.controller import config
from skewscope.adapters.controller.leader import SAFE, Leader, Lock, Turn
from skewscope.kb.problems import InputError
from tests.controller.processes import running


@dataclass
class Now:
    t: float = 100.0

    def __call__(self):
        return self.t


def pair(folder: Path, lease: float = 10.0):
    """Two controllers whose clocks tell quite different times."""
    lock, here, there = Lock(folder / "lock", lease), Now(100.0), Now(5e6)
    return Turn(lock, "one", here), Turn(lock, "two", there), (here, there)


def passes(clocks, seconds):
    for clock in clocks:
        clock.t += seconds


def test_the_first_has_the_turn_and_the_second_waits(tmp_path):
    one, two, clocks = pair(tmp_path)
    for _ in range(20):
        assert one.take()
        assert not two.take()
        passes(clocks, 4.0)


def test_who_does_not_renew_has_lost_it_before_another_takes_it(tmp_path):
    one, two, clocks = pair(tmp_path)
    assert one.take()
    assert not two.take()
    passes(clocks, 10.0 * SAFE)
    assert not one.ours
    assert not two.take()
    passes(clocks, 10.0 - 10.0 * SAFE)
    assert two.take()
    assert not one.take()


def test_who_ends_in_order_leaves_it_to_another_at_once(tmp_path):
    one, two, _ = pair(tmp_path)
    assert one.take()
    assert not two.take()
    one.give()
    assert not one.ours
    assert two.take()
    one.give()
    assert two.take()


@given(st.lists(st.tuples(st.sampled_from("ot-"), st.floats(0.0, 8.0)), max_size=60))
@settings(max_examples=60, deadline=None)
def test_never_two_have_it(tmp_path_factory, steps):
    one, two, clocks = pair(tmp_path_factory.mktemp("lease"))
    for who, seconds in steps:
        passes(clocks, seconds)
        if who != "-":
            (one if who == "o" else two).take()
        assert not (one.ours and two.ours)


@pytest.mark.parametrize("text", [b"", b"\n", b"\xff\x00nonsense", b"x" * 5000])
def test_a_file_of_anything_is_taken_after_a_lease_at_most(tmp_path, text):
    one, _, clocks = pair(tmp_path)
    (tmp_path / "lock").write_bytes(text)
    one.take()
    passes(clocks, 10.0)
    assert one.take()
    assert len((tmp_path / "lock").read_bytes()) < 100


def hold(path, ready, done):
    turn = Turn(Lock(path))
    with turn._held():
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
            Turn(Lock(tmp_path / "lock")).take()
    finally:
        done.set()
        other.join(20)
    assert Turn(Lock(tmp_path / "lock")).take()


def test_storage_that_fails_is_told_and_nobody_leads(tmp_path, caplog):
    said = []

    async def changed(leads):
        said.append(leads)

    async def scenario():
        leader = Leader(Lock(tmp_path / "gone" / "lock", 1.0), changed)
        leader.start()
        await asyncio.sleep(0.5)
        assert not leader.leads
        await leader.close()

    asyncio.run(scenario())
    assert said == [False]
    assert [r.getMessage() for r in caplog.records if "gone" in r.getMessage()]


def test_without_a_lock_a_controller_leads(tmp_path):
    async def changed(leads):
        raise AssertionError(leads)

    async def scenario():
        leader = Leader(None, changed)
        leader.start()
        assert leader.leads
        await leader.close()

    asyncio.run(scenario())


def test_what_is_wrong_with_it_is_told(tmp_path):
    (tmp_path / "topology.yaml").write_text("version: 1\nnodes: [{name: n0}]\n")
    path = tmp_path / "skewscope.yaml"
    path.write_text("version: 1\ntopology: topology.yaml\nleader: {lock: gone/lock, lease: 0}\n")
    with pytest.raises(InputError) as told:
        config.read(path)
    assert {problem.field for problem in told.value.problems} == {"leader.lock", "leader.lease"}


def leads(found):
    return "skewscope_leads 1.0" in found.ask("/metrics")[2].decode()


def test_of_two_controllers_the_other_takes_over_from_one_that_is_killed(tmp_path):
    more = f"leader: {{lock: {tmp_path / 'lock'}, lease: 3}}\n"
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
