"""A thousand agents in one process, for `bench.test_bench_controller`: each pushes its row once a second.

Started as `python -m bench.fleet_load PORT NODES SECONDS`; prints one line of JSON when it is done.
"""

import asyncio
import json
import resource
import struct
import sys
import time

import numpy as np
import zstandard

from skewscope.adapters.formats.row_protocol import CONTENT_TYPE, ROWS_PATH, HelloFrame, SeriesFrame, encode
from skewscope.engine.ingest.feed import SeriesKey
from skewscope.kb.loader import catalogue
from skewscope.rules.entity_kinds import kind_of

GPUS, PORTS = 8, 8
GROWING = {"bytes": 1.5e6, "packets": 1.5e3}
"""What counters count in a second, so that frames have a size."""
SILENT = "n7"
"""The node whose host counters stop ..."""
QUIET_AFTER = 0.5
"""... after this share of the time."""
HEAD, ROW = struct.Struct("<BI"), struct.Struct("<QdII")


def series(node: str) -> list[SeriesKey]:
    """Returns the series of an agent with 8 interfaces and 8 GPUs."""
    whose = {
        "node": [node],
        "port": [f"{node}/p{n}" for n in range(PORTS)],
        "gpu": [f"{node}/gpu{n}" for n in range(GPUS)],
    }
    found = []
    for signal in sorted(catalogue().signals.values(), key=lambda signal: signal.id):
        kind = kind_of(signal.entity)
        if signal.type in ("counter", "gauge", "state", "bitmask"):
            found += [SeriesKey(signal.id, kind, entity) for entity in whose.get(kind, ())]
    return found


class Fleet:
    """All agents, and the outcome of their rows."""

    def __init__(self, port: int, nodes: int, seconds: int) -> None:
        self.port, self.nodes, self.seconds = port, nodes, seconds
        keys = series("n0")
        self.size = len(keys)
        signals = catalogue().signals
        counters = [signals[k.signal].type == "counter" for k in keys]
        pace = [next((by for word, by in GROWING.items() if word in k.signal), 0.0) for k in keys]
        self.pace = np.where(counters, pace, 0.0)
        self.grows = self.pace > 0
        self.host = np.array([k.signal.startswith("host.") for k in keys])
        self.random = np.random.default_rng(1)
        self.sent = self.refused = self.resent = 0
        self.slowest = 0.0
        self.silent_since = 0.0
        self.begin = 0.0

    async def run(self) -> None:
        self.begin = time.time() + 3.0
        await asyncio.gather(*(self.agent(n) for n in range(self.nodes)))

    async def agent(self, number: int) -> None:
        node = f"n{number}"
        pack = zstandard.ZstdCompressor(level=1).compress
        values = np.where(self.grows, 1e9, 0.0)
        hello = encode([HelloFrame(node, "b", "bench")])
        hello = zstandard.ZstdDecompressor().decompress(hello)
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 16)
        announce = encode([HelloFrame(node, "b", "bench"), SeriesFrame(0, 0, tuple(series(node)))])
        await self.post(reader, writer, announce)
        phase = number / self.nodes
        last = time.time()
        for sequence in range(self.seconds):
            at = self.begin + sequence + phase
            await asyncio.sleep(max(at - time.time(), 0))
            now = time.time()
            values += np.round(self.pace * (now - last) * self.random.uniform(0.98, 1.02, self.size))
            last = now
            told = values
            if node == SILENT and sequence >= self.seconds * QUIET_AFTER:
                self.silent_since = self.silent_since or time.time()
                told = np.where(self.host, np.nan, values)
            row = ROW.pack(sequence, now, 0, self.size) + told.tobytes()
            body = pack(hello + HEAD.pack(2, len(row)) + row)
            for attempt in range(60):
                status = await self.post(reader, writer, body)
                if status == 200:
                    self.sent += 1
                    break
                self.refused += 1
                self.resent += bool(attempt)
                if status == 503:
                    await asyncio.sleep(1.0)
                if status == 409:
                    await self.post(reader, writer, announce)
        writer.close()

    async def post(self, reader, writer, body: bytes) -> int:
        begun = time.perf_counter()
        writer.write(
            f"POST {ROWS_PATH} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {CONTENT_TYPE}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        head = await reader.readuntil(b"\r\n\r\n")
        size = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        await reader.readexactly(size)
        self.slowest = max(self.slowest, time.perf_counter() - begun)
        return int(head[9:12])


def main() -> None:
    port, nodes, seconds = map(int, sys.argv[1:4])
    fleet = Fleet(port, nodes, seconds)
    asyncio.run(fleet.run())
    usage = resource.getrusage(resource.RUSAGE_SELF)
    told = {
        "sent": fleet.sent,
        "columns": fleet.size,
        "refused": fleet.refused,
        "slowest_s": round(fleet.slowest, 3),
        "silent_since": fleet.silent_since,
        "cores": round((usage.ru_utime + usage.ru_stime) / (seconds + 3), 2),
    }
    print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
