"""Measures a controller with a thousand agents: cores, memory, lost rows, delay of a diagnosis.

`pytest -s bench/test_bench_controller.py` prints the figures. Controller and agents are processes on the same machine;
the agents are one process of coroutines with a connection each, which needs about one core. Each agent has 8
interfaces and 8 GPUs and pushes all signals of the catalogue that a node has for these: about 1,600 values a second, of
which rules read six in ten. Counters of bytes and packets grow at random, the rest is constant. Half-way the host
counters of one node stop; the rule `telemetry-blackout-of-a-node` fires after 10 s of silence and 3 s of hold.

Processor time is that of `/proc` for the controller and its children, after the start. `NODES`,
`SECONDS` and `RECORD` (1: also record everything) choose what is run.
"""

import json
import os
import platform
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

NODES, SECONDS = int(os.environ.get("NODES", "1000")), int(os.environ.get("SECONDS", "60"))
RECORD = os.environ.get("RECORD", "") == "1"
PORTS, GPUS, GROUP = 8, 8, 8
SETTLED = 0.6
TICKS = os.sysconf("SC_CLK_TCK")


def topology(nodes: int) -> dict:
    """Returns a topology with groups of eight nodes."""
    ports = [
        {"name": f"p{n}", "network": "north-south" if n == 0 else "east-west", "speed": "200Gbps"} for n in range(PORTS)
    ]
    names = [f"n{n}" for n in range(nodes)]
    return {
        "version": 1,
        "nodes": [{"name": name, "gpus": GPUS, "ports": ports} for name in names],
        "groups": [
            {"name": f"g{at}", "kind": "tensor-parallel", "members": names[at : at + GROUP]}
            for at in range(0, nodes, GROUP)
        ],
    }


def used(pid: int) -> float:
    """Returns the processor seconds of a process."""
    parts = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, parts[11:15])) / TICKS


def memory(pid: int, what: str) -> float:
    """Returns the memory of a process in MiB: now (VmRSS) or its peak (VmHWM)."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(what)) / 1024


def children(pid: int) -> list[int]:
    """Returns the child processes of a process."""
    return [int(n) for task in Path(f"/proc/{pid}/task").iterdir() for n in (task / "children").read_text().split()]


def metric(page: str, name: str) -> float:
    """Returns one of the controller's own metrics."""
    return sum(float(line.rsplit(" ", 1)[1]) for line in page.splitlines() if line.startswith(name))


def test_a_thousand_agents(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (tmp_path / "topology.yaml").write_text(json.dumps(topology(NODES)))
    config = {"version": 1, "topology": "topology.yaml", "listen": {"port": port}}
    if RECORD:
        config["record"] = {"path": "recorded"}
    (tmp_path / "skewscope.yaml").write_text(json.dumps(config))
    command = [sys.executable, "-m", "skewscope.tui.cli.main", "run", "--config", str(tmp_path / "skewscope.yaml")]
    log = (tmp_path / "controller.log").open("w")
    controller = subprocess.Popen(command, stderr=log, cwd=tmp_path)
    try:
        wait_for(port, controller)
        load = subprocess.Popen(
            [sys.executable, "-m", "bench.fleet_load", str(port), str(NODES), str(SECONDS)], stdout=subprocess.PIPE
        )
        begun = None
        slept = time.time()
        while load.poll() is None:
            time.sleep(0.5)
            if begun is None and time.time() - slept > 3 + SECONDS * SETTLED:
                begun = time.time(), sum(map(used, [controller.pid, *children(controller.pid)])), page(port)
        after = time.time(), sum(map(used, [controller.pid, *children(controller.pid)])), page(port)
        told = json.loads(load.stdout.read())
        time.sleep(2.0)
        values = metric(page(port), "skewscope_source_values_total")
        dropped = metric(page(port), "skewscope_source_dropped")
        found = json.loads(get(port, "/api/v1/incidents"))["incidents"]
        opened = [one for one in found if one["condition"] == "telemetry-blackout"]
        report = {
            "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
            "agents": NODES,
            "values a second": round(values / SECONDS),
            "series the engine knows": metric(after[2], "skewscope_series "),
            "cores": round((after[1] - begun[1]) / (after[0] - begun[0]), 2),
            "of that, ticks": round(metric(after[2], "skewscope_tick_seconds"), 3),
            "MiB": round(memory(controller.pid, "VmRSS")),
            "MiB at most": round(memory(controller.pid, "VmHWM")),
            "rows sent": told["sent"],
            "values lost": round(told["sent"] * told["columns"] - values + dropped),
            "values lost, settled": round(dropped - metric(begun[2], "skewscope_source_dropped")),
            "ticks skipped, all": metric(after[2], "skewscope_ticks_skipped"),
            "ticks skipped, settled": metric(after[2], "skewscope_ticks_skipped")
            - metric(begun[2], "skewscope_ticks_skipped"),
            "late": metric(after[2], "skewscope_samples_late"),
            "load": told,
            "blackout": [(one["entity"]["name"], one["opened_at"]) for one in opened],
            "others": sorted({one["condition"] for one in found} - {"telemetry-blackout"}),
        }
        for name, value in report.items():
            print(f"{name}: {value}")
        if opened:
            when = time.strftime("%H:%M:%S", time.gmtime(told["silent_since"]))
            print(f"silent since: {when}")
    finally:
        controller.send_signal(signal.SIGTERM)
        controller.wait(60)
        log.close()
        print((tmp_path / "controller.log").read_text()[-2000:])


def get(port: int, path: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
        return answer.read().decode()


def page(port: int) -> str:
    return get(port, "/metrics")


def wait_for(port: int, controller: subprocess.Popen) -> None:
    while controller.poll() is None:
        try:
            get(port, "/readyz")
        except OSError:
            time.sleep(0.2)
        else:
            return
    raise RuntimeError("the controller did not start")
