"""How long a member stays out once it is well: as many probes as are needed, whatever its telemetry shows."""

from dataclasses import replace

import pytest

from skewscope.adapters.actions.settings import ActionSettings
from skewscope.engine.actions.action import UNDONE, Measurement
from skewscope.engine.actions.change import DRAIN, ChangeSupport
from skewscope.engine.actions.lifecycle import PROBES
from skewscope.engine.actions.limits import ActionLimits
from tests.support.acting_world import ActingWorld, SimulatedFault

T0 = ActingWorld.t
SLACK_S = 3.0
"""Seconds beside the probes: until the tick after the last one, and until that of the undo."""


def measure_times_out(*faults: SimulatedFault, every: float, echo: float) -> list[float]:
    """Returns the seconds for which the replica of each fault was out after its end."""
    settings = ActionSettings(mode="act")
    settings = replace(
        settings,
        timing=replace(settings.timing, probe_every=every),
        limits=replace(settings.limits, cool_down=1.0, per_hour=100),
    )
    world = ActingWorld(faults=faults, settings=settings, echo=echo)
    world.router.support = {DRAIN: ChangeSupport()}
    world.coordinator.steps.measure = lambda _action, _t: Measurement(0.5, 1.0, "served")
    last_out = [fault.end for fault in faults]
    while world.t < faults[-1].end + 600:
        world.step()
        n = sum(fault.start <= world.t for fault in faults) - 1
        if n >= 0 and world.router.drained:
            last_out[n] = world.t
    states = [one.state for one in world.coordinator.actions.values() if one.started_at is not None]
    assert states == [UNDONE] * len(faults)
    return [out - fault.end for out, fault in zip(last_out, faults, strict=True)]


@pytest.mark.parametrize("every", [1.0, 2.0, 5.0])
@pytest.mark.parametrize("echo", [0.0, 2.0, 4.0, 30.0])
def test_a_member_that_is_well_is_out_for_as_many_probes_as_are_needed(every, echo):
    for length in range(60, 66):
        fault = SimulatedFault("r2", T0 + 100, T0 + 100 + length, 0.2)
        (out,) = measure_times_out(fault, every=every, echo=echo)
        assert out <= PROBES * every + SLACK_S


def test_each_return_doubles_the_number_of_probes_and_nothing_else():
    faults = [SimulatedFault("r2", T0 + 100 + 200 * n, T0 + 160 + 200 * n, 0.2) for n in range(3)]
    for n, out in enumerate(measure_times_out(*faults, every=2.0, echo=4.0)):
        assert out <= 2**n * PROBES * 2.0 + SLACK_S


def test_a_fault_too_small_for_a_probe_is_over_when_telemetry_no_longer_shows_it():
    fault = SimulatedFault("r2", T0 + 100, T0 + 400, 0.85)
    (out,) = measure_times_out(fault, every=2.0, echo=8.0)
    assert 0 < out <= 8.0 + PROBES * 2.0 + SLACK_S


@pytest.mark.parametrize("has_probe", [True, False])
def test_what_waited_for_its_limits_begins_on_what_is_seen_then(has_probe):
    """The worse one is well first: there is room then, and the other one has been well for a moment, too."""
    faults = (SimulatedFault("r2", T0 + 100, T0 + 160, 0.2), SimulatedFault("r1", T0 + 100, T0 + 162, 0.5))
    limits = ActionLimits(minimum_healthy={"pool": 2})
    world = ActingWorld(
        faults=faults, settings=ActionSettings(mode="act", limits=limits), demand=1.5, has_probe=has_probe
    )
    while world.t < T0 + 300:
        world.step()
        assert not world.router.drained
    assert any(action.scope.entity == "r1" for action in world.coordinator.actions.values())
