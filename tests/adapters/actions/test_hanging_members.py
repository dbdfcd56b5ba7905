"""A member that gives no answer holds neither the steps of other actions at its target, nor their probes."""

import asyncio
import math
from dataclasses import replace

from skewscope.adapters.actions.settings import ActionSettings
from skewscope.adapters.actions.witness_readings import AT_ONCE, PATIENCE, WitnessReadings
from skewscope.adapters.targets.common.base import TargetError
from skewscope.engine.actions.action import APPROVED, UNDONE, VERIFIED
from skewscope.engine.actions.change import DRAIN, ChangeSupport
from skewscope.engine.actions.lifecycle import PROBES
from skewscope.engine.actions.limits import ActionLimits
from tests.support.acting_time import run_virtual
from tests.support.acting_world import ActingWorld, SimulatedFault
from tests.support.actions import build_action

T0 = ActingWorld.t
TIMEOUT = 20.0
"""Seconds after which a probe gives up."""
WIDE = ActionLimits(at_once=4, per_hour=50, cool_down=1.0, share_of_nodes=1.0, share_of_groups=1.0)
SETTINGS = ActionSettings(mode="act", limits=replace(WIDE, share_of_replicas=1.0))


def hang(world, *silent):
    """Lets some members give no answer to a probe while they are ill."""
    answer = world.router.probe_seconds

    async def probe(name):
        if name in silent and world.speeds()[name] < 1.0:
            await asyncio.sleep(TIMEOUT)
            raise TargetError(f"{name}: no answer within {TIMEOUT:g} s")
        return answer(name)

    world.router.probe = probe
    return world


def drain_of(member, t):
    action = build_action()
    change, reason = replace(action.change, member=member), replace(action.reason, incident=f"i-{member}")
    return replace(action, id=f"a-{member}", change=change, reason=reason, started_at=t, applied_at=t)


def make_readings(world):
    return WitnessReadings(world.coordinator.planner, lambda job: asyncio.get_running_loop().create_task(job()))


def test_a_comparison_goes_on_beside_those_of_other_members():
    fault = SimulatedFault("r2", T0, T0 + 900, 0.2)

    async def scenario():
        world = hang(ActingWorld(faults=(fault,)), "r2")
        readings, clock = make_readings(world), asyncio.get_running_loop().time
        silent, well = drain_of("r2", T0), drain_of("r1", T0)

        async def probe(action, t):
            begun = clock()
            latest = await readings.probe_in_place(world.router, action, ("r0",), T0 + t, 5.0)
            return latest, clock() - begun

        assert await probe(silent, 1) == (None, PATIENCE), "it is begun, and goes on"
        assert await probe(silent, 2) == (None, 0.0)
        (latest, took) = await probe(well, 2)
        assert not latest.is_slower
        assert took < PATIENCE
        await asyncio.sleep(TIMEOUT)
        latest, _ = await probe(silent, TIMEOUT + 3)
        assert (latest.member, latest.t) == (math.inf, T0 + 1 + TIMEOUT)

    run_virtual(scenario())


def test_what_was_begun_before_a_change_says_nothing_of_it():
    fault = SimulatedFault("r2", T0, T0 + 5, 0.2)

    async def scenario():
        world = hang(ActingWorld(faults=(fault,)), "r2")
        readings = make_readings(world)
        assert await readings.probe_in_place(world.router, drain_of("r2", T0), ("r0",), T0 + 1, 5.0) is None
        world.t += TIMEOUT
        await asyncio.sleep(TIMEOUT)
        later = drain_of("r2", world.t)
        latest = await readings.probe_in_place(world.router, later, ("r0",), world.t + 1, 5.0)
        assert not latest.is_slower

    run_virtual(scenario())


def test_peers_are_waited_for_together_and_probes_of_one_target_are_bounded():
    names = [f"r{n}" for n in range(3 * AT_ONCE)]
    faults = tuple(SimulatedFault(name, T0, T0 + 900, 0.2) for name in names[1:])

    async def scenario():
        world = hang(ActingWorld(len(names), faults=faults), *names[1:])
        readings, clock = make_readings(world), asyncio.get_running_loop().time
        assert await readings.probe(world.router, "r0", ("r1", "r2"), T0) is None
        assert clock() == TIMEOUT, "two peers that hang are waited for once"
        under_way, most, probe = 0, 0, world.router.probe

        async def count(name):
            nonlocal under_way, most
            under_way += 1
            most = max(most, under_way)
            try:
                return await probe(name)
            finally:
                under_way -= 1

        world.router.probe = count
        await asyncio.gather(*(readings.probe(world.router, name, ("r0",), T0 + 1) for name in names[1:]))
        assert most == AT_ONCE

    run_virtual(scenario())


def test_a_member_that_is_well_again_is_put_back_while_another_one_hangs():
    hung = SimulatedFault("r2", T0 + 100, T0 + 900, 0.1)
    short = SimulatedFault("r1", T0 + 100, T0 + 200, 0.2)

    async def scenario():
        world = ActingWorld(5, demand=2.5, faults=(hung, short), settings=SETTINGS, spawn=None)
        world.router.support = {DRAIN: ChangeSupport()}
        hang(world, "r2")
        back_at = None
        while world.t < T0 + 400:
            world.step()
            await asyncio.sleep(1.0)
            if world.t > short.end and back_at is None and "r1" not in world.router.drained:
                back_at = world.t
        states = {one.change.member: one.state for one in world.coordinator.actions.values()}
        await world.coordinator.close()
        return states, back_at - short.end

    states, seconds = run_virtual(scenario())
    assert states == {"r1": UNDONE, "r2": VERIFIED}
    assert seconds <= PROBES * SETTINGS.timing.probe_every + 5.0


def test_a_change_waits_for_the_probes_of_its_member_and_says_so():
    fault = SimulatedFault("r2", T0 + 100, T0 + 900, 0.1)

    async def scenario():
        world = hang(ActingWorld(faults=(fault,), settings=SETTINGS, spawn=None), "r2")
        waits = set()
        while world.t < T0 + 160:
            world.step()
            await asyncio.sleep(1.0)
            waits |= {one.waiting for one in world.coordinator.actions.values() if one.state == APPROVED}
        (action,) = world.coordinator.actions.values()
        await world.coordinator.close()
        return waits, action

    waits, action = run_virtual(scenario())
    assert "probes of its member are under way" in waits
    assert action.started_at is not None
    assert action.witness == "a probe gets no answer of it, and one of its peers after 0.10 s"
