"""Observes the packets of a node's ports, within a CPU budget that it enforces itself."""

import logging
import math
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from skewscope.adapters.agent.bpf import FULL_SHARE
from skewscope.adapters.agent.budget import TARGET_UTILISATION, CpuBudget
from skewscope.adapters.agent.collectors.counter_names import Sample
from skewscope.adapters.agent.observed_port import MAX_HELD, ObservedPort
from skewscope.adapters.runtime.tasks import start_thread
from skewscope.engine.ingest.feed import SeriesKey
from skewscope.engine.wire.reducer import TICK_LENGTH

log = logging.getLogger("skewscope.agent")

SHORT_WAIT, LONG_WAIT = 0.01, 0.1
"""Seconds between two polls of the rings: under load, and otherwise."""
TICK_LAG = 0.02
"""Seconds after its end at which a tick is complete: packets are stamped just before they enter the ring."""
STOP_WAIT = 2.0
"""Seconds that a stop waits for the thread."""
BUSY_PACKETS = 1024
"""Packets in a poll from which the next poll comes sooner."""
MAX_TICKS = 5
"""Missed ticks that are caught up; after a longer pause, or a clock change, observation restarts."""

EmitSamples = Callable[[float, Sequence[Sample]], None]
"""Takes the samples of a tick, with the time of its end."""


@dataclass(frozen=True, slots=True)
class ObserverClocks:
    """The clocks of an observer: time, and CPU time of its thread, both in seconds."""

    now: Callable[[], float]
    cpu_time: Callable[[], float]


class PacketObserver:
    """Observes the packets of some ports, all in one thread."""

    def __init__(self, ports: Iterable[ObservedPort], budget: float, clocks: ObserverClocks, tell: EmitSamples) -> None:
        self.ports = tuple(ports)
        self.budget = CpuBudget(budget)
        self.cpu_seconds = 0.0
        """CPU seconds of the last tick."""
        self._clocks = clocks
        self._emit = tell
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._last_cpu_time = 0.0
        self._tick_start = math.floor(clocks.now() / TICK_LENGTH) * TICK_LENGTH

    def start(self) -> None:
        """Starts the thread."""
        self._thread = start_thread("observer", self._run)

    def stop(self) -> None:
        """Stops the thread and closes the rings."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(STOP_WAIT)
        for port in self.ports:
            port.ring.close()

    def _run(self) -> None:
        self._last_cpu_time = self._clocks.cpu_time()
        wait = LONG_WAIT
        while not self._stop.wait(wait):
            wait = self.poll()

    def poll(self) -> float:
        """Fetches new packets and emits complete ticks; returns the seconds until the next poll."""
        found = max((self._fetch_packets(port) for port in self.ports), default=0)
        now = self._clocks.now()
        if not self._tick_start - TICK_LENGTH <= now <= self._tick_start + MAX_TICKS * TICK_LENGTH:
            self._skip_to(now)
        while now >= self._tick_start + TICK_LENGTH + TICK_LAG:
            self._finish_tick(now)
        wait = SHORT_WAIT if found >= BUSY_PACKETS else LONG_WAIT
        return max(min(wait, self._tick_start + TICK_LENGTH + TICK_LAG - now), SHORT_WAIT)

    def _skip_to(self, now: float) -> None:
        """Restarts at the present time."""
        self._tick_start = math.floor(now / TICK_LENGTH) * TICK_LENGTH
        for port in self.ports:
            port.reset(now)

    def _fetch_packets(self, port: ObservedPort) -> int:
        room = min(self.budget.packet_limit(), MAX_HELD) - sum(each.tick_packets for each in self.ports)
        if port.sampling.share and room <= 0:
            self._shed_load(self._busiest())
        return port.fetch_packets(max(room, BUSY_PACKETS)) if port.sampling.share else 0

    def _busiest(self) -> ObservedPort:
        return max(self.ports, key=lambda port: port.tick_packets)

    def _shed_load(self, port: ObservedPort) -> None:
        """Lowers the share in the middle of a tick whose budget is used up."""
        now = self._clocks.now()
        passed = min(max(now - self._tick_start, SHORT_WAIT), TICK_LENGTH)
        port.sampling.lower(TARGET_UTILISATION * passed / TICK_LENGTH)
        port.resample(now)
        port.packets_lost += port.tick_packets
        port.tick_packets = 0

    def _finish_tick(self, now: float) -> None:
        """Emits a tick and measures its cost."""
        first, self._tick_start = self._tick_start, self._tick_start + TICK_LENGTH
        packets = sum(port.tick_packets for port in self.ports)
        busiest = self._busiest() if self.ports else None
        samples: list[Sample] = []
        whole = True
        for port in self.ports:
            reported = port.tick(first, now)
            whole = whole and reported is not None
            share = SeriesKey("agent.observed_share", "port", port.view.port)
            samples += [*(reported or ()), (share, port.sampling.share / FULL_SHARE)]
        self._emit(first + TICK_LENGTH, samples)
        done = self._clocks.cpu_time()
        self.cpu_seconds, self._last_cpu_time = done - self._last_cpu_time, done
        if whole:
            self.budget.update_cost(self.cpu_seconds, packets)
        if busiest:
            self._adjust_sampling(busiest, now)

    def _adjust_sampling(self, busiest: ObservedPort, now: float) -> None:
        """Lowers an expensive share; raises one that has been cheap for long."""
        spent = self.cpu_seconds / self.budget.seconds
        if spent > 1:
            if busiest.sampling.lower(TARGET_UTILISATION / spent):
                busiest.resample(now)
            return
        least = min(self.ports, key=lambda port: port.sampling.share)
        if least.sampling.record_tick(spent):
            least.resample(now)
