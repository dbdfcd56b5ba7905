"""Assembly of rules, policies, matcher and engine for one fleet, and which of its reporters deliver telemetry.

Replays and the controller share it.
"""

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from skewscope.adapters.mapping.names import signals_from_outside
from skewscope.adapters.runtime.durable import best_matcher
from skewscope.adapters.view.snapshot import SourceState
from skewscope.engine.advice.advice import PolicyEvaluator
from skewscope.engine.advice.policy import compile_policies
from skewscope.engine.engine import TICK_S, Engine, IncidentChange
from skewscope.engine.ingest.feed import Block, SeriesTable
from skewscope.engine.model.arrays import F64, Index, Mask
from skewscope.engine.model.incident import Incident
from skewscope.engine.model.topology import GonePlaces, Topology
from skewscope.kb.model import Catalogue
from skewscope.kb.problems import InputError, join_names
from skewscope.rules.coverage import symptom_signals
from skewscope.rules.loader import load_builtin as load_rules
from skewscope.rules.policy import load_in_use as load_policies

SILENT_AFTER = 10.0
"""Seconds without a sample after which a reporter is silent, or three sampling periods if these are longer."""


@dataclass(frozen=True, slots=True)
class TelemetryKind:
    """One kind of telemetry."""

    name: str
    kind: str
    prefixes: tuple[str, ...]
    reporter_of: Callable[[str], str]
    """Returns the reporter of a series, given the name of its entity."""
    measures: str
    """What is unknown without this telemetry."""
    verb: str = "are"
    """The verb of `measures`: is or are."""


def _node_of(entity: str) -> str:
    return entity.split(">", maxsplit=1)[0].split("/", maxsplit=1)[0]


def _reporting_entity(entity: str) -> str:
    return entity.split(">", maxsplit=1)[0]


SERVING = "serving telemetry"
TELEMETRY_KINDS = (
    TelemetryKind("packets", "ports", ("wire.",), _reporting_entity, "rounds, loss, round trips and request timing"),
    TelemetryKind(
        "node telemetry", "nodes", ("host.", "port.", "prio.", "rdma."), _node_of, "counters of ports and hosts"
    ),
    TelemetryKind(SERVING, "replicas", ("serve.",), _reporting_entity, "queues, batches and caches of the engines"),
    TelemetryKind(
        *("GPU telemetry", "GPU nodes", ("gpu.",), _node_of, "whether a GPU is slow, hot, throttled or broken"),
        verb="is",
    ),
)
OTHER_TELEMETRY = {
    "telemetry of the jobs": ("step.", "nccl."),
    "telemetry of the switches": ("switch.",),
    "telemetry of the DPUs": ("agent.", "cc.", "dpu.", "flow.", "hft.", "rep.", "vport."),
    "telemetry of PCIe": ("pcie.",),
    "telemetry of request pools": ("pool.",),
}
"""Prefixes of signals by telemetry whose reporters the topology does not name."""
UNNAMED_TELEMETRY = "other telemetry"
UNREADABLE = "wire.rounds_unreadable"


def expected_reporters(topology: Topology) -> dict[str, tuple[str, ...]]:
    """Returns the reporters of each kind of telemetry that the topology has."""
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
        SERVING: tuple(g.name for g in topology.groups if g.front_end),
        "GPU telemetry": tuple(n.name for n in topology.nodes if n.gpus),
    }


@dataclass
class LackingSignals:
    """Signals of one kind of telemetry that no source delivers, and the conditions that need them."""

    signals: set[str] = field(default_factory=set)
    conditions: set[str] = field(default_factory=set)


@dataclass
class TelemetryCoverage:
    """Coverage of a fleet by the telemetry that an engine has received."""

    topology: Topology
    engine: Engine
    table: SeriesTable
    gone: GonePlaces = field(default_factory=GonePlaces)
    """What has ended and is still in the topology: no telemetry is expected of it."""
    _series_by_kind: dict[str, tuple[np.ndarray, np.ndarray]] = field(init=False)
    """By kind: [series] numbers of its series, [series] numbers of their reporters."""
    _reporters: dict[str, tuple[str, ...]] = field(init=False)
    _reporter_numbers: dict[str, dict[str, int]] = field(init=False)
    _signal_numbers: dict[str, int] = field(default_factory=dict)
    """Number of each signal of the table."""
    _signal_of_series: np.ndarray = field(default_factory=lambda: np.empty(0, np.int32))
    """[series] number of its signal."""
    _outside: frozenset[str] = field(init=False)
    """Signals of engines that others deliver: they say nothing of whether an engine's own telemetry arrives."""
    _shown: Mapping[str, frozenset[str]] = field(init=False)
    """By condition: signals in which it can show as a symptom."""
    _unjudged_key: tuple[frozenset[str], tuple[str, ...]] = (frozenset(), ())
    _unjudged: Mapping[str, LackingSignals] = field(default_factory=dict)
    _missing_key: tuple[object, ...] = ()
    """What the sentences of `missing` were last made from."""
    _missing: tuple[str, ...] = ()
    _gpus: dict[str, int] = field(default_factory=dict)
    """Number of each GPU that has series."""
    _gpu_series: tuple[Index, Index] = (np.empty(0, np.intp), np.empty(0, np.intp))
    """([k] series of GPUs, [k] numbers of their GPUs)."""
    _unreadable: tuple[int, Index] = (0, np.empty(0, np.intp))
    """(series of the table, [k] those that say whether rounds can be read)."""

    def __post_init__(self) -> None:
        self._shown = symptom_signals(self.engine.catalogue)
        self._outside = signals_from_outside(self.engine.catalogue)
        self._reporters = expected_reporters(self.topology)
        self._reporter_numbers = {
            kind: {name: n for n, name in enumerate(who)} for kind, who in self._reporters.items()
        }
        self._series_by_kind = {kind: (np.empty(0, np.int32), np.empty(0, np.int32)) for kind in self._reporters}

    def sources(self, t: float) -> tuple[SourceState, ...]:
        """Returns the state of each kind of telemetry with reporters, at `t` in seconds since 1970."""
        found = []
        for telemetry in TELEMETRY_KINDS:
            newest = self._newest_times(telemetry)
            known, at = self._reporters[telemetry.name], self._expected(telemetry)
            if at.any():
                silent = t - newest > self._silence_limits(telemetry, t - newest)
                names = tuple(itertools.compress(known, at.tolist()))
                found.append(_source_state(telemetry, names, (t - newest)[at], silent[at]))
        return tuple(found)

    def _expected(self, telemetry: TelemetryKind) -> Mask:
        """Returns [reporter] of which telemetry is expected: all that have not ended."""
        known = self._reporters[telemetry.name]
        if not self.gone:
            return np.ones(len(known), bool)
        names = self.gone.groups if telemetry.name == SERVING else self.gone.nodes
        return np.array([_node_of(name) not in names for name in known], bool)

    def missing(self) -> tuple[str, ...]:
        """Returns sentences on missing telemetry and what is unknown without it, one for each kind of telemetry."""
        lacking, signals = self._conditions_by_telemetry(), self.signals()
        never = [np.isneginf(self._newest_times(telemetry)) for telemetry in TELEMETRY_KINDS]
        key = (self._unjudged_key, self.gone, *(mask.tobytes() for mask in never))
        if key != self._missing_key:
            delivered = {_telemetry_of(signal) for signal in signals}
            self._missing_key, self._missing = key, self._describe_missing(lacking, delivered, never)
        return *self._missing, *self._describe_unreadable()

    def _describe_unreadable(self) -> tuple[str, ...]:
        """Returns a sentence on the groups whose rounds most of their ports cannot read; none without any."""
        number = self._signal_numbers.get(UNREADABLE)
        if number is None:
            return ()
        if self._unreadable[0] != len(self._signal_of_series):
            self._unreadable = len(self._signal_of_series), np.flatnonzero(self._signal_of_series == number)
        at = self._unreadable[1]
        at = at[at < len(self.engine.newest_times(len(self._signal_of_series)))]
        ports: dict[str, list[bool]] = {}
        for series, value in zip(at.tolist(), self.engine.newest_values(at).tolist(), strict=True):
            ports.setdefault(self.table.keys[series].selector, []).append(value > 0)
        groups = sorted(name for name, flags in ports.items() if 2 * sum(flags) > len(flags))
        if not groups:
            return ()
        return (f"No rounds can be read in the packets of {join_names(groups, 4)}: which member is late is unknown.",)

    def _describe_missing(
        self, lacking: Mapping[str, LackingSignals], delivered: Collection[str], never: Sequence[Mask]
    ) -> tuple[str, ...]:
        notes = []
        for telemetry, mask in zip(TELEMETRY_KINDS, never, strict=True):
            note = self._missing_reporters(telemetry, mask)
            if not note and telemetry.name not in delivered and telemetry.name in lacking:
                note = f"No {telemetry.name}: {telemetry.measures} {telemetry.verb} unknown"
            notes.append(_missing_sentence(telemetry.name, note, lacking.get(telemetry.name)))
        for name in (*OTHER_TELEMETRY, UNNAMED_TELEMETRY):
            note = "" if name in delivered or name not in lacking else f"No {name}"
            notes.append(_missing_sentence(name, note, lacking.get(name)))
        return tuple(filter(None, notes))

    def _missing_reporters(self, telemetry: TelemetryKind, never: Mask) -> str:
        """Returns which reporters of the topology never delivered, and what is unknown; '' if all did."""
        known = self._reporters[telemetry.name]
        silent = list(itertools.compress(known, (never & self._expected(telemetry)).tolist()))
        unknown = f"{telemetry.measures} {telemetry.verb} unknown"
        if not known and telemetry.name == "GPU telemetry":
            return f"The topology names no GPUs: {unknown}"
        if silent and len(silent) == len(known):
            return f"No {telemetry.name} from any of {len(known)} {telemetry.kind}: {unknown}"
        return f"No {telemetry.name} from {join_names(silent, 4)}: {unknown} there" if silent else ""

    def _conditions_by_telemetry(self) -> Mapping[str, LackingSignals]:
        """Returns for each kind of telemetry the conditions that no rule can evaluate without its signals."""
        key = self.signals(), tuple(verdict.rule for verdict in self.engine.verdicts if verdict.names)
        if key != self._unjudged_key:
            self._unjudged_key, self._unjudged = key, self._find_unjudged(*key)
        return self._unjudged

    def _find_unjudged(self, delivered: frozenset[str], rules: tuple[str, ...]) -> Mapping[str, LackingSignals]:
        """Returns the conditions of which neither a rule nor a symptom can tell, by kind of telemetry."""
        by_condition: dict[str, list[tuple[str, ...]]] = {}
        for name in rules:
            rule = self.engine.rules[name]
            by_condition.setdefault(rule.condition, []).append(rule.blocking_signals(delivered))
        found: dict[str, LackingSignals] = {}
        for condition, lacking in sorted(by_condition.items()):
            if not all(lacking) or not delivered.isdisjoint(self._shown[condition]):
                continue
            for signal in sorted(min(lacking, key=_size_then_names)):
                one = found.setdefault(_telemetry_of(signal), LackingSignals())
                one.conditions.add(condition)
                one.signals.add(signal)
        return found

    def coverage_by_node(self, t: float) -> dict[str, float]:
        """Returns for each node the share of its expected telemetry that arrives at `t`."""
        arriving: dict[str, list[bool]] = {}
        for telemetry in TELEMETRY_KINDS:
            if telemetry.name == SERVING:
                continue
            for name, is_fresh in self._list_arrivals(telemetry, t):
                arriving.setdefault(_node_of(name), []).append(is_fresh)
        return {node: sum(flags) / len(flags) for node, flags in arriving.items()}

    def coverage_by_engine(self, t: float) -> dict[str, float]:
        """Returns for each group with a front end whether telemetry of its serving engine arrives at `t`: 1 or 0."""
        serving = next(telemetry for telemetry in TELEMETRY_KINDS if telemetry.name == SERVING)
        return {name: float(is_fresh) for name, is_fresh in self._list_arrivals(serving, t)}

    def coverage_by_gpu(self, t: float) -> dict[str, float]:
        """Returns for each GPU that has had telemetry of its own whether it arrives at `t`: 1 or 0."""
        self._index_new_series()
        series, gpus = self._gpu_series
        times = self.engine.newest_times(len(self._signal_of_series))
        seen = series < len(times)
        newest = np.full(len(self._gpus), -np.inf)
        np.fmax.at(newest, gpus[seen], times[series[seen]])
        limits = np.full(len(self._gpus), np.inf)
        np.fmin.at(limits, gpus[seen], self.engine.stale_ages(series[seen]))
        fresh = t - newest <= np.maximum(SILENT_AFTER, np.where(np.isfinite(limits), limits, 0.0))
        return dict(zip(self._gpus, fresh.astype(float).tolist(), strict=True))

    def _list_arrivals(self, telemetry: TelemetryKind, t: float) -> Iterator[tuple[str, bool]]:
        """Yields for each reporter of a kind of telemetry whether it delivers at `t`."""
        age = t - self._newest_times(telemetry)
        is_fresh = age <= self._silence_limits(telemetry, age)
        yield from zip(self._reporters[telemetry.name], is_fresh.tolist(), strict=True)

    def signals(self) -> frozenset[str]:
        """Returns the ids of the signals that have had a value."""
        self._index_new_series()
        times = self.engine.newest_times(len(self._signal_of_series))
        counts = np.bincount(
            self._signal_of_series[: len(times)][np.isfinite(times)], minlength=len(self._signal_numbers)
        )
        return frozenset(signal for signal, count in zip(self._signal_numbers, counts.tolist(), strict=True) if count)

    def _newest_times(self, telemetry: TelemetryKind) -> F64:
        """Returns [reporter] float64 seconds since 1970 of the newest sample, -inf before the first."""
        self._index_new_series()
        series, who = self._series_by_kind[telemetry.name]
        newest = np.full(len(self._reporters[telemetry.name]), -np.inf)
        times = self.engine.newest_times(len(self._signal_of_series))
        seen = series < len(times)
        np.fmax.at(newest, who[seen], times[series[seen]])
        return newest

    def _silence_limits(self, telemetry: TelemetryKind, age: F64) -> F64:
        """Returns [reporter] float64 seconds: the age from which a reporter is silent, longer where it samples rarely.

        Args:
            telemetry: the kind of telemetry.
            age: [reporter] seconds since the newest sample; limits of the younger reporters are not computed.
        """
        limits = np.full(len(age), SILENT_AFTER)
        late = np.isfinite(age) & (age > SILENT_AFTER)
        if late.any():
            series, who = self._series_by_kind[telemetry.name]
            known = len(self.engine.newest_times(len(self._signal_of_series)))
            some = late[who] & (series < known)
            shortest = np.full(len(age), np.inf)
            np.fmin.at(shortest, who[some], self.engine.stale_ages(series[some]))
            limits[late] = np.maximum(SILENT_AFTER, np.where(np.isfinite(shortest), shortest, 0.0)[late])
        return limits

    def _index_new_series(self) -> None:
        """Assigns the series that are new in the table to signals and reporters."""
        size = len(self.table.keys)
        first = len(self._signal_of_series)
        if first == size:
            return
        new = self.table.keys[first:size]
        signals = (self._signal_numbers.setdefault(key.signal, len(self._signal_numbers)) for key in new)
        signal_numbers = np.fromiter(signals, np.int32, len(new))
        self._signal_of_series = np.append(self._signal_of_series, signal_numbers)
        gpus = [(n, key.entity) for n, key in enumerate(new, first) if key.kind == "gpu"]
        numbers = [self._gpus.setdefault(name, len(self._gpus)) for _, name in gpus]
        series = np.array([n for n, _ in gpus], np.intp)
        self._gpu_series = (
            np.append(self._gpu_series[0], series),
            np.append(self._gpu_series[1], np.array(numbers, np.intp)),
        )
        for telemetry in TELEMETRY_KINDS:
            place, of = self._reporter_numbers[telemetry.name], telemetry.reporter_of
            is_measured = np.array(
                [
                    signal.startswith(telemetry.prefixes) and signal not in self._outside
                    for signal in self._signal_numbers
                ],
                bool,
            )
            at = np.flatnonzero(is_measured[signal_numbers]).astype(np.int32)
            entities = [new[n].entity for n in at]
            places = {entity: place.get(of(entity), -1) for entity in set(entities)}
            who = np.fromiter((places[entity] for entity in entities), np.int32, len(at))
            series, reporters = self._series_by_kind[telemetry.name]
            self._series_by_kind[telemetry.name] = (
                np.append(series, first + at[who >= 0]),
                np.append(reporters, who[who >= 0]),
            )


def _telemetry_of(signal: str) -> str:
    """Returns the kind of telemetry that has a signal."""
    kinds = {telemetry.name: telemetry.prefixes for telemetry in TELEMETRY_KINDS} | OTHER_TELEMETRY
    return next((name for name, prefixes in kinds.items() if signal.startswith(prefixes)), UNNAMED_TELEMETRY)


def _missing_sentence(telemetry: str, note: str, lacking: LackingSignals | None) -> str:
    """Returns one sentence on one kind of telemetry, '' where nothing is missing."""
    if lacking is None:
        return f"{note}." if note else ""
    first = note or f"The {telemetry} {'lack' if telemetry == 'packets' else 'lacks'} {_count_signals(lacking)}"
    conditions = "1 condition" if len(lacking.conditions) == 1 else f"{len(lacking.conditions)} conditions"
    return f"{first}; {conditions} cannot be judged."


def _count_signals(lacking: LackingSignals) -> str:
    names = sorted(lacking.signals)
    return join_names(names, 2) if len(names) > 1 else names[0]


def _size_then_names(names: Iterable[str]) -> tuple[int, list[str]]:
    ordered = sorted(names)
    return len(ordered), ordered


def _source_state(telemetry: TelemetryKind, known: tuple[str, ...], age: F64, is_silent: Mask) -> SourceState:
    """Returns the state of one kind of telemetry; `age` in seconds and `is_silent` are [reporter]."""
    silent = [name for name, flag in zip(known, is_silent.tolist(), strict=True) if flag]
    youngest = float(age.min())
    note = f"silent: {join_names(silent, 4)}" if silent and len(silent) < len(known) else ""
    return SourceState(
        telemetry.name,
        telemetry.kind,
        len(known) - len(silent),
        len(known),
        max(youngest, 0.0) if np.isfinite(youngest) else None,
        note,
    )


@dataclass(frozen=True, slots=True)
class Snapshot:
    """State of a diagnosis at one time."""

    time: float
    """Seconds since 1970, by the data."""
    start: float
    end: float
    """Time span of the recording; live: of the samples so far."""
    incidents: tuple[Incident, ...]
    """In the order of the contract."""
    sources: tuple[SourceState, ...]
    missing: tuple[str, ...]
    """Missing telemetry and what is unknown without it, in sentences."""
    silenced: Mapping[str, str] = field(default_factory=dict)
    """Id of the silence of each silenced incident, by incident id."""
    acknowledged: Mapping[str, str] = field(default_factory=dict)
    """Live: who acknowledged each incident at the controller, by incident id."""
    unplaced: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Live: number of series that are not used, by source and reason."""


@dataclass(frozen=True, slots=True)
class Span:
    """Time span of the data, and its hash ('' while more arrives)."""

    start: float
    end: float
    input_hash: str = ""


@dataclass(frozen=True, slots=True)
class Runtime:
    """An engine with its series table and coverage."""

    engine: Engine
    table: SeriesTable
    coverage: TelemetryCoverage

    def step(self, t: float, block: Block) -> tuple[IncidentChange, ...]:
        """Processes the samples of the tick that ends at `t` and returns the changes to incidents."""
        return self.engine.step(t, block, self.table)

    def snapshot(self, t: float, span: Span) -> Snapshot:
        """Returns the state at `t`."""
        sources, missing = self.coverage.sources(t), self.coverage.missing()
        return Snapshot(t, span.start, span.end, self.incidents(span), sources, missing)

    def incidents(self, span: Span) -> tuple[Incident, ...]:
        """Returns all incidents, in the order of the contract."""
        return self.engine.list_incidents(span.input_hash)


@contextmanager
def build_runtime(
    topology: Topology, known: Catalogue, table: SeriesTable, also_read: Iterable[str] = (), tick: float = TICK_S
) -> Iterator[Runtime]:
    """Builds the runtime of a topology; leaving the context ends the matcher's process.

    `also_read` are ids of signals that are kept though neither rules nor symptoms read them; `tick` is the length of a
    tick in seconds.

    Raises:
        InputError: all problems of the rules and policies.
    """
    rules, problems = load_rules(known)
    policies, more = load_policies(known)
    if problems or more:
        raise InputError([*problems, *more])
    program = compile_policies(policies)
    matcher = best_matcher(program)
    try:
        evaluator = PolicyEvaluator(program, matcher)
        engine = Engine(rules.values(), known, topology, evaluator, symptoms=True, also_read=also_read, tick=tick)
        yield Runtime(engine, table, TelemetryCoverage(topology, engine, table))
    finally:
        matcher.close()
