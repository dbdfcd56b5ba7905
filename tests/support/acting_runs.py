"""Runs of a simulated pool under random faults, with a controller that is killed, and calls that fail."""

from collections.abc import Callable
from dataclasses import replace

from skewscope.adapters.actions.settings import ActionSettings
from skewscope.engine.actions.limits import ActionLimits
from tests.support.acting_chaos import ChaosWorld
from tests.support.acting_time import run_virtual
from tests.support.acting_world import ActingWorld, KilledError, SimulatedFault, draw_faults

ACT = ActionSettings(mode="act")
T0 = ActingWorld.t
FAULTS = (
    SimulatedFault("r2", T0 + 60, T0 + 300, 0.2),
    SimulatedFault("r1", T0 + 900, T0 + 1000, 1.0),
    SimulatedFault("r0", T0 + 1500, T0 + 1700, 0.7),
    SimulatedFault("r1", T0 + 2200, T0 + 2450, 0.4),
    SimulatedFault("r2", T0 + 2600, T0 + 2700, 0.8),
)


def count_crossings(kill_at: int) -> Callable[[str], None]:
    """Returns a function that kills the controller when it is called for the n-th time."""
    left = [kill_at]

    def cross(_what: str) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise KilledError

    return cross


def run_killed(kill_at: int) -> tuple[ActingWorld, int]:
    """Runs the faults; the controller is killed at the n-th crossing and starts again 20 s later."""
    world = ActingWorld(faults=FAULTS, settings=replace(ACT, limits=ActionLimits(per_hour=20)))
    world.router.crossing = world.store.crossing = count_crossings(kill_at)
    killed = 0
    while world.t < T0 + 3000:
        try:
            world.run(T0 + 3000 - world.t)
        except KilledError:
            killed += 1
            world.t += 20.0
            world.restart()
    return world, killed


MONTH_DAYS = 30.0
CHAOS_HOURS = 0.4


def run_chaos(seed: int, hours: float = CHAOS_HOURS, kill_every: int = 100) -> ChaosWorld:
    """Runs a pool with persons who interfere and a controller that dies about as often as it was told."""

    async def run() -> ChaosWorld:
        world = ChaosWorld(seed, hours, kill_every)
        await world.run()
        return world

    return run_virtual(run())


def run_month(seed: int, settings: ActionSettings, replicas: int = 4, days: float = MONTH_DAYS) -> ActingWorld:
    """Runs random faults; one of ten calls fails in one of three ways, and people change things themselves at times."""
    world = ActingWorld(replicas, 0.65 * replicas, settings)
    world.faults = draw_faults(seed, days, world.router.names, T0)
    calls = [0]

    def misbehave(line: str) -> str:
        if line == "read":
            return ""
        calls[0] += 1
        return ("", "", "refuse", "", "", "", "", "", "", "", "ignore", "", "", "", "", "", "", "", "", "lose")[
            (calls[0] * 7 + seed) % 20
        ]

    world.router.trouble = misbehave
    world.run(86400.0 * days + 7200)
    return world
