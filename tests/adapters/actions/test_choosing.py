"""Another option than the first, and approvals by several persons."""

import asyncio
from dataclasses import replace

import pytest

from skewscope.adapters.actions.action_book import ActionRequestError
from skewscope.adapters.actions.choosing import approve_choice, list_choices, propose_choice
from skewscope.adapters.actions.settings import ActionSettings, ApprovalRule, ModeRule
from skewscope.engine.actions.action import APPROVED, EXPIRED, PROPOSED, REFUSED, VERIFIED, action_to_json, parse_action
from skewscope.engine.actions.limits import ActionLimits, TimeWindow
from tests.support.acting_world import ActingWorld, SimulatedFault

T0 = ActingWorld.t
PROPOSE, ACT = ActionSettings(mode="propose"), ActionSettings(mode="act")
ILL = SimulatedFault("r2", T0 + 60, T0 + 600, 0.2)
TWO = (ApprovalRule(2, risk=("low",)),)


def make_world(settings=PROPOSE, seconds=80):
    world = ActingWorld(faults=(ILL,), settings=settings)
    world.run(seconds)
    return world


def actions(world):
    return sorted(world.coordinator.actions.values(), key=lambda one: (one.created, one.id))


def ask(world, what, *words):
    return asyncio.run(what(world.coordinator, *words))


def approve(world, who):
    return asyncio.run(world.coordinator.approve(actions(world)[0].id, who, "go"))


def test_the_second_option_is_approved_in_place_of_the_first():
    world = make_world()
    (proposal,) = actions(world)
    incident = world.coordinator.view.incidents[proposal.reason.incident]
    titles = [one.title for one in list_choices(world.coordinator, incident)]
    assert titles == ["drain r2 at router", "deweight r2 to 25 % at router"]
    made = ask(world, approve_choice, proposal.id, "2", "ann", "keep some of it")
    assert (made.title, made.state, made.approved_by) == (titles[1], APPROVED, "ann")
    assert world.coordinator.actions[proposal.id].state == EXPIRED
    world.run(60)
    assert world.router.lines == ["weight r2 25"]
    assert [line for line in world.store.lines if line.startswith("ann: ")][:3] == [
        "ann: action proposed: deweight r2 to 25 % at router: keep some of it",
        "ann: action expired: ann chose another option: deweight r2 to 25 % at router",
        "ann: action approved: keep some of it",
    ]


def test_an_option_is_named_by_its_title_too_and_the_first_one_is_the_proposal_itself():
    world = make_world()
    (proposal,) = actions(world)
    assert ask(world, approve_choice, proposal.id, "drain r2 at router", "ann", "go").id == proposal.id
    with pytest.raises(ActionRequestError, match="no option '7'; there are: 1"):
        ask(make_refused_world(), propose_choice, f"i-r2-{ILL.start:.0f}", "7", "ann", "x")


def make_refused_world():
    world = make_world()
    asyncio.run(world.coordinator.refuse(actions(world)[0].id, "bob", "not this"))
    return world


def test_a_person_proposes_after_a_refusal_and_limits_hold_all_the_same():
    never = replace(PROPOSE, limits=ActionLimits(windows=(TimeWindow(0.0, 1.0),)))
    world = make_world(never)
    asyncio.run(world.coordinator.refuse(actions(world)[0].id, "bob", "not this"))
    world.run(30)
    assert [one.state for one in actions(world)] == [REFUSED]
    made = ask(world, propose_choice, f"i-r2-{ILL.start:.0f}", "2", "ann", "milder")
    assert made.state == PROPOSED
    with pytest.raises(ActionRequestError, match=f"{made.id} is proposed for it"):
        ask(world, propose_choice, f"i-r2-{ILL.start:.0f}", "1", "ann", "both")
    asyncio.run(world.coordinator.approve(made.id, "ann", "go"))
    world.run(30)
    assert world.router.lines == []
    assert "outside the windows" in world.coordinator.actions[made.id].waiting


def test_what_observes_and_what_is_over_is_not_proposed():
    modes = (ModeRule("observe", kind=("deweight",)),)
    world = make_world(replace(PROPOSE, modes=modes))
    asyncio.run(world.coordinator.refuse(actions(world)[0].id, "bob", "no"))
    with pytest.raises(ActionRequestError, match="the mode of deweight r2 to 25 % at router is observe"):
        ask(world, propose_choice, f"i-r2-{ILL.start:.0f}", "2", "ann", "x")
    with pytest.raises(ActionRequestError, match="no incident 'i-9' at present"):
        ask(world, propose_choice, "i-9", "1", "ann", "x")


def test_two_different_persons_approve():
    world = make_world(replace(PROPOSE, approvals=TWO))
    (proposal,) = actions(world)
    assert "2 different persons have to approve it" in proposal.plan.notes
    first = approve(world, "ann")
    assert (first.state, first.waiting) == (PROPOSED, "1 of 2 approvals, by ann")
    assert parse_action(action_to_json(first)) == first
    with pytest.raises(ActionRequestError, match="already: another person has to"):
        approve(world, "ann")
    world.run(5)
    world.restart()
    world.run(5)
    assert world.router.lines == []
    second = approve(world, "bob")
    assert (second.state, second.approved_by) == (APPROVED, "ann, bob")
    world.run(60)
    assert actions(world)[0].state == VERIFIED


def test_the_policy_approves_nothing_for_which_persons_are_asked():
    world = make_world(replace(ACT, approvals=TWO), 200)
    (proposal,) = actions(world)
    assert (proposal.state, proposal.waiting) == (PROPOSED, "2 different persons have to approve it")
    other = replace(ACT, approvals=(ApprovalRule(2, risk=("high",)), ApprovalRule(3, target=("cluster",))))
    assert actions(make_world(other, 200))[0].state == VERIFIED
