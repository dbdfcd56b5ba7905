"""How witnesses are asked: few probes, peers that are well, and the counts of routers that have them."""

import asyncio
from dataclasses import replace

from skewscope.adapters.actions.view import JudgementState
from skewscope.adapters.actions.witness_readings import MAX_PROBES, WitnessReadings, list_peers
from skewscope.adapters.targets.common.base import TargetError
from skewscope.engine.actions.comparison import MemberComparison, MemberLoad
from tests.support.acting_world import ActingWorld, SimulatedFault
from tests.support.actions import T0, build_action

SLOW = SimulatedFault("r2", ActingWorld.t, ActingWorld.t + 900, 0.2)


def run_beside(job):
    asyncio.get_running_loop().create_task(job())


def make(*faults, **fields):
    """A world in which some replicas are slow, and a drain of r2 that is not made yet."""
    world = ActingWorld(faults=faults or (SLOW,), **fields)
    world.t += 10
    world.coordinator.view.update(world.t, world.incidents())
    action = build_action()
    return world, replace(action, change=replace(action.change, member="r2"))


def compare(world, action):
    readings = world.coordinator.steps.readings
    state = asyncio.run(world.router.read_state())
    asyncio.run(readings.compare(world.router, action, state, world.coordinator.view))
    return readings.latest("i-1", world.t)


def test_one_probe_suffices_where_it_is_far_beyond_the_limit_and_three_do_not_otherwise():
    world, action = make()
    asked = []
    seconds = world.router.probe_seconds
    world.router.probe_seconds = lambda name: asked.append(name) or seconds(name)
    assert compare(world, action).is_slower
    assert asked == ["r0", "r1", "r2"]
    world.faults, asked[:] = (replace(SLOW, speed=1.0),), []
    world.t += 30
    world.coordinator.view.update(world.t, ())
    assert not compare(world, action).is_slower
    assert asked == ["r0", "r1", "r2"] * 3


def test_a_member_gets_few_probes_in_a_minute():
    world, _ = make()
    readings = WitnessReadings(world.coordinator.planner, run_beside)
    found = [asyncio.run(readings.probe(world.router, "r2", ("r0",), T0 + n)) for n in range(59)]
    assert sum(one is not None for one in found) == MAX_PROBES
    assert asyncio.run(readings.probe(world.router, "r2", ("r0",), T0 + 75))


def test_a_member_that_is_out_has_a_probe_also_where_it_does_not_answer():
    world, action = make()
    begun = replace(action, started_at=world.t, applied_at=world.t)
    readings = WitnessReadings(world.coordinator.planner, run_beside)
    assert not readings.has_probe("i-1", T0, 5.0)

    def refuse(name):
        if name == "r2":
            raise TargetError("r2: no answer")
        return 0.1

    world.router.probe_seconds = refuse
    t = world.t + 6
    found = asyncio.run(readings.probe_in_place(world.router, begun, ("r0", "r1"), t, 5.0))
    assert found.is_slower
    assert asyncio.run(readings.probe_in_place(world.router, begun, ("r0", "r1"), t + 1, 5.0)) is None
    assert readings.has_probe("i-1", t + 60, 5.0)
    assert not readings.has_probe("i-1", t + 61, 5.0)
    assert readings.has_probe("i-1", t + 61, 60.0)


def test_a_member_that_is_out_is_probed_as_often_as_is_set():
    world, action = make()
    begun = replace(action, started_at=world.t, applied_at=world.t)
    readings = WitnessReadings(world.coordinator.planner, run_beside)
    times = [world.t + 2.0 * n for n in range(1, 60)]
    found = [asyncio.run(readings.probe_in_place(world.router, begun, ("r0", "r1"), t, 2.0)) for t in times]
    assert None not in found


def test_a_peer_is_compared_with_several_members_in_a_minute():
    world, _ = make()
    readings = WitnessReadings(world.coordinator.planner, run_beside)
    for n in range(MAX_PROBES):
        assert asyncio.run(readings.probe(world.router, "r2", ("r0",), T0 + n))
    assert asyncio.run(readings.probe(world.router, "r1", ("r0",), T0 + MAX_PROBES))


def test_one_that_does_not_answer_is_slow_and_peers_that_do_not_say_nothing():
    world, action = make()

    def refuse(silent):
        def answer(name):
            if name in silent:
                raise TargetError(f"{name}: no answer")
            return 0.1

        return answer

    world.router.probe_seconds = refuse(["r2"])
    assert compare(world, action).member == float("inf")
    world.t += 30
    world.coordinator.view.update(world.t, ())
    world.router.probe_seconds = refuse(["r0", "r1"])
    assert asyncio.run(world.coordinator.steps.readings.probe(world.router, "r2", ("r0", "r1"), world.t)) is None


def test_peers_are_of_the_pool_in_use_and_well():
    world, action = make(SLOW, SimulatedFault("r1", ActingWorld.t, ActingWorld.t + 900, 0.3), replicas=4)
    state = asyncio.run(world.router.read_state())
    view, planner = world.coordinator.view, world.coordinator.planner
    assert list_peers(planner, view, world.router, action, state) == ("r0", "r3")
    world.router.carry_out("drain r0")
    state = asyncio.run(world.router.read_state())
    assert list_peers(planner, view, world.router, action, state) == ("r3",)


def test_the_counts_of_a_router_stand_in_for_a_probe_and_show_the_effect():
    world, action = make(has_probe=False)
    done, waiting = {"r0": 0.0, "r1": 0.0, "r2": 0.0}, {"r0": 2.0, "r1": 2.0, "r2": 10.0}

    async def read_load():
        return {name: MemberLoad(done[name], waiting[name]) for name in done}

    world.router.read_load = read_load
    readings = world.coordinator.steps.readings

    def pass_time(seconds, rates):
        for _ in range(seconds):
            world.t += 1
            world.coordinator.view.update(world.t, ())
            for name, rate in rates.items():
                done[name] += rate
            compare(world, action)

    pass_time(7, {"r0": 4, "r1": 4, "r2": 4})
    assert readings.latest("i-1", world.t) is None
    pass_time(3, {"r0": 4, "r1": 4, "r2": 4})
    found = readings.latest("i-1", world.t)
    assert (found.witness, found.member, found.peers) == ("router", 2.5, 0.5)
    begun = replace(action, started_at=world.t, applied_at=world.t)
    other = replace(begun, change=replace(begun.change, member="r1"))
    waiting["r2"] = 0.0
    pass_time(5, {"r0": 6, "r1": 6, "r2": 0})
    assert readings.confirm_by_router(world.router, begun, world.t) == ""
    waiting.update(r0=3.0, r1=3.0)
    pass_time(10, {"r0": 6, "r1": 6, "r2": 0})
    assert readings.confirm_by_router(world.router, begun, world.t) == (
        "requests take 0.48 s at the router, 1.17 s before"
    )
    assert readings.confirm_by_router(world.router, other, world.t) == "", "the pool was slow because of r2"


def test_a_probe_that_finds_a_member_well_outweighs_the_counts_of_a_router():
    world, action = make(replace(SLOW, speed=1.0))
    steps = world.coordinator.steps
    steps.readings.confirm_by_router = lambda *_: "requests take 0.48 s at the router, 1.17 s before"
    begun = replace(action.move(world.t, "applied", "accepted"), applied_at=world.t - 10.0)
    begun = replace(begun, reason=replace(begun.reason, loss=0.9))

    def confirm(member):
        return asyncio.run(steps._confirm(world.router, begun, MemberComparison("probe", world.t, member, 0.5)))

    assert confirm(0.5) == ""
    assert confirm(5.0) == "a probe finds it slower than its peers (5.00 s, theirs 0.50 s)"
    begun = replace(begun, witness="a probe finds it slower than its peers (5.00 s, theirs 0.50 s)")
    assert confirm(0.5) == ""
    assert confirm(5.0) == "requests take 0.48 s at the router, 1.17 s before"


def test_a_router_is_no_witness_where_it_is_unknown_what_a_member_was_given():
    world, action = make()
    steps, id_ = world.coordinator.steps, action.reason.incident
    undecided = JudgementState(undecided={id_: ("longer_prompts",)})
    for witness, said in (("router", ""), ("probe", "a probe finds it slower than its peers (5.00 s, theirs 0.50 s)")):
        steps.readings._keep(id_, MemberComparison(witness, world.t, 5.0, 0.5))
        world.coordinator.view.update(world.t, (), undecided)
        assert steps._describe_witness(id_) == said
        world.coordinator.view.update(world.t, ())
        assert steps._describe_witness(id_).endswith("finds it slower than its peers (5.00 s, theirs 0.50 s)")


def test_members_of_other_hardware_are_no_peers():
    world, action = make(replicas=4)
    kinds = {"n1": "8xA100"}
    nodes = tuple(replace(node, hardware=kinds.get(node.name, "8xH100")) for node in world.topology.nodes)
    planner = replace(world.coordinator.planner, topology=replace(world.topology, nodes=nodes))
    state = asyncio.run(world.router.read_state())
    action = replace(action, scope=replace(action.scope, entity="r2"))

    def peers(planner):
        return list_peers(planner, world.coordinator.view, world.router, action, state)

    assert peers(planner) == ("r0", "r3")
    assert peers(world.coordinator.planner) == ("r0", "r1", "r3"), "nobody says which hardware they have"


def test_a_router_that_cannot_be_read_is_no_witness():
    world, action = make(has_probe=False)

    async def read_load():
        raise KeyError("worker")

    world.router.read_load = read_load
    assert compare(world, action) is None
