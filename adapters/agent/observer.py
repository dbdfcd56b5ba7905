"""The packets of a node's ports, within a budget of processor time that the observer enforces itself."""

import logging
import math
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from skewscope.adapters.agent.bpf import WHOLE
from skewscope.adapters.agent.budget import ROOM, Budget
from skewscope.adapters.agent.kernel import Sample
from skewscope.adapters.agent.observed import MOST_HELD, ObservedPort
from skewscope.engine.feed import SeriesKey
from skewscope.engine.wire.reducer import STEP

log = logging.getLogger("skewscope.agent")

QUICK, SLOW = 0.01, 0.1
"""Seconds between two looks at the rings: while much comes, and else."""
LAG = 0.02
"""Seconds after its end at which a tick is over: stamps are given just before a packet is put into the ring."""
MUCH = 1024
"""Packets that a look found, from which the next comes sooner."""
MOST_TICKS = 5
"""Ticks that are made up for after a pause; after a longer one, or a clock that was set, all begins anew."""

Tell = Callable[[float, Sequence[Sample]], None]
"""Takes the samples of a tick, stamped with its end."""


@dataclass(frozen=True, slots=True)
class Clocks:
    """What an observer reads: the time, and the processor time of its thread, both in seconds."""

    now: Callable[[], float]
    used: Callable[[], float]


class Observer:
    """Looks at the packets of some ports; all of it in one thread."""

    def __init__(self, ports: Iterable[ObservedPort], budget: float, clocks: Clocks, tell: Tell) -> None:
        self.ports = tuple(ports)
        self.budget = Budget(budget)
        self.used = 0.0
        """Seconds of processor time that the last tick took."""
        self._clocks = clocks
        self._tell = tell
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="observer", daemon=True)
        self._begun = 0.0
        self._first = math.floor(clocks.now() / STEP) * STEP

    def start(self) -> None:
        """Begins to look."""
        self._thread.start()

    def stop(self) -> None:
        """Ends, and gives the rings back."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        for port in self.ports:
            port.ring.close()

    def _run(self) -> None:
        self._begun = self._clocks.used()
        wait = SLOW
        while not self._stop.wait(wait):
            wait = self.look()

    def look(self) -> float:
        """Fetches what has come, tells the ticks that are over; gives how long to wait until the next look, s."""
        found = max((self._take(port) for port in self.ports), default=0)
        now = self._clocks.now()
        if not self._first - STEP <= now <= self._first + MOST_TICKS * STEP:
            self._jump(now)
        while now >= self._first + STEP + LAG:
            self._over(now)
        wait = QUICK if found >= MUCH else SLOW
        return max(min(wait, self._first + STEP + LAG - now), QUICK)

    def _jump(self, now: float) -> None:
        """Goes on with the present."""
        self._first = math.floor(now / STEP) * STEP
        for port in self.ports:
            port.afresh(now)

    def _take(self, port: ObservedPort) -> int:
        room = min(self.budget.room(), MOST_HELD) - sum(each.seen for each in self.ports)
        if port.sampling.share and room <= 0:
            self._spare(self._busiest())
        return port.take(max(room, MUCH)) if port.sampling.share else 0

    def _busiest(self) -> ObservedPort:
        return max(self.ports, key=lambda port: port.seen)

    def _spare(self, port: ObservedPort) -> None:
        """The tick is not over, but its budget is: so much came that a smaller share of it has to do."""
        now = self._clocks.now()
        passed = min(max(now - self._first, QUICK), STEP)
        port.sampling.lower(ROOM * passed / STEP)
        port.resample(now)
        port.lost += port.seen
        port.seen = 0

    def _over(self, now: float) -> None:
        """Tells a tick, and weighs what it took."""
        first, self._first = self._first, self._first + STEP
        packets = sum(port.seen for port in self.ports)
        busiest = self._busiest() if self.ports else None
        samples: list[Sample] = []
        whole = True
        for port in self.ports:
            told = port.tick(first, now)
            whole = whole and told is not None
            share = SeriesKey("agent.observed_share", "port", port.view.port)
            samples += [*(told or ()), (share, port.sampling.share / WHOLE)]
        self._tell(first + STEP, samples)
        done = self._clocks.used()
        self.used, self._begun = done - self._begun, done
        if whole:
            self.budget.learn(self.used, packets)
        if busiest:
            self._weigh(busiest, now)

    def _weigh(self, busiest: ObservedPort, now: float) -> None:
        """Lowers what costs too much, raises what has been cheap for long."""
        spent = self.used / self.budget.seconds
        if spent > 1:
            if busiest.sampling.lower(ROOM / spent):
                busiest.resample(now)
            return
        least = min(self.ports, key=lambda port: port.sampling.share)
        if least.sampling.rest(spent):
            least.resample(now)
