"""A restart of the target or of the controller neither ends acting nor makes it act on what is over."""

import asyncio
from dataclasses import replace

from skewscope.adapters.actions.settings import ActionSettings
from skewscope.adapters.actions.view import JudgementState
from skewscope.engine.actions.action import APPROVED, OVERRIDDEN, PROPOSED, UNDONE, VERIFIED
from skewscope.engine.actions.lifecycle import PROBES
from skewscope.engine.actions.limits import ActionLimits
from tests.support.acting_world import ActingWorld, SimulatedFault

T0 = ActingWorld.t
ACT = ActionSettings(mode="act")
ILL = SimulatedFault("r2", T0 + 60, T0 + 2000, 0.2)


def drained_world(**fields) -> ActingWorld:
    world = ActingWorld(faults=(ILL,), **fields)
    world.router.run = "one"
    world.run(150)
    assert world.router.drained == {"r2"}
    return world


def obstacles(world: ActingWorld) -> tuple[str, ...]:
    (incident,) = world.incidents()
    return world.coordinator.list_obstacles(incident)


# --- the target starts anew


def test_what_a_target_forgot_is_planned_again_after_the_cool_down():
    world = drained_world()
    world.router.start_anew("two")
    world.run(10)
    first = min(world.coordinator.actions.values(), key=lambda one: one.created)
    assert (first.state, first.forgotten, first.ending) == (OVERRIDDEN, True, "the target started anew and forgot it")
    world.run(60)
    assert world.router.drained == set(), "its member is left alone for the cool-down"
    world.run(80)
    assert world.router.drained == {"r2"}
    second = max(world.coordinator.actions.values(), key=lambda one: one.created)
    assert second.state == VERIFIED
    assert second.started_at - first.ended_at >= ActionLimits().cool_down


def test_a_person_who_puts_a_member_back_decides():
    world = drained_world()
    world.router.carry_out("ready r2")
    world.run(400)
    assert world.router.drained == set()
    assert len(world.coordinator.actions) == 1
    (why,) = obstacles(world)
    assert why.startswith("somebody else changed r2 at router during a-")
    assert world.coordinator.list_idle() == {world.incidents()[0].id: (why,)}


def test_a_target_that_kept_the_change_over_its_start_goes_on():
    world = drained_world()
    world.router.run = "two"
    world.run(20)
    (action,) = world.coordinator.actions.values()
    assert (action.state, action.run) == (VERIFIED, "two")
    world.router.carry_out("ready r2")
    world.run(5)
    (action,) = world.coordinator.actions.values()
    assert (action.state, action.forgotten) == (OVERRIDDEN, False), "a person did that, after the start"


def test_a_target_without_runs_is_changed_by_somebody():
    world = ActingWorld(faults=(ILL,))
    world.run(150)
    world.router.start_anew("")
    world.run(300)
    assert world.router.drained == set()


# --- the controller starts anew


def test_nothing_is_planned_for_an_incident_that_was_not_judged_since_the_start():
    world = ActingWorld(faults=(ILL,))
    world.judgement = JudgementState(inherited=frozenset({f"i-r2-{ILL.start:.0f}"}))
    world.run(150)
    assert world.coordinator.actions == {}
    assert obstacles(world) == ("it is left from before the controller started, and was not judged since",)
    world.judgement = JudgementState()
    world.run(30)
    assert world.router.drained == {"r2"}


def test_a_member_that_probes_found_well_is_not_drained_again_without_new_evidence():
    world = drained_world(settings=replace(ACT, limits=ActionLimits(cool_down=0.0)))
    world.router.probe_seconds = lambda _name: 0.1
    world.restart()
    id_ = f"i-r2-{ILL.start:.0f}"
    world.judgement = JudgementState(inherited=frozenset({id_}))
    world.run(60)
    (action,) = world.coordinator.actions.values()
    assert action.state == UNDONE, "probes found it well although the incident still fires"
    assert action.good_probes >= PROBES
    world.judgement = JudgementState()
    world.quiet = frozenset({id_})
    world.run(60)
    assert len(world.coordinator.actions) == 1
    assert obstacles(world) == (f"probes found r2 well ({action.id}), and its fault was not seen since",)
    world.quiet, world.router.probe_seconds = frozenset(), lambda name: 0.5 if name == "r2" else 0.1
    world.run(30)
    assert world.router.drained == {"r2"}, "its fault is seen anew"


# --- grounds


def test_a_grace_after_the_start_makes_a_proposal_that_the_policy_approves_later():
    world = ActingWorld(faults=(ILL,))
    world.judgement = JudgementState(running_for=20.0)
    world.run(80)
    (action,) = world.coordinator.actions.values()
    assert (action.state, action.waiting) == (PROPOSED, "the controller has judged for 20 s, 60 s are needed")
    world.judgement = JudgementState(running_for=61.0)
    world.run(4)
    (action,) = world.coordinator.actions.values()
    assert action.approved_by == "policy"
    assert world.router.drained == {"r2"}


def test_a_proposal_says_what_is_missing_now():
    world = ActingWorld(faults=(ILL,))
    id_ = f"i-r2-{ILL.start:.0f}"
    world.judgement = JudgementState(running_for=20.0, undecided={id_: ("engine_preempts",)})
    world.run(80)
    world.judgement = JudgementState(running_for=90.0, undecided={id_: ("engine_preempts",)})
    world.run(2)
    (action,) = world.coordinator.actions.values()
    assert (action.state, action.waiting) == (PROPOSED, "it is not known whether engine preempts")


def test_unknown_counter_evidence_is_left_to_a_person():
    world = ActingWorld(faults=(ILL,))
    world.judgement = JudgementState(undecided={f"i-r2-{ILL.start:.0f}": ("its_prompts_are_longer",)})
    world.run(80)
    (action,) = world.coordinator.actions.values()
    assert (action.state, action.waiting) == (PROPOSED, "it is not known whether its prompts are longer")
    assert world.router.drained == set()
    approved = asyncio.run(world.coordinator.approve(action.id, "ann", "looked at it"))
    assert approved.state == APPROVED
    world.run(5)
    assert world.router.drained == {"r2"}


def test_a_doubt_is_not_gone_because_the_evidence_does_not_hold_for_a_moment():
    world = ActingWorld(faults=(ILL,))
    id_ = f"i-r2-{ILL.start:.0f}"
    world.judgement = JudgementState(undecided={id_: ("its_prompts_are_longer",)})
    world.run(80)
    world.judgement, world.quiet = JudgementState(), frozenset({id_})
    world.run(5)
    (action,) = world.coordinator.actions.values()
    assert action.state == PROPOSED
    world.quiet = frozenset()
    world.run(3)
    assert world.router.drained == {"r2"}
