"""Shards of a topology: every node once, groups whole, sizes within limits, and few nodes move."""

from collections import Counter
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from skewscope.adapters.simulator.fleet import FleetPlan, build_fleet
from skewscope.engine.model.shards import ShardSizes, cut_topology, shard_topologies
from skewscope.engine.model.topology import Group, Node, Pool, Port, Topology

SMALL = ShardSizes(4, 8, 12)


@st.composite
def topologies(draw, fleets=2):
    """Nodes on leaves, some in groups of consecutive nodes, some groups in pools."""
    count = draw(st.integers(1, 60))
    per_leaf = draw(st.integers(1, 8))
    half = draw(st.integers(0, count))
    nodes = tuple(
        Node(
            f"n{n:02d}",
            rack=f"r{n // 3}" if n % 5 else "",
            ports=(Port(f"n{n:02d}", "p0", "east-west", switch=f"leaf{n // per_leaf}"),),
            fleet="a" if n < half or fleets < 2 else "b",
        )
        for n in range(count)
    )
    groups, n = [], 0
    while n < count:
        size = draw(st.integers(1, 5))
        members = [node for node in nodes[n : n + size] if node.fleet == nodes[n].fleet]
        if draw(st.booleans()):
            groups.append(Group(f"g{n}", "tensor-parallel", tuple(node.name for node in members)))
        n += len(members)
    node = {one.name: one for one in nodes}
    pools = []
    for a, b in zip(groups[::2], groups[1::2], strict=False):
        if node[a.members[0]].fleet == node[b.members[0]].fleet and draw(st.booleans()):
            pools.append(Pool(f"pool-{a.name}", (a.name, b.name)))
    return Topology(nodes, tuple(groups), tuple(pools))


def without(topology, gone):
    """Returns a topology without some nodes, and without the groups and pools that had them."""
    nodes = tuple(node for node in topology.nodes if node.name not in gone)
    groups = tuple(g for g in topology.groups if not gone & {topology.node_of[m] for m in g.members})
    names = {g.name for g in groups}
    return Topology(nodes, groups, tuple(p for p in topology.pools if names.issuperset(p.replicas)))


def units_of(topology):
    """Returns sets of nodes that must stay together, found by the slow way."""
    sets = [{node.name} for node in topology.nodes]
    wanted = [{topology.node_of[m] for m in g.members} for g in topology.groups]
    wanted += [{topology.node_of[m] for r in p.replicas for m in topology.group[r].members} for p in topology.pools]
    for names in wanted:
        hit = [one for one in sets if one & names]
        sets = [one for one in sets if not one & names] + [set().union(*hit)]
    return sets


def check(topology, cut, sizes=SMALL):
    assert list(cut) == [node.name for node in topology.nodes]
    units = units_of(topology)
    for unit in units:
        assert len({cut[name] for name in unit}) == 1
    counts = Counter(cut.values())
    fleet = {cut[node.name]: node.fleet for node in topology.nodes}
    assert all(fleet[cut[node.name]] == node.fleet for node in topology.nodes)
    for name, count in counts.items():
        if count > sizes.most:
            assert sum(cut[next(iter(unit))] == name for unit in units) == 1
        if count < sizes.least:
            others = [counts[o] for o in counts if o != name and fleet[o] == fleet[name]]
            assert all(count + other > sizes.most for other in others)


@given(topologies())
def test_every_node_is_in_one_shard_with_its_groups_and_pools(topology):
    check(topology, cut_topology(topology, SMALL))


@given(topologies(), st.data())
def test_a_cut_moves_only_what_it_must_when_nodes_come_and_go(topology, data):
    names = [node.name for node in topology.nodes]
    gone = set(data.draw(st.lists(st.sampled_from(names), max_size=len(names) - 1, unique=True)))
    small = without(topology, gone)
    first = cut_topology(small, SMALL)
    grown = cut_topology(topology, SMALL, first)
    check(topology, grown)
    shrunk = cut_topology(small, SMALL, grown)
    check(small, shrunk)
    assert cut_topology(topology, SMALL, grown) == grown


@given(topologies(), st.data())
def test_a_node_that_leaves_moves_no_other_where_sizes_stay_within_limits(topology, data):
    before = cut_topology(topology, SMALL)
    free = sorted({node.name for node in topology.nodes} - set(topology.node_of.values()))
    counts = Counter(before.values())
    free = [name for name in free if counts[before[name]] > SMALL.least]
    if not free or min(counts.values()) < SMALL.least:
        return
    gone = data.draw(st.sampled_from(free))
    after = cut_topology(without(topology, {gone}), SMALL, before)
    assert after == {name: shard for name, shard in before.items() if name != gone}


@given(topologies())
def test_topologies_of_shards_hold_everything_once(topology):
    cut = cut_topology(topology, SMALL)
    parts = shard_topologies(topology, cut)
    for what in ("nodes", "groups", "pools"):
        found = [one.name for part in parts.values() for one in getattr(part, what)]
        assert sorted(found) == sorted(one.name for one in getattr(topology, what))
    for name, part in parts.items():
        assert {cut[node.name] for node in part.nodes} == {name}


def test_one_shard_has_the_topology_itself():
    topology = build_fleet(FleetPlan(64)).topology
    cut = cut_topology(topology, ShardSizes())
    assert set(cut.values()) == {"shard0001"}
    assert shard_topologies(topology, cut)["shard0001"] is topology


def test_a_large_fleet_is_cut_along_its_leaves():
    topology = build_fleet(FleetPlan(1024)).topology
    cut = cut_topology(topology, ShardSizes(64, 256, 512))
    counts = Counter(cut.values())
    assert all(64 <= count <= 512 for count in counts.values())
    assert len(counts) >= 3


@settings(max_examples=15)
@given(st.integers(1, 12), st.integers(1, 4))
def test_growth_splits_a_shard_and_keeps_the_name_of_its_larger_part(leaves, size):
    nodes = tuple(
        Node(f"n{n:03d}", ports=(Port(f"n{n:03d}", "p0", "east-west", switch=f"leaf{n // size}"),))
        for n in range(leaves * size)
    )
    cut = {}
    for end in range(1, len(nodes) + 1):
        now = cut_topology(Topology(nodes[:end]), SMALL, cut)
        check(Topology(nodes[:end]), now)
        kept = sum(now[name] == shard for name, shard in cut.items())
        # A split moves less than half of one shard.
        assert len(cut) - kept <= SMALL.most
        cut = now


def test_a_link_that_leaves_a_shard_has_no_peer_there():
    pair = [Node("a", ports=(Port("a", "p", "east-west", peer="b/p"),))]
    pair.append(Node("b", ports=(Port("b", "p", "east-west", peer="a/p"),)))
    parts = shard_topologies(Topology(tuple(pair)), {"a": "shard0001", "b": "shard0002"})
    assert parts["shard0001"].nodes == (replace(pair[0], ports=(replace(pair[0].ports[0], peer=""),)),)
    assert parts["shard0002"].nodes[0].ports[0].peer == ""
    assert not any(pair[0].ports[0].peer in part.port for part in parts.values() if "a" in part.node)
