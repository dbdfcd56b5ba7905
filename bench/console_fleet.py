"""A console on a generated fleet: 10,000 series, all of which change twice a second.

`python bench/console_fleet.py [FILE]` shows it and writes the delays of its event loop to FILE, in milliseconds.
"""

import asyncio
import json
import sys
import threading
import time
from pathlib import Path

import numpy as np

from skewscope.adapters.view.builder import ViewHistory, build_peer_sets, peer_statistics
from skewscope.adapters.view.snapshot import SeriesIndex, SeriesInfo, SignalView, SourceState, ViewFrame, ViewSnapshot
from skewscope.engine.model.topology import Group, Node, Port, Topology
from skewscope.kb.loader import catalogue
from skewscope.tui.console.app import Console
from skewscope.tui.render.detail import DisplayNames

NODES = 500
SIGNALS = ("wire.onset_lag", "wire.rtt", "wire.retransmit_ratio", "gpu.power", "gpu.temp")
SERIES = 10_000
PERIOD_S = 0.5
PROBE_S = 0.02


def topology() -> Topology:
    """Returns a topology with groups of eight and racks of sixteen."""
    names = [f"n{n:03}" for n in range(NODES)]
    nodes = tuple(
        Node(n, f"r{k // 16:02}", 4, ("east-west",), (Port(n, "ew", "east-west"),)) for k, n in enumerate(names)
    )
    groups = tuple(Group(f"g{g}", "tensor-parallel", tuple(names[g * 8 : g * 8 + 8])) for g in range(NODES // 8))
    return Topology(nodes, groups)


def roster() -> SeriesIndex:
    """Returns five signals of four GPUs of each node."""
    return SeriesIndex(
        tuple(
            SeriesInfo(signal, "gpu", f"n{node:03}/gpu{gpu}", "", "s" if number < 2 else "1", node * 5 + number)
            for number, signal in enumerate(SIGNALS)
            for node in range(NODES)
            for gpu in range(4)
        )
    )


def feed(film: ViewHistory) -> None:
    """Adds a frame twice a second, without end."""
    random, series, fleet = np.random.default_rng(1), roster(), topology()
    peer_sets = build_peer_sets(series.series)
    begin = time.time()
    while True:
        now = time.time()
        value = random.gamma(2.0, 0.001, SERIES).astype(np.float32)
        usual, deviation = np.full(SERIES, 0.002, np.float32), np.full(SERIES, 0.001, np.float32)
        age, stale = np.zeros(SERIES, np.float32), random.random(SERIES) < 0.01
        frame = ViewFrame(
            now, value, usual, deviation, *peer_statistics(peer_sets, np.where(stale, np.nan, value)), age, stale
        )
        sources = (SourceState("node telemetry", "nodes", NODES, NODES, 0.2),)
        film.add(ViewSnapshot(now, begin, now, fleet, sources=sources, signals=SignalView(series, ())), frame)
        time.sleep(PERIOD_S)


class Measured(Console):
    """A console that records the delays of its event loop."""

    held: list[float]

    def on_mount(self) -> None:
        """Also starts the probe."""
        super().on_mount()
        self.held = []
        self.probe = asyncio.create_task(self._probe())

    async def _probe(self) -> None:
        while True:
            before = time.perf_counter()
            await asyncio.sleep(PROBE_S)
            self.held.append((time.perf_counter() - before - PROBE_S) * 1000)


def main() -> None:
    """Shows the console until it is quit."""
    film = ViewHistory(live=True)
    threading.Thread(target=feed, args=(film,), daemon=True).start()
    shown = Measured(film, DisplayNames(catalogue()))
    shown.run()
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(json.dumps(shown.held))


if __name__ == "__main__":
    main()
