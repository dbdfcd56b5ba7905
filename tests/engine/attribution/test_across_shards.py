"""Incidents of several shards that are one fault."""

import pytest

from skewscope.engine.attribution.across_shards import SharedPlaces, apply_explanations, join_incidents
from skewscope.engine.attribution.cause_graph import CauseGraph
from skewscope.engine.model.incident import BlastRadius, Explanation, Impact, Incident
from skewscope.engine.model.topology import Node, Port, Topology
from skewscope.kb.loader import catalogue

SHARDS = 10
T = 1000.0


def fabric() -> Topology:
    """Ten leaves with two nodes each; two spines, each of which all leaves hang on; a third with two of them."""
    leaves = range(SHARDS)
    spines = {"spine0": leaves, "spine1": leaves, "spine2": (0, 1)}
    nodes = [
        Node(f"n{leaf}-{n}", gpus=8, ports=(Port(f"n{leaf}-{n}", "r0", "east-west", switch=f"leaf{leaf}"),))
        for leaf in leaves
        for n in range(2)
    ]
    for leaf in leaves:
        ups = [spine for spine, below in spines.items() if leaf in below]
        name = f"leaf{leaf}"
        nodes.append(Node(name, ports=tuple(Port(name, up, "east-west", peer=f"{up}/d{leaf}") for up in ups)))
    nodes += [
        Node(spine, ports=tuple(Port(spine, f"d{leaf}", "east-west", peer=f"leaf{leaf}/{spine}") for leaf in below))
        for spine, below in spines.items()
    ]
    return Topology(tuple(nodes))


TOPOLOGY = fabric()


def shard_of(name: str) -> str:
    return f"s{name.split('-', maxsplit=1)[0].lstrip('nleaf')}" if name[0] in "nl" else "s0"


SHARD_OF = {node.name: shard_of(node.name) for node in TOPOLOGY.nodes}
PLACES = SharedPlaces(TOPOLOGY, SHARD_OF)
CAUSES = CauseGraph(catalogue())


def incident(condition, name, opened=T, *, kind="port", resolved=None, **more):
    return Incident(
        f"{condition}@{name}@{opened:g}",
        condition,
        kind,
        name,
        "firing" if resolved is None else "resolved",
        opened,
        resolved,
        "warning",
        0.9,
        1.0,
        Impact("x", None, "1"),
        BlastRadius(1, 0, 0),
        "rule",
        "hash",
        **more,
    )


def join(incidents, t=T + 30, blind=()):
    by_shard = {}
    for one in incidents:
        by_shard.setdefault(SHARD_OF[one.name.split("/")[0]], []).append(one)
    return join_incidents(t, by_shard, PLACES, CAUSES, blind)


def losses(count, gap=1.0, name="r0"):
    return [incident("fabric-loss", f"n{n}-0/{name}", T + gap * n) for n in range(count)]


def test_what_shows_in_ten_shards_on_one_spine_is_one_incident():
    found = losses(SHARDS)
    explained = join(found)
    assert explained == {one.id: Explanation(found[0].id, "merged") for one in found[1:]}
    root, *others = apply_explanations(found, explained)
    assert root.blast_radius.nodes == SHARDS
    assert len(root.also) == SHARDS - 1
    assert {one.root_id for one in others} == {root.id}


@pytest.mark.parametrize("count", [1, 2])
def test_few_shards_of_many_stay_apart(count):
    found = [incident("fabric-loss", f"n{n}-0/r0") for n in range(4, 4 + count)]
    assert join(found) == {}


def test_two_shards_are_one_fault_where_they_are_all_behind_a_place():
    found = losses(2)
    assert join(found) == {found[1].id: Explanation(found[0].id, "merged")}


def test_a_blind_shard_does_not_count_among_those_behind_a_place():
    three = [incident("fabric-loss", f"n{n}-0/r0") for n in (4, 5)]
    assert join(three, blind=[f"s{n}" for n in range(SHARDS) if n not in (4, 5)]) != {}


def test_what_begins_apart_stays_apart():
    assert join(losses(SHARDS, gap=30.0)) == {}


def test_other_conditions_stay_apart():
    found = [incident(name, f"n{n}-0/r0") for n, name in enumerate(("fabric-loss", "link-flap", "host-cpu-bottleneck"))]
    assert join(found) == {}


def test_one_shard_is_left_to_its_engine():
    found = [incident("fabric-loss", f"n3-{n}/r0") for n in range(2)]
    assert join(found) == {}


def test_a_cause_on_a_spine_explains_what_hangs_on_it():
    effect = next(iter(sorted(CAUSES.effects("fabric-loss"))))
    cause = incident("fabric-loss", "spine1/d7", T - 2)
    found = [incident(effect, f"n{n}-0/r0") for n in (5, 7)]
    explained = join([cause, *found])
    assert explained == {one.id: Explanation(cause.id, "caused") for one in found}


def test_a_cause_of_one_part_is_the_root_of_all():
    effect = next(iter(sorted(CAUSES.effects("fabric-loss"))))
    cause = incident("fabric-loss", "spine1/d7", T - 2)
    found = [incident(effect, f"n{n}-0/r0", T + n) for n in range(3, 8)]
    explained = join([cause, *found])
    assert {link.id for link in explained.values()} == {cause.id}
    assert set(explained) == {one.id for one in found}


def test_the_others_come_back_when_the_root_is_long_over():
    found = losses(5)
    first = incident("fabric-loss", found[0].name, T, resolved=T + 5)
    assert {link.id for link in join([first, *found[1:]], t=T + 30).values()} == {first.id}
    later = join([first, *found[1:]], t=T + 600)
    assert {link.id for link in later.values()} == {found[1].id}


def test_what_a_root_explained_in_its_shard_follows_it():
    found = losses(5)
    inner = incident("tp-straggler", "n3-1/r0", explained_by=Explanation(found[3].id, "caused"))
    made = apply_explanations([*found, inner], join(found))
    assert made[-1].explained_by == Explanation(found[0].id, "caused")


def test_the_order_of_shards_does_not_matter():
    found = losses(SHARDS)
    assert join(found) == join(found[::-1])
