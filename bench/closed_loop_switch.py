"""A closed loop over Open vSwitch: an elephant starves the rounds of a RoCE group; it is metered and marked on the DPU.

`python -m bench.closed_loop open-vswitch`. A user-space switch stands for that of a node's DPU: two guests (a member of
the group, and a bulk transfer) share its uplink of 50 Mbit/s. The controller scrapes the counters of the uplink and the
duration of rounds; the agent of the node carries out its signed orders. The elephant ends later; then the limit is
taken back. The same is run with a controller that only observes. Nothing observes the wire here, so it is not known
whether the node only loads weights: a person approves the limit.
"""

import argparse
import json
import math
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import fmean
from typing import Any

import yaml

from bench.closed_loop_person import Person, write_token
from bench.closed_loop_rounds import BULK
from bench.line_plot import Panel, draw_plot
from tests.lab.namespaces import inside, run, within
from tests.support.slurm_cluster import wait_until
from tests.support.switch_lab import BRIDGE, KEY, SwitchLab, address, missing, switch_lab

ROOT = Path(__file__).resolve().parents[1]
MEMBER, PEER, GUEST = "a", "b", "c"
"""Hosts: the member of the group and the bulk transfer behind the DPU, and what is beyond its uplink."""
SPEED = 50
"""Mbit/s of the uplink."""
LIMIT = 8000
"""kbit/s that are left to the elephant."""
AGENT_TOKEN = "agent-of-n0-0123456789abcdef"
PORT = 8470
"""Of the controller, in the switch's namespace, where the thread of a loop is."""
PERSON = Person(f"http://127.0.0.1:{PORT}")
BIN = 2.0


@dataclass(frozen=True)
class Times:
    """When the elephant begins and ends, and the end of the run, s."""

    start: float = 50.0
    stop: float = 125.0
    seconds: float = 200.0
    hold: float = 60.0
    """How long the fault has to be gone before the limit is taken back."""
    traffic_within: float = 30.0
    """How long its effect is not judged: what enters at a port says nothing about a limit."""


@dataclass
class SwitchRun:
    """One run."""

    mode: str
    times: Times = field(default_factory=Times)
    begun: float = 0.0
    """Seconds since 1970 at which the rounds began."""
    rounds: list[tuple[float, float]] = field(default_factory=list)
    """End of each round from there, and its duration, s."""
    bulk: list[tuple[float, int, int]] = field(default_factory=list)
    """Each second: packets of the elephant that arrived, and how many were marked."""
    seen: list[tuple[float, str]] = field(default_factory=list)
    """Seconds, and what is on the switch."""
    actions: list[dict[str, Any]] = field(default_factory=list)

    def rate(self, start: float, end: float) -> float:
        """Returns the rounds per second within a span."""
        return sum(start <= t < end for t, _ in self.rounds) / max(end - start, 1e-9)

    def tail(self, start: float, end: float) -> float:
        """Returns the 95th percentile of the duration of rounds within a span, s; NaN without any."""
        found = sorted(duration for t, duration in self.rounds if start <= t < end)
        return found[int(0.95 * (len(found) - 1))] if found else float("nan")

    def moment(self, name: str) -> float | None:
        """Returns when the first action reached a step, s from the start; None where it did not."""
        value = self.actions[0].get(name) if self.actions else None
        return None if value is None else value - self.begun


@contextmanager
def process(command: list[str], log: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """Runs a process for the duration of a context."""
    with log.open("ab") as told:
        started = subprocess.Popen(command, stdout=told, stderr=told, cwd=ROOT)
    try:
        yield started
    finally:
        started.terminate()
        try:
            started.wait(10)
        except subprocess.TimeoutExpired:
            started.kill()
            started.wait()


def render_page(file: Path, lab: SwitchLab) -> str:
    """Returns the mean duration of the last rounds, and the counters of the uplink, as a page of metrics.

    The device of the uplink stands for the physical port: it counts what has passed its rate limit.
    """
    lines = file.read_text().splitlines()[-200:] if file.exists() else []
    rows = [tuple(map(float, line.split())) for line in lines if len(line.split()) == 2]
    recent = [duration for t, duration in rows if t > time.time() - 2.0]
    show = ["ip", "-n", lab.space, "-j", "-s", "link", "show", "dev", lab.port(PEER)]
    counters = json.loads(subprocess.run(show, capture_output=True, timeout=5, check=True).stdout)[0]["stats64"]
    page = [f'skewscope_port_{way}_bytes_total{{node="n0",port="p0"}} {counters[way]["bytes"]}' for way in ("rx", "tx")]
    page += [f'skewscope_step_duration{{group="roce"}} {fmean(recent):.5f}'] if recent else []
    return "\n".join([*page, ""])


@contextmanager
def round_page(file: Path, lab: SwitchLab) -> Iterator[int]:
    """Serves the page; yields its port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            text = render_page(file, lab)
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()


def agent_config(lab: SwitchLab, port: int) -> dict[str, Any]:
    """Returns the config of the agent, which carries out orders and observes nothing."""
    off = dict.fromkeys(("proc", "hwmon", "devlink", "infiniband", "ethtool"), "off")
    return {
        "version": 1,
        "node": "n0",
        "listen": "off",
        "topology": "topology.yaml",
        "ports": {lab.port(PEER): "p0"},
        "collect": off,
        "controllers": [{"url": f"http://127.0.0.1:{port}", "token_file": "agent"}],
        "orders": {
            "key_file": "orders.key",
            "kinds": ["limit", "mark"],
            "bridges": [BRIDGE],
            "lowest_rate": 1000,
            "folder": str(lab.folder),
        },
    }


def write_configs(folder: Path, lab: SwitchLab, run: SwitchRun, page: int, port: int) -> None:
    """Writes topology, key, tokens, and the configs of controller and agent."""
    for name, text in {"agent": AGENT_TOKEN, "orders.key": KEY}.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o600)
    uplink = {"name": "p0", "network": "north-south", "speed": f"{SPEED} Mbit/s", "devices": [lab.port(PEER)]}
    topology = {
        "version": 1,
        "nodes": [{"name": "n0", "ports": [uplink]}, {"name": "n1"}],
        "groups": [{"name": "roce", "kind": "data-parallel", "members": ["n0", "n1"]}],
    }
    flow = {"protocol": "udp", "destination_port": BULK, "in_port": lab.port(GUEST)}
    switch = {
        "kind": "open-vswitch",
        "name": "dpu",
        "node": "n0",
        "bridge": BRIDGE,
        "key": {"file": "orders.key"},
        "members": {"n0/p0": lab.port(PEER)},
        "flows": [flow],
        "rate": LIMIT,
        "burst": LIMIT // 10,
        "mark": True,
    }
    timing = {"hold": run.times.hold, "traffic_within": run.times.traffic_within, "grace": 5.0}
    controller = {
        "version": 1,
        "topology": "topology.yaml",
        "listen": {"port": port},
        "auth": {"tokens": write_token(folder)},
        "agents": {"tokens": [{"node": "n0", "file": "agent"}]},
        "sources": [
            {
                "kind": "scrape",
                "name": "rounds",
                "targets": [{"targets": [f"127.0.0.1:{page}"], "labels": {"node": "n0"}}],
                "period": 1,
                "reports_for": ["n0", "roce"],
            }
        ],
        "targets": [switch],
        "actions": {
            "mode": run.mode,
            "confidence": 0.7,
            "timing": timing,
            "acknowledge": {"no_shadow_evidence": "a bench"},
        },
    }
    for name, content in {"topology": topology, "skewscope": controller, "agent": agent_config(lab, port)}.items():
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(content, sort_keys=False))


def run_loop(mode: str, times: Times) -> SwitchRun:
    """Runs the loop with a controller in one mode."""
    found = SwitchRun(mode, times)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="closed-loop-switch.")))
        lab = stack.enter_context(switch_lab(folder))
        shape = f"dev {lab.port(PEER)} root tbf rate {SPEED}mbit burst 32kb latency 20ms"
        run("tc", "-n", lab.space, "qdisc", "replace", *shape.split())
        stack.enter_context(within(lab.space))
        rounds = folder / "rounds"
        write_configs(folder, lab, found, stack.enter_context(round_page(rounds, lab)), PORT)
        cli = [sys.executable, "-c", "from skewscope.tui.cli.main import main; main()", "run", "--config"]
        command = inside(lab.space, *cli, str(folder / "skewscope.yaml"))
        stack.enter_context(process(command, folder / "controller.log"))
        wait_until(lambda: PERSON.ask("/readyz") is not None, "controller", 60)
        agent = [sys.executable, "-m", "skewscope.adapters.agent", "--config", str(folder / "agent.yaml")]
        stack.enter_context(process(inside(lab.space, *agent), folder / "agent.log"))
        for host, role, to in ((PEER, "receive", PEER), (PEER, "sink", PEER), (MEMBER, "send", PEER)):
            stack.enter_context(traffic(lab, folder, host, role, to))
        wait_until(rounds.exists, "first round")
        found.begun = time.time()
        watch(found, lab, folder)
        told = PERSON.ask("/api/v1/actions")
        found.actions = json.loads(told)["actions"][::-1] if told else []
        read_traffic(found, folder)
    return found


@contextmanager
def traffic(lab: SwitchLab, folder: Path, host: str, role: str, to: str) -> Iterator[None]:
    """Runs one side of the traffic in the namespace of a host."""
    file = folder / ("rounds" if role == "send" else role)
    command = [sys.executable, "-m", "bench.closed_loop_rounds", role, address(to), str(file)]
    with process(inside(lab.host(host), *command), folder / f"{role}.log"):
        yield


def watch(found: SwitchRun, lab: SwitchLab, folder: Path) -> None:
    """Lets the elephant run for its time, and notes what is on the switch."""
    last = "no flow of ours"
    with ExitStack() as stack:
        elephant = None
        while (t := time.time() - found.begun) < found.times.seconds:
            if elephant is None and found.times.start <= t < found.times.stop:
                elephant = stack.enter_context(ExitStack())
                elephant.enter_context(traffic(lab, folder, GUEST, "elephant", PEER))
            if elephant is not None and t >= found.times.stop:
                elephant.close()
            flows = [line.split("priority=")[1] for line in lab.flows()]
            now = "; ".join(flows) or "no flow of ours"
            if now != last:
                found.seen.append((t, now))
                last = now
            if found.mode == "act":
                PERSON.approve_proposals()
            time.sleep(0.5)


def read_traffic(found: SwitchRun, folder: Path) -> None:
    """Adds what members and sink have noted."""
    for line in (folder / "rounds").read_text().splitlines():
        t, duration = map(float, line.split())
        found.rounds.append((t - found.begun, duration))
    for line in (folder / "sink").read_text().splitlines():
        when, packets, marked = line.split()
        found.bulk.append((float(when) - found.begun, int(packets), int(marked)))


# --- the report


def marked_share(found: SwitchRun, start: float, end: float) -> float:
    """Returns the share of the elephant's packets within a span that were marked; NaN without any."""
    inside_span = [(packets, marked) for t, packets, marked in found.bulk if start <= t < end]
    total = sum(packets for packets, _ in inside_span)
    return sum(marked for _, marked in inside_span) / total if total else float("nan")


def healthy_rate(acting: SwitchRun) -> float:
    """Returns the rounds per second without the elephant, before and after it: a busy machine drifts."""
    times = acting.times
    return fmean((acting.rate(5, times.start), acting.rate(times.stop + 2, times.seconds)))


def find_problems(acting: SwitchRun) -> list[str]:
    """Returns what falls short of the aims."""
    applied, ended = acting.moment("applied_at"), acting.moment("ended_at")
    if applied is None:
        return ["no limit was set"]
    found = []
    start, stop = acting.times.start, acting.times.stop
    healthy = healthy_rate(acting)
    if acting.rate(start + 3, applied) > 0.8 * healthy:
        found.append("the elephant starved nothing")
    if acting.rate(applied + 2, stop) < 0.9 * healthy:
        found.append("rounds are not back within 10 % of healthy")
    if not marked_share(acting, applied + 2, stop) > 0.99:
        found.append("the elephant was not marked")
    if acting.actions[0]["state"] != "undone" or ended is None:
        found.append(f"the action ended as {acting.actions[0]['state']}")
    if not acting.seen or acting.seen[-1][1] != "no flow of ours":
        found.append("flows are left on the switch")
    if len(acting.actions) > 1:
        found.append(f"{len(acting.actions) - 1} further actions")
    return found


def describe(acting: SwitchRun, observing: SwitchRun) -> str:
    """Returns events and table as text."""
    start, stop, seconds = acting.times.start, acting.times.stop, acting.times.seconds
    applied, ended = (acting.moment(name) or stop for name in ("applied_at", "ended_at"))
    events = [(start, f"fault: an elephant of 60 Mbit/s on an uplink of {SPEED} Mbit/s"), (stop, "end of the elephant")]
    events += [(t, f"switch: {seen}") for t, seen in acting.seen]
    for action in acting.actions:
        reason = action["reason"]
        told = f"diagnosis: {reason['condition']} of {reason['name']}, confidence {reason['confidence']:g}"
        events.append((reason["opened_at"] - acting.begun, told))
        events += [(entry["t"] - acting.begun, f"{action['title']}: {entry['what']}") for entry in action["history"]]
    lines = ["open-vswitch: an elephant beside the rounds of a RoCE group", ""]
    lines += [f"  {t:6.1f} s  {what}" for t, what in sorted(events)]
    spans = [
        ("before", 0.0, start),
        ("elephant, not limited", start, applied),
        ("elephant, limited", applied + 2, stop),
        ("over, still limited", stop, max(ended, stop)),
        ("after the undo", max(ended, stop), seconds),
    ]
    lines += ["", "  span                      seconds      rounds/s            p95 ms         elephant marked"]
    lines.append("                                       acting  observing   acting  observing")
    for label, begin, end in spans:
        if end - begin < 1:
            continue
        numbers = [acting.rate(begin, end), observing.rate(begin, end)]
        tails = [1000 * each.tail(begin, end) for each in (acting, observing)]
        row = f"{numbers[0]:6.1f}  {numbers[1]:9.1f}   {tails[0]:6.0f}  {tails[1]:9.0f}"
        share = marked_share(acting, begin, end)
        lines.append(
            f"  {label:22}  {begin:5.1f}-{end:5.1f}   {row}   {'-' if math.isnan(share) else f'{share:14.0%}'}"
        )
    kept = acting.rate(applied + 2, stop) / healthy_rate(acting)
    lines += ["", f"  while the elephant is limited: {kept:.0%} of the rounds without it, before and after"]
    counts = [len([1 for t, _ in each.rounds if 0 <= t < seconds]) for each in (acting, observing)]
    whole = acting.rate(0, start) * seconds
    share = (counts[0] - counts[1]) / (whole - counts[1]) if whole > counts[1] else 0.0
    lines += ["", f"  rounds: {counts[0]} acting, {counts[1]} observing: {share:.0%} of the loss recovered"]
    lines += [f"  call: {call}" for call in (acting.actions[0]["plan"]["calls"] if acting.actions else [])]
    return "\n".join([*lines, *(f"  SHORT: {problem}" for problem in find_problems(acting))])


def draw(acting: SwitchRun, observing: SwitchRun) -> str:
    """Returns the plot as SVG."""
    seconds = acting.times.seconds
    bins = [n * BIN for n in range(int(seconds / BIN))]
    runs = {"acting": acting, "observing": observing}
    rates = {name: [(t + BIN / 2, each.rate(t, t + BIN)) for t in bins] for name, each in runs.items()}
    bulk = {
        name: [(t, packets * 1428 * 8 / 1e6) for t, packets, _ in each.bulk if t >= 0] for name, each in runs.items()
    }
    spans = [(acting.times.start, acting.times.stop, "elephant")]
    applied, ended = acting.moment("applied_at"), acting.moment("ended_at")
    if applied is not None:
        spans.append((applied, ended if ended is not None else seconds, " " * 16 + "metered and marked"))
    panels = [
        Panel("rounds of the group per second", rates, spans),
        Panel("elephant that arrives, Mbit/s", bulk, spans),
    ]
    return draw_plot("open-vswitch: an elephant beside a RoCE group", panels, seconds)


def main(arguments: list[str]) -> int:
    """Runs the loop."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(), help="folder of the plot and of the figures as JSON")
    asked = parser.parse_args(arguments)
    if why := missing():
        parser.error(why)
    asked.out.mkdir(parents=True, exist_ok=True)
    acting, observing = run_loop("act", Times()), run_loop("observe", Times())
    print(describe(acting, observing))
    plot = asked.out / "closed-loop-open-vswitch.svg"
    plot.write_text(draw(acting, observing), encoding="utf-8")
    problems = find_problems(acting)
    content = {"seen": acting.seen, "actions": acting.actions, "problems": problems}
    plot.with_suffix(".json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    print(f"  plot: {plot}")
    return 1 if problems else 0
