"""Kills controllers at random instants while faults come and go, and says what was lost or reported twice.

Two nodes of four GPUs push rows as agents do; their GPUs fail and recover in turn. A receiver of events keeps what it
is sent. There are four kinds of lanes: one controller, killed also during reloads; one whose store lies on a disk that
is full or read-only at times, when it starts and while it runs (it needs root, for a small disk), with usual and with
small blocks; and two controllers of which one leads. About half of the kills are made while a body of rows is on its
way. Where the disk is sound, other programs read, export and copy the stores all the time, and logs are removed, too.
At the end each lane is left alone until all is reported, and the events are compared with the stores.
"""

import json
import logging
import math
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from bench.campaign_disk import Disk, small_disk
from bench.campaign_forks import ForkedProcess, ForkServer, refused_seconds
from bench.campaign_losses import find_losses
from bench.campaign_peers import GPUS, NODES, Agents, Receiver
from bench.campaign_stores import StoreVisitor, check_left
from skewscope.adapters.controller.store import StoreReader
from skewscope.engine.model.incident import Incident, parse_incident
from skewscope.kb.problems import InputError

START_LIMIT_S = 60.0
MEMORY_LIMIT_MIB = 512
"""Memory of a controller of a few nodes at most, as where hostile agents push to it."""
SETTLE_S = 300.0
"""Seconds at the end after which all is reported: a restored incident waits for its data for 90 s, what only a follower
saw for 30 s, and a leader waits for 120 s more before it ends what another one has reported."""
LOG_REMOVED = 0.05
"""Share of times in which the log of a store is removed while its controller runs."""
KILLED_BEFORE_READY = 0.25
"""Share of kills while a controller still starts."""
PUSH_WAIT_S = 8.0
"""Seconds for which a kill waits for rows that are being pushed: agents that were refused pause longer."""
MAX_PUSH_S = 0.003
"""Seconds after the begin of a push at which a kill follows at the latest."""


@dataclass
class Member:
    """One controller of a lane, over all its starts."""

    folder: Path
    port: int
    extra: dict[str, object]
    process: "subprocess.Popen[bytes] | ForkedProcess | None" = None
    server: ForkServer | None = None
    """What starts it; None to start the program itself."""
    longest_start: tuple[float, float] = (0.0, 0.0)
    """Seconds, and those of them in which a processor was free for it."""
    peak_mib: float = 0.0

    def start(self, *, wait: bool = True) -> None:
        """Starts it; waits until it is ready.

        Raises:
            RuntimeError: it ended, or was not ready in time, without the seconds in which it waited for a processor.
        """
        begun, log, config = time.time(), self.folder / "log", self.folder / "skewscope.yaml"
        if self.server is not None:
            self.process = self.server.start(config, log)
        else:
            command = [sys.executable, "-m", "skewscope.tui.cli.main", "run", "--config", str(config)]
            with log.open("ab") as out:
                self.process = subprocess.Popen(command, stdout=out, stderr=out, cwd=self.folder)
        while wait and not self.is_ready():
            if self.process.poll() is not None:
                raise RuntimeError(f"it ended with {self.process.returncode}: {self.read_log()[-2000:]}")
            if time.time() - begun - refused_seconds(self.process.pid) > START_LIMIT_S:
                raise RuntimeError(f"it was not ready within {START_LIMIT_S:.0f} s: {self.read_log()[-2000:]}")
            time.sleep(0.05)
        if wait:
            took = time.time() - begun
            self.longest_start = max(self.longest_start, (took, max(took - refused_seconds(self.process.pid), 0.0)))

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

    def write_topology(self, *, spare: bool = False) -> None:
        """Writes its topology, at times with a node more: a reload then builds another engine."""
        nodes = [{"name": f"n{node}", "gpus": GPUS} for node in range(NODES + spare)]
        new = self.folder / "topology.new"
        new.write_text(json.dumps({"version": 1, "nodes": nodes}))
        new.replace(self.folder / "topology.yaml")

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
    disk: Disk | None = None
    visitor: StoreVisitor | None = None
    """Reads the stores meanwhile; None where the disk is not always sound."""
    faults: list[str] = field(default_factory=list)
    """What went wrong so far."""
    settle_s: float = SETTLE_S
    deadline: float = float("inf")
    """Seconds since 1970 after which nothing more is killed."""
    done: Counter[str] = field(default_factory=Counter)
    """How often each thing was done, by name."""
    seconds: float = 0.0

    def run(self, kills: int, chance: random.Random) -> None:
        """Kills controllers so often, and then lets the lane settle."""
        begun = time.time()
        for member in self.members:
            member.start()
        if self.visitor is not None:
            self.visitor.start()
        while self.done["kills"] < kills and time.time() < self.deadline:
            victim = chance.choice(self.members)
            if chance.random() < KILLED_BEFORE_READY:
                self._stop(victim, chance)
                victim.start(wait=False)
                time.sleep(chance.uniform(0.0, 2.5))
                self.done["kills while it started"] += 1
            else:
                self._disturb(victim, chance)
                self._await_push(victim, chance)
            self._stop(victim, chance)
            self.done["kills"] += 1
            victim.start()
        self._settle()
        self.seconds = time.time() - begun

    def close(self) -> None:
        """Ends what reads the stores."""
        if self.visitor is not None:
            self.visitor.close()
            self.done += self.visitor.done

    def kill(self) -> None:
        """Kills all its controllers."""
        for member in self.members:
            if member.process is not None:
                member.kill()

    def _stop(self, victim: Member, chance: random.Random) -> None:
        """Kills a controller, and changes the disk on which it will start."""
        victim.kill()
        if self.disk is None:
            self.faults += filter(None, [check_left(victim.store)])
            return
        self.disk.repair()
        luck = chance.random()
        if luck < 0.3:
            self.disk.fill()
            self.done["starts on a full disk"] += 1
        elif luck < 0.5:
            self.disk.protect()
            self.done["starts on a read-only disk"] += 1

    def _disturb(self, victim: Member, chance: random.Random) -> None:
        """Lets a controller run for a while, in which its disk may change; reloads it at the end, at times."""
        seconds = chance.choice((1.0, 3.0, 8.0, 8.0, 25.0)) * chance.random()
        before = seconds * chance.random()
        time.sleep(before)
        if self.disk is not None:
            self._change_disk(self.disk, chance)
        time.sleep(seconds - before)
        assert victim.process is not None
        if self.visitor is not None and chance.random() < LOG_REMOVED:
            self.visitor.remove_log(victim.store, victim.folder / "log", victim.process.pid)
        if chance.random() < 0.3:
            victim.write_config(self.receiver.port, f"reload {self.done['reloads']}")
            victim.write_topology(spare=chance.random() < 0.5)
            victim.process.send_signal(signal.SIGHUP)
            self.done["reloads"] += 1
            time.sleep(chance.uniform(0.0, 1.0))

    def _change_disk(self, disk: Disk, chance: random.Random) -> None:
        luck = chance.random()
        if luck < 0.4:
            disk.free()
        elif luck < 0.6 and not disk.is_protected:
            disk.fill()
            self.done["disks filled while it ran"] += 1
        elif luck < 0.8 and not disk.is_protected:
            disk.break_down()
            self.done["disks made read-only while it ran"] += 1

    def _await_push(self, victim: Member, chance: random.Random) -> None:
        """Waits for rows on their way to a controller, so that half of all kills meet some."""
        pushes = self.agents.pushes[victim.port]
        limit = time.time() + PUSH_WAIT_S
        while self.done["kills with rows being pushed"] * 2 <= self.done["kills"] and time.time() < limit:
            if pushes.wait(limit - time.time()):
                time.sleep(chance.uniform(0.0, MAX_PUSH_S))
            if pushes.count:
                break
        self.done["kills with rows being pushed"] += pushes.count > 0

    def _settle(self) -> None:
        if self.disk is not None:
            for member in self.members:
                member.kill()
            self.disk.repair()
            for member in self.members:
                member.start()
        self.agents.healthy.set()
        time.sleep(self.settle_s)
        for member in self.members:
            member.kill(signal.SIGTERM)

    def find_faults(self) -> Iterator[str]:
        """Yields what was lost, reported twice or went wrong otherwise, a sentence each."""
        yield from self.faults
        yield from self.visitor.faults if self.visitor is not None else ()
        stored: list[Incident] = []
        for member in self.members:
            reader = StoreReader(self._copy_store(member))
            stored += map(parse_incident, reader.incidents(most=1_000_000))
            try:
                reader.verify_audit()
            except InputError as error:
                yield str(error)
            if "Traceback" in (log := member.read_log()):
                yield f"a traceback: {log[log.index('Traceback') :][:1500]}"
            if member.peak_mib > MEMORY_LIMIT_MIB:
                yield f"{member.peak_mib:.0f} MiB"
        settled = self.settle_s >= SETTLE_S
        self.done["incidents in stores"] = len(stored)
        yield from find_losses(stored, self.receiver.events, pair=len(self.members) > 1, settled=settled)

    def _copy_store(self, member: Member) -> Path:
        """Returns a copy of a store: on a disk without room it is not safe to open, and the disk goes with the lane."""
        copy = member.folder / "copy.db"
        for end in ("", "-wal", "-head"):
            found = member.store.with_name(member.store.name + end)
            if found.exists():
                shutil.copyfile(found, copy.with_name(copy.name + end))
        return copy

    def describe(self, faults: int) -> str:
        """Returns what was done and found, in a line."""
        peak = max(member.peak_mib for member in self.members)
        start, alone = max(member.longest_start for member in self.members)
        told = len({one.incident for one in self.receiver.events})
        done = ", ".join(f"{count} {name}" for name, count in sorted(self.done.items()))
        return (
            f"{self.name}: {done} in {self.seconds:.0f} s; {len(self.receiver.events)} events of {told} incidents "
            f"received, {self.receiver.unanswered} requests not answered; slowest start {start:.1f} s, "
            f"{alone:.1f} s of them with a processor; memory at most {peak:.0f} MiB; {faults} faults"
        )


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextmanager
def open_lane(name: str, folder: Path, server: ForkServer, seed: object = 0) -> Iterator[Lane | None]:
    """Yields a lane; None where it cannot run here."""
    with ExitStack() as stack:
        folder.mkdir()
        block_bytes = BLOCK_BYTES.get(name)
        disk = stack.enter_context(small_disk(folder / "disk", block_bytes)) if block_bytes else None
        if block_bytes and disk is None:
            yield None
            return
        receiver = Receiver(seed, folder / "events.jsonl")
        stack.callback(receiver.close)
        members = []
        for n in range(2 if name == PAIR else 1):
            own = folder / f"c{n}"
            own.mkdir()
            extra: dict[str, object] = {"store": {"path": str(disk.folder / "skewscope.db")}} if disk else {}
            if name == PAIR:
                extra["leader"] = {"lock": str(folder / "lock"), "lease": 3}
            members.append(Member(own, free_port(), extra, server=server))
            members[-1].write_topology()
            members[-1].write_config(receiver.port)
        agents = Agents([member.port for member in members])
        stack.callback(agents.close)
        visitor = None
        if disk is None:
            visitor = StoreVisitor(
                [member.store for member in members], folder / "visits", random.Random(f"{seed} visits")
            )
        lane = Lane(name, members, receiver, agents, disk, visitor)
        try:
            yield lane
        finally:
            if visitor is not None:
                visitor.close()
            for member in members:
                if member.process is not None and member.process.poll() is None:
                    member.process.kill()
                    member.process.wait()


SINGLE, FULL_DISK, SMALL_BLOCKS, PAIR = "one controller", "full disk", "full disk of small blocks", "two controllers"
SHARES = {SINGLE: 0.6, FULL_DISK: 0.1, SMALL_BLOCKS: 0.05, PAIR: 0.25}
BLOCK_BYTES = {FULL_DISK: 4096, SMALL_BLOCKS: 1024}
"""Of the disks of a kind of lane: SQLite maps pages of 4 KiB, which smaller blocks leave without room in part."""
LANE_KILLS = 150
"""Kills of one lane at most: lanes run side by side."""


def plan_lanes(kills: int) -> list[tuple[str, int]]:
    """Returns kind and number of kills of each lane; each kind has one at least."""
    planned = []
    for name, share in SHARES.items():
        count = max(round(kills * share), 1)
        lanes = math.ceil(count / LANE_KILLS)
        planned += [(name, count * (n + 1) // lanes - count * n // lanes) for n in range(lanes)]
    return planned


def run_kills(
    kills: int,
    seed: int,
    settle_s: float = SETTLE_S,
    minutes: float = float("inf"),
    keep: Path | None = None,
    at_once: int | None = None,
) -> list[str]:
    """Runs all lanes, prints a line for each, and returns what went wrong.

    Args:
        kills: of all lanes.
        seed: of all chances.
        settle_s: seconds without kills at the end.
        minutes: no kill begins after so many.
        keep: a folder for stores, logs and received events; None to keep nothing.
        at_once: lanes that run side by side; None for all.
    """
    logging.getLogger("skewscope.agent").setLevel(logging.ERROR)  # each kill is a warning there
    deadline = time.time() + 60 * minutes
    lanes, totals = plan_lanes(kills), Counter[str]()

    def run_lane(number: int) -> list[str]:
        name, count = lanes[number]
        own = folder / f"{number}-{name.replace(' ', '-')}"
        with open_lane(name, own, server, f"{seed} {number}") as lane:
            if lane is None:
                print(f"{name}: skipped, no disk can be mounted here")
                return []
            lane.settle_s, lane.deadline = settle_s, deadline
            try:
                lane.run(count, random.Random(f"{seed} {number} {name}"))
                found = []
                lane.close()
            except (OSError, RuntimeError, subprocess.SubprocessError) as error:
                # What is not over by then need not be reported.
                lane.settle_s = 0.0
                lane.close()
                lane.kill()
                found = [f"{name}: after {lane.done['kills']} kills: {error}"]
            found += [f"{name}: {fault}" for fault in lane.find_faults()]
            print(lane.describe(len(found)), flush=True)
            totals.update(lane.done)
            return found

    with ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor(at_once or len(lanes)))
        server = ForkServer()
        stack.callback(server.close)
        folder = keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        faults = [fault for found in pool.map(run_lane, range(len(lanes))) for fault in found]
    print(
        f"kills: {totals['kills']} in all, {totals['kills with rows being pushed']} with rows being pushed, "
        f"{totals['reloads']} just after a reload, {totals['logs removed']} logs removed, "
        f"{sum(count for what, count in totals.items() if what.startswith('visits'))} visits of other programs; "
        f"{len(faults)} faults",
        flush=True,
    )
    return faults
