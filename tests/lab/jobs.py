"""Real jobs in the lab: ranks of PyTorch in namespaces, each job with its collectives, and faults of their ranks.

python -m tests.lab.jobs FOLDER --jobs dp:4 tp:4 --faults healthy slow@n2 stopped@n5 collect@A
"""

import argparse
import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
import zstandard

from tests.lab import state
from tests.lab.cluster import EAST_WEST, NODES, address, topology
from tests.lab.namespaces import inside, missing
from tests.lab.network import Network, network
from tests.lab.record import Times, capturing, packed_captures, sleep_until
from tests.lab.running import COMMANDS, process

KIND = {
    "dp": "data-parallel", "tp": "tensor-parallel", "fsdp": "data-parallel", "moe": "expert-parallel",
    "pp": "pipeline-parallel", "nested": "data-parallel", "server": "data-parallel",
}  # fmt: skip
"""Kind of group of each mode of `tests.lab.rank`."""
USUAL = ("dp:4", "tp:4")
START = 180.0
"""Seconds that all ranks may take to begin."""
SETTLE = 5.0
"""Seconds after that before anything is recorded."""
SPINNERS = 3
"""Processes that share a processor with a rank."""
SPIN = "while True: pass"


@dataclass(frozen=True)
class Job:
    """Nodes with one rank each."""

    name: str
    mode: str
    """See `tests.lab.rank`."""
    nodes: tuple[str, ...]


def plan(told: Sequence[str] = USUAL) -> tuple[Job, ...]:
    """Returns jobs A, B, ... on consecutive nodes, each given as mode:ranks."""
    jobs: list[Job] = []
    for name, text in zip("ABCD", told, strict=False):
        mode, _, ranks = text.partition(":")
        used = sum(len(one.nodes) for one in jobs)
        jobs.append(Job(name, mode, NODES[used : used + int(ranks)]))
    return tuple(jobs)


@dataclass
class Jobs:
    """The running jobs."""

    network: Network
    folder: Path
    jobs: Sequence[Job]
    pids: dict[str, int]
    neighbours: "list[subprocess.Popen[bytes]]" = field(default_factory=list)

    def set(self, node: str, **faults: float) -> None:
        """Sets the faults of a rank; none without arguments."""
        state.write(self.folder / f"{node}.json", faults)

    def send(self, node: str, number: int) -> None:
        """Sends a signal to a rank."""
        os.kill(self.pids[node], number)

    def crowd(self, node: str) -> None:
        """Lets busy processes share a processor with a rank."""
        one = {max(os.sched_getaffinity(0))}
        os.sched_setaffinity(self.pids[node], one)
        for _ in range(SPINNERS):
            self.neighbours.append(subprocess.Popen([sys.executable, "-c", SPIN]))
            os.sched_setaffinity(self.neighbours[-1].pid, one)

    def leave_alone(self, node: str) -> None:
        """Ends the busy processes."""
        for each in self.neighbours:
            each.kill()
            each.wait()
        self.neighbours.clear()
        os.sched_setaffinity(self.pids[node], os.sched_getaffinity(0))


@dataclass(frozen=True)
class JobFault:
    """One fault of a rank, or what is normal in all of a job."""

    conditions: tuple[str, ...] = ()
    """Diagnoses that are right; none where it is no fault."""
    begin: Callable[[Jobs, str], Any] = lambda _jobs, _node: None
    end: Callable[[Jobs, str], Any] = lambda _jobs, _node: None


SLOW = ("tp-straggler", "gpu-fail-slow", "dataloader-rank-imbalance", "host-cpu-bottleneck", "launch-latency")
UNEVEN = (*SLOW, "seq-length-imbalance", "python-gc-pause")
JAM = ("fabric-congestion", "incast-all-to-all", "credit-starvation")


def told(*conditions: str, **faults: float) -> JobFault:
    """Returns a fault that a rank is told of."""
    return JobFault(conditions, lambda jobs, node: jobs.set(node, **faults), lambda jobs, node: jobs.set(node))


FAULTS = {
    "healthy": JobFault(),
    "slow": told(*SLOW, slow=1.7),
    "loader": told(*SLOW, load=40.0),
    "collect": told(*UNEVEN, collect=400.0),
    "uneven": told(*UNEVEN, uneven=2.5),
    "save": told("checkpoint-stall", save=1500.0, save_every=4.0),
    "collecting": told(collect=150.0),
    "lengths": told(uneven=1.3),
    "saving": told(save=1000.0, save_every=60.0),
    "neighbour": JobFault(SLOW, Jobs.crowd, Jobs.leave_alone),
    "limited": JobFault(
        JAM,
        lambda jobs, node: jobs.network.rate(node, EAST_WEST, "60mbit", latency="100ms"),
        lambda jobs, node: jobs.network.rate(node, EAST_WEST, "1gbit", "256kb"),
    ),
    "loss": JobFault(
        ("fabric-loss",),
        lambda jobs, node: jobs.network.lose(node, EAST_WEST, 0.02),
        lambda jobs, node: jobs.network.unlose(node),
    ),
    "stopped": JobFault(
        ("collective-hang",),
        lambda jobs, node: jobs.send(node, signal.SIGSTOP),
        lambda jobs, node: jobs.send(node, signal.SIGCONT),
    ),
}
"""Each begins at one node, or, named with a job, at all its nodes."""


def lacking() -> str:
    """Returns why jobs cannot run here; '' where they can."""
    if not importlib.util.find_spec("torch"):
        return "jobs take PyTorch"
    return missing((*COMMANDS, "tcpdump"))


@contextmanager
def running_jobs(name: str, folder: Path, jobs: Sequence[Job], seed: int = 1) -> Iterator[Jobs]:
    """Runs jobs for the duration of a context, once all ranks have begun; `folder` holds their files."""
    with network(name) as made, ExitStack() as stack:
        pids = {}
        for number, one in enumerate(jobs):
            for rank, node in enumerate(one.nodes):
                into = {"RANK": rank, "WORLD_SIZE": len(one.nodes), "MASTER_PORT": 29600 + number}
                into |= {"MASTER_ADDR": address(one.nodes[0], EAST_WEST), "GLOO_SOCKET_IFNAME": f"{EAST_WEST}0"}
                settings = [f"{key}={value}" for key, value in {**into, "OMP_NUM_THREADS": 1}.items()]
                job = ["-m", "tests.lab.rank", one.mode, node, str(folder / f"{node}.json"), str(seed)]
                command = inside(made.node(node), "env", *settings, sys.executable, *job)
                started = stack.enter_context(process(command, folder / f"{node}.log"))
                stack.callback(_resume, started)
                pids[node] = started.pid
        give_up = time.time() + START
        while not all((folder / f"{node}.ready").exists() for node in pids):
            if time.time() > give_up:
                raise RuntimeError(f"ranks did not begin within {START:.0f} s, see {folder}")
            time.sleep(0.5)
        time.sleep(SETTLE)
        yield Jobs(made, folder, jobs, pids)


def _resume(started: "subprocess.Popen[bytes]") -> None:
    """Lets a stopped rank go on, so that it can end."""
    if started.poll() is None:
        started.send_signal(signal.SIGCONT)


def record_fault(jobs: Jobs, fault: JobFault, place: str, folder: Path, times: Times) -> None:
    """Writes the recording of a fault at a node or a job to a folder that does not exist yet."""
    (folder / "work").mkdir(parents=True)
    (folder / "pcap").mkdir()
    nodes = next((one.nodes for one in jobs.jobs if one.name == place), (place,) if place else ())
    with capturing(jobs.network, folder, (EAST_WEST,)):
        start = time.time()
        sleep_until(start + times.begin)
        for node in nodes:
            fault.begin(jobs, node)
        begun = time.time()
        sleep_until(start + times.end)
        for node in nodes:
            fault.end(jobs, node)
        ended = time.time()
        sleep_until(start + times.all)
        whole_end = time.time()
    label = {"condition": list(fault.conditions), "entity": list(nodes), "start": begun, "end": ended}
    labels = {"start": start, "end": whole_end, "labels": [label] if fault.conditions else []}
    (folder / "labels.json").write_text(json.dumps(labels, indent=1), "utf-8")
    where = topology(()) | {"pools": []}
    where["groups"] = [{"name": one.name, "kind": KIND[one.mode], "members": list(one.nodes)} for one in jobs.jobs]
    (folder / "topology.yaml").write_text(yaml.safe_dump(where, sort_keys=False), "utf-8")
    span = {"start": labels["start"], "end": labels["end"]}
    inputs = [*packed_captures(folder), _step_times(jobs, folder, start)]
    whole = {"version": 1, "topology": "topology.yaml", **span, "inputs": inputs}
    (folder / "recording.yaml").write_text(yaml.safe_dump(whole, sort_keys=False), "utf-8")


def _step_times(jobs: Jobs, folder: Path, start: float) -> dict[str, str]:
    """Writes what the jobs say of their newest step in each second; returns the input."""
    lines: dict[str, list[str]] = {"skewscope_step_duration": [], "skewscope_step_compute_time": []}
    for one in jobs.jobs:
        for rank, node in enumerate(one.nodes):
            newest: dict[int, tuple[str, ...]] = {}
            for line in (jobs.folder / f"{node}.steps").read_text("utf-8").splitlines():
                end, *durations = line.split()
                newest[int(float(end)) + 1] = tuple(durations)
            for second, (whole, computed) in newest.items():
                if second < start:
                    continue
                into = f'node="{node}",group="{one.name}"'
                lines["skewscope_step_compute_time"].append(f"{{{into}}} {computed} {second}")
                if not rank:
                    lines["skewscope_step_duration"].append(f'{{group="{one.name}"}} {whole} {second}')
    text = "".join(
        f"# TYPE {name} gauge\n" + "".join(f"{name}{each}\n" for each in told) for name, told in lines.items()
    )
    (folder / "steps.om.zst").write_bytes(zstandard.compress((text + "# EOF\n").encode()))
    return {"kind": "openmetrics", "path": "steps.om.zst"}


def main() -> None:
    """Makes the recordings that the command line names, one after another in the same running jobs."""
    parser = argparse.ArgumentParser(prog="python -m tests.lab.jobs", description="Makes recordings of real jobs.")
    parser.add_argument("folder", type=Path, help="gets a folder for each fault")
    parser.add_argument("--jobs", nargs="+", default=USUAL, metavar="MODE:RANKS", help=f"modes: {', '.join(KIND)}")
    parser.add_argument("--faults", nargs="+", default=["healthy"], help=f"FAULT@PLACE: {', '.join(FAULTS)}")
    parser.add_argument("--seconds", type=float, default=75.0)
    parser.add_argument("--span", type=float, nargs=2, default=(25.0, 55.0), metavar=("BEGIN", "END"))
    parser.add_argument("--seed", type=int, default=1, help="of sizes, layers and uneven work")
    asked = parser.parse_args()
    if why := lacking():
        parser.error(why)
    work, times = asked.folder.resolve() / "work", Times(*asked.span, asked.seconds)
    work.mkdir(parents=True)
    with running_jobs("jobs", work, plan(asked.jobs), asked.seed) as jobs:
        for text in asked.faults:
            fault, _, place = text.partition("@")
            record_fault(jobs, FAULTS[fault], place, asked.folder.resolve() / text.replace("@", "-"), times)


if __name__ == "__main__":
    main()
