"""Runs of a simulated pool under random faults, with a controller that is killed, and calls that fail."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from skewscope.adapters.actions.settings import ActionSettings
from skewscope.adapters.actions.steps import POLICY
from skewscope.engine.actions.limits import ActionLimits
from tests.support.acting_chaos import ChaosWorld
from tests.support.acting_fleet import FleetWorld, simulate_scenario
from tests.support.acting_scenarios import ActingScenario, draw_scenario
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


CHAOS_HOURS = 0.4


def run_chaos(seed: int, hours: float = CHAOS_HOURS, kill_every: int = 100) -> ChaosWorld:
    """Runs a pool with persons who interfere and a controller that dies about as often as it was told."""

    async def run() -> ChaosWorld:
        world = ChaosWorld(seed, hours, kill_every)
        await world.run()
        return world

    return run_virtual(run())


def run_weeks(seed: int, settings: ActionSettings, replicas: int = 4, *, days: float) -> ActingWorld:
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


NOISE = 0.001
"""Share of the demand by which two runs of a scenario may differ without a cause."""


@dataclass(frozen=True, slots=True)
class ScenarioResult:
    """One scenario, simulated with acting and without."""

    scenario: ActingScenario
    acting: FleetWorld
    observing: FleetWorld

    @property
    def is_worse(self) -> bool:
        """Whether less of the demand was served with acting."""
        return self.acting.availability < self.observing.availability - NOISE

    @property
    def excuse(self) -> str:
        """Why acting may serve less: what nobody could foresee, or what a person decided; '' for no such reason."""
        truth, rows = self.acting.truth, self.acting.store.rows
        if truth.persons_interfered or any(rows[id_].approved_by != POLICY for id_ in truth.wrong):
            return "a person approved a wrong act, or changed the same member by hand"
        return "a second member was slow or restarted while one was out" if truth.second_faults else ""

    @property
    def harm(self) -> tuple[str, ...]:
        """What must not happen, one sentence each."""
        shares = f"{self.acting.availability:.4f} served, {self.observing.availability:.4f} without acting"
        worse = (shares,) if self.is_worse and not self.excuse else ()
        touched = ("something was changed in the mode observe",) if self.observing.truth.changes else ()
        return (*self.acting.truth.harm, *worse, *touched)

    def explain(self) -> str:
        """Returns the seed, what went wrong, and all that happened, in lines."""
        actions = [f"{each.title}: {each.history[-1][1]}" for each in self.acting.store.rows.values()]
        parts = [f"seed {self.scenario.seed}: {'; '.join(self.harm)}", self.scenario.describe(), *actions]
        return "\n  ".join(parts)


def try_scenario(seed: int) -> ScenarioResult:
    """Returns how a random scenario ends with acting and without."""
    scenario = draw_scenario(seed)
    return ScenarioResult(scenario, simulate_scenario(scenario), simulate_scenario(scenario, "observe"))
