"""A reload with another topology keeps the windows of everything that did not change."""

import asyncio
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from skewscope.adapters.controller import config as config_module
from skewscope.adapters.controller.agent_receiver import AgentTable
from skewscope.adapters.controller.batcher import FORGET_S
from skewscope.adapters.controller.controller import Controller
from skewscope.adapters.controller.engine_change import prepare_engine
from skewscope.adapters.controller.incident_restore import RestoredIncidents
from skewscope.adapters.controller.store import StoreReader
from skewscope.adapters.inputs.recording import demo_path, parse_topology_file
from skewscope.adapters.sources.common.base import SourceBatch
from skewscope.engine.ingest.feed import SeriesKey
from skewscope.engine.model.incident import parse_incident
from skewscope.engine.model.topology import TEXT_GONE, GonePlaces, Node, Topology
from skewscope.kb.loader import catalogue
from tests.adapters.controller.clocks import FakeClock
from tests.adapters.controller.fleets import batches, demo, working


def with_spare(topology: Topology) -> Topology:
    return replace(topology, nodes=(*topology.nodes, Node("spare")))


def announced(owner, keys):
    found = AgentTable(f"{owner}/0", owner)
    found.keys += keys
    return found


def changed(work, topology=None):
    """The pipeline after the engine changed to one with another topology."""
    prepared = prepare_engine(topology or with_spare(work.topology), catalogue())
    prepared.expect_series(work)
    return prepared.take_over(work)


def told(folder):
    return [(one.incident, one.t, one.what) for one in StoreReader(folder / "store.db").events(0)]


def states(known):
    # Evidence and impact are the strongest of the windows that an engine has seen.
    return [(one.id, one.condition, one.name, one.state, one.opened_at, one.resolved_at) for one in known]


def played(folder, change_at):
    """The incidents and events of the demo, with another engine from one of its seconds on."""
    recording, loaded = demo(75.0)
    with working(folder, recording) as work:
        work.topology = recording.topology
        for n, (t, handed) in enumerate(batches(recording, loaded)):
            if n == change_at:
                work = changed(work)  # noqa: PLW2901 - the test is of the one that follows
            known = work.step(t, {"demo": handed})
        work.close(t)
    return states(known.snapshot.incidents), told(folder)


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory):
    return played(tmp_path_factory.mktemp("unchanged"), None)


# In an everyday run, tests/engine/test_take_over.py compares an engine that was changed with one that was not.
@pytest.mark.slow
@pytest.mark.parametrize("second", [44, 58])
def test_incidents_open_and_resolve_as_without_a_reload(tmp_path, unchanged, second):
    """One resolves 7 s after the reload, or another one opens 11 s after it."""
    assert played(tmp_path, second) == unchanged
    assert {state for _, _, _, state, _, _ in unchanged[0]} == {"resolved", "firing"}


JOB = """version: 1
nodes: [{name: n0, gpus: 1}, {name: n1, gpus: 1}, {name: n2, gpus: 1}, {name: n3, gpus: 1}]
groups: [{name: g, kind: data-parallel, members: [n0, n1, n2, n3]}]
"""


@contextmanager
def job(folder):
    """The work of a controller for one job, and what it says when a step took some seconds."""
    topology = parse_topology_file(JOB, "topology.yaml")[0]
    table = announced("n0", [SeriesKey("step.duration", "group", "g")])
    with working(folder, SimpleNamespace(topology=topology, path=folder)) as work:
        work.topology = topology

        def step(work, t, duration):
            value = np.array([duration * (1 + 0.01 * np.sin(t * t))])
            return work.step(t, {"agents": [SourceBatch(table, None, t, value)]})

        yield work, step


@pytest.mark.slow
def test_what_has_lasted_for_minutes_lasts_on_after_a_change(tmp_path):
    """The new engine must not take the level of the fault for the usual one: rules look back for ten minutes."""
    with job(tmp_path) as (work, step):
        for n in range(1050):
            t = 1_700_000_000.0 + n
            work = changed(work) if n == 800 else work  # noqa: PLW2901 - the one that follows
            known = step(work, t, 2.0 if n >= 700 else 1.0)
            if n == 799:
                before = states(known.snapshot.incidents)
        assert {condition for _, condition, *_ in before} >= {"slow-steps"}
        assert states(known.snapshot.incidents) == before
        work.close(t)
    assert not [what for _, _, what in told(tmp_path) if "resolved" in what or "again" in what]


def test_incidents_of_a_group_that_is_gone_end_and_are_told_as_ended(tmp_path):
    with job(tmp_path) as (work, step):
        for n in range(200):
            known = step(work, 1_700_000_000.0 + n, 2.0 if n >= 150 else 1.0)
        (before,) = {one.id for one in known.snapshot.incidents if one.state == "firing"}
        work = changed(work, replace(work.topology, groups=()))  # noqa: PLW2901 - the one that follows
        known = step(work, 1_700_000_200.0, 2.0)
        assert [(one.id, one.state) for one in known.snapshot.incidents] == [(before, "resolved")]
        assert told(tmp_path)[-1][::2] == (before, TEXT_GONE)
        work.close(1_700_000_201.0)


def test_series_that_are_silent_for_long_make_room_for_others_of_their_node(tmp_path, monkeypatch):
    monkeypatch.setattr("skewscope.adapters.controller.batcher.MAX_OWNER_SERIES", 50)
    monkeypatch.setattr("skewscope.adapters.controller.tick_pipeline.MIN_SILENT", 40)
    monkeypatch.setattr("skewscope.adapters.controller.tick_pipeline.ROOM_TICKS", 1)
    with job(tmp_path) as (work, _):
        begin = 1_700_000_000.0

        def boot(work, t, name):
            keys = [SeriesKey("gpu.util", "gpu", "n0/gpu0", f"{name}-{n}") for n in range(45)]
            work.step(t, {"agents": [SourceBatch(announced("n0", keys), None, t, np.ones(45))]})

        boot(work, begin, "first")
        boot(work, begin + 1, "second")
        assert work.batcher.full_owners == {"n0"}
        assert not work.needs_room
        boot(work, begin + FORGET_S - 10, "third")
        assert not work.needs_room
        work.step(begin + FORGET_S + 5, {})
        assert work.needs_room
        work = changed(work, work.topology)  # noqa: PLW2901 - the one that follows
        assert not work.needs_room
        boot(work, begin + FORGET_S + 6, "fourth")
        assert not work.batcher.full_owners
        assert {key.selector.partition("-")[0] for key in work.batcher.table.keys} == {"fourth"}
        work.close(begin + FORGET_S + 7)


def test_a_controller_makes_room_by_itself(tmp_path):
    (tmp_path / "topology.yaml").write_text(JOB)
    (tmp_path / "skewscope.yaml").write_text("version: 1\ntopology: topology.yaml\n")

    async def play():
        controller = Controller(config_module.read(tmp_path / "skewscope.yaml"), FakeClock(1_700_000_000.0))
        await controller.start()
        first = controller._active_pipeline
        await controller._run_tick(1_700_000_001.0)
        assert controller._making_room is None
        first.needs_room = True
        await controller._run_tick(1_700_000_002.0)
        await controller._making_room
        second = controller._active_pipeline
        assert second is not first
        assert not second.needs_room
        await controller._run_tick(1_700_000_003.0)
        assert controller._active_pipeline is second
        await controller._close()

    asyncio.run(play())


def test_an_unchanged_config_changes_no_engine_and_another_topology_changes_it_once(tmp_path):
    text = (demo_path() / "topology.yaml").read_text()
    (tmp_path / "topology.yaml").write_text(text)
    (tmp_path / "skewscope.yaml").write_text("version: 1\ntopology: topology.yaml\n")

    async def play():
        controller = Controller(config_module.read(tmp_path / "skewscope.yaml"), FakeClock(1_700_000_000.0))
        await controller.start()
        first = controller._active_pipeline
        await controller.reload(config_module.read(tmp_path / "skewscope.yaml"))
        assert controller._active_pipeline is first
        (tmp_path / "topology.yaml").write_text(text.replace("nodes:\n", "nodes:\n- {name: spare}\n", 1))
        await controller.reload(config_module.read(tmp_path / "skewscope.yaml"))
        second = controller._active_pipeline
        assert "spare" in second.topology.node
        assert second.restored is first.restored
        assert second.store_writer is first.store_writer
        await controller._close()

    asyncio.run(play())


def test_incidents_of_what_is_gone_end_as_gone_and_nothing_more_is_told_of_it(tmp_path):
    with job(tmp_path) as (work, step):
        for n in range(200):
            known = step(work, 1_700_000_000.0 + n, 2.0 if n >= 150 else 1.0)
        (before,) = (one for one in known.snapshot.incidents if one.state == "firing")
        assert (before.ending, before.as_json()["ended"]) == ("", None)
        work.retire(GonePlaces(groups=frozenset({"g"})), is_settled=True)
        for n in range(200, 260):
            known = step(work, 1_700_000_000.0 + n, 2.0)
        (after,) = known.snapshot.incidents
        assert (after.id, after.state, after.ending, after.resolved_at) == (
            before.id,
            "resolved",
            "gone",
            1_700_000_199.0,
        )
        assert parse_incident(after.as_json()).ending == "gone"
        assert told(tmp_path)[-1][::2] == (before.id, TEXT_GONE)
        work = changed(work, work.topology)  # noqa: PLW2901 - the one that follows
        known = step(work, 1_700_000_260.0, 2.0)
        assert [one.state for one in known.snapshot.incidents] == ["resolved"]
        work.retire(GonePlaces(), is_settled=True)  # somebody is there again, and its windows go on
        for n in range(261, 270):
            known = step(work, 1_700_000_000.0 + n, 2.0)
        first, second = known.snapshot.incidents
        assert (first.id, first.ending, second.state) == (before.id, "gone", "firing")
        work.close(1_700_000_270.0)


def test_an_earlier_incident_of_what_is_no_more_ends_as_gone_once_all_is_seen(tmp_path):
    with job(tmp_path) as (work, step):
        for n in range(200):
            known = step(work, 1_700_000_000.0 + n, 2.0 if n >= 150 else 1.0)
        (before,) = (one for one in known.snapshot.incidents if one.state == "firing")
        work.close(1_700_000_200.0)
    with job(tmp_path) as (work, _):
        work.topology = Topology()
        work.restored = RestoredIncidents.from_incidents([before])
        work.t = 1_700_000_201.0
        work.retire(GonePlaces(), is_settled=False)
        assert work.restored.waiting_incidents() == (before,)
        work.retire(GonePlaces(), is_settled=True)
        incidents, changes = work.restored.apply(1_700_000_202.0, (), ())
        assert [(one.id, one.ending) for one in incidents] == [(before.id, "gone")]
        assert [one.what for one in changes] == [TEXT_GONE]
