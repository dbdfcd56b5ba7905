"""What /metrics says of actions: states, what waits and why, what a person has to look at."""

import asyncio
from dataclasses import replace

from skewscope.adapters.actions.settings import ActionSettings
from skewscope.adapters.controller.action_metrics import metric_families
from skewscope.engine.actions.freeze import Freeze
from skewscope.engine.actions.limits import ActionLimits, TimeWindow
from tests.support.acting_world import ActingWorld, SimulatedFault

T0 = ActingWorld.t
ACT, PROPOSE = ActionSettings(mode="act"), ActionSettings(mode="propose")
ILL = SimulatedFault("r2", T0 + 60, T0 + 600, 0.2)


def metrics(world) -> dict[str, float]:
    """The samples that are not zero, by name and label."""
    return {
        " ".join([name, *labels.values()]): float(value)
        for name, _kind, _meaning, samples in metric_families(world.coordinator)
        for labels, value in samples
        if value
    }


def test_without_actions_all_metrics_are_there_and_zero():
    world = ActingWorld()
    assert metrics(world) == {}
    assert len(list(metric_families(world.coordinator))) == 8


def test_states_outcomes_and_the_age_of_a_proposal():
    world = ActingWorld(faults=(ILL,), settings=PROPOSE)
    world.run(180)
    found = metrics(world)
    assert found["skewscope_actions proposed"] == 1
    assert 100 < found["skewscope_action_oldest_proposal_seconds"] < 120
    (proposal,) = world.coordinator.actions.values()
    asyncio.run(world.coordinator.approve(proposal.id, "ann", "go"))
    world.run(100)
    found = metrics(world)
    assert found["skewscope_actions verified"] == 1
    assert "skewscope_action_oldest_proposal_seconds" not in found
    entered = {name.split()[-1]: n for name, n in found.items() if name.startswith("skewscope_actions_entered_total")}
    assert entered == {"proposed": 1, "approved": 1, "applying": 1, "applied": 1, "verified": 1}
    assert found["skewscope_actions_judged_total helped"] == 1


def test_why_approved_actions_wait():
    never = (TimeWindow(0.0, 1.0),)
    world = ActingWorld(faults=(ILL,), settings=replace(ACT, limits=ActionLimits(windows=never)))
    world.run(100)
    assert metrics(world)["skewscope_actions_blocked_total window"] == 1
    world.coordinator.book.freeze = Freeze(world.t, "ann", "release night")
    world.run(10)
    found = metrics(world)
    assert found["skewscope_actions_blocked_total freeze"] == 1
    assert found["skewscope_actions_frozen"] == 1


def test_an_undo_that_fails_and_an_open_breaker():
    world = ActingWorld(faults=(replace(ILL, end=T0 + 200),), settings=ACT)
    world.router.trouble = lambda line: "refuse" if line.startswith("ready") else ""
    world.run(420)
    assert metrics(world)["skewscope_actions_stuck"] == 1
    wrong = tuple(SimulatedFault(f"r{n}", T0 + 60 + 1000 * n, T0 + 900 + 1000 * n, 1.0) for n in range(3))
    world = ActingWorld(faults=wrong, settings=ACT, has_probe=False)
    world.run(3000)
    assert metrics(world)["skewscope_action_breaker_open"] == 1
