"""Kills shard and controller of a fleet while faults fire: `python -m bench.fleet_kills`. It needs `skewscope[fleet]`.

Two sites, each a shard on Ray, are joined by one controller. Agents send the rows of the demo recording in real time,
again and again, so that faults begin and end all the time; the second site has the same telemetry of nodes and ports.
The shard of the first site and the controller are killed (SIGKILL) at random moments. For each kill the seconds are
printed until it is back: a shard has all rows of its agents and judges again, without a tick missed; a controller
answers `/readyz`. At the end what was stored is compared with what one process stores that nobody disturbs, and the
ticks of both shards are counted.
"""

import argparse
import math
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from skewscope.adapters.agent.push import PushSender
from skewscope.adapters.controller.agent_receiver import AgentReceiver
from skewscope.adapters.controller.store import StoreReader
from skewscope.adapters.fleet.ray_shards import NAMESPACE
from skewscope.adapters.formats.row_protocol import HelloFrame, RowFrame, SeriesFrame, decode, encode
from skewscope.adapters.formats.topology_text import format_topology
from skewscope.adapters.runtime.channel import ControllerEndpoint
from skewscope.engine.ingest.feed import SeriesKey
from tests.adapters.controller.fleets import demo, working
from tests.adapters.fleet.shards import SECONDS, StillClock, demo_rows
from tests.adapters.fleet.test_fleet_controller import two_sites

READY_S = 120.0
"""Seconds that a process may take to start on a busy machine."""
STORE_BYTES = 256 << 20
GRACE = 0.25
ROW_LEAD = 0.4
"""Seconds before the end of a tick when rows are sent."""
SETTLED_S = 15.0
"""Seconds after the last kill before the run ends."""
LATE_S = 3.0


@dataclass
class Nodes:
    """The agents of both sites, and what they have sent."""

    series: dict[str, list] = field(default_factory=dict)
    """By node: the keys of its series."""
    columns: dict[str, tuple[str, np.ndarray]] = field(default_factory=dict)
    """By node of the second site: the node of the demo, and which of its values are sent."""
    sent: list[tuple[float, int]] = field(default_factory=list)
    """The end of each tick, and the number of its rows in the demo."""
    late: int = 0
    """Ticks whose rows were handed to the agents after the grace: this machine was too busy, and nothing was lost."""

    @classmethod
    def of_demo(cls) -> "Nodes":
        found = cls()
        for node, body in demo_rows()[0][1]:
            keys = next(list(frame.series) for frame in decode(body) if isinstance(frame, SeriesFrame))
            found.series[node] = keys
            own = [n for n, key in enumerate(keys) if key.kind in ("node", "port") and key.entity.startswith(node)]
            found.columns[f"b-{node}"] = node, np.array(own, np.intp)
            found.series[f"b-{node}"] = [replace_entity(keys[n]) for n in own]
        return found

    def rows(self, t: float, number: int) -> Iterator[tuple[str, RowFrame]]:
        """Yields the rows of the tick that ends at `t`, of all nodes."""
        values = {
            node: next(frame.values for frame in decode(body) if isinstance(frame, RowFrame))
            for node, body in demo_rows()[number][1]
        }
        sequence = round(t)
        for node, (whose, own) in self.columns.items():
            yield whose, RowFrame(sequence, t - 0.5, 0, values[whose])
            yield node, RowFrame(sequence, t - 0.5, 0, values[whose][own])


def replace_entity(key: SeriesKey) -> SeriesKey:
    return SeriesKey(key.signal, key.kind, f"b-{key.entity}", key.selector)


class Controller:
    """A controller process, which may be killed and started again."""

    def __init__(self, folder: Path, address: str) -> None:
        self.folder = folder
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port = probe.getsockname()[1]
        (folder / "topology.yaml").write_text(format_topology(two_sites()))
        (folder / "skewscope.yaml").write_text(
            f"version: 1\ntopology: topology.yaml\nlisten: {{port: {self.port}}}\nstore: {{path: store.db}}\n"
            f"fleet: {{state: shards, ray: '{address}', cpus: 0.1, least: 1, nodes: 100, most: 100}}\n"
        )
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "skewscope.tui.cli.main", "run", "--config"]
        command.append(str(self.folder / "skewscope.yaml"))
        self.process = subprocess.Popen(command, stderr=(self.folder / "log").open("ab"))

    def is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=2.0) as answer:
                return answer.status == 200
        except (OSError, urllib.error.URLError):
            return False

    def kill(self) -> tuple[float, float]:
        """Kills it and starts it again; returns the seconds until it is ready, and those of the processor."""
        begun = time.monotonic()
        self.process.kill()
        self.process.wait()
        self.start()
        wait_for(self.is_ready)
        return time.monotonic() - begun, cpu_seconds(self.process.pid)


def cpu_seconds(pid: int) -> float:
    """Returns the processor seconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def wait_for(found) -> None:
    begun = time.monotonic()
    while not found():
        if time.monotonic() - begun > READY_S:
            raise SystemExit("it does not come back")
        time.sleep(0.05)


class Shards:
    """The actors of the fleet, asked past the controller."""

    def __init__(self, ray) -> None:
        self.ray = ray
        wait_for(lambda: len(ray.util.list_named_actors(all_namespaces=True)) >= 2)
        names = [one["name"] for one in ray.util.list_named_actors(all_namespaces=True)]
        self.actors = {name.split("-")[1]: ray.get_actor(name, NAMESPACE) for name in names}
        wait_for(lambda: all(math.isfinite(self.report(name).t) for name in self.actors))
        self.begun = {name: self.report(name) for name in self.actors}

    def report(self, name):
        return self.ask(self.actors[name].poll, 0, "")

    def pid(self, name: str) -> int:
        return self.ask(self.actors[name].identify)[0]

    def ask(self, method, *args):
        return self.ray.get(method.options(max_task_retries=-1).remote(*args), timeout=READY_S)

    def kill(self, name: str, senders: dict[str, PushSender]) -> tuple[float, float]:
        """Kills the process of a shard; returns the seconds until all rows are there and no due tick is missing.

        And the processor seconds that the new process took: on a busy machine they say more.
        """
        begun, pid = time.monotonic(), self.pid(name)
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: self.pid(name) != pid)
        answers = time.monotonic() - begun
        wait_for(lambda: all(len(one.backlog.rows) <= 1 for one in senders.values()))
        rows = time.monotonic() - begun
        due = math.floor(time.time() - GRACE)
        wait_for(lambda: self.report(name).t >= due)
        print(f"    answers after {answers:.2f} s, has all rows after {rows:.2f} s, judges again:")
        return time.monotonic() - begun, cpu_seconds(self.pid(name))

    def skipped(self, name: str) -> tuple[int, bool]:
        """Returns the number of ticks that a shard did not judge since the begin, and whether its life is the same."""
        first, last = self.begun[name], self.report(name)
        return round(last.t - first.t) - (last.last_number - first.last_number), first.life == last.life


def send(nodes: Nodes, senders: dict[str, PushSender], stop: threading.Event) -> None:
    """Sends the rows of the demo, again and again, with the clock."""
    t = float(math.floor(time.time()) + 2)
    number = 0
    while not stop.is_set():
        stop.wait(max(t - ROW_LEAD - time.time(), 0))
        for node, row in nodes.rows(t, number):
            senders[node].add(row, list(nodes.series[node]))
        nodes.sent.append((t, number))
        nodes.late += time.time() > t + GRACE
        t, number = t + 1.0, (number + 1) % len(demo_rows())


def disturb(
    controller: Controller, shards: Shards, senders, kills: tuple[int, int], pause: float, seed: int
) -> Counter:
    """Kills shard and controller in a random order; prints how long each is away. Returns the slowest of each."""
    chance, first = random.Random(seed), min(shards.actors)
    order = ["shard"] * kills[0] + ["controller"] * kills[1]
    chance.shuffle(order)
    took: dict[str, list[float]] = {"shard": [], "controller": []}
    cpu: dict[str, list[float]] = {"shard": [], "controller": []}
    for number, what in enumerate(order, 1):
        time.sleep(pause * chance.uniform(0.5, 1.5))
        wall, used = shards.kill(first, senders) if what == "shard" else controller.kill()
        took[what].append(wall)
        cpu[what].append(used)
        load = os.getloadavg()[0]
        print(f"{number:3} {what:10} back after {wall:5.2f} s, {used:.2f} s of a core, load {load:.1f}", flush=True)
    for what, all_ in took.items():
        if all_:
            print(
                f"{what}: killed {len(all_)} times; back after {np.median(all_):.2f} s (median),"
                f" {np.median(cpu[what]):.2f} s of a core, at most {max(all_):.2f} s;"
                f" {sum(one > LATE_S for one in all_)} times after more than {LATE_S:g} s"
            )


def undisturbed(nodes: Nodes, folder: Path) -> Path:
    """Returns the store of one process that gets the same rows, each in its time."""
    clock = StillClock()
    recording = demo(SECONDS)[0]
    with working(folder, replace_topology(recording)) as pipeline:
        receiver = AgentReceiver(two_sites(), clock)
        announced = False
        for t, number in nodes.sent:
            clock.time = t - ROW_LEAD
            for node, row in nodes.rows(t, number):
                news = [] if announced else [SeriesFrame(0, 0, tuple(nodes.series[node]))]
                receiver.receive(encode([HelloFrame(node, "b", "bench"), *news, row]))
            announced = True
            pipeline.step(t, {"agents": receiver.sink.take()})
        pipeline.store.close()
    return folder / "store.db"


def replace_topology(recording):
    return replace(recording, topology=two_sites())


def events(path: Path) -> list[tuple[str, float, str]]:
    found, reader = [], StoreReader(path)
    while some := reader.events(found[-1].number if found else 0):
        found += some
    return [(one.incident, one.t, one.what) for one in found]


def compare(path: Path, wanted_path: Path) -> None:
    """Prints what was stored twice, lost, and in addition, against an undisturbed run."""
    found, wanted = events(path), events(wanted_path)
    twice = [event for event, n in Counter(found).items() if n > 1]
    opened = [
        event for event in Counter((id_, what) for id_, _, what in found if what == "opened").values() if event > 1
    ]
    print(f"events {len(found)}, undisturbed {len(wanted)}; told twice: {len(twice)}; opened twice: {len(opened)}")
    lost, more = Counter(wanted) - Counter(found), Counter(found) - Counter(wanted)
    print(f"events lost {sum(lost.values())}, more {sum(more.values())}")
    for sign, some in (("-", lost), ("+", more)):
        for id_, t, what in sorted(some, key=lambda one: one[1])[:12]:
            print(f"  {sign} {t:.0f} {id_} {what}")
    ids = [
        Counter((one["condition"], one["entity"]["name"]) for one in StoreReader(p).incidents())
        for p in (path, wanted_path)
    ]
    print(f"incidents {ids[0].total()}, undisturbed {ids[1].total()}")
    print(f"incidents lost: {dict(ids[1] - ids[0])}; more: {dict(ids[0] - ids[1])}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shard", type=int, default=50, help="kills of a shard (default: 50)")
    parser.add_argument("--controller", type=int, default=10, help="kills of the controller (default: 10)")
    parser.add_argument("--pause", type=float, default=5.0, help="mean seconds between two kills (default: 5)")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    import ray  # noqa: PLC0415 - an extra

    # It listens for some minutes on this machine; with tokens each process would have to know that of this Ray.
    os.environ["RAY_AUTH_MODE"] = "disabled"
    ray.init("local", num_cpus=2, object_store_memory=STORE_BYTES, include_dashboard=False, log_to_driver=False)
    folder, nodes, stop = Path(tempfile.mkdtemp()), Nodes.of_demo(), threading.Event()
    controller = Controller(folder, ray.get_runtime_context().gcs_address)
    try:
        wait_for(controller.is_ready)
        endpoint = ControllerEndpoint(f"http://127.0.0.1:{controller.port}")
        senders = {node: PushSender(endpoint, HelloFrame(node, "b", "bench"), 1 << 24) for node in nodes.series}
        for sender in senders.values():
            sender.start()
        sending = threading.Thread(target=send, args=(nodes, senders, stop))
        sending.start()
        time.sleep(SETTLED_S)
        shards = Shards(ray)
        disturb(controller, shards, senders, (options.shard, options.controller), options.pause, options.seed)
        time.sleep(SETTLED_S)
        stop.set()
        sending.join()
        time.sleep(SETTLED_S)
        for name in sorted(shards.actors):
            count, same = shards.skipped(name)
            late = shards.report(name).counts.late
            print(f"{name}: {count} ticks skipped; {'the same life' if same else 'ANOTHER LIFE'}; {late} samples late")
        print(f"ticks whose rows this program itself sent too late: {nodes.late} of {len(nodes.sent)}")
        print(f"rows that still wait: {sum(len(one.backlog.rows) for one in senders.values())}")
        print(f"rows dropped or refused: {sum(one.backlog.dropped + one.backlog.refused for one in senders.values())}")
    finally:
        stop.set()
        controller.process.kill()
        ray.shutdown()
    quiet = folder / "quiet"
    quiet.mkdir()
    compare(folder / "store.db", undisturbed(nodes, quiet))


if __name__ == "__main__":
    main()
