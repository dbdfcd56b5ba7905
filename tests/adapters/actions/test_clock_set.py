"""The clock is set while changes are in place: they are undone, and limits hold, by the time that has passed."""

from dataclasses import fields, replace

import pytest

from skewscope.adapters.actions.settings import ActionSettings
from skewscope.engine.actions.action import TIMES, Action
from skewscope.engine.actions.limits import ActionLimits, Breaker
from tests.support.acting_world import ActingWorld, SimulatedFault
from tests.support.actions import build_action

T0 = ActingWorld.t
YEAR = 365 * 86400.0
ROOMY = ActionLimits(
    at_once=20,
    per_hour=2,
    share_of_nodes=1.0,
    share_of_groups=1.0,
    share_of_replicas=1.0,
    minimum_healthy={"pool": 1},
    cool_down=0.0,
    breaker=Breaker(1000),
)


def set_clock(world: ActingWorld, seconds: float) -> None:
    """Sets the clock, as a controller notices it; what the incidents tell goes on by the new one."""
    (fault,), before = world.faults, world.incidents
    ids = {one.name: one.id for one in before()}
    world.faults = (replace(fault, start=fault.start + seconds, end=world.t + seconds + 20),)
    world.incidents = lambda: tuple(replace(one, id=ids[one.name]) for one in before())
    world.t += seconds
    if seconds > 0:
        world.coordinator.shift(seconds)


def seconds_until_undone(seconds: float) -> int:
    """Returns how long a change stays in place after the clock was set and its fault has ended."""
    world = ActingWorld(faults=(SimulatedFault("r2", T0 + 60, T0 + 300, 0.2),), has_probe=False)
    for _ in range(200):
        world.step()
    (action,) = world.coordinator.actions.values()
    assert action.state == "verified"
    set_clock(world, seconds)
    for passed in range(1, 400):
        world.step()
        if not world.coordinator.actions[action.id].is_live:
            return passed
    raise AssertionError("it is still in place")


@pytest.mark.parametrize("seconds", [-60.0, -600.0, -3600.0, -YEAR, 600.0, YEAR])
def test_a_change_is_undone_after_the_same_time_whatever_the_clock_does(seconds):
    assert seconds_until_undone(seconds) == pytest.approx(seconds_until_undone(0.0), abs=2)


def count_begun(limits: ActionLimits, back: float) -> list[int]:
    """Returns the changes begun after each 500 s, of four faults each, with the clock set back between them."""
    world = ActingWorld(20, 2, ActionSettings(mode="act", limits=limits), has_probe=False)
    counts = []
    for crowd in range(4):
        names = [f"r{n}" for n in range(4 * crowd, 4 * crowd + 4)]
        world.faults = tuple(SimulatedFault(name, world.t + 1, world.t + 400, 0.2) for name in names)
        for _ in range(500):
            world.step()
        counts.append(sum(one.started_at is not None for one in world.coordinator.actions.values()))
        world.t -= back
    return counts


def test_the_hourly_budget_is_that_of_an_hour_that_has_passed():
    assert count_begun(ROOMY, 5000.0) == count_begun(ROOMY, 0.0) == [2, 2, 2, 2]


def test_what_was_stored_before_the_clock_was_set_back_counts_as_just_now():
    world = ActingWorld(faults=(SimulatedFault("r2", T0 + 60, T0 + 9000, 0.2),), has_probe=False)
    for _ in range(200):
        world.step()
    (before,) = world.coordinator.actions.values()
    world.t -= YEAR
    world.restart()
    (after,) = world.coordinator.actions.values()
    assert after.newest_time == world.t
    assert after.newest_time - after.started_at == before.newest_time - before.started_at


def test_a_clock_that_was_set_is_stored_with_what_goes_on():
    world = ActingWorld(faults=(SimulatedFault("r2", T0 + 60, T0 + 9000, 0.2),), has_probe=False)
    for _ in range(200):
        world.step()
    set_clock(world, YEAR)
    world.step()
    (stored,) = world.store.load()
    assert stored.started_at == pytest.approx(T0 + YEAR, abs=200)


def test_every_time_of_an_action_moves():
    times = {one.name for one in fields(Action) if one.type in (float, float | None)}
    assert times == set(TIMES)
    action = build_action(**dict.fromkeys(TIMES, 100.0))
    assert {getattr(action.shift(5.0), name) for name in TIMES} == {105.0}
