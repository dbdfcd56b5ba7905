"""The life of actions on a simulated pool: what helps is kept, what does not is undone, and no harm is done."""

import asyncio
from dataclasses import replace

import pytest

from skewscope.adapters.actions.settings import ActionSettings, ModeRule
from skewscope.engine.actions.action import (
    EXPIRED,
    FAILED,
    HELPED,
    NOT_HELPED,
    OVERRIDDEN,
    PROPOSED,
    UNDOING,
    UNDONE,
    UNPROVEN,
    VERIFIED,
)
from skewscope.engine.actions.limits import ActionLimits
from tests.support import acting_world
from tests.support.acting_world import ActingWorld, SimulatedFault

T0 = ActingWorld.t
ACT = ActionSettings(mode="act")
ILL = SimulatedFault("r2", T0 + 60, T0 + 600, 0.2)
WRONG = SimulatedFault("r1", T0 + 60, T0 + 900, 1.0)


def run_world(
    *faults: SimulatedFault, seconds: float = 1200.0, settings: ActionSettings = ACT, **fields
) -> ActingWorld:
    world = ActingWorld(faults=faults, settings=settings, **fields)
    world.run(seconds)
    return world


def only(world: ActingWorld):
    (action,) = world.coordinator.actions.values()
    return action


def test_a_slow_replica_is_drained_until_probes_find_it_well():
    world = run_world(ILL)
    action = only(world)
    assert (action.state, action.outcome, action.change.kind) == (UNDONE, HELPED, "drain")
    assert action.started_at - ILL.start <= 10
    assert "probes found it as quick as its peers" in action.ending
    assert 0 < action.ended_at - ILL.end <= 30
    assert action.seen_in_state
    assert action.seen_in_traffic
    assert world.is_restored()
    assert action.measurement.recovery == pytest.approx(1.0)
    assert world.availability > run_world(ILL, settings=ActionSettings()).availability


def test_a_mildly_slow_replica_keeps_the_share_that_it_can_serve():
    world = ActingWorld(faults=(replace(ILL, speed=0.7),), demand=2.7)
    world.run(300)
    action = only(world)
    assert (action.state, action.change.kind, action.change.share) == (VERIFIED, "deweight", 0.7)
    assert world.router.weights["r2"] == 70
    assert action.measurement.after == pytest.approx(1.0)


def test_nothing_is_done_by_default_and_a_proposal_waits_for_a_person():
    assert not run_world(ILL, settings=ActionSettings()).coordinator.actions
    world = run_world(ILL, seconds=300, settings=ActionSettings(mode="propose"))
    action = only(world)
    assert action.state == PROPOSED
    assert action.plan.calls == ("drain r2    (to router)",)
    assert action.plan.undo_calls == ("ready r2    (to router)",)
    assert world.router.lines == []
    world.run(900)
    assert only(world).state == EXPIRED


def test_modes_are_chosen_by_condition_target_and_kind():
    modes = (ModeRule("observe", kind=("drain",)), ModeRule("act", condition=("tp-straggler",), target=("router",)))
    world = run_world(ILL, seconds=200, settings=ActionSettings(modes=modes))
    assert {one.change.kind for one in world.coordinator.actions.values()} == {"deweight"}


def test_a_wrong_diagnosis_is_undone_and_counts_as_tried():
    world = run_world(WRONG, has_probe=False)
    first = next(iter(world.coordinator.actions.values()))
    assert (first.state, first.outcome) == (UNDONE, NOT_HELPED)
    assert world.is_restored()
    kinds = [one.change.kind for one in world.coordinator.actions.values()]
    assert len(kinds) == len(set(kinds)), "the same step was repeated"
    assert world.availability == 1.0


def test_a_member_that_probes_find_as_quick_as_its_peers_is_never_taken_out():
    world = run_world(WRONG, seconds=300)
    action = only(world)
    assert (action.state, world.router.lines) == (PROPOSED, [])
    assert action.waiting == "a probe finds it as quick as its peers (0.10 s, theirs 0.10 s); a person has to look"
    # A person may decide otherwise. Nobody says then that it helped.
    asyncio.run(world.coordinator.approve(action.id, "ann", "I know better"))
    world.run(40)
    assert world.router.lines == ["drain r1", "ready r1"]
    ended = world.coordinator.actions[action.id]
    assert (ended.outcome, ended.approved_by) == (NOT_HELPED, "ann")
    assert "3 probes find the member as quick as its peers" in ended.ending


def test_a_probe_is_the_second_witness_of_a_diagnosis(monkeypatch):
    build = acting_world.build_incident
    monkeypatch.setattr(acting_world, "build_incident", lambda f, t: replace(build(f, t), witnesses=("n2",)))
    world = run_world(ILL, seconds=200)
    action = only(world)
    assert (action.state, action.outcome, action.approved_by) == (VERIFIED, HELPED, "policy")
    assert action.started_at - ILL.start <= 10
    assert action.witness == "a probe finds it slower than its peers (0.50 s, theirs 0.10 s)"
    assert "of what was lost is back; a probe finds it slower" in action.history[-1][1]


def test_a_fault_that_goes_by_itself_is_no_merit_of_the_change():
    short = replace(ILL, end=T0 + 70)
    world = run_world(short, seconds=300)
    action = only(world)
    assert (action.state, action.outcome) == (UNDONE, UNPROVEN)
    assert any("its fault went by itself" in what for _, what in action.history)


def test_an_unsure_diagnosis_and_a_symptom_never_act(monkeypatch):
    build = acting_world.build_incident
    for fields in ({"confidence": 0.89}, {"category": "symptom"}):
        monkeypatch.setattr(acting_world, "build_incident", lambda f, t, _new=fields: replace(build(f, t), **_new))
        assert not run_world(ILL).coordinator.actions


def test_one_witness_waits_for_a_person_until_a_second_one_agrees(monkeypatch):
    build, witnesses = acting_world.build_incident, ("n9",)
    monkeypatch.setattr(acting_world, "build_incident", lambda f, t: replace(build(f, t), witnesses=witnesses))
    world = run_world(ILL, seconds=90, has_probe=False)
    action = only(world)
    assert (action.state, action.approved_by, world.router.lines) == (PROPOSED, "", [])
    assert "only n9 reports it" in action.waiting
    witnesses = ("n9", "n10")
    world.run(10)
    assert (only(world).id, only(world).approved_by, world.router.lines) == (action.id, "policy", ["drain r2"])


def test_a_replica_that_falls_ill_while_another_is_out_stays_in_use():
    other = SimulatedFault("r1", T0 + 100, T0 + 600, 0.3)
    world = run_world(ILL, other)
    assert world.fewest_in_use == 2
    assert world.is_restored()


def test_of_two_replicas_that_are_ill_at_once_none_counts_as_healthy():
    world = run_world(ILL, SimulatedFault("r1", T0 + 61, T0 + 600, 0.3), seconds=300)
    assert world.router.lines == []
    waits = "1 replicas of pool would be left in use, 2 have to be; ill: r1"
    assert any(waits in one.waiting for one in world.coordinator.actions.values())


def test_what_the_pool_loses_by_another_fault_says_nothing_of_a_change():
    later = SimulatedFault("r1", T0 + 69, T0 + 900, 0.1)
    world = run_world(ILL, later, replicas=4, demand=3.0, seconds=300)
    action = next(one for one in world.coordinator.actions.values() if one.scope.entity == "r2")
    assert action.started_at < later.start + 5
    assert (action.state, action.outcome) == (VERIFIED, UNPROVEN)
    assert "unproven: r1 fell ill meanwhile: nobody can tell what it gave back" in [what for _, what in action.history]
    world.run(900)
    assert world.is_restored()


def test_an_overload_that_a_change_brings_about_speaks_against_it(monkeypatch):
    monkeypatch.setattr(acting_world, "CONDITION", "burst-admission-backlog")
    later = SimulatedFault("r1", T0 + 69, T0 + 900, 0.1)
    world = run_world(ILL, later, replicas=4, demand=3.0, seconds=300)
    assert any(one.outcome == NOT_HELPED for one in world.coordinator.actions.values())


def test_a_replica_that_somebody_else_took_out_counts_as_lost():
    world = ActingWorld(faults=(ILL,))
    world.router.carry_out("drain r0")
    world.run(300)
    assert "r2" not in world.router.drained
    assert "1 replicas of pool would be left in use, 2 have to be" in only(world).waiting


def test_what_somebody_else_changed_meanwhile_stays():
    world = ActingWorld(faults=(ILL,))
    world.run(200)
    assert only(world).state == VERIFIED
    world.router.carry_out("weight r2 10")
    world.run(1000)
    assert only(world).state == OVERRIDDEN
    assert world.router.weights["r2"] == 10
    assert "r2" in world.router.drained


def test_an_undo_by_somebody_else_is_not_repeated():
    world = ActingWorld(faults=(replace(ILL, end=T0 + 100_000),))
    world.run(200)
    world.router.carry_out("ready r2")
    world.run(60)
    assert only(world).state == OVERRIDDEN
    assert "r2" not in world.router.drained


@pytest.mark.parametrize("trouble", ["refuse", "ignore", "lose"])
def test_a_target_that_misbehaves_is_left_as_it_was(trouble):
    world = ActingWorld(faults=(replace(ILL, end=T0 + 260),))
    world.router.trouble = lambda line: trouble if line.startswith("drain") else ""
    world.run(1200)
    first = next(iter(world.coordinator.actions.values()))
    assert first.state in ({UNDONE} if trouble == "lose" else {FAILED, UNDONE})
    assert first.outcome == {"refuse": "", "ignore": NOT_HELPED, "lose": HELPED}[trouble]
    assert world.is_restored()


def test_an_undo_that_fails_is_tried_until_it_succeeds_and_told():
    world = ActingWorld(faults=(replace(ILL, end=T0 + 200),))
    world.router.trouble = lambda line: "refuse" if line.startswith("ready") and world.t < T0 + 500 else ""
    world.run(420)
    action = only(world)
    assert (action.state, action.stuck) == (UNDOING, True)
    world.run(200)
    assert only(world).state == UNDONE
    assert world.is_restored()


def test_a_fault_that_flaps_is_left_out_longer_each_time():
    flaps = tuple(SimulatedFault("r2", T0 + 60 + 200 * n, T0 + 160 + 200 * n, 0.2) for n in range(10))
    limits = ActionLimits(cool_down=10, per_hour=100)
    world = run_world(*flaps, seconds=4000, settings=replace(ACT, limits=limits))
    ended = sorted(world.coordinator.actions.values(), key=lambda one: one.created)
    assert len(ended) < 8
    assert world.is_restored()


def test_the_breaker_stops_after_changes_that_did_not_help():
    wrong = tuple(SimulatedFault(f"r{n % 3}", T0 + 60 + 1000 * n, T0 + 900 + 1000 * n, 1.0) for n in range(6))
    world = run_world(*wrong, seconds=4500, settings=replace(ACT, limits=ActionLimits(per_hour=100)), has_probe=False)
    started = [one for one in world.coordinator.actions.values() if one.started_at is not None]
    unhelpful = [one for one in started if one.outcome == NOT_HELPED]
    assert len(started) == len(unhelpful) == 3
    notes = [what for one in world.coordinator.actions.values() for _, what in one.history]
    assert any(what.startswith("waits: 3 actions did not help") for what in notes)


def test_a_change_ends_with_its_time_to_live():
    timing = replace(ACT.timing, time_to_live=300)
    world = ActingWorld(faults=(replace(ILL, end=T0 + 100_000),), settings=replace(ACT, timing=timing))
    world.run(380)
    action = next(iter(world.coordinator.actions.values()))
    assert (action.state, action.ending) == (UNDONE, "its time is over")


def test_without_a_store_nothing_is_begun_but_what_is_in_place_is_undone():
    world = ActingWorld(faults=(ILL,))
    world.store.broken = True
    world.run(200)
    assert world.router.lines == []
    world.store.broken = False
    world.run(100)
    assert world.router.drained == {"r2"}
    world.store.broken = True
    world.run(900)
    assert world.is_restored()


def test_a_person_undoes_approves_and_refuses():
    world = ActingWorld(faults=(ILL,))
    world.run(120)
    asyncio.run(world.coordinator.undo(only(world).id, "ann", "it is needed"))
    world.run(2)
    assert only(world).state == UNDONE
    assert only(world).ending == "asked by ann: it is needed"
    assert world.is_restored()

    world = ActingWorld(faults=(ILL,), settings=replace(ACT, mode="propose"))
    world.run(120)
    asyncio.run(world.coordinator.approve(only(world).id, "ann", "go"))
    world.run(60)
    assert (only(world).state, only(world).approved_by) == (VERIFIED, "ann")
    assert "ann: action approved: go" in world.store.lines

    world = ActingWorld(faults=(ILL,), settings=replace(ACT, mode="propose"))
    world.run(120)
    asyncio.run(world.coordinator.refuse(only(world).id, "ann", "no"))
    world.run(300)
    assert only(world).state == "refused"
    assert world.router.lines == []


def test_policies_are_told_what_was_tried_without_help():
    world = run_world(WRONG, has_probe=False)
    (fact,) = world.coordinator.list_failures()
    assert (fact.fact, fact.topic, fact.entity.kind, fact.entity.name) == ("tried", "deweight-replica", "group", "r1")
    assert run_world(ILL).coordinator.list_failures() == ()


def test_where_a_change_is_impossible_the_next_one_is_planned():
    world = ActingWorld(faults=(replace(ILL, speed=0.7),), demand=2.7)
    world.router.weights = dict.fromkeys(world.router.names, 1.0)
    world.run(300)
    assert only(world).change.kind == "drain"


def test_the_undo_of_a_plan_restores_the_state_in_which_it_began():
    world = ActingWorld(faults=(replace(ILL, speed=0.7),), demand=2.7, settings=ActionSettings(mode="propose"))
    world.run(80)
    proposal = only(world)
    assert proposal.plan.undo_calls == ("weight r2 100    (to router)",)
    world.router.carry_out("weight r2 90")
    asyncio.run(world.coordinator.approve(proposal.id, "ann", "looked at it"))
    world.run(5)
    assert only(world).plan.undo_calls == ("weight r2 90    (to router)",)


def test_a_member_that_is_slow_and_well_in_turns_is_held_out():
    """Twenty seconds slow, twenty well: it is out from its first return on, and used again when it stays well."""
    faults = tuple(SimulatedFault("r2", T0 + 60 + 40 * n, T0 + 80 + 40 * n, 0.2) for n in range(20))
    world = ActingWorld(faults=faults, settings=ACT)
    slow_in_use = 0
    for _ in range(860):
        world.step()
        slow_in_use += world.t > T0 + 120 and "r2" not in world.router.drained and world.speeds()["r2"] < 1.0
    assert slow_in_use <= 10
    world.run(200)
    assert world.is_restored()
    assert len([one for one in world.coordinator.actions.values() if one.started_at is not None]) <= 3


def test_of_two_that_are_ill_at_once_the_worse_one_is_taken_out_and_the_other_waits():
    both = (replace(ILL, replica="r1", speed=0.5), ILL)
    limits = ActionLimits(minimum_healthy={"pool": 2})
    world = run_world(*both, seconds=120, demand=1.5, settings=replace(ACT, limits=limits))
    assert world.router.drained == set()
    first = min(world.coordinator.actions.values(), key=lambda one: one.created)
    assert first.scope.entity == "r2"
    assert first.waiting == "1 replicas of pool would be left in use, 2 have to be; ill: r1 (-50 %)"
    limits = ActionLimits(minimum_healthy={"pool": 1})
    world = run_world(*both, seconds=120, demand=1.5, settings=replace(ACT, limits=limits))
    assert world.router.drained == {"r2"}
    assert any(
        one.scope.entity == "r1" and "replicas of pool" in one.waiting for one in world.coordinator.actions.values()
    )
