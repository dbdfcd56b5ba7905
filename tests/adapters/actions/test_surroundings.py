"""What limits are checked against: several targets over one pool, nodes under it, and replicas that are ill."""

import asyncio
from dataclasses import replace

import pytest

from skewscope.adapters.actions.planner import Planner
from skewscope.adapters.actions.settings import ActionSettings
from skewscope.adapters.actions.surroundings import read_surroundings
from skewscope.adapters.actions.view import IncidentView
from skewscope.engine.actions.action import DONE, ActionScope
from skewscope.engine.actions.change import DRAIN, EVICT, Change
from skewscope.engine.actions.limits import ActionLimits, find_blocks
from skewscope.engine.actions.planning import find_replicas
from skewscope.engine.model.topology import Group, Node, Pool, Topology
from skewscope.kb.loader import catalogue
from tests.support.acting_world import ActingWorld, SimulatedFault, SimulatedRouter
from tests.support.actions import build_action
from tests.support.memory_target import MemoryTarget

T0 = ActingWorld.t
NAMES = ("r0", "r1", "r2", "r3")
WIDE = ActionLimits(at_once=4, per_hour=50, share_of_nodes=1.0, share_of_groups=1.0, share_of_replicas=1.0)


def surroundings(*targets, of="replica", faults=(), others=()):
    """The surroundings of a drain of r2, or of an eviction of its node, at the first target."""
    world = ActingWorld(4, faults=faults)
    world.t += 100.0
    view = IncidentView()
    view.update(world.t, world.incidents())
    planner = Planner(world.topology, catalogue(), {one.name: one for one in targets})
    scope = ActionScope("r2", "replica", ("n2",), ("r2",), "pool", 4)
    member, kind = "r2", DRAIN
    if of == "node":
        scope, member, kind = ActionScope("n2", "node", ("n2",), ("r2",)), "n2", EVICT
    action = build_action(change=Change(kind, targets[0].name, member, "a-1"), scope=scope)

    async def read():
        return await read_surroundings(planner, view, action, await targets[0].read_state(), others)

    return action, asyncio.run(read())


def test_a_replica_is_in_use_if_all_its_routers_use_it():
    front, other = SimulatedRouter(NAMES), SimulatedRouter(NAMES, name="other")
    other.carry_out("drain r3")
    _, around = surroundings(front, other)
    assert around.serving == {"r0": True, "r1": True, "r2": True, "r3": False}
    other.trouble = lambda _line: "refuse"
    _, around = surroundings(front, other)
    assert (around.serving["r0"], around.silent) == (None, ("other",))

    async def fail():
        raise KeyError("name")

    other.read_state = fail
    assert surroundings(front, other)[1].silent == ("other",)


def test_the_target_of_a_change_without_undo_is_read_for_whether_its_member_is_back():
    front, cluster = SimulatedRouter(NAMES), SimulatedRouter(("x1", "x2"), name="cluster")
    cluster.carry_out("drain x1")
    gone = build_action(
        id="a-9", state=DONE, reversible=False, started_at=T0, change=Change(EVICT, "cluster", "x1", "")
    )
    in_use = surroundings(front, cluster, others=[gone])[1].members_in_use
    assert {name for target, name in in_use if target == "cluster"} == {"x2"}
    assert not any(target == "cluster" for target, _ in surroundings(front, cluster)[1].members_in_use)


def test_a_change_of_a_node_reads_the_routers_of_its_replicas():
    cluster = MemoryTarget("cluster", {f"n{n}": f"n{n}" for n in range(4)})
    front = SimulatedRouter(NAMES)
    front.carry_out("drain r0")
    action, around = surroundings(cluster, front, of="node")
    assert around.serving == {"r0": False, "r1": True, "r2": True, "r3": True}
    assert find_blocks(action, [], WIDE, around, T0) == ("2 replicas of pool would be left in use, 3 have to be",)
    assert find_blocks(action, [], replace(WIDE, minimum_healthy={"pool": 2}), around, T0) == ()


def test_a_replica_with_a_diagnosis_of_its_own_is_ill():
    faults = (SimulatedFault("r1", T0 + 60, T0 + 900, 0.2), SimulatedFault("r3", T0, T0 + 50, 0.2))
    action, around = surroundings(SimulatedRouter(NAMES), faults=faults)
    assert around.ill == {"r1"}
    assert find_blocks(action, [], WIDE, around, T0) == (
        "2 replicas of pool would be left in use, 3 have to be; ill: r1 (-80 %)",
    )


@pytest.mark.parametrize(
    ("name", "found"), [("r2", {"r2"}), ("n2", {"r2"}), ("n2/gpu0", {"r2"}), ("n1--n2", {"r1", "r2"}), ("pool", set())]
)
def test_the_replicas_of_an_entity_are_those_on_its_nodes(name, found):
    assert find_replicas(name, ActingWorld(4).topology) == found


@pytest.mark.parametrize(("name", "found"), [("n0/gpu1", {"r1"}), ("n0/gpu9", set(NAMES)), ("n0", set(NAMES))])
def test_of_several_replicas_on_a_node_a_gpu_belongs_to_one(name, found):
    groups = tuple(Group(each, "tensor-parallel", (f"n0/gpu{n}",)) for n, each in enumerate(NAMES))
    assert find_replicas(name, Topology((Node("n0", gpus=4),), groups, (Pool("pool", NAMES),))) == found


@pytest.mark.parametrize("delay", [0, 12])
def test_a_target_that_accepts_late_never_has_too_few_in_use(delay):
    """Replicas fall ill one after the other; the target's state still shows those in use that it was told to drain."""
    faults = tuple(SimulatedFault(f"r{n}", T0 + 60 + 8 * n, T0 + 68 + 8 * n, 0.2) for n in range(6))
    limits = replace(WIDE, minimum_healthy={"pool": 7})
    world = ActingWorld(8, 4.0, faults=faults, settings=ActionSettings(mode="act", limits=limits), has_probe=False)
    carry_out, pending = world.router.carry_out, []
    world.router.carry_out = lambda line: pending.append((world.t + delay, line))
    for _ in range(400):
        for due in [one for one in pending if one[0] <= world.t]:
            pending.remove(due)
            carry_out(due[1])
        world.step()
    assert world.router.lines
    assert world.fewest_in_use == 7


def test_two_routers_over_one_pool_share_its_minimum():
    """The one accepts late; while it does, the other is asked to drain another replica."""
    first = SimulatedFault("r1", T0 + 60, T0 + 68, 0.2)
    other = SimulatedRouter(("r0", "r1", "r2"), name="other")
    settings = ActionSettings(mode="act", limits=replace(WIDE, minimum_healthy={"pool": 2}))
    world = ActingWorld(3, faults=(first,), settings=settings, more_targets=(other,), has_probe=False)
    carry_out, pending = world.router.carry_out, []
    world.router.carry_out = lambda line: pending.append((world.t + 12, line))
    fewest, plain = 3, world.router
    for second in range(300):
        if second == 70:
            world.faults = (first, replace(first, replica="r2", start=T0 + 66, end=T0 + 90))
            plain.support = {}
        for due in [one for one in pending if one[0] <= world.t]:
            pending.remove(due)
            carry_out(due[1])
        world.step()
        fewest = min(fewest, 3 - len(plain.drained | other.drained))
    assert "drain r1" in plain.lines
    assert fewest == 2
