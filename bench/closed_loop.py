"""Closed loops on real traffic: `python -m bench.closed_loop TARGET`.

A fault is made, Skewscope diagnoses it, changes the target, verifies, and undoes the change when the fault is over.
Then the same without acting. Prints what happened and a table, and writes a plot. Exit status 1 if an aim is missed.

Targets: haproxy, sglang-router, vllm-router and dynamo, behind which one of three replicas is slowed down
(bench/closed_loop_routers.py), and those of other modules.
"""

import argparse
import asyncio
import importlib
import json
import sys
from dataclasses import asdict
from pathlib import Path

from bench.closed_loop_report import compute_figures, describe_loop, draw_loop
from bench.closed_loop_rigs import RIGS
from bench.closed_loop_routers import Timetable, run_pair

MODULES = {"slurm": "bench.closed_loop_slurm", "open-vswitch": "bench.closed_loop_switch"}
"""Targets with loops of their own: modules with `main(arguments) -> int`."""


def main() -> int:
    """Runs the loop of a target."""
    if len(sys.argv) > 1 and sys.argv[1] in MODULES:
        return int(importlib.import_module(MODULES[sys.argv[1]]).main(sys.argv[2:]))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", choices=[*RIGS, *MODULES])
    parser.add_argument("--out", type=Path, default=Path(), help="folder of the plot and of the figures as JSON")
    asked = parser.parse_args()
    acting, observing = asyncio.run(run_pair(asked.target, Timetable()))
    print(describe_loop(asked.target, acting, observing))
    figures = compute_figures(acting, observing)
    asked.out.mkdir(parents=True, exist_ok=True)
    plot = asked.out / f"closed-loop-{asked.target}.svg"
    plot.write_text(draw_loop(asked.target, acting, observing), encoding="utf-8")
    content = asdict(figures) | {
        "problems": figures.problems,
        "events": acting.events,
        "calls": acting.action.get("plan"),
    }
    plot.with_suffix(".json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    print(f"  plot: {plot}")
    return 1 if figures.problems else 0


if __name__ == "__main__":
    raise SystemExit(main())
