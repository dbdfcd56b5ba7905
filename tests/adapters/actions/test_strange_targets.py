"""Targets that fail in ways nobody foresaw, are gone, have no undo, end changes by themselves, or keep no marks."""

import asyncio
import logging
from dataclasses import dataclass, field, replace

import pytest

from skewscope.adapters.actions.planner import OTHER_SYSTEM
from skewscope.adapters.actions.settings import ActionSettings
from skewscope.adapters.targets.common.base import TargetError
from skewscope.adapters.targets.common.calls import SocketCall
from skewscope.engine.actions.action import (
    APPLIED,
    DONE,
    FAILED,
    HELPED,
    NOT_HELPED,
    OVERRIDDEN,
    UNDOING,
    UNDONE,
    UNPROVEN,
    VERIFIED,
)
from skewscope.engine.actions.change import ABSENT, DRAIN, OURS, ChangeSupport
from skewscope.engine.actions.limits import ActionLimits, Breaker
from tests.support.acting_world import ActingWorld, KilledError, SimulatedFault, SimulatedRouter

T0 = ActingWorld.t
ACT = ActionSettings(mode="act")
ILL = SimulatedFault("r2", T0 + 60, T0 + 6000, 0.2)
FAULTY = "could not convert string to float: ''"


def only(world):
    (action,) = world.coordinator.actions.values()
    return action


async def fail(*_):
    raise ValueError(FAULTY)


# --- exceptions that nobody foresaw


def test_work_that_cannot_be_counted_leaves_the_effect_to_decide():
    world = ActingWorld(faults=(replace(ILL, end=T0 + 300),))
    world.router.read_work = fail
    world.run(200)
    assert (only(world).state, only(world).outcome, only(world).seen_in_traffic) == (VERIFIED, HELPED, None)
    world.run(400)
    assert only(world).state == UNDONE
    assert world.is_restored()


@pytest.mark.parametrize("method", ["read_state", "find_standing", "render_undo", "make_call"])
def test_an_unforeseen_error_is_a_failed_try_and_told_once(method, caplog, monkeypatch):
    caplog.set_level(logging.WARNING)
    timing = replace(ACT.timing, time_to_live=300)
    world = ActingWorld(faults=(ILL,), settings=replace(ACT, timing=timing))
    world.run(120)

    def fail_now(*_):
        raise ValueError(FAULTY)

    with monkeypatch.context() as patched:
        patched.setattr(world.router, method, fail if method in ("read_state", "make_call") else fail_now)
        world.run(300)
        assert (only(world).state, only(world).ending) == (UNDOING, "its time is over")
        assert "unexpected ValueError: could not convert" in only(world).waiting
    told = [one for one in caplog.records if "unexpected ValueError" in one.getMessage()]
    assert len(told) == 1
    assert told[0].exc_info is not None
    world.run(80)
    assert next(iter(world.coordinator.actions.values())).state == UNDONE


def test_an_error_of_one_action_leaves_the_others_of_its_target_alone(monkeypatch):
    wide = ActionLimits(at_once=4, per_hour=50, share_of_nodes=1.0, share_of_groups=1.0, share_of_replicas=1.0)
    faults = (ILL, replace(ILL, replica="r3", start=T0 + 200, end=T0 + 400))
    settings = replace(ACT, limits=replace(wide, minimum_healthy={"pool": 2}))
    world = ActingWorld(6, 3.0, settings=settings, faults=faults)
    world.run(300)
    first, second = world.coordinator.actions.values()
    assert (first.state, second.state) == (VERIFIED, VERIFIED)
    standing = world.router.find_standing

    def fail_for_first(change, before, state):
        if change.action == first.id:
            raise ValueError(FAULTY)
        return standing(change, before, state)

    monkeypatch.setattr(world.router, "find_standing", fail_for_first)
    world.run(400)
    assert world.coordinator.actions[second.id].state == UNDONE
    assert world.router.drained == {"r2"}


def test_a_plan_that_fails_is_made_later(caplog):
    world = ActingWorld(faults=(ILL,))
    read = world.router.read_state
    world.router.read_state = fail
    world.run(100)
    world.router.read_state = read
    world.run(60)
    assert only(world).state == VERIFIED
    assert len([one for one in caplog.records if "unexpected ValueError" in one.getMessage()]) == 1


# --- a target that is gone


def test_a_change_at_a_target_that_is_not_in_the_config_is_stuck_and_goes_on_when_it_is_back():
    world = ActingWorld(faults=(replace(ILL, end=T0 + 300),))
    world.run(200)
    router, world.router = world.router, SimulatedRouter(world.router.names, name="other")
    world.restart()
    world.run(50)
    action = only(world)
    assert (action.state, action.stuck, action.waiting) == (VERIFIED, True, "its target is not in the config")
    assert [row for row in world.store.lines if "is stuck" in row] == [
        "controller: action is stuck: its target is not in the config"
    ]
    assert world.store.load()[0].stuck
    world.router = router
    world.restart()
    world.run(300)
    assert (only(world).state, only(world).stuck) == (UNDONE, False)
    assert world.is_restored()


def test_a_person_gives_up_a_change_at_a_target_that_is_gone():
    world = ActingWorld(faults=(ILL,))
    world.run(200)
    world.router = SimulatedRouter(world.router.names, name="other")
    world.restart()
    world.run(2)
    given_up = asyncio.run(world.coordinator.undo(only(world).id, "ann", "it was taken down"))
    assert given_up.state == OVERRIDDEN
    assert given_up.ending.endswith("its target is not in the config, and what it changed there stays")


def test_another_system_by_the_same_name_is_left_alone_with_what_a_person_did_there():
    world = ActingWorld(faults=(replace(ILL, end=T0 + 300),), systems={"router": "one"})
    world.run(200)
    router, world.router = world.router, SimulatedRouter(world.router.names)
    world.router.carry_out("drain r2")
    world.systems = {"router": "two"}
    world.restart()
    world.run(400)
    action = only(world)
    assert (action.state, action.stuck, action.waiting) == (VERIFIED, True, OTHER_SYSTEM)
    assert world.router.lines == ["drain r2"], "what a person did stays"
    world.router, world.systems = router, {"router": "one"}
    world.restart()
    world.run(100)
    assert (only(world).state, only(world).stuck) == (UNDONE, False)
    assert world.is_restored()


def test_a_change_follows_its_system_to_another_name():
    world = ActingWorld(faults=(replace(ILL, end=T0 + 300),), systems={"router": "one"})
    world.run(200)
    world.router.name, world.systems = "front", {"front": "one", "router": "two"}
    world.more_targets = (SimulatedRouter(world.router.names),)
    world.restart()
    world.run(200)
    assert (only(world).state, only(world).change.target) == (UNDONE, "front")
    assert world.is_restored()
    assert world.more_targets[0].lines == []


def test_a_proposal_for_a_target_that_is_gone_expires():
    world = ActingWorld(faults=(ILL,), settings=replace(ACT, mode="propose"))
    world.run(120)
    world.router = SimulatedRouter(world.router.names, name="other")
    world.restart()
    world.run(2)
    gone = next(iter(world.coordinator.actions.values()))
    assert (gone.state, gone.ending) == ("expired", "its target is not in the config")


# --- what cannot be judged


def test_a_measurement_that_fails_is_counted_and_leaves_the_rest_of_the_judgement():
    world = ActingWorld(faults=(ILL,))

    def fail(_action, _t):
        raise TypeError("'<' not supported between instances of 'NoneType' and 'float'")

    world.coordinator.steps.measure = fail
    world.run(400)
    first = next(iter(world.coordinator.actions.values()))
    assert (first.seen_in_state, first.seen_in_traffic) == (True, True)
    assert first.state != APPLIED
    assert world.coordinator.steps.unforeseen > 100
    assert sum("its effect cannot be measured: unexpected TypeError" in what for _, what in first.history) == 1


def test_an_action_whose_judgement_always_fails_is_undone_in_time():
    world = ActingWorld(faults=(ILL,))
    world.run(70)
    assert only(world).state == APPLIED

    def fail(*_args):
        raise KeyError("name")

    world.router.find_standing, kept = fail, world.router.find_standing
    world.run(160)
    assert "unexpected KeyError" in only(world).waiting
    world.run(30)
    assert (only(world).state, only(world).outcome) == (UNDOING, NOT_HELPED)
    world.router.find_standing = kept
    world.run(10)
    assert world.is_restored()


# --- changes without undo


def irreversible_world(**fields) -> ActingWorld:
    world = ActingWorld(faults=(ILL,), **fields)
    world.router.support = {DRAIN: ChangeSupport(reversible=False)}
    world.router.render_undo = lambda *_: ()
    return world


def kill_at(world, what):
    def die(crossing):
        if crossing == what:
            raise KilledError

    world.router.crossing = world.store.crossing = die
    with pytest.raises(KilledError):
        world.run(300)
    world.router.crossing = world.store.crossing = lambda _what: None


@pytest.mark.parametrize(
    ("killed", "state", "outcome"),
    [
        ("after drain r2", DONE, HELPED),
        ("before drain r2", DONE, NOT_HELPED),  # the call may have been lost: it is not made so late
    ],
)
def test_what_has_no_undo_ends_after_a_late_restart(killed, state, outcome):
    world = irreversible_world()
    kill_at(world, killed)
    world.t += 100
    world.restart()
    world.run(400)
    assert (only(world).state, only(world).outcome, only(world).stuck) == (state, outcome, False)
    assert world.router.lines == ["drain r2"] * (killed == "after drain r2")


def test_what_has_no_undo_goes_on_after_an_early_restart():
    world = irreversible_world()
    kill_at(world, "after drain r2")
    world.t += 5
    world.restart()
    world.run(200)
    assert (only(world).state, only(world).outcome) == (DONE, HELPED)
    assert world.router.lines == ["drain r2"]


def test_a_person_ends_what_has_no_undo():
    world = irreversible_world()
    world.router.trouble = lambda line: "ignore" if line.startswith("drain") else ""
    world.run(70)
    assert only(world).state == "applied"
    ended = asyncio.run(world.coordinator.undo(only(world).id, "ann", "enough"))
    assert (ended.state, ended.outcome, ended.ending) == (DONE, UNPROVEN, "asked by ann: enough")


def test_what_was_being_undone_without_an_undo_ends():
    world = irreversible_world()
    world.run(70)
    world.coordinator.resume([replace(only(world), state=UNDOING, stuck=True, ending="it was stopped")], world.t)
    world.run(5)
    assert only(world).state == DONE


# --- changes that end by themselves, and what they leave behind


@dataclass
class FlowSwitch(SimulatedRouter):
    """A switch whose flows end by themselves, and leave their meters."""

    meters: set[str] = field(default_factory=set)

    def carry_out(self, line: str) -> None:
        super().carry_out(line)
        what, member = line.split()
        (self.meters.add if what == "drain" else self.meters.discard)(member)

    def render_undo(self, change, before, state):
        return (SocketCall("router", f"ready {change.member}"),) if change.member in self.meters else ()

    def find_standing(self, change, before, state):
        return OURS if change.member in self.drained else ABSENT

    def end(self, member: str) -> None:
        """Lets the flow of a member end."""
        self.drained.discard(member)


@pytest.mark.parametrize(
    ("ends", "state", "ending"),
    [
        (303, UNDONE, "its time is over"),
        (296, UNDONE, "its time is over"),
        (200, OVERRIDDEN, "undone by somebody else"),
    ],
)
def test_what_ends_by_itself_is_over_in_time_and_leaves_nothing(ends, state, ending):
    world = ActingWorld(faults=(ILL,), settings=replace(ACT, timing=replace(ACT.timing, time_to_live=300)))
    world.router = FlowSwitch(world.router.names)
    world.restart()
    begun = None
    for _ in range(380):
        world.step()
        first = next(iter(world.coordinator.actions.values()), None)
        begun = begun or (first and first.started_at)
        if begun and world.t == begun + ends:
            world.router.end("r2")
    first = next(iter(world.coordinator.actions.values()))
    assert (first.state, first.ending) == (state, ending)
    if state == OVERRIDDEN:
        assert world.router.meters == set()


def test_leftovers_that_cannot_be_removed_are_tried_again():
    world = ActingWorld(faults=(ILL,))
    world.router = FlowSwitch(world.router.names)
    world.restart()
    world.run(200)
    world.router.end("r2")
    world.router.trouble = lambda line: "refuse" if line.startswith("ready") else ""
    world.run(20)
    assert (only(world).state, only(world).waiting) == (VERIFIED, "ready r2: the answer 500")
    world.router.trouble = lambda _line: ""
    world.run(10)
    assert (only(world).state, world.router.meters) == (OVERRIDDEN, set())


# --- targets without marks


@pytest.mark.parametrize("late", [10, 100])
def test_what_was_there_before_any_call_of_ours_is_not_ours(late):
    world = ActingWorld(faults=(ILL,))
    kill_at(world, "after save applying")
    world.router.carry_out("drain r2")  # by a person
    world.t += late
    world.restart()
    world.run(1200)
    first = next(iter(world.coordinator.actions.values()))
    assert first.state == (OVERRIDDEN if late == 10 else UNDONE)
    assert (world.router.drained, world.router.lines) == ({"r2"}, ["drain r2"])


def test_a_member_that_was_taken_out_before_the_begin_is_left_alone():
    world = ActingWorld(faults=(ILL,), settings=replace(ACT, mode="propose"))
    world.run(120)
    asyncio.run(world.coordinator.approve(only(world).id, "ann", "go"))
    world.router.carry_out("drain r2")
    world.run(5)
    assert (only(world).state, only(world).ending) == ("expired", "the member is out of use already")
    assert world.router.lines == ["drain r2"]


def test_a_change_that_is_accepted_late_is_taken_back():
    world = ActingWorld(faults=(replace(ILL, end=T0 + 100),))
    carry_out, pending = world.router.carry_out, []
    world.router.carry_out = lambda line: pending.append((world.t + (35 if "drain" in line else 1), line))
    for _ in range(300):
        for due in [one for one in pending if one[0] <= world.t]:
            pending.remove(due)
            carry_out(due[1])
        world.step()
    first = next(iter(world.coordinator.actions.values()))
    assert (first.state, first.outcome) == (UNDONE, NOT_HELPED)
    assert world.router.lines[:2] == ["drain r2", "ready r2"]
    assert world.is_restored()


# --- what is remembered


def test_a_long_pause_of_the_breaker_outlives_a_day_and_a_restart():
    limits = ActionLimits(per_hour=100, cool_down=0, breaker=Breaker(1, 3600, 3 * 86400))
    wrong = tuple(SimulatedFault(f"r{n % 3}", T0 + 60 + n * 90_000, T0 + 900 + n * 90_000, 1.0) for n in range(3))
    world = ActingWorld(faults=wrong, settings=replace(ACT, limits=limits), has_probe=False)
    world.run(1.2 * 86400)
    world.restart()
    world.run(1.4 * 86400)
    assert len([one for one in world.store.load() if one.started_at is not None]) == 1


def test_what_a_person_refused_is_not_proposed_again_as_long_as_its_incident_lives():
    world = ActingWorld(faults=(replace(ILL, end=T0 + 3 * 86400),), settings=replace(ACT, mode="propose"))
    world.run(120)
    asyncio.run(world.coordinator.refuse(only(world).id, "ann", "no"))
    for _ in range(40):
        world.t += 3600 * 1.5
        world.step()
    assert only(world).state == "refused"


def test_what_could_not_be_stored_is_stored_later():
    world = ActingWorld(faults=(replace(ILL, end=T0 + 200),))
    world.run(150)
    world.store.broken = True
    world.run(300)
    assert only(world).state == UNDONE
    assert world.store.load()[0].state == VERIFIED
    world.store.broken = False
    world.run(2)
    assert world.store.load()[0].state == UNDONE
    assert "stored again" in world.store.lines[-1]


def test_a_refused_call_whose_answer_is_lost_for_good_ends_as_failed():
    world = ActingWorld(faults=(replace(ILL, end=T0 + 260),))

    async def refuse(call):
        raise TargetError(f"{call.line}: no answer within 5 s")

    world.router.make_call = refuse
    world.run(200)
    assert next(iter(world.coordinator.actions.values())).state == FAILED
    assert world.is_restored()
