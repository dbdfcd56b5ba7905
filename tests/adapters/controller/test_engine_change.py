"""A reload with another topology keeps the windows of everything that did not change."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest

from skewscope.adapters.controller import config as config_module
from skewscope.adapters.controller.agent_receiver import AgentTable
from skewscope.adapters.controller.controller import Controller
from skewscope.adapters.controller.engine_change import prepare_engine
from skewscope.adapters.controller.recent_samples import RecentSamples
from skewscope.adapters.controller.store import StoreReader
from skewscope.adapters.inputs.recording import demo_path
from skewscope.adapters.sources.common.base import SourceBatch
from skewscope.engine.ingest.feed import SeriesKey
from skewscope.engine.model.topology import Node, Topology
from skewscope.kb.loader import catalogue
from tests.adapters.controller.clocks import FakeClock
from tests.adapters.controller.fleets import batches, demo, working


def with_spare(topology: Topology) -> Topology:
    return replace(topology, nodes=(*topology.nodes, Node("spare")))


def changed(work):
    """The pipeline after the engine changed to one with another node."""
    prepared = prepare_engine(with_spare(work.topology), catalogue())
    prepared.replay(work.recent.since(prepared.until))
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


@pytest.mark.parametrize("second", [44, pytest.param(58, marks=pytest.mark.slow)])
def test_incidents_open_and_resolve_as_without_a_reload(tmp_path, unchanged, second):
    """One resolves 7 s after the reload, or another one opens 11 s after it."""
    assert played(tmp_path, second) == unchanged
    assert {state for _, _, _, state, _, _ in unchanged[0]} == {"resolved", "firing"}


def test_batches_of_the_last_minutes_are_kept_as_they_came(monkeypatch):
    table = AgentTable("n0/0")
    table.keys.append(SeriesKey("a", "node", "n0"))
    row = SourceBatch(table, None, 7.0, np.array([1.5]))
    some = SourceBatch(table, np.array([0, 0], np.int32), np.array([1.0, 2.0]), np.array([np.nan, 4.0]))
    recent = RecentSamples()
    recent.add(10.0, {"a": [row], "b": [some]})
    recent.add(11.0, {})
    (t, (one, two)), (_, nothing) = recent.since(9.0)
    assert (t, one.columns, one.numbers, one.time, one.value.tolist()) == (10.0, table, None, 7.0, [1.5])
    assert (two.numbers.tolist(), two.time.tolist(), two.value.tolist()[1]) == ([0, 0], [1.0, 2.0], 4.0)
    assert nothing == []
    assert [t for t, _ in recent.since(10.0)] == [11.0]
    recent.add(200.0, {"a": [row]})
    assert [t for t, _ in recent.since(0.0)] == [200.0]
    monkeypatch.setattr("skewscope.adapters.controller.recent_samples.MAX_BYTES", 30)
    recent.add(201.0, {"a": [row]})
    assert [t for t, _ in recent.since(0.0)] == [201.0]


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
        assert second.recent is first.recent
        assert second.store_writer is first.store_writer
        await controller._close()

    asyncio.run(play())
