"""Measures a fleet in shards on Ray: `python -m bench.fleet_shards scale|kills`. It needs `skewscope[fleet]`.

`scale` judges one simulated fleet in one process, and then cut into 1, 2, 4, ... shards: samples a second and core,
memory, the cost of a shard against the single process, the size of a snapshot, and whether one shard finds the same
incidents, byte by byte. Making the samples is not timed. `kills` runs a controller and its shards as processes, sends
the rows of the demo recording in real time, kills shards and controller meanwhile, and compares what was stored with
an undisturbed run.
"""

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

from bench.test_bench_large import KNOWN, NODES, Source
from skewscope.adapters.agent.push import PushSender
from skewscope.adapters.controller.store import StoreReader
from skewscope.adapters.fleet.journal import Journal
from skewscope.adapters.fleet.ray_shards import connect_ray
from skewscope.adapters.fleet.shard_engine import ShardEngine
from skewscope.adapters.formats.row_protocol import HelloFrame, RowFrame, decode
from skewscope.adapters.formats.topology_text import format_topology
from skewscope.adapters.runtime.channel import ControllerEndpoint
from tests.adapters.fleet.shards import demo_rows, demo_topology
from tests.adapters.fleet.undisturbed import undisturbed

WARM = 50
"""Ticks before the timed ones: windows fill, faults begin."""
SICK_COPIES = 7
"""Parts of the fleet with faults: one has faults, the others hang on a congested leaf."""
READY_S = 90.0
"""Seconds that a controller may take to start on a busy machine."""


class Judged:
    """One shard with its simulated agents; `run` times the judging alone."""

    def __init__(self, copies: int, sick: bool) -> None:
        self.source = Source(copies, sick)
        self.shard = ShardEngine(self.source.topology, KNOWN)

    def run(self, ticks: int, warm: int) -> dict:
        took = []
        for _ in range(warm + ticks):
            frame = self.source.frame()
            begun = time.process_time()
            self.shard.step(frame.time, None, [frame])
            took.append(time.process_time() - begun)
        begun = time.process_time()
        with tempfile.TemporaryDirectory() as folder:
            journal = Journal(Path(folder) / "journal", self.shard.fingerprint)
            journal.open()
            journal.write_snapshot(self.shard.dump())
            written = time.process_time() - begun
            size = sum(path.stat().st_size for path in journal.folder.glob("snapshot-*"))
        return {
            "nodes": len(self.source.topology.nodes),
            "series": self.source.size,
            "tick": float(np.median(took[warm:])),
            "total": float(np.sum(took[warm:])),
            "dump": written,
            "size": size,
            "memory": memory(),
            "lines": [one.as_line() for one in self.shard.list_incidents()],
        }


def memory() -> float:
    """Returns the memory of the process, in GiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**30


def scale(copies: int, most: int, ticks: int, warm: int) -> None:
    """Prints a row for the single process, and one for each number of shards."""
    load = os.getloadavg()[0]
    print(f"{os.cpu_count()} cores, load {load:.1f} before; {copies * NODES} healthy nodes in all")
    single = in_process(copies, ticks, warm, sick=False)
    print(describe("one process", [single], single, 0.0))
    ray = connect_ray("local")
    judged = ray.remote(Judged)
    shards = 1
    while shards <= min(most, copies):
        actors = [judged.options(num_cpus=0).remote(copies // shards, sick=False) for _ in range(shards)]
        begun = time.perf_counter()
        found = ray.get([actor.run.remote(ticks, warm) for actor in actors])
        print(describe(f"{shards} shard{'s' * (shards > 1)}", found, single, time.perf_counter() - begun), flush=True)
        for actor in actors:
            ray.kill(actor)
        shards *= 2
    sick = in_process(SICK_COPIES, ticks, WARM, sick=True)
    found = ray.get(judged.options(num_cpus=0).remote(SICK_COPIES, sick=True).run.remote(ticks, WARM))
    same, count = found["lines"] == sick["lines"], len(sick["lines"])
    print(f"{SICK_COPIES * NODES} nodes with faults, one shard: the same {count} incidents, byte by byte: {same}")
    print(f"load {os.getloadavg()[0]:.1f} after")
    ray.shutdown()


def in_process(copies: int, ticks: int, warm: int, *, sick: bool) -> dict:
    code = "import json; from bench.fleet_shards import Judged; "
    code += f"print(json.dumps(Judged({copies}, {sick}).run({ticks}, {warm})))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def describe(name: str, found: list[dict], single: dict, wall: float) -> str:
    series, total = sum(one["series"] for one in found), sum(one["tick"] for one in found)
    per_core = series / total
    cost = total / series / (single["tick"] / single["series"])
    return (
        f"{name:12} {series / 1e6:6.2f} M series, {1000 * max(one['tick'] for one in found):6.0f} ms a tick (slowest),"
        f" {per_core / 1e6:6.1f} M samples/s and core, cost a series {cost:5.2f} of the single process,"
        f" {sum(one['memory'] for one in found):5.2f} GiB, snapshot {max(one['dump'] for one in found):.2f} s"
        f" {max(one['size'] for one in found) / 1e6:.0f} MB" + (f", {wall:.0f} s in all" if wall else "")
    )


# --- kills


def hold() -> None:
    """Keeps a Ray until its input ends; prints its address."""
    ray = connect_ray("local")
    print(ray.get_runtime_context().gcs_address, flush=True)
    sys.stdin.read()


class Controller:
    """A controller process, which may be killed and started again."""

    def __init__(self, folder: Path, address: str) -> None:

        self.folder = folder
        self.port = free_port()
        (folder / "topology.yaml").write_text(format_topology(demo_topology()))
        (folder / "skewscope.yaml").write_text(
            f"version: 1\ntopology: topology.yaml\nlisten: {{port: {self.port}}}\n"
            f"store: {{path: store.db}}\nfleet: {{state: shards, ray: '{address}', cpus: 0.1}}\n"
        )
        self.process = self._start()

    def _start(self) -> subprocess.Popen:
        command = [
            sys.executable,
            "-m",
            "skewscope.tui.cli.main",
            "run",
            "--config",
            str(self.folder / "skewscope.yaml"),
        ]
        return subprocess.Popen(command, stderr=(self.folder / "log").open("ab"))

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process = self._start()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


def shard_pid() -> int:
    """Returns the process id of the shard; 0 while there is none."""
    found = subprocess.run(
        ["pgrep", "-f", "^ray::ShardServer"], capture_output=True, text=True, check=False
    ).stdout.split()
    return int(found[-1]) if found else 0


def kills(shard_period: float, controller_period: float) -> None:
    """Sends the demo's rows in real time while shard and controller are killed; prints what was stored."""

    # It listens for a minute on this machine; with tokens each process would have to know that of this Ray.
    os.environ["RAY_AUTH_MODE"] = "disabled"
    held = subprocess.Popen(
        [sys.executable, "-m", "bench.fleet_shards", "hold"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    folder = Path(tempfile.mkdtemp())
    try:
        controller = Controller(folder, held.stdout.readline().strip())
        rows = demo_rows()
        keys = {f[0].node: f[1].series for f in (list(decode(body)) for _, body in rows[0][1])}
        senders = {
            node: PushSender(
                ControllerEndpoint(f"http://127.0.0.1:{controller.port}"), HelloFrame(node, "b", "bench"), 1 << 24
            )
            for node in keys
        }
        begun = time.monotonic()
        while not shard_pid():
            if time.monotonic() - begun > READY_S:
                raise SystemExit((folder / "log").read_text()[-2000:])
            time.sleep(0.2)
        time.sleep(5.0)
        for sender in senders.values():
            sender.start()
        start = int(time.time()) + 2
        shift = start - rows[0][0]
        count, next_shard, next_controller = Counter(), start + shard_period, start + controller_period
        for t, bodies in rows:
            time.sleep(max(t + shift - 0.4 - time.time(), 0))
            for node, body in bodies:
                row = next(f for f in decode(body) if isinstance(f, RowFrame))
                senders[node].add(RowFrame(row.sequence, row.time + shift, 0, row.values), list(keys[node]))
            now = time.time()
            if now > next_shard and (pid := shard_pid()):
                os.kill(pid, signal.SIGKILL)
                next_shard, count["shard"] = now + shard_period, count["shard"] + 1
            if now > next_controller:
                controller.kill()
                next_controller, count["controller"] = now + controller_period, count["controller"] + 1
        begun = time.monotonic()
        while any(sender.backlog.rows for sender in senders.values()) and time.monotonic() - begun < READY_S:
            time.sleep(0.5)
        time.sleep(10.0)
        waiting = {node: len(sender.backlog.rows) for node, sender in senders.items()}
        events = [(e.incident, e.t - shift, e.what) for e in StoreReader(folder / "store.db").events(0)]
        found = StoreReader(folder / "store.db").incidents()
    finally:
        controller.process.kill()
        held.stdin.close()
        held.wait(20)
    report(count, waiting, events, found)


def report(count: Counter, waiting: dict, events: list, found: list) -> None:

    print(f"killed: {dict(count)}; rows that still wait with agents: {sum(waiting.values())}")
    wanted_events, wanted = undisturbed()
    twice = [event for event, n in Counter(events).items() if n > 1]
    print(f"said twice: {len(twice)}; events {len(events)}, undisturbed {len(wanted_events)}")
    missing = Counter(what.split()[0] for _, _, what in wanted_events) - Counter(
        what.split()[0] for _, _, what in events
    )
    print(f"kinds of events that lack: {dict(missing)}")
    print(f"incidents {len(found)}, undisturbed {len(wanted)}")
    places = [{(one["condition"], one["entity"]["name"]) for one in some} for some in (found, wanted)]
    print(f"lost: {sorted(places[1] - places[0])}; more: {sorted(places[0] - places[1])}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("scale", "kills", "hold"))
    parser.add_argument(
        "--copies", type=int, default=8, help=f"parts of {NODES} nodes of the simulated fleet (default: 8)"
    )
    parser.add_argument("--most", type=int, default=16, help="the largest number of shards (default: 16)")
    parser.add_argument("--warm", type=int, default=WARM, help=f"ticks before the timed ones (default: {WARM})")
    parser.add_argument("--ticks", type=int, default=20, help="timed ticks (default: 20)")
    parser.add_argument("--shards-every", type=float, default=20.0, help="seconds between kills of a shard")
    parser.add_argument(
        "--controller-every", type=float, default=35.0, help="seconds between two kills of the controller"
    )
    options = parser.parse_args()
    if options.what == "scale":
        scale(options.copies, options.most, options.ticks, options.warm)
    elif options.what == "kills":
        kills(options.shards_every, options.controller_every)
    else:
        hold()


if __name__ == "__main__":
    main()
