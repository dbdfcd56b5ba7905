"""Who reports and who is silent, and what cannot be told for that."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np

from skewscope.adapters.scene import SourceState
from skewscope.engine.diagnosis import Diagnosis
from skewscope.engine.feed import F64, SeriesTable
from skewscope.engine.topology import Topology
from skewscope.kb.problems import listed

SILENT = 10.0
"""Seconds without a sample after which a reporter is called silent."""


@dataclass(frozen=True, slots=True)
class Telemetry:
    """One kind of telemetry."""

    name: str
    kind: str
    prefixes: tuple[str, ...]
    of: Callable[[str], str]
    """Who reports a series, from its entity's name."""
    tells: str
    """What is unknown without it."""


def _node(entity: str) -> str:
    return entity.split(">", maxsplit=1)[0].split("/", maxsplit=1)[0]


def _itself(entity: str) -> str:
    return entity.split(">", maxsplit=1)[0]


KINDS = (
    Telemetry("packets", "ports", ("wire.",), _itself, "rounds, loss, round trips and request timing"),
    Telemetry("node telemetry", "nodes", ("host.", "port.", "prio.", "rdma."), _node, "counters of ports and hosts"),
    Telemetry("serving telemetry", "replicas", ("serve.",), _itself, "queues, batches and caches of the engines"),
    Telemetry("GPU telemetry", "GPU nodes", ("gpu.",), _node, "whether a GPU is slow, hot, throttled or broken"),
)


def reporters(topology: Topology) -> dict[str, tuple[str, ...]]:
    """Who could report each kind of telemetry."""
    members = {topology.node_of[m] for g in topology.groups for m in g.members}
    fronts = {g.front_end for g in topology.groups if g.front_end}
    wanted = {"east-west": members, "north-south": fronts}
    ports = [
        p.id
        for node in topology.nodes
        for p in node.ports
        if p.network in (node.sees or wanted) and p.node in wanted.get(p.network, ())
    ]
    return {
        "packets": tuple(ports),
        "node telemetry": tuple(n.name for n in topology.nodes),
        "serving telemetry": tuple(g.name for g in topology.groups if g.front_end),
        "GPU telemetry": tuple(n.name for n in topology.nodes if n.gpus),
    }


@dataclass
class Sight:
    """What a diagnosis sees of its fleet."""

    topology: Topology
    diagnosis: Diagnosis
    table: SeriesTable
    _at: dict[str, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)
    """By kind: numbers of its series, and of their reporters."""
    _known: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _place: dict[str, dict[str, int]] = field(default_factory=dict)
    _signals: dict[str, int] = field(default_factory=dict)
    """Signals of the table, numbered."""
    _signal: np.ndarray = field(default_factory=lambda: np.empty(0, np.int32))
    """The signal of each series."""

    def sources(self, t: float) -> tuple[SourceState, ...]:
        """Every kind of telemetry that there is or should be, as of `t`."""
        found = []
        for telemetry in KINDS:
            newest = self._newest(telemetry)
            known = self._known[telemetry.name]
            if known:
                found.append(_state(telemetry, known, newest, t))
        return tuple(found)

    def missing(self) -> tuple[str, ...]:
        """What cannot be seen, and why, in sentences."""
        said = []
        for telemetry in KINDS:
            newest = self._newest(telemetry)
            known = self._known[telemetry.name]
            silent = [name for name, when in zip(known, newest, strict=True) if np.isneginf(when)]
            if not known and telemetry.name == "GPU telemetry":
                said.append(f"The topology names no GPUs: {telemetry.tells} is unknown.")
            elif silent and len(silent) == len(known):
                said.append(
                    f"No {telemetry.name} from any of {len(known)} {telemetry.kind}: {telemetry.tells} are unknown."
                )
            elif silent:
                said.append(f"No {telemetry.name} from {listed(silent)}: {telemetry.tells} are unknown there.")
        return (*said, *self._unjudged())

    def _unjudged(self) -> Iterable[str]:
        """Conditions that no rule could judge anywhere."""
        there = self.signals()
        detector = self.diagnosis.detector
        by_condition: dict[str, list[set[str]]] = {}
        for verdict in self.diagnosis.verdicts:
            rule = detector.rules[verdict.rule]
            if len(verdict.names):
                needed = (item.when.lacking(there) for item in rule.evidence if item.required)
                by_condition.setdefault(rule.condition, []).append({name for names in needed for name in names})
        for condition, lacking in sorted(by_condition.items()):
            if all(lacking):
                names = sorted(min(lacking, key=_few_first))
                yield f"{condition} cannot be judged: nobody delivers {listed(names, 4)}."

    def covered(self, t: float) -> dict[str, float]:
        """For each node, the share of the telemetry that there should be of it which comes, as of `t`."""
        come: dict[str, list[bool]] = {}
        for telemetry in KINDS:
            if telemetry.name == "serving telemetry":
                continue
            fresh = (t - self._newest(telemetry) <= SILENT).tolist()
            for name, there in zip(self._known[telemetry.name], fresh, strict=True):
                come.setdefault(_node(name), []).append(there)
        return {node: sum(there) / len(there) for node, there in come.items()}

    def signals(self) -> frozenset[str]:
        """Ids of the signals that ever had a value."""
        self._learn()
        _, times = self.diagnosis.detector.panel.by_number(self._placed())
        came = np.bincount(self._signal[: len(times)][np.isfinite(times)], minlength=len(self._signals))
        return frozenset(signal for signal, count in zip(self._signals, came.tolist(), strict=True) if count)

    def _placed(self) -> int:
        """How many series both the table and the panel know."""
        return min(len(self._signal), self.diagnosis.detector.panel.known)

    def _newest(self, telemetry: Telemetry) -> F64:
        """[reporter] time of the newest sample; -inf where there never was one."""
        self._learn()
        series, who = self._at[telemetry.name]
        newest = np.full(len(self._known[telemetry.name]), -np.inf)
        _, times = self.diagnosis.detector.panel.by_number(self._placed())
        seen = series < len(times)
        np.fmax.at(newest, who[seen], times[series[seen]])
        return newest

    def _learn(self) -> None:
        """Looks at the series that are new in the table."""
        size = len(self.table.keys)
        if not self._known:
            self._known = reporters(self.topology)
            self._place = {kind: {name: n for n, name in enumerate(who)} for kind, who in self._known.items()}
            self._at = {kind: (np.empty(0, np.int32), np.empty(0, np.int32)) for kind in self._known}
        first = len(self._signal)
        if first == size:
            return
        new = self.table.keys[first:size]
        numbers = (self._signals.setdefault(key.signal, len(self._signals)) for key in new)
        told = np.fromiter(numbers, np.int32, len(new))
        self._signal = np.append(self._signal, told)
        for telemetry in KINDS:
            place, of = self._place[telemetry.name], telemetry.of
            its = np.array([signal.startswith(telemetry.prefixes) for signal in self._signals], bool)
            at = np.flatnonzero(its[told]).astype(np.int32)
            entities = [new[n].entity for n in at]
            places = {entity: place.get(of(entity), -1) for entity in set(entities)}
            who = np.fromiter((places[entity] for entity in entities), np.int32, len(at))
            series, whose = self._at[telemetry.name]
            self._at[telemetry.name] = np.append(series, first + at[who >= 0]), np.append(whose, who[who >= 0])


def _few_first(names: Iterable[str]) -> tuple[int, list[str]]:
    ordered = sorted(names)
    return len(ordered), ordered


def _state(telemetry: Telemetry, known: tuple[str, ...], newest: F64, t: float) -> SourceState:
    age = t - newest
    silent = [name for name, old in zip(known, age, strict=True) if old > SILENT]
    youngest = float(age.min())
    note = f"silent: {listed(silent, 4)}" if silent and len(silent) < len(known) else ""
    return SourceState(
        telemetry.name,
        telemetry.kind,
        len(known) - len(silent),
        len(known),
        max(youngest, 0.0) if np.isfinite(youngest) else None,
        note,
    )
