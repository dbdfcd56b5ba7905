"""A shard that is killed goes on with the same ids, windows and incidents: nothing is lost, nothing is said twice."""

import math
import os
import pickle
import random
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import zstandard

from skewscope.adapters.controller.agent_receiver import ForeignNodeError, UnknownTablesError
from skewscope.adapters.fleet.journal import ROWS, TICK, Journal
from skewscope.adapters.fleet.key_pool import KeyPool
from skewscope.adapters.fleet.shard_host import HEARD_S, SETTLE_S, SETTLE_STEP_S, ShardHost, ShardPlan
from skewscope.adapters.fleet.state_codec import StateError, decode_state, encode_state
from skewscope.adapters.formats.row_protocol import HelloFrame, RowFrame, SeriesFrame, decode, encode
from skewscope.engine.model.topology import Node
from skewscope.kb.loader import catalogue
from skewscope.kb.problems import SkewscopeError
from tests.adapters.fleet.shards import StillClock, demo_rows, demo_topology


def plan(folder, **more):
    return ShardPlan("shard0001", demo_topology(), folder / "shard0001", **more)


def kill(host):
    """Ends a shard as a killed process does: without a word, its files are closed."""
    host.journal.close()


def lines(host):
    return [one.as_line() for one in host.engine.list_incidents()]


class Listener:
    """What a controller of the fleet would say of a shard."""

    def __init__(self):
        self.changes, self.number, self.life = [], 0, ""

    def hear(self, host):
        report = host.poll(self.number, self.life)
        assert self.life in ("", report.life)
        self.life = report.life
        for tick in report.ticks:
            if tick.number > self.number:
                self.changes += tick.changes
                self.number = tick.number


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Changes and incidents of a shard that nobody kills."""
    clock, listener = StillClock(), Listener()
    host = ShardHost(plan(tmp_path_factory.mktemp("whole")), clock)
    for t, bodies in demo_rows():
        for _, body in bodies:
            clock.time = t - 0.4
            host.receive(body, None)
        host.tick(t)
        listener.hear(host)
    assert len(listener.changes) >= 3
    return listener.changes, lines(host)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_shard_that_is_killed_at_any_moment_loses_nothing_and_says_nothing_twice(tmp_path, whole, seed):
    chance, clock, listener, rows = random.Random(seed), StillClock(), Listener(), demo_rows()
    host = ShardHost(plan(tmp_path), clock)
    within, after = (set(chance.sample(range(len(rows)), 5)) for _ in range(2))
    for n, (t, bodies) in enumerate(rows):
        last = chance.randrange(len(bodies)) if n in within else -1
        for at, (_, body) in enumerate(bodies):
            clock.time = t - 0.4
            host.receive(body, None)
            if at == last:
                kill(host)
                host = ShardHost(plan(tmp_path), clock)
                assert host.is_restored
        host.tick(t)
        if n in after:
            kill(host)
            host = ShardHost(plan(tmp_path), clock)
        if chance.random() < 0.5:
            listener.hear(host)
    listener.hear(host)
    assert (listener.changes, lines(host)) == whole


def test_rows_that_agents_send_again_count_once(tmp_path):
    clock = StillClock()
    host = ShardHost(plan(tmp_path), clock)
    (t, bodies), *_ = demo_rows()
    clock.time = t
    first = host.receive(bodies[0][1], None)
    kill(host)
    host = ShardHost(plan(tmp_path), clock)
    assert host.receive(bodies[0][1], None) == first
    host.tick(t)
    assert host.engine._state.receiver.agents[bodies[0][0]].repeated_rows == 1


def test_a_shard_catches_up_tick_by_tick(tmp_path):
    host = ShardHost.__new__(ShardHost)
    host.plan, host.engine = plan(tmp_path), SimpleNamespace(time=-math.inf)
    assert list(host._due_ticks(1000.6)) == [1000.0]
    host.engine.time = 1000.0
    assert list(host._due_ticks(1000.6)) == []
    assert list(host._due_ticks(1003.6)) == [1001.0, 1002.0, 1003.0]
    assert list(host._due_ticks(2000.6)) == [2000.0]
    assert list(host._due_ticks(900.6)) == [900.0]


def announced(body, node):
    """A body of rows with the announcement of its series."""
    first = dict(demo_rows()[0][1])[node]
    frames = [one for one in decode(first) if isinstance(one, SeriesFrame)]
    rows = [one for one in decode(body) if isinstance(one, RowFrame)]
    return encode([HelloFrame(node, "b", "test"), *frames, *rows])


def receive(host, node, body):
    """Sends rows as an agent does, which announces its series again where it is asked to."""
    try:
        host.receive(body, None)
    except UnknownTablesError:
        host.receive(announced(body, node), None)


def changed(topology, gone="", new=""):
    nodes = tuple(one for one in topology.nodes if one.name != gone)
    return replace(topology, nodes=(*nodes, *([Node(new)] if new else [])))


@pytest.mark.slow
def test_a_shard_that_gets_a_node_goes_on_with_windows_and_incidents(tmp_path, whole):
    clock, listener, before = StillClock(), Listener(), plan(tmp_path)
    host = ShardHost(before, clock)
    changes = 0
    for t, bodies in demo_rows():
        for node, body in bodies:
            clock.time = t - 0.4
            receive(host, node, body)
        host.tick(t)
        listener.hear(host)
        if len(listener.changes) > changes:
            changes = len(listener.changes)
            life = host.engine.life
            kill(host)
            host = ShardHost(replace(before, topology=changed(host.plan.topology, new=f"new{changes}")), clock)
            assert (host.is_restored, host.engine.life) == (True, life)
    assert len(host.plan.topology.nodes) >= len(before.topology.nodes) + 2
    assert listener.changes == whole[0]
    # What was found once is the same; a snapshot of the new topology is loaded as usual.
    kill(host)
    again = ShardHost(host.plan, clock)
    assert lines(again) == lines(host)


@pytest.mark.slow
def test_a_node_that_is_gone_is_refused_and_the_others_go_on(tmp_path):
    clock, after = StillClock(), plan(tmp_path)
    host = ShardHost(replace(after, topology=changed(after.topology, new="spare")), clock)
    hello = encode([HelloFrame("spare", "b", "t")])
    for t, bodies in demo_rows():
        for _, body in [*bodies, ("spare", hello)]:
            clock.time = t - 0.4
            host.receive(body, None)
        host.tick(t)
    found = {(one.id, one.state) for one in host.engine.list_incidents()}
    assert found
    assert "spare" in {one.node for one in host.engine.agent_records()}
    host.close()
    again = ShardHost(after, clock)
    assert {(one.id, one.state) for one in again.engine.list_incidents()} == found
    assert {one.node for one in again.engine.agent_records()} == {one.name for one in after.topology.nodes}
    with pytest.raises(ForeignNodeError):
        again.receive(hello, None)


def test_a_kept_topology_that_cannot_be_read_is_no_harm(tmp_path):
    before = plan(tmp_path)
    host = ShardHost(before, StillClock())
    host.tick(1000.0)
    host.close()
    (before.folder / "topology.yaml").write_text("nodes: [")
    after = ShardHost(replace(before, topology=changed(before.topology, new="n99")), StillClock())
    assert not after.is_restored
    assert after.engine.life != host.engine.life


class Waiting:
    """Stands for the event that stops a shard: time passes while it is waited for."""

    def __init__(self, clock, returns=()):
        self.clock, self.returns, self.waited = clock, dict(returns), 0.0

    def wait(self, seconds):
        self.clock.time += seconds
        self.waited += seconds
        for agent in [one for one, at in self.returns.items() if at <= self.waited]:
            del self.returns[agent]
            agent()
        return False


@pytest.mark.parametrize(("returns", "waited"), [([0.1, 0.3], 0.3), ([0.1], SETTLE_S), ([], SETTLE_S)])
def test_a_shard_that_returns_waits_for_the_agents_that_reported_until_the_end(tmp_path, returns, waited):
    clock = StillClock()
    host = ShardHost(plan(tmp_path), clock)
    (t, bodies), *_ = demo_rows()
    # The third agent was silent before.
    for number, (_, body) in enumerate(bodies[:3]):
        clock.time = t if number < 2 else t - HEARD_S - 1.0
        host.engine._clock.time = clock.time
        host.receive(body, None)
    clock.time = t + 2.0
    agents = [partial(host.receive, body, None) for _, body in bodies[:2]]
    event = Waiting(clock, zip(agents, returns, strict=False))
    host._settle(event)
    assert event.waited == pytest.approx(waited, abs=1.5 * SETTLE_STEP_S)


def test_a_shard_without_agents_waits_for_none(tmp_path):
    clock = StillClock(1000.0)
    host, event = ShardHost(plan(tmp_path), clock), Waiting(clock)
    host._settle(event)
    assert event.waited == 0.0


def test_refused_bodies_change_nothing_after_a_return(tmp_path):
    host = ShardHost(plan(tmp_path), StillClock(5.0))
    with pytest.raises(ForeignNodeError):
        host.receive(encode([HelloFrame("stranger", "b", "t")]), None)
    node = demo_topology().nodes[0].name
    with pytest.raises(UnknownTablesError):
        host.receive(encode([HelloFrame(node, "b", "t"), RowFrame(1, 5.0, 3, np.ones(2))]), node)
    kill(host)
    host = ShardHost(plan(tmp_path), StillClock(6.0))
    assert list(host.engine._state.receiver.agents) == [node]


@pytest.mark.slow
def test_a_snapshot_of_other_code_is_not_used_and_the_shard_has_another_life(tmp_path):
    host = ShardHost(plan(tmp_path), StillClock())
    host.tick(1000.0)
    host.close()
    other = ShardHost(plan(tmp_path, also_read=frozenset({"serve.running"})), StillClock())
    assert not other.is_restored
    assert other.engine.life != host.engine.life


@pytest.mark.slow
def test_a_shard_that_dies_again_and_again_still_writes_snapshots(tmp_path):
    clock = StillClock()
    host = ShardHost(plan(tmp_path, snapshot_s=3.0), clock)
    for t in range(1000, 1008):
        host.tick(float(t))
        kill(host)
        host = ShardHost(host.plan, clock)
    assert max(host.journal.snapshots()) == 3


def test_a_damaged_snapshot_gives_way_to_the_one_before_it(tmp_path):
    host = ShardHost(plan(tmp_path, snapshot_s=2.0), StillClock())
    for t in (1000.0, 1001.0, 1002.0):
        host.tick(t)
    kill(host)
    newest = max(plan(tmp_path).folder.glob("snapshot-*"))
    data = bytearray(newest.read_bytes())
    data[-100] ^= 1
    newest.write_bytes(data)
    again = ShardHost(plan(tmp_path, snapshot_s=2.0), StillClock())
    assert (again.is_restored, again.engine.life, again.engine.time) == (True, host.engine.life, 1002.0)


def test_the_parts_of_a_snapshot_come_back_whatever_their_size(tmp_path):
    journal = Journal(tmp_path / "j", "f")
    journal.open()
    parts = [b"", np.random.default_rng(1).bytes(100_000), bytes(1_000_000), *(bytes([n]) * n for n in range(100))]
    journal.write_snapshot(parts)
    found = journal.read_snapshot(0)
    assert [bytes(part) for part in found] == parts
    found[1][0] ^= 1


def test_only_a_few_snapshots_are_kept(tmp_path):
    journal = Journal(tmp_path / "j", "f")
    journal.open()
    for number in range(5):
        journal.write_snapshot([b"head", bytes([number])])
        journal.append(TICK, float(number))
    names = sorted(path.name for path in journal.folder.iterdir())
    assert [name.split("-")[0] for name in names] == ["lock", "log", "log", "snapshot", "snapshot"]
    assert list(journal.snapshots()) == [4, 3]
    assert bytes(journal.read_snapshot(4)[1]) == b"\x04"
    with pytest.raises(StateError, match="other code"):
        Journal(journal.folder, "g").read_snapshot(4)


def test_a_record_that_was_cut_short_ends_the_log(tmp_path):
    journal = Journal(tmp_path / "j", "f")
    journal.open()
    journal.write_snapshot([b"x"])
    journal.append(ROWS, 1.0, b"body")
    journal.append(TICK, 2.0)
    journal.append(ROWS, 3.0, b"another")
    journal.close()
    path = max(journal.folder.glob("log-*"))
    os.truncate(path, path.stat().st_size - 3)
    again = Journal(tmp_path / "j", "f")
    again.open()
    assert [record.time for record in again.records_since(0)] == [1.0, 2.0]
    again.append(TICK, 4.0)
    again.close()
    last = Journal(tmp_path / "j", "f")
    last.open()
    assert [record.time for record in last.records_since(0)] == [1.0, 2.0, 4.0]


def test_a_folder_that_others_may_write_to_is_refused(tmp_path):
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(SkewscopeError, match="others may write"):
        Journal(folder, "f").open()


def test_a_second_process_waits_for_the_first(tmp_path, monkeypatch):
    monkeypatch.setattr("skewscope.adapters.fleet.journal.LOCK_WAIT", 0.1)
    first = Journal(tmp_path / "j", "f")
    first.open()
    with pytest.raises(SkewscopeError, match="another process"):
        Journal(tmp_path / "j", "f").open()


def test_arrays_that_share_memory_share_it_again_and_empty_ones_are_read_back():
    whole = np.arange(12.0).reshape(3, 4)
    none = np.array([], np.intp).reshape(-1, 2).T
    state = [whole, whole[1], whole.T[2:], none, none[1], whole[:, :0]]
    made = decode_state([bytearray(part) for part in encode_state(state, {}, KeyPool())], {}, KeyPool())
    for one, again in zip(state, made, strict=True):
        np.testing.assert_array_equal(again, one)
        assert again.dtype == one.dtype
    made[0][1, 2] = 99.0
    assert (made[1][2], made[2][0, 1]) == (99.0, 99.0)


class Hostile:
    def __init__(self, call, *args):
        self.call, self.args = call, args

    def __reduce__(self):
        return self.call, self.args


@pytest.mark.parametrize(
    "one",
    [
        Hostile(os.system, "true"),
        Hostile(eval, "1"),
        Hostile(getattr, Path, "home"),
        Hostile(__import__, "os"),
        Hostile(catalogue),
    ],
    ids=["os", "eval", "getattr", "import", "loader"],
)
def test_a_state_may_not_name_what_acts(one):
    with pytest.raises(StateError, match="names"):
        decode_state([zstandard.compress(pickle.dumps(one))], {}, KeyPool())
