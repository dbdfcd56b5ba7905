"""What persons decide, and what settings say, while a store and a target take their time."""

import asyncio
from dataclasses import dataclass, field, replace

import pytest

from skewscope.adapters.actions.coordinator import ActionRequestError
from skewscope.adapters.actions.settings import ActionSettings, ModeRule
from skewscope.engine.actions.action import APPROVED, EXPIRED, PROPOSED, UNDONE, VERIFIED
from skewscope.engine.actions.limits import ActionLimits
from skewscope.engine.model.incident import Explanation
from tests.support import acting_world
from tests.support.acting_time import run_virtual
from tests.support.acting_world import ActingWorld, KilledError, MemoryStore, SimulatedFault

T0 = ActingWorld.t
ACT, PROPOSE, OBSERVE = (ActionSettings(mode=mode) for mode in ("act", "propose", "observe"))
ILL = SimulatedFault("r2", T0 + 60, T0 + 6000, 0.2)


@dataclass
class SlowStore(MemoryStore):
    """A store that needs 50 ms for each write, one at a time."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def save(self, *what):
        async with self.lock:
            await asyncio.sleep(0.05)
            await super().save(*what)


async def slow_world(settings, seconds=120):
    """A world whose store is slow, after some time."""
    world = ActingWorld(faults=(ILL,), settings=settings, store=SlowStore(), spawn=None)
    await let_pass(world, seconds)
    return world


async def let_pass(world, seconds):
    for _ in range(seconds):
        world.step()
        await asyncio.sleep(1.0)


def only(world):
    (action,) = world.coordinator.actions.values()
    return action


async def answer(request):
    """The state that was answered, or why it was not done."""
    try:
        return (await request).state
    except ActionRequestError as error:
        return str(error)


def test_a_refusal_while_the_intent_is_stored_comes_too_late_and_says_so():
    async def scenario():
        world = await slow_world(PROPOSE)
        await world.coordinator.approve(only(world).id, "ann", "go")
        world.step()
        await asyncio.sleep(0.01)
        said = await answer(world.coordinator.refuse(only(world).id, "bob", "no"))
        await let_pass(world, 60)
        return world, said

    world, said = run_virtual(scenario())
    assert said == f"{only(world).id} is applying: undo it instead"
    assert only(world).state == VERIFIED
    assert not any("bob" in line for line in world.store.lines)


@pytest.mark.parametrize("first", ["approve", "refuse"])
def test_of_an_approval_and_a_refusal_at_the_same_time_the_second_sees_the_first(first):
    async def scenario():
        world = await slow_world(PROPOSE)
        coordinator, id_ = world.coordinator, only(world).id
        asked = [coordinator.refuse(id_, "bob", "no"), coordinator.approve(id_, "ann", "go")]
        one, two = asked if first == "refuse" else reversed(asked)

        async def later():
            await asyncio.sleep(0.01)
            return await answer(two)

        said = await asyncio.gather(answer(one), later())
        await let_pass(world, 60)
        return world, said

    world, said = run_virtual(scenario())
    assert only(world).state == "refused"
    assert world.router.lines == []
    refused_only = ["refused", f"{only(world).id} is refused: only a proposal can be approved"]
    assert said == (refused_only if first == "refuse" else ["approved", "refused"])


def test_an_undo_between_the_intent_and_the_first_call_leaves_nothing_to_call():
    async def scenario():
        world = await slow_world(ACT, 65)
        world.router.delay = 5.0
        while not world.coordinator.actions or only(world).state != "applying":
            await let_pass(world, 1)
        assert only(world).called_at is None
        said = await answer(world.coordinator.undo(only(world).id, "ann", "stop"))
        await let_pass(world, 30)
        return world, said

    world, said = run_virtual(scenario())
    assert (said, only(world).state, only(world).history[-1][1]) == ("undoing", UNDONE, "no call was made")
    assert world.router.lines == []


def test_what_is_decided_is_stored_even_if_nobody_waits_for_the_answer():
    async def scenario():
        world = await slow_world(PROPOSE)
        asking = asyncio.create_task(world.coordinator.refuse(only(world).id, "ann", "no"))
        await asyncio.sleep(0.01)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        return world

    assert only(run_virtual(scenario())).state == "refused"


def test_a_proposal_ends_in_time_while_its_target_hangs():
    async def scenario():
        world = await slow_world(PROPOSE)
        world.router.delay = 10_000.0
        second = replace(only(world), id="a-2", reason=replace(only(world).reason, incident="i-2"), state=APPROVED)
        world.coordinator.resume([second], world.t)
        await let_pass(world, 900)
        return world

    assert {one.state for one in run_virtual(scenario()).coordinator.actions.values()} == {EXPIRED}


def test_after_its_time_a_proposal_is_not_approved():
    world = ActingWorld(faults=(ILL,), settings=PROPOSE)
    world.run(120)
    world.coordinator.view.t += 900
    said = asyncio.run(answer(world.coordinator.approve(only(world).id, "ann", "go")))
    assert said == f"{only(world).id} cannot be approved any more: nobody approved it in time"


CHANGES = [
    ({"confidence": 0.3}, "it is 30 % sure, 90 % are needed"),
    ({"category": "symptom"}, "it is a symptom: what causes it is not known"),
    ({"explained_by": Explanation("i-x", "caused")}, "another incident explains it: i-x"),
]


@pytest.mark.parametrize(("changed", "why"), CHANGES)
@pytest.mark.parametrize("settings", [ACT, PROPOSE])
def test_a_diagnosis_that_no_longer_allows_it_ends_what_waits(monkeypatch, settings, changed, why):
    build = acting_world.build_incident
    world = ActingWorld(faults=(ILL,), settings=settings)
    world.router.carry_out("drain r0")
    world.run(120)
    assert only(world).state == (APPROVED if settings is ACT else PROPOSED)
    monkeypatch.setattr(acting_world, "build_incident", lambda f, t: replace(build(f, t), **changed))
    world.coordinator.view.update(world.t, world.incidents())
    if settings is PROPOSE:
        said = asyncio.run(answer(world.coordinator.approve(only(world).id, "ann", "go")))
        assert said == f"{only(world).id} cannot be approved any more: {why}"
    world.router.carry_out("ready r0")
    world.run(30)
    assert (only(world).state, only(world).ending) == (EXPIRED, why)
    assert world.router.lines == ["drain r0", "ready r0"]


def waiting_world():
    """A world whose action waits for its limits."""
    world = ActingWorld(faults=(ILL,), settings=ACT)
    world.router.carry_out("drain r0")
    world.run(120)
    assert only(world).state == APPROVED
    return world


def test_the_mode_observe_is_a_brake_after_a_restart():
    world = waiting_world()
    world.settings = OBSERVE
    world.restart()
    world.router.carry_out("ready r0")
    world.run(30)
    assert (only(world).state, only(world).ending) == (EXPIRED, "the mode is observe")
    assert world.router.drained == set()


def test_the_mode_propose_asks_again_for_what_the_policy_approved():
    world = waiting_world()
    world.settings = PROPOSE
    world.restart()
    world.router.carry_out("ready r0")
    world.run(30)
    assert (only(world).state, only(world).approved_by) == (PROPOSED, "")
    asyncio.run(world.coordinator.approve(only(world).id, "ann", "go"))
    world.run(30)
    assert (only(world).state, only(world).approved_by) == (VERIFIED, "ann")


def test_an_intent_is_not_carried_out_in_the_mode_observe():
    def die(what):
        if what == "after save applying":
            raise KilledError

    world = ActingWorld(faults=(ILL,), settings=ACT)
    world.store.crossing = die
    with pytest.raises(KilledError):
        world.run(300)
    world.store.crossing = lambda _what: None
    world.settings = ActionSettings(mode="act", modes=(ModeRule("observe", target=("router",)),))
    world.restart()
    world.run(30)
    assert (only(world).state, only(world).ending) == (UNDONE, "could not be applied: the mode is observe")
    assert world.router.lines == []


def test_a_plan_whose_target_was_slow_is_dropped_if_its_incident_changed(monkeypatch):
    build = acting_world.build_incident

    async def scenario():
        world = ActingWorld(faults=(ILL,), settings=ACT, store=SlowStore(), spawn=None)
        world.router.delay = 5.0
        await let_pass(world, 67)
        monkeypatch.setattr(acting_world, "build_incident", lambda f, t: replace(build(f, t), confidence=0.3))
        await let_pass(world, 60)
        return world

    assert not run_virtual(scenario()).coordinator.actions


def test_limits_that_are_checked_at_two_targets_at_once_count_both():
    async def scenario():
        other = acting_world.SimulatedRouter(("r0", "r1", "r2", "r3"), name="other")
        limits = ActionLimits(at_once=1, share_of_nodes=1.0, share_of_groups=1.0, share_of_replicas=1.0)
        settings = ActionSettings(mode="propose", limits=replace(limits, minimum_healthy={"pool": 1}))
        faults = (ILL, replace(ILL, replica="r1"))
        world = ActingWorld(4, faults=faults, settings=settings, store=SlowStore(), more_targets=(other,), spawn=None)
        await let_pass(world, 70)
        first, second = world.coordinator.actions.values()
        moved = replace(second, change=replace(second.change, target="other"))
        world.coordinator.book.actions[second.id] = moved
        for one in (first, second):
            await world.coordinator.approve(one.id, "ann", "go")
        world.step()
        await asyncio.sleep(1.0)
        return world

    world = run_virtual(scenario())
    assert sorted(one.is_in_place for one in world.coordinator.actions.values()) == [False, True]
