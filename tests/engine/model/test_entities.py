"""Who lies in whom, who is compared with whom: indices against what the topology says in words."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewscope.engine.features.operators.peers import PeerComparison, Reduction
from skewscope.engine.features.operators.protocol import OPERATORS
from skewscope.engine.model.entities import EntityIndex, build_sets
from skewscope.engine.model.topology import Group, Node, Pool, Port, Topology
from skewscope.rules.entity_kinds import CONTAINERS, KINDS, PEER_CHOICES, SCOPES
from skewscope.rules.expression import Peers
from skewscope.rules.model import EntityFilter

PEER_FUNCTIONS = {name: cls.function for name, cls in OPERATORS.items() if issubclass(cls, PeerComparison)}
REDUCTIONS = {name: cls.function for name, cls in OPERATORS.items() if issubclass(cls, Reduction)}

PORT = {"ns": "north-south", "ew": "east-west"}


def node(n):
    ports = tuple(
        Port(f"n{n}", name, net, 1e9 if net == "north-south" else 0.0, switch=f"s{n % 2}") for name, net in PORT.items()
    )
    return Node(f"n{n}", rack=f"r{n // 2}", gpus=2, ports=ports)


TOPOLOGY = Topology(
    tuple(node(n) for n in range(6)),
    (
        Group("A", "tensor-parallel", ("n0", "n1"), "n0"),
        Group("B", "tensor-parallel", ("n2/gpu0", "n2/gpu1", "n3/gpu0"), "n2"),
        Group("C", "pipeline-parallel", ("n0", "n4"), ""),
    ),
    (Pool("chat", ("A", "B")), Pool("rest", ("B", "elsewhere"))),
)


def entities():
    return EntityIndex(TOPOLOGY)


def up(lower, upper):
    """Who each `lower` lies in, by name."""
    e = entities()
    names = [*e.names[upper], ""]
    return {name: names[n] for name, n in zip(e.names[lower], e.container_index(lower, upper).tolist(), strict=True)}


def down(part, whole):
    """The parts of each `whole`, by name."""
    e, found = entities(), {}
    for bucket in e.part_sets(part, whole).buckets:
        for owner, members in zip(bucket.owners.tolist(), bucket.members.tolist(), strict=True):
            found[e.names[whole][owner]] = {e.names[part][n] for n in members if n >= 0}
    return found


def classes(kind, by, **more):
    """Peers, by name."""
    e = entities()
    buckets = e.peer_sets(Peers(kind, by, **more)).buckets
    return sorted(sorted(e.names[kind][n] for n in row if n >= 0) for b in buckets for row in b.members.tolist())


def test_what_lies_in_what():
    assert up("gpu", "node")["n2/gpu1"] == "n2"
    assert up("port", "node")["n3/ew"] == "n3"
    assert up("rank", "group") == {
        "A:n0": "A",
        "A:n1": "A",
        "B:n2/gpu0": "B",
        "B:n2/gpu1": "B",
        "B:n3/gpu0": "B",
        "C:n0": "C",
        "C:n4": "C",
    }
    assert up("rank", "node")["B:n3/gpu0"] == "n3"
    assert up("rank", "pool") == dict.fromkeys(("A:n0", "A:n1", "B:n2/gpu0", "B:n2/gpu1", "B:n3/gpu0"), "chat") | {
        "C:n0": "",
        "C:n4": "",
    }
    assert up("group", "pool") == {"A": "chat", "B": "chat", "C": ""}
    assert up("node", "fleet") == {f"n{n}": "fleet" for n in range(6)}


def test_what_something_is_made_of():
    assert down("gpu", "rank")["A:n0"] == {"n0/gpu0", "n0/gpu1"}
    assert down("gpu", "rank")["B:n2/gpu1"] == {"n2/gpu1"}
    assert down("gpu", "group")["B"] == {"n2/gpu0", "n2/gpu1", "n3/gpu0"}
    assert down("port", "group")["C"] == {"n0/ns", "n0/ew", "n4/ns", "n4/ew"}
    assert down("node", "pool") == {"chat": {"n0", "n1", "n2", "n3"}, "rest": {"n2", "n3"}}
    assert down("rank", "node")["n0"] == {"A:n0", "C:n0"}
    assert down("group", "node")["n0"] == {"A", "C"}
    assert "n5" not in down("group", "node")


@pytest.mark.parametrize(
    ("kind", "by", "expected"),
    [
        ("rank", "group", [["A:n0", "A:n1"], ["B:n2/gpu0", "B:n2/gpu1", "B:n3/gpu0"], ["C:n0", "C:n4"]]),
        (
            "rank",
            "kind",
            [["A:n0", "A:n1", "B:n2/gpu0", "B:n2/gpu1", "B:n3/gpu0"], ["C:n0", "C:n4"]],
        ),
        ("rank", "pipeline-parallel", [["A:n0", "C:n0", "C:n4"]]),
        ("node", "rack", [["n0", "n1"], ["n2", "n3"], ["n4", "n5"]]),
        ("node", "tensor-parallel", [["n0", "n1"], ["n2", "n3"]]),
        ("gpu", "tensor-parallel", [["n0/gpu0", "n0/gpu1", "n1/gpu0", "n1/gpu1"], ["n2/gpu0", "n2/gpu1", "n3/gpu0"]]),
        ("port", "network", [[f"n{n}/ew" for n in range(6)], [f"n{n}/ns" for n in range(6)]]),
        ("port", "switch", [sorted(f"n{n}/{p}" for n in range(k, 6, 2) for p in PORT) for k in (0, 1)]),
        ("replica", "pool", [["A", "B"]]),
        ("group", "kind", [["A", "B"], ["C"]]),
        ("pool", "all", [["chat", "rest"]]),
    ],
)
def test_who_is_compared_with_whom(kind, by, expected):
    found = classes(kind, by)
    assert [sorted(each) for each in found if len(each) > 1 or each in expected] == sorted(map(sorted, expected))


def test_peers_are_those_that_a_rule_judges():
    assert classes("rank", "all", groups=("pipeline-parallel",)) == [["C:n0", "C:n4"]]
    assert classes("port", "all", networks=("east-west",)) == [[f"n{n}/ew" for n in range(6)]]


@pytest.mark.parametrize("kind", SCOPES)
def test_every_choice_of_peers_can_be_made(kind):
    for by in PEER_CHOICES[kind]:
        found = [name for each in classes(kind, by) for name in each]
        assert len(found) == len(set(found))


@pytest.mark.parametrize("lower", KINDS)
def test_up_and_down_say_the_same_of_every_pair_of_kinds(lower):
    e = entities()
    for name in ("n0/ew>n1/ew", "n0/ew>n1"):
        e.get_or_add("peer", name)
    for upper in CONTAINERS[lower]:
        index, parts = e.container_index(lower, upper), e.part_sets(lower, upper)
        assert len(index) == e.count(lower)
        for bucket in parts.buckets:
            for owner, members in zip(bucket.owners.tolist(), bucket.members.tolist(), strict=True):
                assert all(index[m] == owner for m in members if m >= 0)
        inside = {m for bucket in parts.buckets for m in bucket.members.ravel().tolist() if m >= 0}
        assert inside == set(np.flatnonzero(index >= 0).tolist())


def test_where_leaves_what_a_rule_asks_for():
    e = entities()

    def left(kind, **where):
        return [
            name for name, good in zip(e.names[kind], e.mask_where(kind, EntityFilter(**where)), strict=False) if good
        ]

    assert left("rank", groups=("pipeline-parallel",)) == ["C:n0", "C:n4"]
    assert left("group", groups=("tensor-parallel",)) == ["A", "B"]
    assert left("replica", groups=("tensor-parallel",)) == ["A", "B"]
    assert left("group", nodes=2) == [
        g.name for g in e.topology.groups if len({e.topology.node_of[m] for m in g.members}) == 2
    ]
    assert left("rank", nodes=2, groups=("pipeline-parallel",)) == ["C:n0", "C:n4"]
    assert not left("group", nodes=7)
    assert left("node", groups=("pipeline-parallel",)) == ["n0", "n4"]
    assert left("gpu", groups=("tensor-parallel",)) == [f"n{n}/gpu{g}" for n in (0, 1, 2) for g in (0, 1)] + ["n3/gpu0"]
    assert left("port", networks=("east-west",)) == [f"n{n}/ew" for n in range(6)]
    assert left("port", groups=("pipeline-parallel",), networks=("east-west",)) == ["n0/ew", "n4/ew"]


def test_a_front_end_is_own_where_no_group_on_other_nodes_has_it():
    nodes = tuple(node(n) for n in range(6))
    groups = (
        Group("whole", "data-parallel", ("n0", "n1"), "n0"),
        Group("part", "tensor-parallel", ("n0/gpu0", "n0/gpu1"), "n0"),
        Group("one", "tensor-parallel", ("n2", "n3"), "n5"),
        Group("other", "tensor-parallel", ("n4",), "n5"),
        Group("none", "tensor-parallel", ("n5",), ""),
        Group("pooled", "tensor-parallel", ("n5/gpu0",), ""),
    )
    e = EntityIndex(Topology(nodes, groups, (Pool("lab", ("pooled",)),)))

    def left(kind, front_end="own"):
        where = EntityFilter(front_end=front_end)
        return [name for name, good in zip(e.names[kind], e.mask_where(kind, where), strict=False) if good]

    assert left("group") == left("replica") == ["whole", "part"]
    assert left("group", "none") == ["none"]
    assert left("rank", "none") == ["none:n5"]
    assert left("rank") == ["whole:n0", "whole:n1", "part:n0/gpu0", "part:n0/gpu1"]


def test_only_peers_and_links_may_come_later_and_only_sound_ones():
    e = entities()
    assert e.get_or_add("node", "n9") == e.get_or_add("rank", "A:n9") == e.get_or_add("peer", "n9/ew>n0/ew") == -1
    first, second = e.get_or_add("peer", "n0/ew>n1/ew"), e.get_or_add("peer", "n0/ew>n2/ew")
    assert (first, second) == (0, 1)
    assert e.get_or_add("peer", "n0/ew>n1/ew") == 0
    assert e.get_or_add("link", "a--b") >= 0


def test_many_peers_make_the_arrays_longer_and_change_no_number():
    e = entities()
    versions = set()
    for n in range(300):
        assert e.get_or_add("peer", f"n0/ew>x{n}/ew") == n
        versions.add(e.version)
    assert e.count("peer") >= 300
    assert len(versions) < 10
    assert (e.container_index("peer", "port")[:300] == e.numbers["port"]["n0/ew"]).all()
    assert (e.container_index("peer", "port")[300:] == -1).all()


def test_a_series_told_of_a_whole_belongs_to_its_only_part_and_to_none_of_several():
    e = entities()
    assert e.sole_relative("rank", e.numbers["rank"]["B:n2/gpu1"], "gpu") == e.numbers["gpu"]["n2/gpu1"]
    assert e.sole_relative("node", 0, "gpu") == -1
    assert e.sole_relative("node", 5, "rank") == -1
    assert e.sole_relative("gpu", e.numbers["gpu"]["n3/gpu0"], "node") == 3


def test_sizes_speeds_and_front_ends():
    e = entities()
    assert e.size("group").tolist() == [2, 3, 2]
    assert e.size("replica").tolist()[:2] == [2, 3]
    assert math.isnan(e.size("replica")[2])  # named by a pool, and no group
    assert e.size("pool").tolist() == [2, 2]
    speed = dict(zip(e.names["port"], e.speed.tolist(), strict=True))
    assert speed["n0/ns"] == 1e9
    assert math.isnan(speed["n0/ew"])
    assert e.front_end_index("group").tolist() == [0, 2, -1]


SETS = st.lists(st.lists(st.integers(0, 30), unique=True, max_size=20), max_size=12)
NUMBERS = st.lists(st.one_of(st.just(math.nan), st.floats(-1e6, 1e6)), min_size=31, max_size=31)


@given(SETS, NUMBERS, st.sampled_from(sorted(REDUCTIONS)))
def test_sets_of_any_size_reduce_as_each_would_alone(members, numbers, name):
    values = np.array(numbers)
    with np.errstate(all="ignore"):
        found = build_sets(members, len(members)).reduce(values, REDUCTIONS[name])
        alone = [REDUCTIONS[name](values[one][None, :])[0] if one else math.nan for one in members]
    assert found.tolist() == pytest.approx(alone, rel=1e-9, nan_ok=True)


@given(
    st.permutations(range(31)),
    st.lists(st.integers(1, 12), max_size=6),
    NUMBERS,
    st.sampled_from(sorted(PEER_FUNCTIONS)),
)
def test_members_of_sets_of_any_size_compare_as_each_set_would_alone(order, sizes, numbers, name):
    values, members = np.array(numbers), []
    for size in sizes:
        taken = sum(map(len, members))
        members.append(order[taken : taken + size])
    members = [one for one in members if one]
    with np.errstate(all="ignore"):
        found = build_sets(members, len(members)).map_members(values, PEER_FUNCTIONS[name])
        for one in members:
            alone = PEER_FUNCTIONS[name](values[list(one)][None, :])[0]
            assert found[list(one)].tolist() == pytest.approx(alone.tolist(), rel=1e-7, abs=1e-9, nan_ok=True)
    outside = sorted(set(range(31)) - {n for one in members for n in one})
    assert np.isnan(found[outside]).all()
