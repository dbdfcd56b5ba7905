"""Plays a day of a busy fleet through the ticks of a controller: `python -m bench.long_day --hours 24`.

Links flap, GPUs run hot for a quarter of a minute again and again, agents restart, labels change each minute, a node
joins and leaves by a new topology, another one is renamed, silences come and end, notifications are written and
delivered, and a console reads views. The table shows for each hour the median and the slowest tick in processor
milliseconds, the memory of this process, what Python allocated in it, and the sizes of what could grow: after the first
hours, in which windows and the hour of resolved incidents fill, none of it may.
"""

import argparse
import gc
import tempfile
import time
import tracemalloc
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from skewscope.adapters.controller.agent_receiver import AgentTable
from skewscope.adapters.controller.engine_change import prepare_engine
from skewscope.adapters.controller.incident_restore import RestoredIncidents
from skewscope.adapters.controller.silences import Silence
from skewscope.adapters.controller.store import Store, StoreReader
from skewscope.adapters.controller.tick_pipeline import TickPipeline
from skewscope.adapters.notify.base import NotificationScope
from skewscope.adapters.notify.outbox import Outbox
from skewscope.adapters.sources.common.base import SourceBatch
from skewscope.engine.ingest.feed import SeriesKey
from skewscope.engine.model.topology import Group, Node, Pool, Port, Topology
from skewscope.kb.loader import catalogue

NODES = 8
START = 1_790_000_000.0
HOUR = 3600
PERIODS = {"flap": 45, "hot": 34, "boot": 600, "topology": 1800, "rename": 7200, "silence": 600, "delivery": 30}
"""Seconds between two events of a kind."""
NOTIFIER = "hook"


def build_topology(hour: int, *, has_spare: bool) -> Topology:
    """Returns the fleet: the name of its last node changes each other hour, and a spare node comes and goes."""
    names = [*(f"n{n}" for n in range(NODES - 1)), f"n{NODES - 1}-{hour // 2}", *(["spare"] if has_spare else [])]
    nodes = tuple(
        Node(name, gpus=2, ports=(Port(name, "p0", "east-west", 5e10), Port(name, "p1", "north-south", 2.5e10)))
        for name in names
    )
    groups = tuple(
        Group(f"r{n}", "tensor-parallel", tuple(names[n : n + 2]), names[n]) for n in range(0, len(names) - 1, 2)
    )
    return Topology(nodes, groups, (Pool("chat", tuple(group.name for group in groups)),))


@dataclass
class LongDay:
    """A controller's ticks without its sources, and what happens to the fleet."""

    folder: Path
    t: float = START
    _tables: dict[str, AgentTable] = field(default_factory=dict)
    _counts: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._random = np.random.default_rng(1)
        self.topology = build_topology(0, has_spare=False)
        prepared = prepare_engine(self.topology, catalogue())
        self._stack, store = prepared.stack, Store(self.folder / "store.db")
        self.pipeline = TickPipeline(
            prepared.runtime, prepared.batcher, store, RestoredIncidents({}), topology=self.topology, retention=HOUR
        )
        self.pipeline.replace_outbox(Outbox({NOTIFIER: NotificationScope()}))
        self._reader = StoreReader(store.path)

    def tick(self) -> float:
        """Plays one second; returns what the tick took, in processor seconds."""
        self.t += 1
        second = round(self.t - START)
        if second % PERIODS["topology"] == 0:
            self._change_topology(second)
        if second % PERIODS["silence"] == 0:
            match = (("entity", ("n1/p0",)),)
            one = Silence(f"s{second}", match, self.t, self.t + PERIODS["silence"] / 2, "bench", "a test")
            self.pipeline.change_silence(self.t, "bench", "silence", one)
        if second % PERIODS["delivery"] == 0:
            self._deliver()
        if second % PERIODS["topology"] < HOUR // 10:
            self.pipeline.view_publisher.record_request(self.t)
        batches = {"agents": list(self._batches(second))}
        begun = time.process_time()
        self.pipeline.step(self.t, batches)
        return time.process_time() - begun

    def close(self) -> None:
        """Ends the matcher and closes the store."""
        self.pipeline.close(self.t)
        self._stack.close()

    def _change_topology(self, second: int) -> None:
        has_spare = second // PERIODS["topology"] % 2 == 1
        self.topology = build_topology(second // HOUR, has_spare=has_spare)
        prepared = prepare_engine(self.topology, catalogue())
        prepared.expect_series(self.pipeline)
        self.pipeline = prepared.take_over(self.pipeline)
        self._stack.close()
        self._stack = prepared.stack
        self._tables.clear()

    def _deliver(self) -> None:
        newest = self._reader.notifications(NOTIFIER, 0, 100_000)
        if newest:
            self.pipeline.store_writer.outbox.deliveries.append((NOTIFIER, newest[-1].number))

    def _batches(self, second: int) -> Iterator[SourceBatch]:
        """Yields the rows of all agents; each restarts now and then, and then announces its series anew."""
        for n, node in enumerate(self.topology.nodes):
            if (second + 7 * n) % PERIODS["boot"] == 0 or node.name not in self._tables:
                self._tables[node.name] = self._announce(node, second)
            table, values = self._tables[node.name], self._values(node, n, second)
            label = SeriesKey("prio.pause_duration", "port", f"{node.name}/p0", f"queue=q{second // 60 % 1440}")
            if n == 0 and second % 60 == 0 and label not in table.keys:
                table.keys.append(label)
            yield SourceBatch(table, None, self.t, np.append(values, np.full(len(table.keys) - len(values), 1.0)))

    def _announce(self, node: Node, second: int) -> AgentTable:
        table = AgentTable(f"{node.name}/{second}", node.name)
        table.keys += [SeriesKey("port.carrier_down_changes", "port", port.id) for port in node.ports]
        table.keys += [SeriesKey("gpu.temperature", "gpu", f"{node.name}/gpu{n}") for n in range(node.gpus)]
        table.keys += [SeriesKey("gpu.sm_clock", "gpu", f"{node.name}/gpu{n}") for n in range(node.gpus)]
        table.keys += [SeriesKey("host.cpu_util", "node", node.name)]
        return table

    def _values(self, node: Node, n: int, second: int) -> np.ndarray:
        if n in (1, 2) and second % PERIODS["flap"] in (0, 3):
            self._counts[node.name] = self._counts.get(node.name, 0) + 2
        flaps = [float(self._counts.get(node.name, 0)), 0.0]
        is_hot = n == 3 and second % PERIODS["hot"] < 14
        heat = [(95.0 if is_hot else 60.0) + float(self._random.normal()), 60.0]
        return np.array([*flaps, *heat, 1400.0, 1400.0, 0.3 + 0.01 * float(self._random.normal())])

    def sizes(self) -> dict[str, int]:
        """Returns the numbers of what could grow."""
        incidents = self.pipeline.incidents
        return {
            "incidents": len(incidents),
            "longest history": max((len(one.history) for one in incidents), default=0),
            "series": len(self.pipeline.batcher.table.keys),
            "silences": len(self.pipeline.silences),
            "store MiB": sum(path.stat().st_size for path in self.folder.iterdir()) >> 20,
        }


def resident_mib() -> int:
    """Returns the memory of this process, in MiB."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096 >> 20


def main() -> None:
    """Prints a line for each hour, and what grew most after the second one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=int, default=24)
    parser.add_argument("--trace", action="store_true", help="show where Python allocated what grew; twice as slow")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        day, before = LongDay(Path(folder)), None
        if given.trace:
            tracemalloc.start()
        for hour in range(1, given.hours + 1):
            costs = np.array([day.tick() for _ in range(HOUR)]) * 1000
            gc.collect()
            text = ", ".join(f"{name} {size}" for name, size in day.sizes().items())
            traced = f", allocated {tracemalloc.get_traced_memory()[0] >> 10} KiB" if given.trace else ""
            print(
                f"hour {hour}: {np.median(costs):.1f} ms, at most {costs.max():.0f} ms, "
                f"{resident_mib()} MiB{traced}; {text}",
                flush=True,
            )
            if given.trace and hour == 2:
                before = tracemalloc.take_snapshot()
        if before is not None and given.hours > 2:
            for line in tracemalloc.take_snapshot().compare_to(before, "lineno")[:15]:
                print(line)
        day.close()


if __name__ == "__main__":
    main()
