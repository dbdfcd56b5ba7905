"""Shadow runs: what acting would have done, by the same coordinator; evidence for the mode `act`."""

import asyncio
import json
from dataclasses import replace

import pytest

from skewscope.adapters.actions.settings import ActionSettings, ModeRule
from skewscope.adapters.actions.shadow import build_run, run_over_incidents, run_over_moments
from skewscope.adapters.actions.shadow_evidence import find_unproven_targets
from skewscope.adapters.actions.shadow_report import report_json
from skewscope.engine.actions.limits import ActionLimits
from skewscope.kb.loader import catalogue
from skewscope.tui.render.shadow import shadow_lines
from skewscope.tui.render.text import to_plain_text
from tests.support.acting_world import ActingWorld, SimulatedFault, build_incident

T0 = ActingWorld.t
OBSERVE, ACT = ActionSettings(), ActionSettings(mode="act")
LONG = SimulatedFault("r2", T0 + 60, T0 + 660, 0.2)


def past(*faults):
    """Incidents as a store has them at the end."""
    return [replace(build_incident(one, one.end + 60), resolved_at=one.end) for one in faults]


def shadow(*faults, settings=OBSERVE, seconds=7200.0, acted=(), has_probe=True):
    world = ActingWorld()
    run = build_run(settings, world.topology, catalogue(), [world.router])
    run.acted = frozenset(acted)
    for target in run.targets:
        target.has_probe = has_probe
    return asyncio.run(run_over_incidents(run, past(*faults), T0, T0 + seconds))


def test_a_change_is_planned_begun_and_taken_back_as_acting_does_it():
    (act,) = shadow(LONG).acts
    world = ActingWorld(faults=(LONG,), settings=ACT)
    world.run(1200)
    (real,) = world.coordinator.actions.values()
    assert (act.action.title, act.verdict, act.fault_ended) == (real.title, "in time", LONG.end)
    assert act.action.started_at - LONG.start == pytest.approx(real.started_at - LONG.start, abs=2)
    assert act.action.ended_at == pytest.approx(real.ended_at, abs=15)
    assert "probes found it as quick" in act.action.ending
    (slower,) = shadow(LONG, has_probe=False).acts
    assert slower.action.ending.startswith("the fault is gone for")


def test_what_went_by_itself_soon_was_needless_and_what_limits_held_was_too_late():
    short = SimulatedFault("r2", T0 + 60, T0 + 90, 0.2)
    (act,) = shadow(short).acts
    assert act.verdict == "needless"
    # While r2 is out, the minimum keeps r1 in use; its fault ends meanwhile.
    found = shadow(LONG, SimulatedFault("r1", T0 + 200, T0 + 300, 0.2))
    first, second = found.acts
    assert (first.verdict, second.verdict) == ("in time", "too late")
    assert "1 replicas of pool would be left in use, 2 have to be" in second.waits[0]
    assert found.blocks == (("minimum", 1), ("share", 1))
    assert second.action.started_at is None


def test_the_budget_of_an_hour_is_spent_as_in_acting():
    faults = [SimulatedFault(f"r{n % 3}", T0 + 60 + 400 * n, T0 + 260 + 400 * n, 0.2) for n in range(4)]
    found = shadow(*faults, settings=replace(OBSERVE, limits=ActionLimits(per_hour=2)))
    assert [one.verdict for one in found.acts] == ["in time", "in time", "too late", "too late"]
    assert [one.begun_within_hour for one in found.acts[:2]] == [0, 1]
    assert "2 changes within an hour, 2 are allowed" in found.acts[2].waits[0]


def test_many_changes_never_trip_the_breaker_and_nothing_is_called():
    faults = [SimulatedFault(f"r{n % 3}", T0 + 60 + 2000 * n, T0 + 1500 + 2000 * n, 0.9) for n in range(6)]
    world = ActingWorld()
    found = shadow(*faults, seconds=14400.0)
    assert [one.verdict for one in found.acts] == ["in time"] * 6
    assert world.router.lines == []


def test_what_a_person_would_have_been_asked_for_is_neither_late_nor_blocked():
    world = ActingWorld()
    run = build_run(OBSERVE, world.topology, catalogue(), [world.router])
    doubtful = [replace(each, witnesses=("r2",)) for each in past(LONG)]
    found = asyncio.run(run_over_incidents(run, doubtful, T0, T0 + 7200))
    assert [act.verdict for act in found.acts] == ["asked"]
    assert report_json(found)["ended_by_itself"] == 1


def test_a_real_change_says_nothing_of_a_fault_by_itself():
    found = shadow(LONG, acted=[past(LONG)[0].id])
    assert found.acts[0].verdict == "acted upon"
    assert report_json(found)["ended_by_itself"] == 0


def test_the_same_past_gives_the_same_report_and_a_replay_nearly_the_same():
    faults = (LONG, SimulatedFault("r1", T0 + 2000, T0 + 2500, 0.3))
    first, again = (json.dumps(report_json(shadow(*faults)), sort_keys=True) for _ in range(2))
    assert first == again
    world = ActingWorld(faults=faults)
    run = build_run(OBSERVE, world.topology, catalogue(), [world.router])
    moments = []
    for second in range(3600):
        world.t = T0 + second
        moments.append((world.t, world.incidents()))
    found = asyncio.run(run_over_moments(run, moments))
    assert [one.verdict for one in found.acts] == ["in time", "in time"]
    assert (found.since, found.until, found.incidents, found.admitted) == (T0, T0 + 3599, 2, 2)


def test_long_quiet_weeks_take_few_steps():
    found = shadow(LONG, SimulatedFault("r1", T0 + 600_000, T0 + 600_300, 0.2), seconds=604_800.0)
    assert len(found.acts) == 2


def test_lines_fit_a_small_terminal():
    found = report_json(shadow(LONG, SimulatedFault("r1", T0 + 200, T0 + 300, 0.2)))
    lines = to_plain_text(shadow_lines(found)).splitlines()
    assert "2 changes planned, 1 begun, at most 1 at a time" in lines
    assert "  in time 1 · too late 1" in lines
    assert all(len(one) <= 80 for one in lines if ": waited: " not in one), lines


def test_a_target_may_act_after_a_shadow_run_over_enough_days_or_with_a_reason():
    week = {"days": 7.0, "targets": ["front"]}
    assert find_unproven_targets(ActionSettings(mode="propose"), ["front"], []) == []
    assert find_unproven_targets(ACT, ["front", "cluster"], [week]) == ["cluster"]
    assert find_unproven_targets(ACT, ["front"], [{**week, "days": 6.9}]) == ["front"]
    assert find_unproven_targets(replace(ACT, no_shadow_evidence="a rig"), ["front"], []) == []
    some = ActionSettings(modes=(ModeRule("act", target=("front",)),))
    assert find_unproven_targets(some, ["front", "cluster"], []) == ["front"]
