"""Attacks Skewscope in all the ways of its campaign: `python -m bench.campaign [--kills N] [--inputs N] ...`.

Controllers are killed at random instants, also during reloads, on full and read-only disks and in pairs; damaged inputs
are given to every reader; the API is called with generated requests; hostile agents push beside sound ones. It prints
what was done and every fault that was found, and fails where there is one, or where a part could not run. The long
form, which the defaults give, takes an hour on a quiet machine of two cores; the same seed gives the same inputs and
requests.
"""

import argparse
from pathlib import Path

from bench.campaign_calls import run_calls
from bench.campaign_inputs import run_inputs
from bench.campaign_kills import SETTLE_S, run_kills
from bench.hostile_agents import run_hostile

SHOWN = 20
"""Faults of a part that are printed."""


def main() -> int:
    """Runs the campaign; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--first", type=int, default=0, help="number of the first input")
    parser.add_argument("--calls", type=int, default=5000)
    parser.add_argument("--hostile", type=int, default=10, help="hostile agents, beside SOUND sound ones")
    parser.add_argument("--seconds", type=float, default=90.0, help="seconds that hostile agents are measured")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--settle", type=float, default=SETTLE_S, help="seconds without kills at the end")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="minutes after which no more is killed")
    parser.add_argument("--keep", type=Path, help="a new folder for what killed controllers leave")
    parser.add_argument("--at-once", type=int, help="lanes of kills that run side by side (all)")
    asked = parser.parse_args()
    faults: list[str] = []
    if asked.inputs:
        faults += run_inputs(asked.inputs, asked.seed, asked.first).faults
    if asked.calls:
        faults += run_calls(asked.calls, asked.seed)
    if asked.hostile:
        faults += run_hostile(asked.seconds, asked.hostile)
    if asked.kills:
        faults += run_kills(asked.kills, asked.seed, asked.settle, asked.minutes, asked.keep, asked.at_once)
    for fault in faults[:SHOWN]:
        print(f"fault: {fault}")
    print(f"{len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    raise SystemExit(main())
