"""Kills controllers at random instants while faults come and go, and says what was lost or reported twice.

Two nodes of four GPUs push rows as agents do; their GPUs fail and recover in turn. A receiver of events keeps what it
is sent. There are three lanes: one controller, killed also during reloads; one whose store lies on a disk that is full
at times (it needs root, for a small tmpfs); and two controllers of which one leads. At the end each lane is left alone
until all is reported, and the events are compared with the stores.
"""

import json
import logging
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np

from skewscope.adapters.agent.push import PushSender
from skewscope.adapters.controller.store import StoreReader
from skewscope.adapters.formats.row_protocol import HelloFrame, RowFrame
from skewscope.adapters.runtime.channel import ControllerEndpoint
from skewscope.engine.ingest.feed import SeriesKey
from skewscope.kb.problems import InputError

NODES, GPUS = 2, 4
TURN_S, FAULT_S = 40.0, 20.0
"""Seconds between two faults of one GPU, and how long each lasts."""
XID = 79
START_LIMIT_S, MEMORY_LIMIT_MIB = 60.0, 2048
SETTLE_S = 130.0
"""Seconds at the end after which all is reported: longer than a restored incident waits for its data."""
DISK_BYTES = 4 << 20
KILLED_BEFORE_READY = 0.25
"""Share of kills while a controller still starts."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event as it was received."""

    kind: str
    """opened, changed, resolved or withdrawn."""
    incident: str
    condition: str
    entity: str


class Receiver:
    """Receives CloudEvents; some requests get no answer, as from a receiver that is restarted."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        seen: set[str] = set()
        lock = threading.Lock()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(handler) -> None:  # noqa: N805
                told = json.loads(handler.rfile.read(int(handler.headers["content-length"])))
                with lock:
                    # The same event may be sent again after a crash; its id says so.
                    if (key := f"{told['source']} {told['id']}") not in seen:
                        seen.add(key)
                        kind, one = told["type"].rpartition(".")[2], told["data"]
                        self.events.append(Event(kind, one["id"], one["condition"], one["entity"]["name"]))
                handler.send_response(200)
                handler.send_header("content-length", "0")
                handler.end_headers()

            def log_message(handler, *_: object) -> None:  # noqa: N805
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def port(self) -> int:
        return int(self.server.server_address[1])

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


class Agents:
    """Pushes a row a second for each node, to each controller, as agents do."""

    def __init__(self, ports: list[int]) -> None:
        self.healthy = threading.Event()
        self.stopped = threading.Event()
        self.senders = [
            (
                node,
                PushSender(ControllerEndpoint(f"http://127.0.0.1:{port}"), HelloFrame(f"n{node}", "b", "1"), 1 << 20),
            )
            for node in range(NODES)
            for port in ports
        ]
        for _, sender in self.senders:
            sender.start()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        keys = {
            node: [
                SeriesKey(signal, "gpu", f"n{node}/gpu{n}") for signal in ("gpu.xid", "gpu.util") for n in range(GPUS)
            ]
            for node in range(NODES)
        }
        begun, sequence = time.time(), 0
        while not self.stopped.wait(1.0):
            sequence += 1
            t = time.time()
            for node, sender in self.senders:
                ill = [self._is_ill(t - begun, node * GPUS + n) for n in range(GPUS)]
                values = [*(float(XID) if one else 0.0 for one in ill), *(0.0 if one else 0.9 for one in ill)]
                sender.add(RowFrame(sequence, t, 0, np.array(values)), keys[node])

    def _is_ill(self, t: float, gpu: int) -> bool:
        phase = (t - gpu * TURN_S / (NODES * GPUS)) % TURN_S
        return t > 10 and phase < FAULT_S and not self.healthy.is_set()

    def close(self) -> None:
        self.stopped.set()
        self.thread.join(5)
        for _, sender in self.senders:
            sender.stop(0.1)


@dataclass
class Member:
    """One controller of a lane, over all its starts."""

    folder: Path
    port: int
    extra: dict[str, object]
    process: "subprocess.Popen[bytes] | None" = None
    longest_start: float = 0.0
    peak_mib: float = 0.0

    def start(self, *, wait: bool = True) -> None:
        """Starts it; waits until it is ready."""
        begun = time.time()
        command = [
            sys.executable,
            "-m",
            "skewscope.tui.cli.main",
            "run",
            "--config",
            str(self.folder / "skewscope.yaml"),
        ]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder)
        while wait and not self.is_ready():
            if self.process.poll() is not None:
                raise RuntimeError(f"it ended with {self.process.returncode}: {self.read_log()[-2000:]}")
            if time.time() - begun > START_LIMIT_S:
                raise RuntimeError(f"it was not ready within {START_LIMIT_S:.0f} s: {self.read_log()[-2000:]}")
            time.sleep(0.05)
        if wait:
            self.longest_start = max(self.longest_start, time.time() - begun)

    def is_ready(self) -> bool:
        with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=5) as answer:
            return bool(answer.status == 200)
        return False

    def kill(self, how: signal.Signals = signal.SIGKILL) -> None:
        assert self.process is not None
        with suppress(OSError, ValueError, IndexError):
            status = Path(f"/proc/{self.process.pid}/status").read_text()
            self.peak_mib = max(self.peak_mib, int(status.partition("VmHWM:")[2].split()[0]) / 1024)
        self.process.send_signal(how)
        self.process.wait(60)

    def write_config(self, receiver: int, comment: str = "") -> None:
        tell = [{"kind": "cloudevents", "name": "events", "urls": [f"http://127.0.0.1:{receiver}/"]}]
        config = {"version": 1, "topology": "topology.yaml", "listen": {"port": self.port}, "tell": tell} | self.extra
        new = self.folder / "skewscope.new"
        new.write_text(f"# {comment}\n{json.dumps(config)}\n")
        new.replace(self.folder / "skewscope.yaml")

    def read_log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")

    @property
    def store(self) -> Path:
        found = self.extra.get("store")
        return Path(found["path"]) if isinstance(found, dict) else self.folder / "skewscope.db"


@dataclass
class Lane:
    """Controllers that are killed, their agents, and what was received."""

    name: str
    members: list[Member]
    receiver: Receiver
    agents: Agents
    disk: Path | None = None
    settle_s: float = SETTLE_S
    kills: int = 0
    starts_while_full: int = 0
    reloads: int = 0

    def run(self, kills: int, chance: random.Random) -> None:
        """Kills controllers so often, and then lets the lane settle."""
        for member in self.members:
            member.start()
        for _ in range(kills):
            victim = chance.choice(self.members)
            if chance.random() < KILLED_BEFORE_READY:
                victim.kill()
                self._fill_disk(chance)
                victim.start(wait=False)
                time.sleep(chance.uniform(0.0, 2.5))
            else:
                time.sleep(chance.choice((1.0, 3.0, 8.0, 8.0, 25.0)) * chance.random())
                if chance.random() < 0.3:
                    victim.write_config(self.receiver.port, f"reload {self.reloads}")
                    assert victim.process is not None
                    victim.process.send_signal(signal.SIGHUP)
                    self.reloads += 1
                    time.sleep(chance.uniform(0.0, 0.5))
            victim.kill()
            self.kills += 1
            self._fill_disk(chance)
            victim.start()
        self._settle()

    def _fill_disk(self, chance: random.Random) -> None:
        """Fills or frees the disk before a start."""
        if self.disk is None:
            return
        (self.disk / "filler").unlink(missing_ok=True)
        if chance.random() < 0.5:
            self.starts_while_full += 1
            with suppress(OSError), (self.disk / "filler").open("wb", buffering=0) as filler:
                while filler.write(bytes(4096)):
                    pass

    def _settle(self) -> None:
        if self.disk is not None:
            (self.disk / "filler").unlink(missing_ok=True)
        self.agents.healthy.set()
        time.sleep(self.settle_s)
        for member in self.members:
            member.kill(signal.SIGTERM)

    def find_faults(self) -> Iterator[str]:
        """Yields what was lost, reported twice or went wrong otherwise, a sentence each."""
        stored: dict[str, str] = {}
        for member in self.members:
            reader = StoreReader(member.store)
            stored |= {one["id"]: one["state"] for one in reader.incidents(most=1_000_000)}
            try:
                reader.verify_audit()
            except InputError as error:
                yield f"{self.name}: {error}"
            if "Traceback" in (log := member.read_log()):
                yield f"{self.name}: a traceback: {log[log.index('Traceback') :][:1500]}"
            if member.peak_mib > MEMORY_LIMIT_MIB:
                yield f"{self.name}: {member.peak_mib:.0f} MiB"
        told = {one.incident for one in self.receiver.events}
        for id_ in sorted(told - stored.keys()):
            yield f"{self.name}: incident {id_} was reported and is in no store"
        yield from self._find_repeats(stored)

    def _find_repeats(self, stored: dict[str, str]) -> Iterator[str]:
        open_ids: dict[tuple[str, str], str] = {}
        for event in self.receiver.events:
            place = event.condition, event.entity
            if event.kind == "opened":
                before = open_ids.get(place)
                # In doubt whether the one before it delivered an event, a new leader repeats it under the same id.
                if before is not None and (before != event.incident or len(self.members) == 1):
                    yield f"{self.name}: {event.condition} on {event.entity}: {before} is open, {event.incident} opens"
                open_ids[place] = event.incident
            elif event.kind in ("resolved", "withdrawn"):
                open_ids.pop(place, None)
        for (condition, entity), id_ in open_ids.items() if self.settle_s >= SETTLE_S else ():
            yield f"{self.name}: the end of {condition} on {entity} ({id_}, {stored.get(id_)}) was not reported"


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextmanager
def small_disk(folder: Path) -> Iterator[Path | None]:
    """Yields a folder on a small disk; None where none can be mounted."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(folder)]
    try:
        done = subprocess.run(command, check=False, capture_output=True).returncode == 0
    except OSError:
        done = False
    try:
        yield folder if done else None
    finally:
        if done:
            subprocess.run(["umount", "--lazy", str(folder)], check=False)


@contextmanager
def open_lane(name: str, folder: Path) -> Iterator[Lane | None]:
    """Yields a lane; None where it cannot run here."""
    with ExitStack() as stack:
        folder.mkdir()
        disk = stack.enter_context(small_disk(folder / "disk")) if name == "full disk" else None
        if name == "full disk" and disk is None:
            yield None
            return
        receiver = Receiver()
        stack.callback(receiver.close)
        members = []
        for n in range(2 if name == "two controllers" else 1):
            own = folder / f"c{n}"
            own.mkdir()
            nodes = [{"name": f"n{node}", "gpus": GPUS} for node in range(NODES)]
            (own / "topology.yaml").write_text(json.dumps({"version": 1, "nodes": nodes}))
            extra: dict[str, object] = {"store": {"path": str(disk / "skewscope.db")}} if disk else {}
            if name == "two controllers":
                extra["leader"] = {"lock": str(folder / "lock"), "lease": 3}
            members.append(Member(own, free_port(), extra))
            members[-1].write_config(receiver.port)
        agents = Agents([member.port for member in members])
        stack.callback(agents.close)
        lane = Lane(name, members, receiver, agents, disk)
        try:
            yield lane
        finally:
            for member in members:
                if member.process is not None and member.process.poll() is None:
                    member.process.kill()
                    member.process.wait()


SHARES = {"one controller": 0.6, "full disk": 0.15, "two controllers": 0.25}


def run_kills(kills: int, seed: int, settle_s: float = SETTLE_S) -> list[str]:
    """Runs all lanes, prints a line for each, and returns what went wrong."""
    faults: list[str] = []
    logging.getLogger("skewscope.agent").setLevel(logging.ERROR)  # each kill is a warning there
    with tempfile.TemporaryDirectory() as folder:
        for name, share in SHARES.items():
            with open_lane(name, Path(folder) / name.replace(" ", "-")) as lane:
                if lane is None:
                    print(f"{name}: skipped, no disk can be mounted here")
                    continue
                begun, lane.settle_s = time.time(), settle_s
                lane.run(max(round(kills * share), 1), random.Random(f"{seed} {name}"))
                found = list(lane.find_faults())
                faults += found
                _print_lane(lane, time.time() - begun, len(found))
    return faults


def _print_lane(lane: Lane, seconds: float, faults: int) -> None:
    incidents = {one.incident for one in lane.receiver.events}
    peak = max(member.peak_mib for member in lane.members)
    start = max(member.longest_start for member in lane.members)
    full = f", {lane.starts_while_full} starts on a full disk" if lane.disk else ""
    print(
        f"{lane.name}: killed {lane.kills} times in {seconds:.0f} s, {lane.reloads} times just after a reload{full}; "
        f"{len(lane.receiver.events)} events of {len(incidents)} incidents; slowest start {start:.1f} s, "
        f"memory at most {peak:.0f} MiB; {faults} faults",
        flush=True,
    )
