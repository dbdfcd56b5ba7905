"""Measures backtests: `python -m bench.backtest_load --node-days 100`, 64 nodes sampled each second, 30 series a node.

It writes a recording as node, GPU and port exporters would fill it, a table for each 2.5 hours, and tries one rule on
it: on one core and on several, in processes and on Ray. Then it tries the rule on the same telemetry as four recordings
on Ray, two versions of the rule, then all rules with symptoms on the first part. It prints elapsed and processor
seconds and how much faster than real time each was. The recordings are deleted at the end.
"""

import argparse
import json
import os
import resource
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np

from bench.long_replay import START, Totals, write_table
from skewscope.adapters.backtest.backtest import BacktestOptions, run_backtest
from skewscope.adapters.backtest.rule_set import RuleSet, load_rule_set
from skewscope.adapters.backtest.telemetry import TelemetrySpan, open_telemetry
from skewscope.kb.loader import catalogue
from skewscope.rules.loader import RULES_FOLDER

GPUS, PORTS = 4, 2
TABLE_S = 9000
DAY_S = 86_400
PARTS = 4
"""Recordings of the same telemetry, a quarter each."""
RULE = "intra-node-gpu-skew-of-a-gpu"


def write_recording(folder: Path, nodes: int, seconds: int) -> int:
    """Writes a recording with a table for each 2.5 hours; returns its bytes."""
    folder.mkdir(parents=True)
    ports = [{"name": f"p{n}", "network": "east-west", "speed": "400 Gbit/s"} for n in range(PORTS)]
    fleet = [{"name": f"n{n}", "gpus": GPUS, "ports": ports} for n in range(nodes)]
    (folder / "topology.yaml").write_text(json.dumps({"version": 1, "nodes": fleet}))
    inputs, totals = [], Totals(float)
    for number, begin in enumerate(range(0, seconds, TABLE_S)):
        name = f"part-{number:03}.parquet"
        write_table(folder / name, nodes, np.arange(begin, min(seconds, begin + TABLE_S)), seconds, totals)
        inputs.append({"kind": "parquet", "path": name})
    (folder / "recording.yaml").write_text(json.dumps({"version": 1, "topology": "topology.yaml", "inputs": inputs}))
    return sum(file.stat().st_size for file in folder.iterdir())


def processor_seconds() -> float:
    """Returns the processor time of this process and of those that it waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def measure(
    what: str, folders: list[Path], versions: list[RuleSet], options: BacktestOptions, seconds: float = np.inf
) -> float:
    """Runs a backtest of the first seconds of each folder on as many cores as workers; returns the elapsed seconds.

    It prints them, and those of processors: of this process and those that it started, without Ray's.
    """
    workers, cores = options.workers or 1, os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(cores)[:workers])
    end = START + seconds if np.isfinite(seconds) else None
    opened = [
        open_telemetry(str(folder), TelemetrySpan(None, end), folder, lambda _stage, _share: None) for folder in folders
    ]
    began, used = time.monotonic(), processor_seconds()
    found = run_backtest(opened, versions, options).recordings
    os.sched_setaffinity(0, cores)
    elapsed, used = time.monotonic() - began, processor_seconds() - used
    span = sum(one.end - one.start for one in found)
    told = [sum(len(one.incidents[n]) for one in found) for n in range(len(versions))]
    node_days, samples = sum(one.node_days for one in found), sum(one.samples for one in found)
    print(f"{what}: {node_days:.1f} node-days, {samples:,} samples, incidents by version {told}")
    times = f"{span / elapsed:.0f} times as fast as real time"
    print(f"  {elapsed:.0f} s elapsed on {workers} cores ({times}), {used:.0f} s of processors", flush=True)
    return elapsed


def compare_cores(folder: Path, parts: list[Path], rule: RuleSet, workers: int) -> None:
    """Measures one rule on one core and on several, in processes and on Ray."""
    cases = (("processes", [folder], ""), ("Ray", [folder], "local"), (f"Ray, {PARTS} recordings", parts, "local"))
    for what, folders, ray in cases:
        options = [BacktestOptions(cores, ray) for cores in (1, workers)]
        one, several = (measure(f"one rule, {what}", folders, [rule], each) for each in options)
        print(f"  {workers} cores take {several / one:.2f} of the time of one", flush=True)


def split_recording(folder: Path, into: Path) -> list[Path]:
    """Writes recordings that have the tables of another one in turn, a quarter each; returns their folders."""
    whole = json.loads((folder / "recording.yaml").read_text())
    found = []
    for part, inputs in enumerate(np.array_split(np.array(whole["inputs"], object), PARTS)):
        found.append(into / f"part-{part}")
        found[-1].mkdir()
        for name in (whole["topology"], *(one["path"] for one in inputs)):
            shutil.copy(folder / name, found[-1] / name)
        description = {**whole, "inputs": inputs.tolist()}
        (found[-1] / "recording.yaml").write_text(json.dumps(description))
    return found


def main() -> None:
    """Writes, measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=64)
    parser.add_argument("--node-days", type=float, default=100.0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rule", default=RULE)
    parser.add_argument("--folder", type=Path, help="a recording that was written before; default: a temporary one")
    wanted = parser.parse_args()
    os.environ.setdefault("SKEWSCOPE_MAX_BYTES", str(64 << 30))
    seconds = round(wanted.node_days * DAY_S / wanted.nodes)
    known = catalogue()
    rule = load_rule_set(wanted.rule, known)
    with tempfile.TemporaryDirectory() as scratch:
        folder = wanted.folder or Path(scratch) / "long"
        size = 0 if folder.exists() else write_recording(folder, wanted.nodes, seconds)
        print(f"{seconds} s of {wanted.nodes} nodes, {size / 1e9:.2f} GB", flush=True)
        text = (RULES_FOLDER / f"{wanted.rule}.yaml").read_text()
        stricter = Path(scratch) / f"{wanted.rule}.yaml"
        stricter.write_text(text.replace("fire: {score: 5, hold: ", "fire: {score: 5, hold: 5*"))
        parts = split_recording(folder, Path(scratch))
        compare_cores(folder, parts, rule, wanted.workers)
        options = BacktestOptions(wanted.workers)
        measure("two versions of it", [folder], [rule, load_rule_set(str(stricter), known)], options)
        part = min(seconds, TABLE_S)
        measure("all rules and symptoms", [folder], [load_rule_set(str(RULES_FOLDER), known)], options, part)


if __name__ == "__main__":
    main()
