"""A controller that is killed at each step, and a month of random faults: acting never does harm."""

import pytest

from skewscope.adapters.actions.settings import ActionSettings
from tests.support.acting_runs import ACT, run_killed, run_month


@pytest.mark.slow
def test_a_controller_that_is_killed_at_any_step_leaves_nothing_behind():
    kill_at, deaths = 0, 0
    while True:
        kill_at += 1
        world, killed = run_killed(kill_at)
        deaths += killed
        assert world.is_restored(), f"killed at crossing {kill_at}: {world.router.drained} {world.router.weights}"
        assert world.fewest_in_use >= 2
        live = [one for one in world.coordinator.actions.values() if one.is_live]
        assert not live, f"killed at crossing {kill_at}: {live[0].title} is {live[0].state}"
        drains = sum(line == "drain r2" for line in world.router.lines)
        assert drains == 1, f"killed at crossing {kill_at}: drained {drains} times"
        if not killed:
            break
    assert deaths >= 30


@pytest.mark.parametrize("seed", [1])
def test_a_week_with_acting_is_at_least_as_available_as_one_without(seed):
    acting, observing = (run_month(seed, settings, days=7.0) for settings in (ACT, ActionSettings()))
    assert acting.availability >= observing.availability
    assert acting.fewest_in_use >= 3
    assert acting.most_in_place <= 1
    assert acting.is_restored()
    assert [one for one in acting.store.load() if one.started_at is not None]


@pytest.mark.slow
@pytest.mark.parametrize("replicas", [3, 8])
def test_a_month_with_acting_is_at_least_as_available_as_one_without(replicas):
    acting, observing = (run_month(9, settings, replicas) for settings in (ACT, ActionSettings()))
    assert acting.availability >= observing.availability
    assert acting.fewest_in_use >= replicas // 2 + 1
    assert acting.is_restored()
