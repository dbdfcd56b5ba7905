"""A controller that has nothing but a source: it finds out who there is, and follows it."""

import asyncio

import pytest

from skewscope.adapters.controller import config as config_module
from skewscope.adapters.controller.audit import AuditFilter
from skewscope.adapters.controller.controller import Controller
from skewscope.adapters.controller.health import assess_health
from skewscope.adapters.controller.health_overview import assess_all, describe_all
from skewscope.adapters.controller.store import StoreReader
from skewscope.adapters.sources.common.series_mapper import SeriesMapper, SourceBatchBuilder
from skewscope.kb.problems import InputError
from tests.adapters.controller.clocks import FakeClock
from tests.adapters.discovery.test_living_topology import FIRST, SLOTS, two_replicas
from tests.support.living_cluster import PERIOD, as_stored

T0 = 1_700_000_000.0
CONFIG = "version: 1\nsources: [{kind: remote-write, name: prometheus}]\n"
NEW = "llama-5c6d7f8b9-m4n5v"


class FedSource:
    """A source that a test fills."""

    name, period = "prometheus", 0.0

    def __init__(self, context):
        self.context, self.version, self.sink = context, -1, None

    async def run(self, sink):
        self.sink = sink
        await asyncio.Event().wait()

    def feed(self, t, cluster):
        if self.version != self.context.version:
            self.version, self.mapper = self.context.version, SeriesMapper(self.context.names, {}, honor_labels=True)
            self.sink.follow(self.mapper.registry)
        rows = SourceBatchBuilder()
        for target, series in cluster.pages(t):
            for metric, labels, value in series:
                stored = as_stored(target, labels)
                rows.add(self.mapper.map_series(metric, tuple(sorted(stored.items()))), t, value)
        if batch := rows.build(self.mapper.registry):
            self.sink.put(batch)


class Played:
    """A controller beside a cluster, second by second."""

    def __init__(self, folder, cluster):
        (folder / "skewscope.yaml").write_text(CONFIG)
        self.folder, self.cluster, self.t = folder, cluster, T0
        self.controller = Controller(config_module.read(folder / "skewscope.yaml"), FakeClock(T0))
        self.source = FedSource(self.controller._context)

    async def __aenter__(self):
        await self.controller.start()
        await self.controller.supervisor.stop(self.source.name)
        self.controller.supervisor.start(self.source)
        await asyncio.sleep(0)
        return self

    async def __aexit__(self, *_):
        await self.controller._close()

    async def run(self, seconds):
        for _ in range(seconds):
            self.t += 1.0
            self.controller.clock.t = self.controller.clock.passed = self.t
            self.source.feed(self.t, self.cluster)
            await self.controller._run_tick(self.t)
            await asyncio.sleep(0)
            async with self.controller._reloading:
                pass

    def state(self, kind, name):
        found = assess_health(self.controller.last_result, self.controller.config.topology, kind, name)
        return found and (found.state, found.score)

    def seen_at(self, pod):
        """When the serving engine of the place of a pod was heard of last."""
        group = next(g.name for g in self.controller.config.topology.groups if dict(g.engine).get("pod") == pod)
        engine = self.controller._active_pipeline.runtime.engine
        keys = self.controller._active_pipeline.batcher.table.keys
        times = engine.newest_times(len(keys))
        return max(t for key, t in zip(keys, times, strict=False) if (key.kind, key.entity) == ("replica", group))


def test_a_rollout_leaves_no_more_than_two_scrapes_unseen_and_no_ghost(tmp_path):
    async def play():
        async with Played(tmp_path, two_replicas()) as world:
            await world.run(60)
            assert world.state("replica", SLOTS[0]) == ("well", 1.0)
            assert world.state("gpu", "n0/gpu3") == ("well", 1.0)
            first = world.controller._active_pipeline
            del world.cluster.pods[FIRST]
            ready = world.t + 65
            world.cluster.add(NEW, "n0", (0, 1), ready=ready)
            await world.run(60)
            assert world.state("replica", SLOTS[0]) == ("gone", None)
            await world.run(5 + int(2 * PERIOD))
            assert world.state("replica", SLOTS[0]) == ("well", 1.0)
            assert world.seen_at(NEW) > ready
            # Another pod at the same place needs no other engine: windows go on.
            assert world.controller._active_pipeline is first
            unplaced = world.controller.supervisor.count_series_without_place()["prometheus"]
            assert not [reason for reason in unplaced if "topology" in reason]

    asyncio.run(play())
    lines = StoreReader(tmp_path / "skewscope.db").audit_lines(AuditFilter(), 100)
    assert f"group {SLOTS[0]} began: {NEW}" in [line.action for line in lines]


def test_the_list_of_health_places_nothing_where_it_is_gone(tmp_path):
    async def play():
        async with Played(tmp_path, two_replicas()) as world:
            await world.run(40)
            del world.cluster.pods[FIRST]
            await world.run(60)
            reports = assess_all(world.controller.last_result, world.controller.config.topology)
            told = describe_all(reports, world.t)
            states = {one["name"]: (one["state"], one["placement"]) for one in told["entities"]}
            assert states[SLOTS[0]] == ("gone", 0.0)
            assert states[SLOTS[1]] == ("well", 1.0)
            assert told["gone"] == 1

    asyncio.run(play())


def test_a_dead_engine_is_neither_well_nor_gone(tmp_path):
    async def play():
        async with Played(tmp_path, two_replicas()) as world:
            await world.run(40)
            world.cluster.pods[FIRST].is_down = True
            await world.run(90)
            state, score = world.state("replica", SLOTS[0])
            assert (state, score) == ("unknown", None) or (state == "ill" and score < 0.5)
            assert world.controller.last_result.engine_coverage[SLOTS[0]] == 0.0
            assert world.state("gpu", "n0/gpu0") == ("well", 1.0)

    asyncio.run(play())


def test_a_reload_keeps_what_was_discovered(tmp_path):
    async def play():
        async with Played(tmp_path, two_replicas()) as world:
            await world.run(40)
            known, pipeline = world.controller.config.topology, world.controller._active_pipeline
            await world.controller.reload(config_module.read(tmp_path / "skewscope.yaml"))
            assert world.controller.config.topology == known
            assert world.controller._active_pipeline is pipeline

    asyncio.run(play())


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("version: 1\ndiscover: false\n", "discover: found false without a topology"),
        ("version: 1\nfleet: {state: state}\n", "topology: found no value"),
    ],
)
def test_what_needs_a_topology_says_so(tmp_path, text, found):
    (tmp_path / "skewscope.yaml").write_text(text)
    with pytest.raises(InputError) as error:
        config_module.read(tmp_path / "skewscope.yaml")
    assert found in str(error.value)
