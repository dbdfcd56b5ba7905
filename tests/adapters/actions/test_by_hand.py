"""Changes that a person runs: proposed at most, done by a person's word or by what is seen, never counted as failed."""

import asyncio
from dataclasses import dataclass, field, replace

import pytest

from skewscope.adapters.actions.action_book import ActionRequestError
from skewscope.adapters.actions.dry_run import plan_changes
from skewscope.adapters.actions.readings import TargetReadings
from skewscope.adapters.actions.settings import ActionSettings
from skewscope.adapters.actions.summary import describe_news
from skewscope.adapters.targets.common.base import TargetError
from skewscope.adapters.targets.common.calls import Call
from skewscope.engine.actions.action import (
    APPLIED,
    APPLYING,
    EXPIRED,
    NOT_HELPED,
    OVERRIDDEN,
    PROPOSED,
    UNDOING,
    UNDONE,
    UNPROVEN,
    VERIFIED,
)
from skewscope.engine.actions.change import DRAIN, ChangeSupport, TargetState
from skewscope.engine.actions.limits import ActionLimits
from tests.support.acting_world import ActingWorld, SimulatedFault, SimulatedRouter

T0 = ActingWorld.t
ACT = ActionSettings(mode="act")
ILL = SimulatedFault("r2", T0 + 60, T0 + 600, 0.2)


@dataclass
class HandRouter(SimulatedRouter):
    """A router that only a person changes, and that reports an older state unless `reports` is set."""

    reports: bool = False
    read: TargetState | None = field(default=None, repr=False)

    async def read_state(self) -> TargetState:
        found = await super().read_state()
        if self.read is None or self.reports:
            self.read = found
        return self.read

    async def make_call(self, call: Call) -> None:
        raise AssertionError(f"a call was made: {call}")


def make_world(*faults: SimulatedFault, reports: bool = False, settings: ActionSettings = ACT) -> ActingWorld:
    world = ActingWorld(faults=faults or (ILL,), settings=settings, has_probe=False)
    world.router = HandRouter(world.router.names, reports=reports)
    world.router.support = {DRAIN: ChangeSupport(note="rendered", runs=False)}
    world.coordinator = world.create_coordinator()
    return world


def only(world: ActingWorld):
    (action,) = world.coordinator.actions.values()
    return action


def say(world: ActingWorld, verb: str):
    return asyncio.run(getattr(world.coordinator, verb)(only(world).id, "ann", "looked at it"))


def test_the_mode_act_proposes_and_an_approval_waits_for_a_person():
    world = make_world()
    world.run(120)
    proposal = only(world)
    assert (proposal.state, proposal.plan.by_hand) == (PROPOSED, True)
    assert proposal.plan.calls == ("drain r2    (to router)",)
    assert proposal.plan.undo == "ready r2 (to router)"
    assert proposal.plan.undo_calls == ("ready r2    (to router)",)
    assert "A person says that it was run" in proposal.plan.verification
    with pytest.raises(ActionRequestError, match="waits for nobody"):
        say(world, "confirm")
    say(world, "approve")
    world.run(200)
    waiting = only(world)
    assert (waiting.state, waiting.waiting) == (APPLYING, "a person runs its calls")
    assert waiting.tries == 0
    news = describe_news(waiting, "approved", False)
    assert news.endswith(f"; run its calls, then say so with `skewscope act done {waiting.id} --why REASON`")


@pytest.mark.parametrize("reports", [False, True])
def test_it_is_verified_by_a_persons_word_or_by_what_the_target_reports(reports):
    world = make_world(reports=reports)
    world.run(120)
    say(world, "approve")
    world.run(10)
    world.router.carry_out("drain r2")
    if not reports:
        world.run(20)
        assert only(world).state == APPLYING
        say(world, "confirm")
    world.run(130)
    action = only(world)
    assert (action.state, action.outcome) == (VERIFIED, UNPROVEN)
    assert "by the telemetry of the diagnosis alone" in action.history[-1][1]
    world.run(500)
    # The fault is over: a person takes it back, and is told how.
    action = only(world)
    assert (action.state, action.stuck) == (UNDOING, True)
    assert action.waiting == "a person takes it back: ready r2 (to router)"
    assert "it needs a person: a person takes it back: ready r2 (to router), then say so" in describe_news(
        action, VERIFIED, False
    )
    world.router.carry_out("ready r2")
    if not reports:
        say(world, "confirm")
    world.run(60)
    action = only(world)
    assert (action.state, action.stuck, action.outcome) == (UNDONE, False, UNPROVEN)


def test_nobody_who_runs_it_is_no_failure_and_opens_no_breaker():
    faults = tuple(SimulatedFault(f"r{n % 3}", T0 + 60 + n * 1400, T0 + 1300 + n * 1400, 0.2) for n in range(5))
    limits = ActionLimits(per_hour=100, cool_down=0.0)
    world = make_world(*faults, settings=replace(ACT, limits=limits))
    for _ in range(5):
        world.run(100)
        newest = max(world.coordinator.actions.values(), key=lambda one: one.created)
        assert newest.state == PROPOSED
        asyncio.run(world.coordinator.approve(newest.id, "ann", "go"))
        world.run(1300)
    ended = list(world.coordinator.actions.values())
    assert {(one.state, one.outcome) for one in ended} == {(EXPIRED, "")}
    assert [one.ending for one in ended if one.started_at] == ["nobody ran it in time"] * 5
    assert world.coordinator.list_failures() == ()


def test_what_did_not_help_is_tried_but_opens_no_breaker():
    wrong = tuple(SimulatedFault(f"r{n}", T0 + 60 + n * 700, T0 + 400 + n * 700, 1.0) for n in range(3))
    last = SimulatedFault("r0", T0 + 2400, T0 + 3000, 0.2)
    world = make_world(*wrong, last, settings=replace(ACT, limits=ActionLimits(per_hour=100, cool_down=0.0)))
    for n in range(3):
        world.run(100)
        newest = max(world.coordinator.actions.values(), key=lambda one: one.created)
        asyncio.run(world.coordinator.approve(newest.id, "ann", "go"))
        world.run(5)
        world.router.carry_out(f"drain r{n}")
        asyncio.run(world.coordinator.confirm(newest.id, "ann", "run"))
        world.run(200)
        assert world.coordinator.actions[newest.id].outcome == NOT_HELPED
        world.router.carry_out(f"ready r{n}")
        asyncio.run(world.coordinator.confirm(newest.id, "ann", "run"))
        world.run(395)
    assert [one.state for one in world.coordinator.actions.values()] == [UNDONE] * 3
    world.run(T0 + 2450 - world.t)
    newest = max(world.coordinator.actions.values(), key=lambda one: one.created)
    asyncio.run(world.coordinator.approve(newest.id, "ann", "go"))
    world.run(10)
    assert world.coordinator.actions[newest.id].state == APPLYING, "the breaker is open"


def test_an_undo_before_anything_was_run_ends_it():
    world = make_world()
    world.run(120)
    say(world, "approve")
    world.run(10)
    say(world, "undo")
    world.run(10)
    assert (only(world).state, only(world).history[-1][1]) == (UNDONE, "nothing was run")


def test_what_somebody_else_changed_meanwhile_stays():
    world = make_world(reports=True)
    world.run(120)
    say(world, "approve")
    world.run(10)
    world.router.carry_out("weight r2 10")
    world.run(10)
    assert only(world).state == OVERRIDDEN


def test_an_output_that_cannot_be_read_and_a_restart_are_no_failures():
    world = make_world()
    world.run(120)
    say(world, "approve")
    world.run(10)

    async def fail() -> TargetState:
        raise TargetError("out.txt: No such file or directory")

    read, world.router.read_state = world.router.read_state, fail
    world.run(200)
    assert (only(world).state, only(world).waiting) == (APPLYING, "out.txt: No such file or directory")
    world.router.read_state = read
    world.t += 100
    world.restart()
    world.run(10)
    assert only(world).state == APPLYING
    say(world, "confirm")
    assert only(world).state == APPLIED


def test_a_dry_run_says_that_it_is_proposed_and_how_it_is_taken_back():
    world = make_world()
    world.run(70)
    (change,) = asyncio.run(plan_changes(world.coordinator, world.incidents()[0], TargetReadings()))
    assert (change.mode, change.plan.by_hand, change.plan.undo) == ("propose", True, "ready r2 (to router)")
