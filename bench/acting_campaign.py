"""Measures the harm that acting might do, on a simulated pool: `python -m bench.acting_campaign`.

Prints, for weeks of random faults with and without acting, the share of the demand that was served, and what was done;
and, for controllers that are killed at each of their steps, what they left behind; the same with persons who decide at
random instants, two routers over one pool, one of which accepts late, and evictions. `--scenarios N` runs random
scenarios instead: faults, lies, restarts, persons, other hardware, members that come and go, each with acting and
without. Simulated: it proves consistency.
"""

import argparse
import logging
from collections import Counter
from dataclasses import dataclass, field

from skewscope.adapters.actions.settings import ActionSettings
from skewscope.adapters.actions.steps import POLICY
from tests.support.acting_runs import ACT, NOISE, ScenarioResult, run_chaos, run_killed, run_weeks, try_scenario


def print_weeks(seeds: int, days: float) -> bool:
    """Prints a row for each pool and seed; returns whether acting was never worse."""
    print(f"{days:g} days of random faults; one of ten calls fails, one of ten diagnoses is wrong")
    print(
        "replicas  seed  faults  changes  helped  undone as useless  fewest in use  served, acting  served, observing"
    )
    worse = 0
    for replicas in (2, 3, 4, 8, 16):
        for seed in range(1, seeds + 1):
            acting, observing = (run_weeks(seed, mode, replicas, days=days) for mode in (ACT, ActionSettings()))
            started = [one for one in acting.store.load() if one.started_at is not None]
            outcomes = Counter(one.outcome for one in started)
            worse += acting.availability < observing.availability or not acting.is_restored()
            print(
                f"{replicas:8}  {seed:4}  {len(acting.faults):6}  {len(started):7}  {outcomes['helped']:6}"
                f"  {outcomes['not helped']:17}  {acting.fewest_in_use:13}  {acting.availability:14.5f}"
                f"  {observing.availability:17.5f}",
                flush=True,
            )
    print(f"acting was worse in {worse} of {5 * seeds} runs")
    return worse == 0


def print_kills(most: int) -> bool:
    """Kills the controller at each crossing of a call or a write; returns whether nothing was ever left behind."""
    left = kills = 0
    for kill_at in range(1, most + 1):
        world, killed = run_killed(kill_at)
        if not killed:
            break
        kills += killed
        live = any(one.is_live for one in world.coordinator.actions.values())
        left += not world.is_restored() or live or world.fewest_in_use < 2
    print(f"killed {kills} times, each at another step: something was left behind, or the minimum missed, {left} times")
    return left == 0


def print_chaos(seeds: int) -> bool:
    """Kills the controller at random awaits while persons interfere; returns whether nothing bad ever happened."""
    harm: list[str] = []
    kills = requests = changes = 0
    for seed in range(seeds):
        world = run_chaos(seed)
        kills, requests = kills + world.kills, requests + world.requests
        changes += sum(one.called_at is not None for one in world.store.rows.values())
        harm += [f"seed {seed}: {what}" for what in world.harm]
    print(f"killed {kills} times at random awaits, with {changes} changes and {requests} decisions of persons:")
    print(
        "\n".join(harm) or "never below the minimum, never a second act, nothing of others removed, nothing left behind"
    )
    return not harm


@dataclass
class ScenarioTotals:
    """What happened in all scenarios so far."""

    counts: Counter[str] = field(default_factory=Counter)
    told: Counter[str] = field(default_factory=Counter)
    """How wrong acts were judged."""
    served: float = 0.0
    observed: float = 0.0
    worst: float = 0.0
    """Most that was lost by acting in one scenario, as a share of its demand."""

    def add(self, result: ScenarioResult) -> None:
        """Counts a scenario."""
        acting, observing = result.acting, result.observing
        rows, truth = acting.store.rows, acting.truth
        self.counts += Counter(scenarios=1, harm=bool(result.harm), changes=len(truth.changes), wrong=len(truth.wrong))
        self.counts += Counter(kills=acting.kills, decisions=acting.requests)
        self.counts["wrong by policy"] += sum(rows[id_].approved_by == POLICY for id_ in truth.wrong)
        self.counts["better"] += observing.availability < acting.availability - NOISE
        if result.is_worse:
            self.counts[f"worse: {result.excuse or 'without a reason'}"] += 1
        self.told.update(truth.describe_outcome(rows[id_]) for id_ in truth.wrong)
        self.served, self.observed = self.served + acting.availability, self.observed + observing.availability
        self.worst = max(self.worst, observing.availability - acting.availability)

    def describe(self) -> str:
        """Returns the totals in lines."""
        number = self.counts["scenarios"]
        lines = [f"{count} {name}" for name, count in self.counts.items()]
        lines += [f"wrong acts that were told as {name!r}: {count}" for name, count in sorted(self.told.items())]
        shares = f"served: {self.served / number:.5f} with acting, {self.observed / number:.5f} without"
        return "\n".join([*lines, f"{shares}; at worst {self.worst:.4f} less in one scenario"])


def print_scenarios(first: int, number: int) -> bool:
    """Simulates random scenarios; returns whether none did harm. One that does is explained."""
    totals = ScenarioTotals()
    for seed in range(first, first + number):
        result = try_scenario(seed)
        totals.add(result)
        if result.harm:
            print(result.explain(), flush=True)
    print(totals.describe())
    return not totals.counts["harm"]


def main() -> int:
    """Runs all campaigns."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--days", type=float, default=30.0)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--chaos", type=int, default=40)
    parser.add_argument("--scenarios", type=int, default=0, help="run so many random scenarios, and nothing else")
    parser.add_argument("--first", type=int, default=0, help="seed of the first scenario")
    asked = parser.parse_args()
    if asked.scenarios:
        logging.disable(logging.CRITICAL)
        return 0 if print_scenarios(asked.first, asked.scenarios) else 1
    good = [print_kills(asked.kills), print_chaos(asked.chaos), print_weeks(asked.seeds, asked.days)]
    return 0 if all(good) else 1


if __name__ == "__main__":
    raise SystemExit(main())
