"""A controller that is killed at each step, and random scenarios of faults: acting never does harm."""

import pytest

from skewscope.engine.actions import lifecycle
from skewscope.engine.actions.limits import ActionLimits
from tests.support import acting_fleet
from tests.support.acting_runs import run_chaos, run_killed, try_scenario


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


@pytest.mark.parametrize("seed", [0, 2, 5])
def test_with_persons_late_targets_and_deaths_nothing_bad_happens(seed):
    world = run_chaos(seed)
    assert world.harm == []
    assert world.kills >= 5
    assert {one.state for one in world.store.rows.values()} >= {"undone", "done"}


@pytest.mark.slow
def test_of_hundreds_of_deaths_at_any_await_none_leaves_anything_behind():
    kills = requests = 0
    for seed in range(20):
        world = run_chaos(seed)
        assert world.harm == [], f"seed {seed}"
        kills, requests = kills + world.kills, requests + world.requests
    assert kills >= 200
    assert requests >= 100


SEEDS = (0, 2, 12, 16, 19, 21, 51, 54, 58, 63, 66, 67, 79, 81, 88)
"""Among them lies, long prompts, other hardware, deaths, persons, members that come and go, and clocks that are set."""


@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_scenario_does_no_harm(seed):
    result = try_scenario(seed)
    assert not result.harm, result.explain()


def test_wrong_acts_are_among_the_scenarios_and_never_count_as_helped():
    results = [try_scenario(seed) for seed in (66, 79)]
    wrong = [each.acting.store.rows[id_] for each in results for id_ in each.acting.truth.wrong]
    assert {each.outcome for each in wrong} == {"not helped"}


def test_without_limits_and_with_too_many_probes_the_same_checks_find_harm(monkeypatch):
    no_limits = ActionLimits(9, 99, 1.0, 1.0, 1.0, minimum_healthy={"pool": 0})
    monkeypatch.setattr(acting_fleet, "LIMITS", no_limits)
    assert "1 of 2 were left" in try_scenario(29).harm[0]
    monkeypatch.undo()
    monkeypatch.setattr(lifecycle, "PROBES", 40)
    assert "is well and was out for" in try_scenario(37).harm[0]


@pytest.mark.slow
def test_a_hundred_random_scenarios_do_no_harm():
    results = [try_scenario(seed) for seed in range(100)]
    assert not [each.explain() for each in results if each.harm]
    assert sum(len(each.acting.truth.changes) for each in results) >= 80
