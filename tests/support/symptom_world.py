"""A small fleet whose series are judged by themselves, for tests of symptoms."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from skewscope.engine.incidents.alerts import RuleInfo
from skewscope.engine.incidents.symptom import SymptomState
from skewscope.engine.incidents.tracker import IncidentTracker
from skewscope.engine.ingest.feed import Block, SeriesKey, SeriesTable
from skewscope.engine.ingest.series_state import SeriesState
from skewscope.engine.model.entities import EntityIndex
from skewscope.engine.model.finding import Finding
from skewscope.engine.model.topology import Group, Node, Pool, Port, Topology
from skewscope.engine.model.verdict import RuleVerdict
from skewscope.engine.symptoms.detectors import SeriesDetectors
from skewscope.engine.symptoms.growing_steps import EPOCH_SIGNAL
from skewscope.engine.symptoms.progress import EVALUATION_SIGNAL
from skewscope.engine.symptoms.roles import judged_signals
from skewscope.kb.loader import catalogue

START = 1.7e9
KNOWN = catalogue()


def topology(size: int = 4) -> Topology:
    """A group of nodes with three ports and four GPUs each."""
    nodes = tuple(
        Node(f"n{n}", gpus=4, ports=tuple(Port(f"n{n}", f"p{k}", "east-west", 1e9) for k in range(3)))
        for n in range(size)
    )
    group = Group("A", "tensor-parallel", tuple(node.name for node in nodes))
    return Topology(nodes, (group,))


def pool_of_replicas(replicas: int, size: int = 2) -> Topology:
    """A pool of replicas A, B, ... of some nodes; the front end of A is n0, that of B the first node after A's."""
    nodes = tuple(Node(f"n{n}", ports=(Port(f"n{n}", "ns", "north-south", 1e9),)) for n in range(replicas * size))
    names = [node.name for node in nodes]
    groups = tuple(
        Group("ABCDEFGH"[n], "tensor-parallel", tuple(names[size * n : size * n + size]), names[size * n])
        for n in range(replicas)
    )
    return Topology(nodes, groups, (Pool("pool", tuple(group.name for group in groups)),))


class SymptomWorld:
    """Feeds samples to a tracker, one tick a second."""

    def __init__(
        self, size: int = 4, fleet: Topology | None = None, rules: Mapping[str, RuleInfo] | None = None
    ) -> None:
        self.topology = fleet or topology(size)
        self.table = SeriesTable()
        signals = KNOWN.signals
        self.state = SeriesState(
            signals, EntityIndex(self.topology), {*judged_signals(signals), EVALUATION_SIGNAL, EPOCH_SIGNAL}, 1.0
        )
        self.detector = SeriesDetectors(self.state, self.topology)
        self.tracker = IncidentTracker(rules or {}, KNOWN, self.topology, cells=self.detector.cells)
        self.start = self.t = START

    def tick(
        self, values: Mapping[tuple[str, str, str], float], order: Sequence[int] | None = None, pause: float = 1.0
    ):
        """Feeds values by (signal, kind, entity); `order` permutes the samples."""
        items = list(values.items())
        items = [items[n] for n in order] if order is not None else items
        return self.tick_all([(key, self.t + pause, value) for key, value in items], pause)

    def tick_all(self, samples: Sequence[tuple[tuple[str, str, str], float, float]], pause: float = 1.0):
        """Feeds samples, each of (signal, kind, entity), a time and a value."""
        self.t += pause
        numbers = [self.table.number(SeriesKey(*key)) for key, _, _ in samples]
        times, values = (np.array([one[n] for one in samples], float) for n in (1, 2))
        self.state.begin_tick(self.t)
        self.state.ingest(Block(times, np.array(numbers, np.int32), values), self.table)
        self.state.refresh()
        return self.step(sampled=bool(samples))

    def step(self, verdicts: Iterable[RuleVerdict] = (), *, sampled: bool = True):
        """Judges the samples that came, and takes in some verdicts."""
        tick = self.detector.read(self.t, sampled=sampled)
        with np.errstate(all="ignore"):
            for detector in self.detector.all:
                detector.step(tick)
        return self.tracker.step(self.t, [*verdicts, self.findings()])

    def conclude(self) -> None:
        """Ends the data."""
        for detector in self.detector.all:
            detector.conclude()
        self.tracker.step(self.t, [self.findings()])

    def findings(self) -> list[Finding]:
        """Returns what the detectors find as of the last tick."""
        return [one for detector in self.detector.all for batch in detector.findings() for one in batch]

    def symptoms(self) -> list[SymptomState]:
        """Returns the states of the symptoms that are open or have just ended."""
        return list(self.tracker._by_findings.recent.values())

    def found(self) -> set[tuple[str, str, str]]:
        """Returns (signal, entity, direction) of the findings that hold."""
        return {(one.what.id, one.place.name, one.direction) for one in self.findings()}

    def incidents(self):
        """Returns the symptoms as incidents."""
        return list(self.tracker.list_incidents())

    def next_change(self) -> float:
        """Returns the time in seconds before which a tick without samples changes nothing."""
        detectors = (detector.next_change() for detector in self.detector.all)
        return min(self.detector.next_change(), self.tracker.next_change(), *detectors)
