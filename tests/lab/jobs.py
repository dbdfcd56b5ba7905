"""Real jobs in the lab: A trains data-parallel, B decodes tensor-parallel.

python -m tests.lab.jobs SCENARIO FOLDER
"""

import argparse
import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.lab import state
from tests.lab.cluster import EAST_WEST, NODES, address, topology, two
from tests.lab.namespaces import inside, missing
from tests.lab.network import Network, network
from tests.lab.record import Times, capturing, packed_captures, sleep_until
from tests.lab.running import COMMANDS, process

KINDS = {"A": ("dp", "data-parallel"), "B": ("tp", "tensor-parallel")}
START = 180.0
"""Seconds that all ranks may take to begin."""
SETTLE = 5.0
"""Seconds after that before anything is recorded."""


@dataclass
class Jobs:
    """The running jobs."""

    network: Network
    folder: Path
    pids: dict[str, int]

    def set(self, node: str, **faults: float) -> None:
        """Sets the faults of a rank; none without arguments."""
        state.write(self.folder / f"{node}.json", faults)

    def send(self, node: str, number: int) -> None:
        """Sends a signal to a rank."""
        os.kill(self.pids[node], number)


@dataclass(frozen=True)
class JobScenario:
    """One fault of a job, or none."""

    conditions: tuple[str, ...] = ()
    """Diagnoses that are right."""
    nodes: tuple[str, ...] = ()
    begin: Callable[[Jobs], Any] = lambda _jobs: None
    end: Callable[[Jobs], Any] = lambda _jobs: None


SLOW = ("tp-straggler", "gpu-fail-slow", "dataloader-rank-imbalance", "host-cpu-bottleneck", "launch-latency")
UNEVEN = (*SLOW, "seq-length-imbalance", "python-gc-pause")


def faulty(node: str, **faults: float) -> dict[str, Callable[[Jobs], Any]]:
    """Returns the begin and the end of faults of one rank."""
    return {"begin": lambda jobs: jobs.set(node, **faults), "end": lambda jobs: jobs.set(node)}


def limited(node: str, rate: str) -> dict[str, Callable[[Jobs], Any]]:
    """Returns the begin and the end of a limit on a node's link."""
    return {
        "begin": lambda jobs: jobs.network.rate(node, EAST_WEST, rate, latency="100ms"),
        "end": lambda jobs: jobs.network.rate(node, EAST_WEST, "1gbit", "256kb"),
    }


SCENARIOS = {
    "healthy": JobScenario(),
    "dp-slow": JobScenario(SLOW, ("n2",), **faulty("n2", slow=1.6)),
    "tp-slow": JobScenario(SLOW, ("n6",), **faulty("n6", slow=1.8)),
    "dp-loader": JobScenario(SLOW, ("n0",), **faulty("n0", load=40.0)),
    "dp-collect": JobScenario(UNEVEN, ("n1",), **faulty("n1", collect=400.0)),
    "dp-uneven": JobScenario(UNEVEN, ("n3",), **faulty("n3", uneven=2.5)),
    "dp-save": JobScenario(("checkpoint-stall",), NODES[:4], **faulty("n0", save=1500.0)),
    "dp-limited": JobScenario(
        ("fabric-congestion", "incast-all-to-all", "credit-starvation"), ("n3",), **limited("n3", "60mbit")
    ),
    "tp-stopped": JobScenario(
        ("collective-hang",),
        ("n5",),
        begin=lambda jobs: jobs.send("n5", signal.SIGSTOP),
        end=lambda jobs: jobs.send("n5", signal.SIGCONT),
    ),
}


def lacking() -> str:
    """Returns why jobs cannot run here; '' where they can."""
    if not importlib.util.find_spec("torch"):
        return "jobs take PyTorch"
    return missing((*COMMANDS, "tcpdump"))


@contextmanager
def running_jobs(name: str, folder: Path, seed: int = 1) -> Iterator[Jobs]:
    """Runs both jobs for the duration of a context, once all ranks have begun."""
    with network(name) as made, ExitStack() as stack:
        pids = {}
        for number, one in enumerate(two("tp")):
            for rank, node in enumerate(one.nodes):
                into = {"RANK": rank, "WORLD_SIZE": len(one.nodes), "MASTER_PORT": 29600 + number}
                into |= {"MASTER_ADDR": address(one.nodes[0], EAST_WEST), "GLOO_SOCKET_IFNAME": f"{EAST_WEST}0"}
                settings = [f"{key}={value}" for key, value in {**into, "OMP_NUM_THREADS": 1}.items()]
                job = ["-m", "tests.lab.rank", KINDS[one.name][0], node, str(folder / f"{node}.json"), str(seed)]
                command = inside(made.node(node), "env", *settings, sys.executable, *job)
                started = stack.enter_context(process(command, folder / f"{node}.log"))
                stack.callback(_resume, started)
                pids[node] = started.pid
        give_up = time.time() + START
        while not all((folder / f"{node}.ready").exists() for node in NODES):
            if time.time() > give_up:
                raise RuntimeError(f"ranks did not begin within {START:.0f} s, see {folder}")
            time.sleep(0.5)
        time.sleep(SETTLE)
        yield Jobs(made, folder, pids)


def _resume(started: "subprocess.Popen[bytes]") -> None:
    """Lets a stopped rank go on, so that it can end."""
    if started.poll() is None:
        started.send_signal(signal.SIGCONT)


def record_jobs(scenario: JobScenario, folder: Path, times: Times, seed: int = 1) -> None:
    """Runs a scenario and writes its recording to a folder that does not exist yet."""
    work = folder / "work"
    work.mkdir(parents=True)
    (folder / "pcap").mkdir()
    with running_jobs("jobs", work, seed) as jobs, capturing(jobs.network, folder, (EAST_WEST,)):
        start = time.time()
        sleep_until(start + times.begin)
        scenario.begin(jobs)
        begun = time.time()
        sleep_until(start + times.end)
        scenario.end(jobs)
        ended = time.time()
        sleep_until(start + times.all)
    label = {"condition": list(scenario.conditions), "entity": list(scenario.nodes), "start": begun, "end": ended}
    told = {"start": start, "end": time.time(), "labels": [label] if scenario.conditions else []}
    (folder / "labels.json").write_text(json.dumps(told, indent=1), "utf-8")
    where = topology(two("tp"))
    where["groups"] = [
        {"name": g["name"], "kind": KINDS[g["name"]][1], "members": g["members"]} for g in where["groups"]
    ]
    where["pools"] = []
    (folder / "topology.yaml").write_text(yaml.safe_dump(where, sort_keys=False), "utf-8")
    span = {"start": told["start"], "end": told["end"]}
    whole = {"version": 1, "topology": "topology.yaml", **span, "inputs": list(packed_captures(folder))}
    (folder / "recording.yaml").write_text(yaml.safe_dump(whole, sort_keys=False), "utf-8")


def main() -> None:
    """Makes the recording that the command line names."""
    parser = argparse.ArgumentParser(prog="python -m tests.lab.jobs", description="Makes a recording of real jobs.")
    parser.add_argument("scenario", choices=sorted(SCENARIOS))
    parser.add_argument("folder", type=Path, help="is made; it must not be there yet")
    parser.add_argument("--seconds", type=float, default=75.0)
    parser.add_argument("--fault", type=float, nargs=2, default=(25.0, 55.0), metavar=("BEGIN", "END"))
    parser.add_argument("--seed", type=int, default=1, help="of sizes, layers and uneven work")
    asked = parser.parse_args()
    if why := lacking():
        parser.error(why)
    begin, end = asked.fault
    record_jobs(SCENARIOS[asked.scenario], asked.folder.resolve(), Times(begin, end, asked.seconds), asked.seed)


if __name__ == "__main__":
    main()
