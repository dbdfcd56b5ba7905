"""Measures ticks while many incidents are open: `python -m bench.incident_storm 10 100 1000 3000 10000`.

So many ports, each of a node of its own, flap at once each six seconds, for half a minute, and then no more. Each is a
diagnosis and a symptom; with `--group 8` most of a group become one. With `--share 0.3` fewer flap: many incidents of
one large group. The table has processor milliseconds of ticks: the step with rules, symptoms and policies, the list,
and the JSON lines of what is not the same as a tick before. As many open in one tick as a controller lets open; the
opening is all ticks until the last one has.
"""

import argparse
import gc
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from skewscope.adapters.controller.process import GC_THRESHOLDS
from skewscope.engine.advice.advice import PolicyEvaluator
from skewscope.engine.advice.policy import compile_policies
from skewscope.engine.engine import Engine
from skewscope.engine.ingest.feed import Block, SeriesKey, SeriesTable
from skewscope.engine.model.incident import Incident
from skewscope.engine.model.topology import Group, Node, Port, Topology
from skewscope.kb.loader import catalogue
from skewscope.rules.loader import load_strict
from skewscope.rules.policy import load as load_policies

START = 1_790_000_000.0
WARM_UP, OPENING, OPEN, ENDING = 35, 12, 12, 75
"""Ticks of each part: before the first flap, until all of a small fleet are open, while they are, and until they are
over."""
FLAP_PERIOD = 6


@dataclass(frozen=True, slots=True)
class TickCost:
    """Processor seconds of one tick."""

    step: float
    list: float
    lines: float

    @property
    def total(self) -> float:
        """All of it."""
        return self.step + self.list + self.lines


def build_fleet(ports: int, group: int) -> Topology:
    """Returns nodes with a port each, in tensor-parallel groups of a size; 0 for none."""
    names = [f"n{n}" for n in range(ports)]
    nodes = tuple(Node(name, ports=(Port(name, "ew", "east-west", 5e10),)) for name in names)
    starts = range(0, ports, group) if group else ()
    return Topology(nodes, tuple(Group(f"g{n}", "tensor-parallel", tuple(names[n : n + group])) for n in starts))


class PortStorm:
    """A fleet of which a share of the ports flap at once."""

    def __init__(self, ports: int, group: int = 0, share: float = 1.0) -> None:
        known, topology = catalogue(), build_fleet(ports, group)
        policies = PolicyEvaluator(compile_policies(load_policies()[0]))
        self.engine = Engine(load_strict(known).values(), known, topology, policies, symptoms=True)
        self.table = SeriesTable()
        keys = (SeriesKey("port.carrier_down_changes", "port", f"{node.name}/ew") for node in topology.nodes)
        self._numbers = np.array([self.table.number(key) for key in keys], np.int32)
        self._counts = np.zeros(ports)
        self.flapping = np.arange(0, ports, round(1 / share))
        """Numbers of the ports that flap."""
        self._t = START
        self.incidents: tuple[Incident, ...] = ()

    def tick(self, flapping: Sequence[int] | np.ndarray = ()) -> TickCost:
        """Processes the next second, in which some ports, by number, went down twice; returns what it took."""
        self._t += 1
        self._counts[np.asarray(flapping, np.intp)] += 2
        block = Block(np.full(len(self._counts), self._t), self._numbers, self._counts.copy())
        begun = time.process_time()
        self.engine.step(self._t, block, self.table)
        stepped = time.process_time()
        before, self.incidents = {id(one) for one in self.incidents}, self.engine.list_incidents()
        listed = time.process_time()
        for one in self.incidents:
            if id(one) not in before:
                one.as_line()
        return TickCost(stepped - begun, listed - stepped, time.process_time() - listed)

    def run(self, ticks: int, *, flapping: bool) -> list[TickCost]:
        """Processes some seconds; returns what each took."""
        return [self.tick(self.flapping if flapping and n % FLAP_PERIOD == 0 else ()) for n in range(ticks)]

    def open_all(self) -> list[TickCost]:
        """Processes the seconds until no more incidents open; returns what each took."""
        ticks, count = self.run(OPENING, flapping=True), -1
        while self.open_count > count:
            count = self.open_count
            ticks += self.run(FLAP_PERIOD, flapping=True)
        return ticks

    @property
    def open_count(self) -> int:
        """How many incidents fire."""
        return sum(one.state == "firing" for one in self.incidents)


def measure(ports: int, group: int, share: float) -> Iterator[str]:
    """Yields the cells of a row of the table."""
    storm = PortStorm(ports, group, share)
    storm.run(WARM_UP, flapping=False)
    opening, open_ = storm.open_all(), storm.run(OPEN, flapping=True)
    count = storm.open_count
    ending = storm.run(ENDING, flapping=False)
    # The window of the rule still shows the last flap in a tick in which nothing is counted.
    quiet = [one.total for n, one in enumerate(open_) if n % FLAP_PERIOD]
    yield from (f"{ports:,}", f"{group or 'none'}", f"{count:,}")
    yield f"{1000 * sum(one.total for one in opening):,.0f}"
    yield f"{1000 * max(one.total for one in opening):,.0f}"
    yield f"{1000 * float(np.median(quiet)):,.0f}"
    yield f"{1000 * max(one.total for one in open_):,.0f}"
    yield f"{1000 * max(one.total for one in ending):,.0f}"


HEADINGS = ("ports", "groups of", "open", "opening, all", "its worst tick", "quiet tick", "worst open", "worst ending")


def print_row(cells: Sequence[str]) -> None:
    """Prints one row of the table."""
    print("  ".join(f"{cell:>{len(head)}}" for cell, head in zip(cells, HEADINGS, strict=True)), flush=True)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ports", type=int, nargs="+")
    parser.add_argument("--group", type=int, action="append", help="members of a group; 0 for no groups")
    parser.add_argument("--share", type=float, default=1.0, help="of the ports that flap")
    given = parser.parse_args()
    gc.set_threshold(*GC_THRESHOLDS)  # as a controller does
    print_row(HEADINGS)
    for group in given.group or [0]:
        for ports in given.ports:
            print_row(list(measure(ports, group, given.share)))


if __name__ == "__main__":
    main()
