"""Trials of acting on a real router: `python -m bench.acting_trials`.

Each trial has a HAProxy of its own, four workers (one a spare), a load, a controller in the mode `act`, and a watcher
of the router's own table. Named scenarios first, then random ones: faults, metrics that lie, prompts of unknown length,
other hardware, restarts of router, controller and workers, persons, scaling. Each random one runs again with a
controller that observes. Prints a line for each trial, what must not happen and did, and totals. Exit status 1 for any
harm.
"""

import argparse
import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.trial_checks import compare_answers, find_harm, good_share, is_wrong, list_fault_delays
from bench.trial_rig import TrialRun, trial_rig
from bench.trial_scenarios import NAMED, Scenario, draw_scenario


@dataclass(frozen=True)
class Trial:
    """A scenario that was tried: with a controller that acts, and perhaps with one that observes."""

    acting: TrialRun
    observing: TrialRun | None

    @property
    def harm(self) -> tuple[str, ...]:
        """What must not have happened."""
        worse = compare_answers(self.acting, self.observing) if self.observing else ()
        faults = [line for line in self.acting.log.splitlines() if line.startswith("Traceback")]
        return (*find_harm(self.acting), *worse, *(["the controller logged an exception"] if faults else []))

    @property
    def line(self) -> str:
        """One line of the table."""
        run = self.acting
        begun = [action for action in run.actions if action["started_at"] is not None]
        delays = " ".join("-" if d is None else f"{d:.0f}" for d in list_fault_delays(run)) or "none"
        ends = "; ".join(f"{a['title']} {a['state']} {a['outcome']}".strip() for a in begun) or "nothing done"
        wrong = sum(is_wrong(run, action) for action in begun)
        beside = f"  {100 * good_share(self.observing):5.1f}" if self.observing else "      -"
        return f"{run.scenario.name:44}  {100 * good_share(run):5.1f}{beside}  {wrong:5}  {delays:14}  {ends}"


async def run_trial(scenario: Scenario, is_paired: bool, logs: Path | None) -> Trial:
    """Runs a scenario."""
    runs = []
    for mode in ("act", "observe") if is_paired else ("act",):
        async with trial_rig(scenario, mode) as rig:
            runs.append(await rig.play())
        if logs is not None:
            name = f"{scenario.name.replace(' ', '-')}-{mode}"
            (logs / f"{name}.log").write_text(runs[-1].log, encoding="utf-8")
            (logs / f"{name}.json").write_text(runs[-1].as_json(), encoding="utf-8")
    return Trial(runs[0], runs[1] if is_paired else None)


async def run_all(scenarios: Sequence[tuple[Scenario, bool]], at_once: int, logs: Path | None) -> list[Trial]:
    """Runs scenarios, some at the same time, and prints each as it ends."""
    gate, trials = asyncio.Semaphore(at_once), []

    async def run(scenario: Scenario, is_paired: bool) -> None:
        async with gate:
            trial = await run_trial(scenario, is_paired, logs)
        trials.append(trial)
        print(trial.line, flush=True)
        for what in trial.harm:
            print(f"    HARM: {what}", flush=True)

    await asyncio.gather(*(run(*one) for one in scenarios))
    return trials


def main() -> int:
    """Runs the trials that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--named", default="all", help="words that the names of named scenarios contain, all or none")
    parser.add_argument("--random", type=int, default=50, help="number of random scenarios")
    parser.add_argument("--seed", type=int, default=1, help="seed of the first random scenario")
    parser.add_argument("--at-once", type=int, default=3)
    parser.add_argument("--logs", type=Path, help="folder for logs and for what was seen")
    asked = parser.parse_args()
    if asked.logs is not None:
        asked.logs.mkdir(parents=True, exist_ok=True)
    named = [one for one in NAMED if asked.named == "all" or asked.named in one.name]
    drawn = [draw_scenario(seed) for seed in range(asked.seed, asked.seed + asked.random)]
    print(f"{'scenario':44}  good %  observing  wrong  out after (s)  what was done")
    trials = asyncio.run(run_all([(s, False) for s in named] + [(s, True) for s in drawn], asked.at_once, asked.logs))
    harmful = sum(bool(trial.harm) for trial in trials)
    acting = sum(good_share(t.acting) for t in trials if t.observing)
    observing = sum(good_share(t.observing) for t in trials if t.observing)
    pairs = sum(t.observing is not None for t in trials)
    if pairs:
        print(f"good answers: {100 * acting / pairs:.2f} % with acting, {100 * observing / pairs:.2f} % without")
    print(f"{len(trials)} trials, {harmful} with harm")
    return 1 if harmful else 0


if __name__ == "__main__":
    raise SystemExit(main())
