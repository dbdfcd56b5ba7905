"""What stands around the controllers of a campaign: agents that push rows to them, and a receiver of their events."""

import json
import random
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np

from skewscope.adapters.agent.push import Post, PushSender
from skewscope.adapters.formats.row_protocol import HelloFrame, RowFrame
from skewscope.adapters.runtime.channel import Channel, ControllerEndpoint, ControllerResponse
from skewscope.engine.ingest.feed import SeriesKey
from skewscope.engine.model.incident import parse_incident

NODES, GPUS = 2, 4
TURN_S, FAULT_S = 40.0, 20.0
"""Seconds between two faults of one GPU, and how long each lasts."""
XID = 79
UNANSWERED = 0.05
"""Share of events that get no answer: half of them were taken in."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event as it was received."""

    kind: str
    """opened, changed, resolved or withdrawn."""
    incident: str
    condition: str
    entity: str
    opened_at: float = 0.0
    resolved_at: float | None = None

    @property
    def place(self) -> tuple[str, str]:
        """What two controllers agree on."""
        return self.condition, self.entity


def parse_event(told: Mapping[str, Any]) -> Event:
    """Returns a CloudEvent as an event."""
    one = parse_incident(told["data"])
    kind = told["type"].rpartition(".")[2]
    return Event(kind, one.id, one.condition, one.name, one.opened_at, one.resolved_at)


class Receiver:
    """Receives CloudEvents; some requests get no answer, as from a receiver that is restarted."""

    def __init__(self, seed: object, path: Path) -> None:
        """Starts it; what it receives is also added to a file, which outlives the campaign."""
        self.events: list[Event] = []
        self.unanswered = 0
        seen: set[str] = set()
        kept = self._file = path.open("a")
        lock, chance = threading.Lock(), random.Random(f"{seed} receiver")

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(handler) -> None:  # noqa: N805
                told = json.loads(handler.rfile.read(int(handler.headers["content-length"])))
                with lock:
                    luck = chance.random()
                    self.unanswered += luck < UNANSWERED
                    # The same event may be sent again after a crash; its id says so.
                    key = f"{told['source']} {told['id']}"
                    if luck >= UNANSWERED / 2 and key not in seen:
                        seen.add(key)
                        self.events.append(parse_event(told))
                        kept.write(f"{json.dumps(asdict(self.events[-1]))}\n")
                        kept.flush()
                if luck < UNANSWERED:
                    handler.close_connection = True
                    return
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
        self._file.close()


class Pushes:
    """Counts the bodies that are on their way to one controller."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.count = 0

    @contextmanager
    def one(self) -> Iterator[None]:
        with self.changed:
            self.count += 1
            self.changed.notify_all()
        try:
            yield
        finally:
            with self.changed:
                self.count -= 1

    def wait(self, seconds: float) -> bool:
        """Waits until a body is on its way; returns whether one is."""
        with self.changed:
            return self.changed.wait_for(lambda: self.count > 0, seconds)

    def connect(self, endpoint: ControllerEndpoint) -> Post:
        post = Channel(endpoint).post

        def counted(body: bytes) -> ControllerResponse:
            with self.one():
                return post(body)

        return counted


class Agents:
    """Pushes a row a second for each node, to each controller, as agents do."""

    def __init__(self, ports: list[int]) -> None:
        self.healthy = threading.Event()
        self.stopped = threading.Event()
        self.pushes = {port: Pushes() for port in ports}
        self.senders = [
            (
                node,
                PushSender(
                    ControllerEndpoint(f"http://127.0.0.1:{port}"),
                    HelloFrame(f"n{node}", "b", "1"),
                    1 << 20,
                    connect=pushes.connect,
                ),
            )
            for node in range(NODES)
            for port, pushes in self.pushes.items()
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
