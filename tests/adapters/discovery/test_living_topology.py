"""What lives is drawn from labels: it begins, is renamed, moves and ends, under names that stay."""

import pytest

from skewscope.adapters.discovery.living_topology import BEGAN, ENDED, KEPT_S, MOVED, RENAMED, LivingTopology
from skewscope.adapters.discovery.sighting_log import SightingLog
from skewscope.adapters.discovery.sightings import see_series
from skewscope.adapters.discovery.workload_slots import describe_place, workload_of
from skewscope.adapters.mapping.names import MetricResolver
from skewscope.adapters.sources.common.series_mapper import SeriesMapper, SourceBatchBuilder
from skewscope.engine.model.topology import Group, Node, Topology
from skewscope.kb.loader import catalogue
from tests.support.living_cluster import MODEL, PERIOD, LivingCluster, as_stored

T0 = 1_700_000_000.0
NAMES = MetricResolver(catalogue(), Topology(), witness=see_series)
FIRST, SECOND = "llama-7d9f8c6b5-x2k4p", "llama-7d9f8c6b5-q8w7z"
SLOTS = ("llama@n0.gpu0-1", "llama@n0.gpu2-3")


class World:
    """A cluster that is read and drawn second by second."""

    def __init__(self, cluster, declared=None):
        self.cluster, self.log, self.living = cluster, SightingLog(), LivingTopology(declared or Topology())
        self.mapper = SeriesMapper(NAMES, {}, honor_labels=True)
        self.t, self.changes, self.drawn, self._mask = T0, [], None, b""

    def run(self, seconds, is_read=lambda _: True):
        for _ in range(seconds):
            self.t += 1.0
            rows = SourceBatchBuilder()
            for target, series in self.cluster.pages(self.t) if is_read(self.t) else ():
                for metric, labels, value in series:
                    stored = as_stored(target, labels)
                    rows.add(self.mapper.map_series(metric, tuple(sorted(stored.items()))), self.t, value)
            if batch := rows.build(self.mapper.registry):
                self.log.take_in({"prometheus": [batch]})
            mask = self.log.mark_living().tobytes()
            if mask != self._mask or self.drawn is None or self.t >= self.drawn.next_due:
                self._mask = mask
                self.drawn = self.living.draw(self.t, self.log.list_living(), self.log.usual_period)
                self.changes += self.drawn.changes
        return self

    @property
    def pods(self):
        """The pod of each group that lives."""
        return {
            group.name: dict(group.engine).get("pod", "")
            for group in self.drawn.topology.groups
            if group.name not in self.drawn.gone.groups
        }

    def told(self, since=0.0):
        return [(one.what, one.name) for one in self.changes if one.t > T0 + since]

    def when(self, what, name):
        return next(one.t for one in self.changes if (one.what, one.name) == (what, name)) - T0


def two_replicas(**wishes):
    cluster = LivingCluster(**wishes)
    cluster.add_node("n0")
    cluster.add(FIRST, "n0", (0, 1))
    cluster.add(SECOND, "n0", (2, 3))
    return cluster


def test_a_cluster_is_seen_within_two_scrapes_with_names_that_stay():
    world = World(two_replicas()).run(int(2 * PERIOD))
    assert world.pods == dict(zip(SLOTS, (FIRST, SECOND), strict=True))
    topology = world.drawn.topology
    assert [(node.name, node.gpus) for node in topology.nodes] == [("n0", 4)]
    assert topology.group[SLOTS[0]].members == ("n0/gpu0", "n0/gpu1")
    assert [(pool.name, pool.replicas) for pool in topology.pools] == [(MODEL, SLOTS)]
    assert set(world.told()) == {(BEGAN, "n0"), (BEGAN, SLOTS[0]), (BEGAN, SLOTS[1])}


def test_after_a_rollout_the_new_pod_has_the_place_of_the_old_one():
    world = World(two_replicas()).run(60)
    del world.cluster.pods[FIRST]
    world.cluster.add("llama-5c6d7f8b9-m4n5v", "n0", (0, 1), ready=world.t + 60)
    world.run(55)
    assert world.told(60) == [(ENDED, SLOTS[0])]
    assert world.drawn.gone.groups == {SLOTS[0]}
    assert SLOTS[0] in world.drawn.topology.group  # its windows wait for what comes there next
    world.run(5 + int(2 * PERIOD))
    assert world.pods[SLOTS[0]] == "llama-5c6d7f8b9-m4n5v"
    assert not world.drawn.gone


def test_a_pod_that_follows_at_once_moves_in():
    world = World(two_replicas()).run(60)
    del world.cluster.pods[FIRST]
    world.cluster.add("llama-5c6d7f8b9-m4n5v", "n0", (0, 1))
    world.run(int(2 * PERIOD))
    assert world.told(60) == [(MOVED, SLOTS[0])]
    assert world.pods[SLOTS[0]] == "llama-5c6d7f8b9-m4n5v"


def test_what_scaling_leaves_behind_is_gone_within_ten_minutes():
    cluster = two_replicas()
    world = World(cluster).run(60)
    cluster.add_node("n1")
    cluster.add("llama-7d9f8c6b5-bbbbb", "n1", (0, 1), ready=world.t)
    cluster.add("llama-7d9f8c6b5-ccccc", "n1", (2, 3), ready=world.t)
    world.run(int(2 * PERIOD))
    assert len(world.pods) == 4
    for name in ("llama-7d9f8c6b5-bbbbb", "llama-7d9f8c6b5-ccccc"):
        del cluster.pods[name]
    del cluster.cards["n1"], cluster.exporters["n1"]
    ended = world.t - T0
    world.run(60)
    assert set(world.pods) == set(SLOTS)
    assert world.drawn.gone.nodes == {"n1"}
    assert world.when(ENDED, "n1") - ended <= 4 * PERIOD
    world.run(int(KEPT_S))
    assert [node.name for node in world.drawn.topology.nodes] == ["n0"]
    assert set(world.drawn.topology.group) == set(SLOTS)
    assert not world.drawn.gone


def test_a_renamed_node_is_another_one_at_once_and_no_ghost():
    cluster = two_replicas()
    world = World(cluster).run(60)
    cluster.rename("n0", "n9")
    world.run(int(PERIOD))
    assert world.told(60)[:2] == [(ENDED, "n0"), (RENAMED, "n9")]
    assert set(world.pods) == {"llama@n9.gpu0-1", "llama@n9.gpu2-3"}
    assert world.drawn.gone.nodes == {"n0"}


def test_an_address_that_is_used_again_is_nobodys_alias():
    cluster = two_replicas()
    world = World(cluster).run(60)
    address = cluster.exporters["n0"]
    del cluster.cards["n0"], cluster.exporters["n0"]
    cluster.pods.clear()
    cluster.add_node("n5", address)
    world.run(int(3 * PERIOD))
    assert all(address not in node.aliases for node in world.drawn.topology.nodes)
    assert world.drawn.gone.nodes == {"n0"}


@pytest.mark.parametrize("has_up", [True, False])
def test_a_dead_engine_is_not_gone(has_up):
    """Its page does not answer; its pod is there, and a GPU, or a list of targets, names it."""
    world = World(two_replicas(has_up=has_up)).run(60)
    world.cluster.pods[FIRST].is_down = True
    world.run(300)
    assert world.told(60) == []
    assert world.pods[SLOTS[0]] == FIRST


def test_a_source_that_is_silent_ends_nothing():
    world = World(two_replicas()).run(60)
    world.run(900, is_read=lambda _: False)
    assert not world.told(60)
    world.run(60)
    assert not world.told(60)


def test_pods_of_which_no_label_names_the_place_are_numbered():
    cluster = two_replicas(names_gpus=False)
    cluster.cards.clear()
    world = World(cluster).run(60)
    assert set(world.pods) == {"llama-0", "llama-1"}
    assert [node.name for node in world.drawn.topology.nodes] == ["llama-0", "llama-1"]
    del cluster.pods[FIRST]
    world.run(60)
    cluster.add("llama-5c6d7f8b9-m4n5v", "n0", (0, 1))
    world.run(60)
    assert set(world.pods) == {"llama-0", "llama-1"}
    assert "llama-5c6d7f8b9-m4n5v" in world.pods.values()


def test_pods_whose_place_is_named_later_are_the_same_under_another_name():
    cluster = LivingCluster()
    cluster.add(FIRST, "n0", (0, 1))
    world = World(cluster).run(60)
    assert world.pods == {"llama-0": FIRST}
    cluster.add_node("n0")
    world.run(60)
    assert set(world.told(60)) == {(BEGAN, "n0"), (ENDED, "llama-0"), (RENAMED, SLOTS[0])}
    # A group of the same pod beside it would leave open to which of the two its series belong.
    assert list(world.drawn.topology.group) == [SLOTS[0]]
    assert not world.drawn.gone.groups


def test_a_pod_of_a_stateful_set_keeps_its_name():
    cluster = LivingCluster()
    cluster.add_node("n0")
    cluster.add("vllm-0", "n0", (0, 1))
    world = World(cluster).run(60)
    cluster.pods["vllm-0"].address = "10.2.0.99"
    cluster.pods["vllm-0"].gpus = (2, 3)
    world.run(60)
    assert world.pods == {"vllm-0": "vllm-0"}
    assert world.drawn.topology.group["vllm-0"].members == ("n0/gpu2", "n0/gpu3")


def test_what_is_declared_stays_as_it_is_and_the_rest_is_added():
    declared = Topology(
        (Node("n0", "rack1", 4), Node("spare", "rack2", 8)),
        (Group("mine", "tensor-parallel", ("n0/gpu0", "n0/gpu1"), "n0", (("pod", "llama-*-x2k4p"),)),),
    )
    cluster = two_replicas()
    cluster.add_node("n1")
    world = World(cluster, declared).run(60)
    assert [(node.name, node.rack) for node in world.drawn.topology.nodes] == [
        *(("n0", "rack1"), ("spare", "rack2"), ("n1", "")),
    ]
    assert [group.name for group in world.drawn.topology.groups] == ["mine", SLOTS[1]]
    cluster.pods.clear()
    del cluster.cards["n0"]
    world.run(60)
    assert world.drawn.gone.groups == {SLOTS[1]}
    assert not world.drawn.gone.nodes & {"n0", "spare"}


def test_sightings_are_bounded(monkeypatch):
    monkeypatch.setattr("skewscope.adapters.discovery.sighting_log.MIN_FORGOTTEN", 4)
    monkeypatch.setattr("skewscope.adapters.discovery.sighting_log.FORGET_S", 100.0)
    world = World(two_replicas())
    del world.cluster.pods[FIRST]
    for n in range(40):
        world.cluster.pods.pop(f"llama-7d9f8c6b5-{'bcdfghjklm'[(n - 1) % 10] * 5}", None)
        world.cluster.add(f"llama-7d9f8c6b5-{'bcdfghjklm'[n % 10] * 5}", "n0", (0, 1))
        world.mapper = SeriesMapper(NAMES, {}, honor_labels=True)
        world.run(60)
    assert len(world.log) < 60
    assert len(world.log._pages.numbers) < 20
    assert set(world.pods) == set(SLOTS)
    assert (ENDED, "n0") not in world.told()


def test_sightings_above_the_limit_are_counted(monkeypatch):
    monkeypatch.setattr("skewscope.adapters.discovery.sighting_log.MAX_SIGHTINGS", 3)
    world = World(two_replicas()).run(30)
    assert len(world.log) == 3
    assert world.log.refused > 0


@pytest.mark.parametrize(
    ("pod", "workload"),
    [
        ("llama-70b-gx87dlft7-mtn4w", "llama-70b"),
        ("vllm-0", ""),
        ("vllm-llama3-405b-0-1", ""),
        ("train-3-x9kzt", "train-3"),
        ("dcgm-exporter-7q8mz", "dcgm-exporter"),
        ("router-n17", ""),
        ("my-model-server", ""),
    ],
)
def test_the_workload_of_a_pod(pod, workload):
    assert workload_of(pod) == workload


@pytest.mark.parametrize(
    ("members", "gpus", "text"),
    [
        (("n0",), 0, "n0"),
        (("n0/gpu0", "n0/gpu1"), 2, "n0"),
        (("n0/gpu0", "n0/gpu1"), 8, "n0.gpu0-1"),
        (("n0/gpu3",), 8, "n0.gpu3"),
        (("n0/gpu1", "n0/gpu4"), 8, "n0.gpu1+4"),
    ],
)
def test_the_place_of_a_slot(members, gpus, text):
    assert describe_place(members, gpus) == text
