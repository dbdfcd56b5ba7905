"""Closed loops over Slurm: a node slows a training job down, or hangs it; Skewscope requeues the job without it.

`python -m bench.closed_loop slurm [straggler|dead-node]`. A cluster of four slurmd runs a job of three ranks, which
writes a checkpoint at each step; the state of its ranks is scraped once per second. Each fault is run twice at the same
time on clusters of their own: with a controller that acts, and with one that observes.

straggler: the device of one rank takes three times as long. dead-node: the daemon of a node is killed and its rank
stops, so that the others wait; SlurmdTimeout is Slurm's usual 300 s. The node comes back later in both.
"""

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import yaml

from bench.closed_loop_person import Person, write_token
from bench.line_plot import Panel, draw_plot
from skewscope.adapters.discovery.slurm import expand_hosts
from tests.lab import state
from tests.support.slurm_cluster import NODES, SlurmCluster, free_ports, missing, slurm_cluster, wait_until

ROOT = Path(__file__).resolve().parents[1]
ILL = "gpu2"
SLOW = 3.0
SLURMD_TIMEOUT = 300
"""Slurm's own default, s."""
BIN = 5.0
PROBE = """#!/bin/sh
# A piece of work of half a second on a healthy node; fails where its daemon is gone.
test -e {folder}/gone-$1 && exit 1
exec {python} -S -c "import json, sys, time
try: slow = json.load(open('{folder}/' + sys.argv[1] + '.json')).get('slow', 1.0)
except OSError: slow = 1.0
time.sleep(0.5 * slow)" "$1"
"""


@dataclass(frozen=True)
class Fault:
    """A fault of the node, and when it comes and goes, s from the start of the job."""

    begin: Callable[["Rig"], None]
    end: Callable[["Rig"], None]
    start: float = 60.0
    stop: float = 190.0
    seconds: float = 250.0
    probe_every: float = 5.0


@dataclass
class Rig:
    """A cluster, its job and its controller."""

    cluster: SlurmCluster
    folder: Path
    mode: str
    url: str = ""
    job: str = ""
    begun: float = 0.0
    """Seconds since 1970 at which the job ran."""
    seen: list[tuple[float, str]] = field(default_factory=list)
    """Seconds from there, and what could be seen of node and job in Slurm."""
    steps: list[tuple[float, int]] = field(default_factory=list)
    actions: list[dict[str, Any]] = field(default_factory=list)

    def rate(self, start: float, end: float) -> float:
        """Returns the steps per second of the job within a span."""
        inside = [step for t, step in self.steps if start <= t < end]
        return len(inside) / max(end - start, 1e-9)


def slow_down(rig: Rig) -> None:
    """Makes the device of a node slow."""
    state.write(rig.folder / f"{ILL}.json", {"slow": SLOW})


def recover(rig: Rig) -> None:
    """Makes the device of a node as quick as before."""
    state.write(rig.folder / f"{ILL}.json", {})


def break_node(rig: Rig) -> None:
    """Kills the daemon of a node and stops its rank."""
    (rig.folder / f"gone-{ILL}").touch()
    rig.cluster.kill_daemon(ILL)
    with contextlib.suppress(OSError, ValueError):
        os.kill(json.loads((rig.folder / f"rank-{ILL}.json").read_text())["pid"], signal.SIGSTOP)


def restart_node(rig: Rig) -> None:
    """Brings the node back as after a reboot."""
    rig.cluster.start_node(ILL)
    (rig.folder / f"gone-{ILL}").unlink()


FAULTS = {
    "straggler": Fault(slow_down, recover),
    "dead-node": Fault(break_node, restart_node, 60.0, 310.0, 370.0),
}


def render_page(folder: Path) -> str:
    """Returns the state of the ranks that run here, as a page of metrics."""
    lines = []
    for node in NODES:
        with contextlib.suppress(OSError, ValueError):
            rank = json.loads((folder / f"rank-{node}.json").read_text())
            os.kill(rank["pid"], 0)
            lines += [
                f'skewscope_step_compute_time{{node="{node}"}} {rank["compute"]:.4f}',
                f'skewscope_nccl_coll_seq_total{{node="{node}"}} {rank["begun"]}',
                f'skewscope_nccl_coll_done_total{{node="{node}"}} {rank["done"]}',
            ]
    return "\n".join([*lines, ""])


@contextmanager
def rank_pages(folder: Path) -> Iterator[int]:
    """Serves the page of the ranks; yields its port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = render_page(folder).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()


def write_config(rig: Rig, fault: Fault, pages: int, port: int) -> None:
    """Writes topology and config of the controller."""
    probe = rig.folder / "probe"
    probe.write_text(PROBE.format(folder=rig.folder, python=sys.executable))
    probe.chmod(0o755)
    topology = {
        "version": 1,
        "nodes": [{"name": node, "gpus": 8} for node in NODES],
        "groups": [{"name": "job", "kind": "data-parallel", "members": list(NODES), "front_end": NODES[0]}],
    }
    target = {
        "kind": "slurm",
        "name": "cluster",
        "conf": str(rig.cluster.config),
        "members": {node: node for node in NODES},
        "probe": {"command": [str(probe)]},
    }
    config = {
        "version": 1,
        "topology": "topology.yaml",
        "listen": {"port": port},
        "auth": {"tokens": write_token(rig.folder)},
        "sources": [
            {
                "kind": "scrape",
                "name": "ranks",
                "targets": [f"127.0.0.1:{pages}"],
                "period": 1,
                "reports_for": list(NODES),
            }
        ],
        "targets": [target],
        "actions": {
            "mode": rig.mode,
            "acknowledge": {"no_shadow_evidence": "a bench"},
            "confidence": 0.7,
            "timing": {"probe_every": fault.probe_every, "apply_within": 120, "grace": 10},
        },
    }
    for name, content in (("topology", topology), ("skewscope", config)):
        (rig.folder / f"{name}.yaml").write_text(yaml.safe_dump(content, sort_keys=False))


@contextmanager
def controller(rig: Rig, port: int) -> Iterator[None]:
    """Runs the controller."""
    rig.url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-c", "from skewscope.tui.cli.main import main; main()", "run", "--config"]
    with (rig.folder / "log").open("w") as log:
        process = subprocess.Popen([*command, str(rig.folder / "skewscope.yaml")], stdout=log, stderr=log, cwd=ROOT)
    try:
        wait_until(lambda: Person(rig.url).ask("/readyz") is not None, "controller", 60)
        yield
    finally:
        process.terminate()
        process.wait(30)


def run_rig(fault: Fault, mode: str, results: dict[str, Rig]) -> None:
    """Runs one fault with a controller in one mode."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="closed-loop-slurm.")))
        cluster = stack.enter_context(slurm_cluster(folder, SLURMD_TIMEOUT))
        rig = results[mode] = Rig(cluster, folder, mode)
        port = free_ports(1)
        write_config(rig, fault, stack.enter_context(rank_pages(folder)), port)
        stack.enter_context(controller(rig, port))
        command = f"cd {ROOT} && exec srun {sys.executable} -m bench.closed_loop_rank {folder}"
        rig.job = cluster.submit(command, "-N3", "--exclusive", "--gres=gpu:8", "--requeue")
        wait_until((folder / "progress").exists, "first step", 60)
        rig.begun = time.time()
        watch(rig, fault)
        told = Person(rig.url).ask("/api/v1/actions")
        rig.actions = json.loads(told)["actions"][::-1] if told else []
        rows = (line.split() for line in (folder / "progress").read_text().splitlines())
        rig.steps = [(float(t) - rig.begun, int(step)) for t, step in rows]


def watch(rig: Rig, fault: Fault) -> None:
    """Makes and ends the fault, and notes what becomes of node and job."""
    todo = [(fault.start, fault.begin), (fault.stop, fault.end)]
    last = ""
    while (t := time.time() - rig.begun) < fault.seconds:
        if todo and t >= todo[0][0]:
            todo.pop(0)[1](rig)
        states = ", ".join(filter(None, rig.cluster.job(rig.job))) or "gone"
        reason = rig.cluster.reason(ILL)
        now = f"job {states}; {ILL} {rig.cluster.node_state(ILL)}" + ("" if reason == "none" else f" ({reason})")
        if now != last:
            rig.seen.append((t, now))
            last = now
        if rig.mode == "act":
            Person(rig.url).approve_proposals()
        time.sleep(0.5)


# --- the report


def moments(rig: Rig) -> dict[str, float]:
    """Returns when the first action was planned, applied, verified and ended, s from the start of the job."""
    action = rig.actions[0] if rig.actions else {}
    names = ("created", "started_at", "applied_at", "verified_at", "ended_at")
    return {name: action[name] - rig.begun for name in names if action.get(name)}


def job_is_back(rig: Rig, fault: Fault) -> float | None:
    """Returns when the job ran again on other nodes; None if it never did."""
    for t, seen in rig.seen:
        words = seen.split(";")[0].removeprefix("job ").split(", ", 1)
        if t > fault.start and words[0] == "RUNNING" and ILL not in expand_hosts(words[1]):
            return t
    return None


def find_problems(acting: Rig, fault: Fault) -> list[str]:
    """Returns what falls short of the aims."""
    found = []
    action = acting.actions[0] if acting.actions else None
    if action is None:
        return ["no action"]
    if len(acting.actions) > 1:
        found.append(f"{len(acting.actions) - 1} further actions")
    if not any(f"(skewscope:{action['id']}" in seen for _, seen in acting.seen):
        found.append("the node was not drained with our reason")
    back = job_is_back(acting, fault)
    if back is None:
        found.append("the job did not start again elsewhere")
    elif acting.rate(back + 5, fault.stop) < 0.9 * acting.rate(5, fault.start):
        found.append("the progress is not back within 10 % of healthy")
    if action["state"] != "undone":
        found.append(f"the action ended as {action['state']}")
    if not acting.seen[-1][1].endswith(f"{ILL} idle"):
        found.append("the node was not resumed")
    return found


def describe(name: str, acting: Rig, observing: Rig) -> str:
    """Returns events and table as text."""
    fault = FAULTS[name]
    steps = moments(acting)
    back = job_is_back(acting, fault) or fault.seconds
    events = [(fault.start, f"fault: {name} at {ILL}"), (fault.stop, "end of the fault")]
    events += [(t, f"Slurm: {seen}") for t, seen in acting.seen]
    for action in acting.actions:
        reason = action["reason"]
        told = f"diagnosis: {reason['condition']} of {reason['name']}, confidence {reason['confidence']:g}"
        events.append((reason["opened_at"] - acting.begun, told))
        events += [(entry["t"] - acting.begun, f"{action['title']}: {entry['what']}") for entry in action["history"]]
    lines = [f"slurm, {name}", ""]
    lines += [f"  {t:6.1f} s  {what}" for t, what in sorted(events)]
    spans = [
        ("before the fault", 0.0, fault.start),
        ("fault, not acted on", fault.start, steps.get("started_at", fault.stop)),
        ("job is moved", steps.get("started_at", fault.stop), back),
        ("job without the node", back, fault.stop),
        ("fault over", fault.stop, fault.seconds),
    ]
    lines += ["", "  span                          seconds    steps/s acting  observing"]
    for label, start, end in spans:
        if end > start:
            rates = f"{acting.rate(start, end):14.2f}  {observing.rate(start, end):9.2f}"
            lines.append(f"  {label:24}  {start:5.0f}-{end:5.0f}    {rates}")
    done = [round(rig.rate(0.0, fault.seconds) * fault.seconds) for rig in (acting, observing)]
    whole = acting.rate(0.0, fault.start) * fault.seconds
    share = (done[0] - done[1]) / (whole - done[1]) if whole > done[1] else 0.0
    lines += ["", f"  steps: {done[0]} acting, {done[1]} observing, {whole:.0f} without a fault: {share:.0%} recovered"]
    lines += [f"  calls: {call}" for call in (acting.actions[0]["plan"]["calls"] if acting.actions else [])]
    return "\n".join([*lines, *(f"  SHORT: {problem}" for problem in find_problems(acting, fault))])


def draw(name: str, acting: Rig, observing: Rig) -> str:
    """Returns the plot as SVG."""
    fault, steps = FAULTS[name], moments(acting)
    bins = [n * BIN for n in range(int(fault.seconds / BIN))]
    runs = {"acting": acting, "observing": observing}
    lines = {label: [(t + BIN / 2, rig.rate(t, t + BIN)) for t in bins] for label, rig in runs.items()}
    spans = [(fault.start, fault.stop, "fault")]
    if "applied_at" in steps:
        spans.append((steps["applied_at"], steps.get("ended_at", fault.seconds), " " * 12 + "drained by us"))
    return draw_plot(f"slurm, {name}", [Panel("steps of the job per second", lines, spans)], fault.seconds)


def main(arguments: list[str]) -> int:
    """Runs the loops."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("faults", nargs="*", default=list(FAULTS), metavar="straggler|dead-node")
    parser.add_argument("--out", type=Path, default=Path(), help="folder of the plots and of the figures as JSON")
    asked = parser.parse_args(arguments)
    if unknown := set(asked.faults) - FAULTS.keys():
        parser.error(f"unknown fault {min(unknown)!r}")
    if why := missing():
        parser.error(why)
    asked.out.mkdir(parents=True, exist_ok=True)
    short = 0
    for name in asked.faults:
        rigs: dict[str, Rig] = {}
        threads = [threading.Thread(target=run_rig, args=(FAULTS[name], mode, rigs)) for mode in ("act", "observe")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        acting, observing = rigs["act"], rigs["observe"]
        print(describe(name, acting, observing))
        plot = asked.out / f"closed-loop-slurm-{name}.svg"
        plot.write_text(draw(name, acting, observing), encoding="utf-8")
        content = {"seen": acting.seen, "actions": acting.actions, "problems": find_problems(acting, FAULTS[name])}
        plot.with_suffix(".json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        print(f"  plot: {plot}\n")
        short += bool(content["problems"])
    return 1 if short else 0
