"""Measures what hostile agents do to a controller: the delay of others, of `/healthz`, its ticks, memory and work.

`python -m bench.hostile_agents [SECONDS] [HOSTILE] [WAY]` starts a controller in which each node has a token. 990
agents push a row of 20 values once a second (`SOUND=20` for fewer, with 200 values each); after a third of the time,
HOSTILE others (10 by default) push as fast as they can, each in one of eight ways: rows without values, one
announcement again and again, JSON of as many parts as the bounds allow, ever new starts with ever new series, bodies
that cannot be unpacked, series of all signals under hundreds of selectors, thousands of peers, series of another node
by which it would be diagnosed. Before that they push the same to a server of their own, since all run on one machine:
what differs is what they do to the controller. With WAY, the name of a function here, all of them do the same; with 0
for HOSTILE it measures the same without them. It fails where half or one in a hundred of the others wait more than
twice as long, `/healthz` takes more than a second, a tick is skipped, memory is above its bound, or a sound node is
diagnosed.
"""

import asyncio
import itertools
import json
import os
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import zstandard

from bench.test_bench_controller import memory, metric, topology, used
from skewscope.adapters.formats.row_protocol import (
    CONTENT_TYPE,
    MAX_COLUMNS,
    MAX_SERIES_A_FRAME,
    ROWS_PATH,
    SIGNS_A_SERIES,
    HelloFrame,
    RowFrame,
    SeriesFrame,
    encode,
)
from skewscope.engine.ingest.feed import SeriesKey
from skewscope.kb.loader import catalogue

SOUND = int(os.environ.get("SOUND", "990"))
"""Sound agents; each sends fewer values where there are many, since the load is made on the same machine."""
VALUES = 200 if SOUND <= 100 else 20
CONNECTIONS = 3
LEAST_DELAY_S = 0.05
"""A delay of others that counts as a fault: twice the usual one, and no less than this, which no agent notices."""
MOST_HEALTH_S = 1.0
MOST_MIB = 512.0
HEAD, SERIES = struct.Struct("<BI"), 1
Bodies = Iterator[bytes]


def token(node: str) -> str:
    return f"{node}-0123456789abcdef"


def series(node: str, count: int, since: int = 0) -> tuple[SeriesKey, ...]:
    return tuple(SeriesKey("host.softnet_squeezed", "node", node, f"cpu{n}") for n in range(since, since + count))


def unpacked(*frames) -> bytes:
    return zstandard.ZstdDecompressor().decompress(encode(frames))


def pack(text: bytes) -> bytes:
    return zstandard.ZstdCompressor(level=10).compress(text)


def rows_without_values(node: str) -> Bodies:
    hello = HelloFrame(node, "b", "1")
    for n in itertools.count():
        rows = [RowFrame(n * 8000 + k, time.time(), 0, np.empty(0)) for k in range(8000)]
        yield encode([hello, SeriesFrame(0, 0, series(node, 1)), *rows])


def announcements(node: str) -> Bodies:
    hello, told = HelloFrame(node, "b", "1"), SeriesFrame(0, 0, series(node, 60_000))
    yield encode([hello, told])
    again = encode([hello, *[told] * 4])
    while True:
        yield again


def nonsense(node: str) -> Bodies:
    """Sends JSON of as many parts as a frame may have, in as many frames as a body may have of them."""
    commas, brackets, quotes = (SIGNS_A_SERIES[sign] * MAX_SERIES_A_FRAME for sign in (b",", b"[", b'"'))
    parts = (b"[]," * (brackets - 8) + b'"a",' * (quotes // 2 - 8))[: 3 * commas]
    json_frame = b'{"table":0,"first":0,"series":[],"x":[' + parts + b"0]}"
    frames = (HEAD.pack(SERIES, len(json_frame)) + json_frame) * (MAX_COLUMNS // MAX_SERIES_A_FRAME)
    body = pack(unpacked(HelloFrame(node, "b", "1")) + frames)
    while True:
        yield body


def new_starts(node: str) -> Bodies:
    for n in itertools.count():
        found = series(node, 20_000, n * 20_000)
        row = RowFrame(0, time.time(), 0, np.ones(len(found)))
        yield encode([HelloFrame(node, f"b{n}", "1"), SeriesFrame(0, 0, found), row])


def new_selectors(node: str) -> Bodies:
    """Fills a place for each node of the fleet with each of its series."""
    signals = sorted(name for name, one in catalogue().signals.items() if one.entity == "node")
    told = tuple(SeriesKey(name, "node", node, f"x{n}") for n in range(60_000 // len(signals)) for name in signals)
    hello, announced = HelloFrame(node, "b", "1"), SeriesFrame(0, 0, told)
    for n in itertools.count():
        yield encode([hello, *([] if n else [announced]), RowFrame(n, time.time(), 0, np.ones(len(told)))])


def new_peers(node: str) -> Bodies:
    """Speaks of ever more peers of its own port."""
    signals = sorted(name for name, one in catalogue().signals.items() if one.entity == "peer")
    told = tuple(SeriesKey(name, "peer", f"{node}/p0>r{n}") for n in range(60_000 // len(signals)) for name in signals)
    hello, announced = HelloFrame(node, "b", "1"), SeriesFrame(0, 0, told)
    for n in itertools.count():
        yield encode([hello, *([] if n else [announced]), RowFrame(n, time.time(), 0, np.ones(len(told)))])


def broken_bodies(_node: str) -> Bodies:
    body = pack(os.urandom(1 << 20) + b"\0" * (14 << 20))[:-8]
    while True:
        yield body


def indictments(node: str) -> Bodies:
    """Says of another node what a member shows for which all others wait."""
    late = {"wire.onset_lag": 0.02, "wire.onset_lag_p95": 0.025, "wire.last_sender_share": 0.95}
    said = {SeriesKey(name, "rank", f"g0:n{n}"): value * (n == 3) for name, value in late.items() for n in range(8)}
    said |= {SeriesKey("wire.round_period", "group", "g0"): 0.04, SeriesKey("wire.round_rate", "group", "g0"): 25.0}
    values = np.array(list(said.values()))
    for n in itertools.count():
        hello, told = HelloFrame(node, "b", "1"), SeriesFrame(0, 0, tuple(said))
        yield encode([hello, told, RowFrame(n, time.time(), 0, values)])


WAYS: tuple[Callable[[str], Bodies], ...] = (
    rows_without_values,
    announcements,
    nonsense,
    new_starts,
    broken_bodies,
    new_selectors,
    new_peers,
    indictments,
)


async def post(reader, writer, node: str, body: bytes) -> int:
    head = (
        f"POST {ROWS_PATH} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {CONTENT_TYPE}\r\n"
        f"Authorization: Bearer {token(node)}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    writer.write(head.encode() + body)
    return await answer(reader)


async def answer(reader) -> int:
    head = await reader.readuntil(b"\r\n\r\n")
    await reader.readexactly(int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]))
    return int(head[9:12])


async def attack(port: int, number: int, name: str, since: float) -> None:
    """Pushes as fast as one node can, on some connections, without regard to any answer; to itself before `since`."""
    ways = [way for way in WAYS if name in ("", way.__name__)]
    node, way = f"n{SOUND + number}", ways[number % len(ways)]

    async def push(target: int) -> None:
        bodies = way(node)
        while True:
            with suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                reader, writer = await asyncio.open_connection("127.0.0.1", target)
                while True:
                    await post(reader, writer, node, next(bodies))

    async with await asyncio.start_server(refuse_late, "127.0.0.1", 0) as own:
        with suppress(TimeoutError):
            async with asyncio.timeout(max(since - time.time(), 0.0)):
                await asyncio.gather(*(push(own.sockets[0].getsockname()[1]) for _ in range(CONNECTIONS)))
    await asyncio.gather(*(push(port) for _ in range(CONNECTIONS)))


async def refuse_late(reader, writer) -> None:
    """Answers as a controller does to one that has sent more than its share."""
    with suppress(OSError, asyncio.IncompleteReadError):
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]))
            await asyncio.sleep(1.0)
            writer.write(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")


@dataclass
class Delays:
    """Seconds that answers took, before the attack and during it."""

    before: list[float] = field(default_factory=list)
    during: list[float] = field(default_factory=list)
    statuses: set[int] = field(default_factory=set)

    def describe(self) -> str:
        texts = []
        for name, found in (("before", self.before), ("during", self.during)):
            some = np.array(found or [np.nan])
            median, high = np.quantile(some, (0.5, 0.99))
            texts.append(f"{name} median {median:.3f} s, 99 % {high:.3f} s, at most {some.max():.3f} s of {len(found)}")
        return "; ".join(texts)


@dataclass
class Measurement:
    """The sound agents and the asking of `/healthz`."""

    port: int
    begun: float
    attacked: float
    end: float
    rows: Delays = field(default_factory=Delays)
    health: Delays = field(default_factory=Delays)

    def note(self, to: Delays, begun: float, status: int) -> None:
        (to.before if begun < self.attacked else to.during).append(time.time() - begun)
        to.statuses.add(status)

    async def sound_agent(self, number: int) -> None:
        node = f"n{number}"
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        hello = HelloFrame(node, "b", "1")
        await post(reader, writer, node, encode([hello, SeriesFrame(0, 0, series(node, VALUES))]))
        for n in itertools.count():
            at = self.begun + n + number / SOUND
            if at > self.end:
                break
            await asyncio.sleep(max(at - time.time(), 0.0))
            body, begun = encode([hello, RowFrame(n, time.time(), 0, np.ones(VALUES))]), time.time()
            self.note(self.rows, begun, await post(reader, writer, node, body))
        writer.close()

    async def ask_health(self) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        while time.time() < self.end:
            begun = time.time()
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            self.note(self.health, begun, await answer(reader))
            await asyncio.sleep(0.1)
        writer.close()

    async def run(self) -> None:
        await asyncio.gather(self.ask_health(), *(self.sound_agent(n) for n in range(SOUND)))


async def ask(port: int, path: str) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
    text = (await reader.read()).decode()
    writer.close()
    return text


def start(folder: Path, hostile: int) -> "subprocess.Popen[bytes]":
    """Starts a controller."""
    nodes = [f"n{n}" for n in range(SOUND + hostile)]
    (folder / "topology.yaml").write_text(json.dumps(topology(len(nodes))))
    tokens = [{"node": node, "token": f"${{{node.upper()}}}"} for node in nodes]
    config = {"version": 1, "topology": "topology.yaml", "listen": {"port": 0}, "agents": {"tokens": tokens}}
    (folder / "skewscope.yaml").write_text(json.dumps(config))
    command = [sys.executable, "-m", "skewscope.tui.cli.main", "run", "--config", str(folder / "skewscope.yaml")]
    secrets = {node.upper(): token(node) for node in nodes}
    return subprocess.Popen(command, stderr=(folder / "log").open("w"), cwd=folder, env=os.environ | secrets)


async def find_port(folder: Path) -> int:
    for _ in range(300):
        await asyncio.sleep(0.2)
        before, found, rest = (folder / "log").read_text().partition("listening on 127.0.0.1 port ")
        if found:
            return int(rest.split()[0])
    raise RuntimeError(before)


async def measure(folder: Path, pid: int, seconds: float, hostile: tuple[int, str]) -> list[str]:
    """Prints what was measured; returns the faults, a sentence each."""
    port = await find_port(folder)
    begun = time.time() + 3.0
    attacked = begun + seconds / 3
    found = Measurement(port, begun, attacked, begun + seconds)
    running = asyncio.create_task(found.run())
    # They stand for other machines: the controller's processors are its own.
    command = ["nice", "-n", "19", sys.executable, "-m", "bench.hostile_agents", "attack", str(port)]
    count, way = hostile
    attackers = [await asyncio.create_subprocess_exec(*command, str(n), way, str(attacked)) for n in range(count)]
    try:
        await asyncio.sleep(attacked - time.time())
        before, work, since = await ask(port, "/metrics"), used(pid), time.time()
        await running
        work = (used(pid) - work) / (time.time() - since)
    finally:
        for one in attackers:
            one.kill()
            await one.wait()
    after = await ask(port, "/metrics")
    print(f"{count} hostile agents for {seconds * 2 / 3:.0f} s beside {SOUND} sound ones")
    print(f"rows of others: {found.rows.describe()}, answers {sorted(found.rows.statuses)}")
    print(f"/healthz: {found.health.describe()}")
    skipped = metric(after, "skewscope_ticks_skipped_total ") - metric(before, "skewscope_ticks_skipped_total ")
    print(f"ticks skipped {skipped:.0f}, cores {work:.2f}, series {metric(after, 'skewscope_series '):.0f}")
    print(f"memory at most {memory(pid, 'VmHWM'):.0f} MiB")
    sources = json.loads((await ask(port, "/api/v1/sources")).partition("\r\n\r\n")[2])["sources"]
    print("the controller says:", *[one["trouble"] for one in sources])
    told = json.loads((await ask(port, "/api/v1/incidents")).partition("\r\n\r\n")[2])["incidents"]
    sound = [one["entity"]["name"] for one in told if one["entity"]["name"] in {f"n{n}" for n in range(SOUND)}]
    refused = sum(float(line.split()[-1]) for line in after.splitlines() if "foreign_series_total{" in line)
    print(f"incidents of sound nodes {len(sound)}, series of others that were refused {refused:.0f}")
    slowest, peak = max(found.health.during), memory(pid, "VmHWM")
    before_and_during = [np.quantile(some, (0.5, 0.99)).tolist() for some in (found.rows.before, found.rows.during)]
    checks = (
        *(
            (late <= max(2 * usual, LEAST_DELAY_S), f"rows of others took {late:.3f} s instead of {usual:.3f} s")
            for usual, late in zip(*before_and_during, strict=True)
        ),
        (slowest <= MOST_HEALTH_S, f"/healthz took {slowest:.2f} s"),
        (peak <= MOST_MIB, f"{peak:.0f} MiB of memory"),
        (not skipped, f"{skipped:.0f} ticks were skipped"),
        (not sound, f"incidents of sound nodes: {sound}"),
    )
    return [f"hostile agents: {fault}" for holds, fault in checks if not holds]


def run_hostile(seconds: float, hostile: int, way: str = "") -> list[str]:
    """Measures hostile agents beside sound ones; returns the faults."""
    with tempfile.TemporaryDirectory() as folder:
        controller = start(Path(folder), hostile)
        try:
            faults = asyncio.run(measure(Path(folder), controller.pid, seconds, (hostile, way)))
        finally:
            controller.send_signal(signal.SIGTERM)
            controller.wait(60)
            log = (Path(folder) / "log").read_text()
            print(log[-1000:])
    return [*faults, *(["hostile agents: a traceback in the log"] if "Traceback" in log else [])]


if __name__ == "__main__":
    if sys.argv[1:2] == ["attack"]:
        asyncio.run(attack(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], float(sys.argv[5])))
    else:
        given = [*sys.argv[1:], *("45", "10", "")[len(sys.argv) - 1 :]]
        raise SystemExit(1 if run_hostile(float(given[0]), int(given[1]), given[2]) else 0)
