"""Clients that arrive at random times, whether or not earlier ones were served."""

import random
import socket
import struct
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.lab.namespaces import enter

PATIENCE = 60.0
"""Seconds that a client waits for a part of its answer."""
REQUEST = struct.Struct("!III")
"""Number, tokens of the prompt, tokens of the answer; the prompt's own bytes follow."""
BYTES_PER_TOKEN = 4
DONE = b"[DONE]"


@dataclass(frozen=True)
class Demand:
    """The demand of clients; lengths are log-normal, as in real traces."""

    rps: float = 3.0
    spread: float = 0.6
    """Of the logarithm of an answer's length."""
    seed: int = 1


@dataclass
class Load:
    """Clients of some front ends."""

    space: str
    """The namespace in which the clients are."""
    fronts: Mapping[str, tuple[str, int]]
    """Addresses by replica."""
    demand: Demand = field(default_factory=Demand)
    sent: int = 0
    done: int = 0
    _times: float = 1.0
    _stop: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        """Starts the arrivals."""
        threading.Thread(target=self._run, name="load", daemon=True).start()

    def stop(self) -> None:
        """Stops the arrivals."""
        self._stop.set()

    def times(self, factor: float) -> None:
        """Multiplies the rate of arrivals."""
        self._times = factor

    def _run(self) -> None:
        demand = self.demand
        chance, names = random.Random(demand.seed), list(self.fronts)
        while not self._stop.wait(chance.expovariate(demand.rps * self._times)):
            name = chance.choice(names)
            prompt = int(min(4000, chance.lognormvariate(5.5, 0.8)))
            answer = int(min(200, max(4, chance.lognormvariate(3.2, demand.spread))))
            self.sent += 1
            request = REQUEST.pack(self.sent, prompt, answer) + bytes(prompt * BYTES_PER_TOKEN)
            threading.Thread(target=self._one, args=(self.fronts[name], request), daemon=True).start()

    def _one(self, front: tuple[str, int], request: bytes) -> None:
        try:
            enter(self.space)
            with socket.create_connection(front, timeout=PATIENCE) as client:
                client.sendall(request)
                tail = b""
                while DONE not in tail:
                    part = client.recv(65536)
                    if not part:
                        return
                    tail = (tail + part)[-64:]
                self.done += 1
        except OSError:
            return
