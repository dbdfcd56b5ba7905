"""The controller of a fleet: it says what one process would say, whoever is killed, and says what it cannot see."""

import random
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from skewscope.adapters.controller.agent_receiver import ReceiverBusyError, RowsMovedError
from skewscope.adapters.controller.config import ControllerConfig, read
from skewscope.adapters.controller.health import assess_health
from skewscope.adapters.controller.store import Store, StoreReader
from skewscope.adapters.fleet.fleet_controller import FleetController
from skewscope.adapters.fleet.fleet_settings import FleetSettings
from skewscope.adapters.fleet.shard_host import ShardHost
from skewscope.adapters.fleet.shard_pool import LocalShards
from skewscope.adapters.formats.row_protocol import HelloFrame, encode
from skewscope.engine.model.shards import ShardSizes
from skewscope.engine.model.topology import Topology, merge_topologies
from skewscope.kb.problems import InputError
from tests.adapters.fleet.shards import StillClock, demo_rows, demo_topology
from tests.adapters.fleet.undisturbed import stored, undisturbed


def config(folder, topology, **sizes) -> ControllerConfig:
    settings = FleetSettings(folder / "shards", sizes=ShardSizes(**sizes) if sizes else ShardSizes())
    return ControllerConfig(folder / "c.yaml", folder / "t.yaml", topology, store=folder / "store.db", fleet=settings)


class RareSnapshots(LocalShards):
    """Shards that write fewer snapshots, each of which costs more than many ticks; the journal has what came since."""

    def start(self, plans):
        super().start({name: replace(plan, snapshot_s=20.0) for name, plan in plans.items()})


class Rig:
    """A controller of a fleet whose shards are in this process, fed tick by tick."""

    def __init__(self, folder: Path, topology, **sizes):
        self.clock = StillClock()
        self.config = config(folder, topology, **sizes)
        self.shards = RareSnapshots(self.clock)
        self.start()

    def start(self):
        """Starts a controller on the store and the shards that there are."""
        self.controller = FleetController(self.config, self.shards, clock=self.clock)
        self.store = Store(self.config.store)
        self.pipeline = self.controller._build_pipeline(self.store)

    def kill_controller(self):
        self.store.close()
        self.start()

    def kill_shard(self, name):
        host = self.shards.hosts[name]
        host.journal.close()
        self.shards.hosts[name] = ShardHost(host.plan, self.clock)

    def tick(self, t, bodies):
        self.clock.time = t - 0.4
        for node, body in bodies:
            self.shards.hosts[self.pipeline.fleet.shard_of[node]].receive(body, None)
        for name, host in self.shards.hosts.items():
            if name not in self.shards.lost:
                host.tick(t)
        self.clock.time = t + 0.3
        return self.pipeline.step(t, {})

    def events(self):
        return [(one.incident, one.t, one.what) for one in StoreReader(self.config.store).events(0)]


@pytest.fixture(scope="module")
def single(tmp_path_factory):
    """Events and incidents that a controller of one process stores."""
    found = undisturbed(tmp_path_factory.mktemp("single"))
    assert len(found[0]) >= 3
    return found


@pytest.mark.slow
def test_one_shard_stores_byte_by_byte_what_one_process_stores(tmp_path, single):
    rig = Rig(tmp_path, demo_topology())
    for t, bodies in demo_rows():
        rig.tick(t, bodies)
    assert stored(rig.config.store) == single


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_killed_controllers_and_shards_store_the_same_once(tmp_path, single, seed):
    chance, rows = random.Random(seed), demo_rows()
    rig = Rig(tmp_path, demo_topology())
    controllers, shards = (set(chance.sample(range(len(rows)), 3)) for _ in range(2))
    for n, (t, bodies) in enumerate(rows):
        rig.tick(t, bodies)
        if n in controllers:
            rig.kill_controller()
        if n in shards:
            rig.kill_shard("shard0001")
    assert stored(rig.config.store) == single


@pytest.mark.slow
def test_what_a_store_could_not_take_is_stored_later(tmp_path, single):
    rig = Rig(tmp_path, demo_topology())
    for n, (t, bodies) in enumerate(demo_rows()):
        if n == 20:
            rig.config.store.rename(tmp_path / "away.db")
            rig.config.store.mkdir()
        if n == 45:
            rig.config.store.rmdir()
            (tmp_path / "away.db").rename(rig.config.store)
        rig.tick(t, bodies)
    assert stored(rig.config.store)[0] == single[0]


# --- several shards


def two_sites():
    """The demo's topology, and as many other nodes at another site."""
    text = demo_topology()
    names = {node.name: f"b-{node.name}" for node in text.nodes}
    nodes = tuple(
        replace(
            node,
            name=names[node.name],
            fleet="b",
            aliases=(),
            ports=tuple(replace(p, node=names[node.name], addresses=(), peer="") for p in node.ports),
        )
        for node in text.nodes
    )
    return merge_topologies([text, Topology(nodes)])


@pytest.fixture
def sites(tmp_path):
    return Rig(tmp_path, two_sites(), least=1, aim=100, most=100)


@pytest.mark.slow
def test_two_sites_have_a_shard_each_and_one_store(sites, single):
    assert sorted(sites.shards.hosts) == ["shard0001", "shard0002"]
    for t, bodies in demo_rows():
        sites.tick(t, bodies)
    assert sites.events() == single[0]


def test_a_lost_shard_is_named_and_nothing_of_it_is_resolved(sites):
    rows = iter(demo_rows())
    result = None
    for t, bodies in rows:
        result = sites.tick(t, bodies)
        if any(one.state == "firing" for one in result.snapshot.incidents):
            break
    firing = [one.id for one in result.snapshot.incidents if one.state == "firing"]
    lost = sites.pipeline.fleet.shard_of[demo_topology().nodes[0].name]
    sites.shards.lost = {lost}
    for n in range(1, 13):
        result = sites.tick(t + n, ())
    assert [one.id for one in result.snapshot.incidents if one.state == "firing"] == firing
    assert any(f"Shard {lost} does not answer" in sentence for sentence in result.snapshot.missing)
    health = assess_health(result, sites.config.topology, "node", demo_topology().nodes[0].name)
    assert health.coverage == 0.0
    other = next(node.name for node in sites.config.topology.nodes if node.fleet == "b")
    assert sites.pipeline.fleet.blind_shards(t + 12) == {lost}
    assert sites.pipeline.fleet.shard_of[other] != lost
    sites.shards.lost = set()
    result = sites.tick(t + 13, ())
    assert not any("does not answer" in sentence for sentence in result.snapshot.missing)


@pytest.mark.slow
def test_a_shard_that_lost_its_state_finds_its_incidents_under_their_ids(sites):
    rows = list(demo_rows())
    begun = next(
        n
        for n, (t, b) in enumerate(rows)
        if any(o.state == "firing" and not o.is_symptom for o in sites.tick(t, b).snapshot.incidents)
    )
    firing = {o.id for o in sites.pipeline.incidents if o.state == "firing" and not o.is_symptom}
    assert firing
    name = sites.pipeline.fleet.shard_of[demo_topology().nodes[0].name]
    host = sites.shards.hosts[name]
    host.journal.close()
    shutil.rmtree(host.plan.folder)
    sites.shards.hosts[name] = ShardHost(host.plan, sites.clock)
    result = sites.tick(rows[begun + 1][0], ())
    assert {o.id for o in result.snapshot.incidents if o.state == "firing"} >= firing
    assert not [e for e in sites.events() if e[2] == "resolved"]


def test_agents_are_sent_to_their_shard_and_wait_while_it_does_not_answer(sites):
    (t, bodies), *_ = demo_rows()
    for name, host in sites.shards.hosts.items():
        host.url = f"http://{name}:1"
    node = demo_topology().nodes[0].name
    hello = encode([HelloFrame(node, "b", "t")])
    with pytest.raises(ReceiverBusyError):
        sites.controller.receiver.receive(hello)
    sites.tick(t, bodies)
    with pytest.raises(RowsMovedError) as moved:
        sites.controller.receiver.receive(hello)
    assert moved.value.url == f"http://{sites.pipeline.fleet.shard_of[node]}:1"
    assert {one.node for one in sites.controller.receiver.agent_records()} == {name for name, _ in bodies}
    sites.shards.lost = set(sites.shards.hosts)
    sites.tick(t + 10, ())
    with pytest.raises(ReceiverBusyError):
        sites.controller.receiver.receive(hello)


def test_agents_are_sent_to_a_shard_that_is_back_before_it_judges(sites):
    (t, bodies), *_ = demo_rows()
    sites.tick(t, bodies)
    for name, host in sites.shards.hosts.items():
        host.url = f"http://{name}:1"
    # Its last tick is older than what counts as known, and it waits for rows.
    result = sites.pipeline.step(t + 10.0, {})
    assert any("does not answer" in sentence for sentence in result.snapshot.missing)
    hello = encode([HelloFrame(demo_topology().nodes[0].name, "b", "t")])
    with pytest.raises(RowsMovedError):
        sites.controller.receiver.receive(hello)


def test_another_topology_leaves_other_shards_as_they_are(sites):
    (t, bodies), *_ = demo_rows()
    sites.tick(t, bodies)
    before = dict(sites.shards.hosts)
    nodes = tuple(node for node in sites.config.topology.nodes if node.name != f"b-{demo_topology().nodes[0].name}")
    smaller = type(sites.config.topology)(nodes, sites.config.topology.groups, sites.config.topology.pools)
    sites.controller.config = replace(sites.config, topology=smaller)
    sites.controller._pipeline = sites.pipeline
    sites.controller._cut_anew()
    kept = [name for name, host in sites.shards.hosts.items() if before.get(name) is host]
    assert kept == ["shard0001"]


# --- config


def written(tmp_path, text):
    (tmp_path / "topology.yaml").write_text("version: 1\nnodes: [{name: n0}]\n")
    path = tmp_path / "c.yaml"
    path.write_text(f"version: 1\ntopology: topology.yaml\n{text}")
    return path


def test_the_section_fleet_is_read(tmp_path):
    text = "fleet: {state: shards, ray: local, nodes: 500, least: 8, most: 900, cpus: 0.5, host: 0.0.0.0"
    text += ", sites: {b: site_b}}\n"
    found = read(written(tmp_path, text)).fleet
    assert found == FleetSettings(
        tmp_path / "shards", "local", ShardSizes(8, 500, 900), 0.5, "0.0.0.0", {"b": "site_b"}
    )
    assert read(written(tmp_path, "")).fleet is None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("fleet: {}\n", "state"),
        ("fleet: {state: s, nodes: 10, most: 5}\n", "in this order"),
        ("fleet: {state: s, size: 5}\n", "size"),
        ("fleet: {state: s, sites: oslo}\n", "a resource of Ray for each fleet"),
        ("fleet: {state: s, sites: {oslo: 3}}\n", "sites"),
        ("fleet: {state: s}\nrecord: {path: r}\n", "journals are no recordings"),
        ("fleet: {state: s}\nleader: {lock: l}\n", "one controller"),
    ],
)
def test_problems_of_the_section_are_reported(tmp_path, text, found):
    with pytest.raises(InputError) as error:
        read(written(tmp_path, text))
    assert found in str(error.value)
