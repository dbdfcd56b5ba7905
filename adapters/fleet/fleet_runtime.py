"""All shards of a fleet as one runtime: their changes, incidents and coverage joined, and what is not known of them.

It has the methods of `Runtime` and `Engine` that a tick of a controller calls.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from skewscope.adapters.fleet.shard_pool import Confirmation, ShardPool
from skewscope.adapters.fleet.shard_report import ShardReport, ShardTick
from skewscope.adapters.runtime.runtime import Span, expected_reporters
from skewscope.adapters.view.snapshot import SourceState
from skewscope.engine.advice.advice import ContextFact
from skewscope.engine.attribution.across_shards import SharedPlaces, apply_explanations, join_incidents
from skewscope.engine.attribution.cause_graph import CauseGraph
from skewscope.engine.engine import NewestSamples, SampleCounts, SignalSeries, order_incidents
from skewscope.engine.ingest.feed import Block
from skewscope.engine.model.arrays import F64, Index
from skewscope.engine.model.incident import BlastRadius, Incident, IncidentChange
from skewscope.engine.model.topology import GonePlaces, Topology
from skewscope.engine.model.verdict import NO, UNKNOWN, RuleVerdict
from skewscope.kb.model import Catalogue
from skewscope.kb.problems import join_names
from skewscope.rules.model import Rule

BLIND_S = 3.0
"""Seconds without a new tick of a shard after which nothing counts as known of its nodes."""


@dataclass
class _KnownShard:
    """The last report of a shard."""

    report: ShardReport
    number: int = 0
    """Of the last tick whose changes were passed on."""
    is_first: bool = True
    """Whether its changes may have been stored by a controller before this one."""
    heard_at: float = -math.inf
    """End of the controller's tick in which it was heard last."""


@dataclass
class FleetEngine:
    """Stands for the engine: what only one process could say is empty."""

    topology: Topology
    catalogue: Catalogue
    rules: Mapping[str, Rule]
    counts: SampleCounts = field(default_factory=SampleCounts)
    verdicts: Sequence[RuleVerdict] = ()
    read_signals: frozenset[str] = frozenset()
    series_version: tuple[int, int] = (0, 0)

    @property
    def sample_counts(self) -> SampleCounts:
        """Numbers of samples of all shards."""
        return self.counts

    def set_context(self, context: Iterable[ContextFact]) -> None:
        """Does nothing: without targets there is nothing to tell the policies of shards."""

    def retire(self, t: float, gone: GonePlaces) -> None:
        """Does nothing: a fleet discovers no topology, of which places could end."""

    def forget_incidents(self, before: float) -> None:
        """Does nothing: shards forget by themselves."""

    def list_series(self) -> Iterator[SignalSeries]:
        """Yields nothing: series stay with their shards."""
        yield from ()

    def newest_samples(self, position: Index) -> NewestSamples:
        """Returns no samples."""
        return NewestSamples(*(np.full(len(position), np.nan) for _ in range(4)))

    def newest_times(self, count: int) -> F64:
        """Returns no times."""
        return np.full(count, np.nan)

    def peer_set_numbers(self, _kind: str) -> Index:
        """Returns no sets."""
        return np.empty(0, np.intp)

    def display_name(self, kind: str, name: str) -> tuple[str, str]:
        """Returns kind and name as incidents of shards already show them."""
        return kind, name


@dataclass
class FleetRuntime:
    """The shards of a fleet, as they were last heard."""

    engine: FleetEngine
    shard_of: Mapping[str, str]
    """The name of each node's shard."""
    pool: ShardPool
    is_stored: Callable[[IncidentChange], bool] = lambda _: False
    """Whether a change was stored by a controller before this one."""
    explained: dict[str, str] = field(default_factory=dict)
    """By incident: its root in another shard, as of the last tick."""
    known: dict[str, _KnownShard] = field(default_factory=dict)
    on_lost_life: Callable[[], None] = lambda: None
    """Called when a shard has lost what it knew, before its incidents are."""
    _confirmed: dict[str, Confirmation] = field(default_factory=dict)
    _t: float = -math.inf
    _incidents: tuple[Incident, ...] = ()
    _started_at: float | None = None

    def __post_init__(self) -> None:
        self.places = SharedPlaces(self.engine.topology, self.shard_of)
        self._causes = CauseGraph(self.engine.catalogue)
        self._reporters = expected_reporters(self.engine.topology)
        self._nodes: dict[str, list[str]] = {}
        for node, shard in self.shard_of.items():
            self._nodes.setdefault(shard, []).append(node)

    def expect_explanations(self, stored: Iterable[Incident]) -> None:
        """Takes over what a controller before this one said: which incidents have their root in another shard."""
        known = {one.id: one for one in stored}
        for one in known.values():
            root = known.get(one.root_id)
            if root is not None and self._shards_of(root).isdisjoint(self._shards_of(one)):
                self.explained[one.id] = root.id

    def _shards_of(self, one: Incident) -> set[str]:
        return {self.shard_of[node] for node in self.places.nodes_of(one)}

    @property
    def shards(self) -> Sequence[str]:
        """The names of the shards."""
        return sorted(self._nodes)

    def first_tick(self, t: float) -> float:
        """Returns the end of the first tick, `t` before it."""
        return t if self._started_at is None else self._started_at

    # --- ticks

    def step(self, t: float, _block: Block) -> tuple[IncidentChange, ...]:
        """Hears all shards that answer; returns the changes that were not passed on yet, in their order of time."""
        self._started_at = t if self._started_at is None else self._started_at
        self._t = t
        changes: list[IncidentChange] = []
        for name, report in sorted(self.pool.poll({name: self._heard(name) for name in self.shards}).items()):
            changes += self._take_report(name, report)
        self.engine.counts = SampleCounts(dropped=sum(one.report.counts.late for one in self.known.values()))
        changes += self._join(t)
        # A fault of the fleet as a whole has one id in all shards.
        return tuple(sorted(dict.fromkeys(changes), key=lambda one: one.t))

    def _heard(self, name: str) -> Confirmation:
        return self._confirmed.get(name, Confirmation())

    def _take_report(self, name: str, report: ShardReport) -> list[IncidentChange]:
        before = self.known.get(name)
        if before is not None and before.report.life != report.life:
            self.on_lost_life()
            before = None
        one = self.known[name] = _KnownShard(report) if before is None else before
        one.report, one.heard_at = report, self._t
        new = [tick for tick in report.ticks if tick.number > one.number]
        found = [change for tick in new for change in tick.changes if not (one.is_first and self.is_stored(change))]
        one.number, one.is_first = max(one.number, _last_number(new, report)), False
        return found

    def confirm(self) -> None:
        """Says that all changes that `step` returned are stored: shards need not repeat them."""
        self._confirmed = {name: Confirmation(one.number, one.report.life) for name, one in self.known.items()}

    # --- incidents

    def _join(self, t: float) -> list[IncidentChange]:
        """Joins the incidents of all shards; returns the changes of what explains them."""
        by_shard = {name: one.report.incidents for name, one in self.known.items()}
        found = join_incidents(t, by_shard, self.places, self._causes, self.blind_shards(t))
        listed = _unite(one for name in sorted(by_shard) for one in by_shard[name])
        self._incidents = tuple(order_incidents(apply_explanations(listed, found), ""))
        before, self.explained = self.explained, {id_: link.id for id_, link in found.items()}
        present = {one.id for one in listed}
        again = [IncidentChange(t, id_, "a root again") for id_ in before if id_ in present and id_ not in found]
        news = [(id_, link) for id_, link in found.items() if before.get(id_) != link.id]
        return [*again, *(IncidentChange(t, id_, f"explained by {link.id}") for id_, link in news)]

    def incidents(self, span: Span) -> tuple[Incident, ...]:
        """Returns all incidents, in the order of the contract."""
        return tuple(replace(one, input_hash=span.input_hash) for one in self._incidents)

    # --- what is not known

    def blind_shards(self, t: float) -> frozenset[str]:
        """Returns the shards that were not heard, or whose ticks do not advance."""
        if self._started_at is not None and t - self._started_at < BLIND_S and not self.known:
            return frozenset()
        found = self.known
        return frozenset(n for n in self.shards if n not in found or t - found[n].report.t > BLIND_S)

    def verdict(self, one: Incident) -> int:
        """Returns UNKNOWN where nothing can be said of an incident at present, else NO."""
        shards = self._shards_of(one) or set(self.shards)
        blind = self.blind_shards(self._t)
        uncertain = any(one.id in self.known[name].report.uncertain for name in shards if name in self.known)
        return UNKNOWN if uncertain or shards & blind or any(name not in self.known for name in shards) else NO

    def is_unknown(self, one: Incident) -> bool:
        """Returns whether nothing can be said of an incident at present."""
        return self.verdict(one) == UNKNOWN

    def url_of(self, node: str) -> str:
        """Returns where the agent of a node sends its rows; '' while its shard does not answer.

        A shard that is back answers before it judges: it waits for the rows of its agents.
        """
        one = self.known.get(self.shard_of.get(node, ""))
        return one.report.url if one is not None and self._t - one.heard_at <= BLIND_S else ""

    # --- coverage

    @property
    def coverage(self) -> "FleetRuntime":
        """Itself: it knows the coverage of its shards."""
        return self

    def sources(self, t: float) -> tuple[SourceState, ...]:
        """Returns the state of each kind of telemetry; reporters of blind shards are silent."""
        blind = self.blind_shards(t)
        by_kind: dict[str, list[SourceState]] = {}
        for name, one in self.known.items():
            for state in one.report.sources:
                by_kind.setdefault(state.name, []).append(replace(state, reporting=0) if name in blind else state)
        return tuple(_add_states(by_kind.get(kind, []), kind, len(who)) for kind, who in self._reporters.items() if who)

    def missing(self) -> tuple[str, ...]:
        """Returns sentences on blind shards, on missing telemetry, and on troubles of shards."""
        blind = self.blind_shards(self._t)
        found = [self._describe_blind(name) for name in sorted(blind)]
        per_shard: dict[str, list[str]] = {}
        for name, one in sorted(self.known.items()):
            for sentence in (*one.report.missing, *one.report.troubles):
                per_shard.setdefault(sentence, []).append(name)
        for sentence, names in per_shard.items():
            everywhere = len(names) == len(self.shards)
            found.append(sentence if everywhere else f"{join_names(names, 4)}: {sentence}")
        return tuple(found)

    def _describe_blind(self, name: str) -> str:
        nodes = self._nodes[name]
        which = join_names(nodes, 2) if len(nodes) > 2 else " and ".join(nodes)
        return f"Shard {name} does not answer: nothing is known of its {len(nodes)} nodes ({which})."

    def coverage_by_node(self, t: float) -> dict[str, float]:
        """Returns for each node the share of its expected telemetry that arrives; 0 where its shard is blind."""
        found: dict[str, float] = {}
        for one in self.known.values():
            found |= one.report.node_coverage
        return found | dict.fromkeys((node for name in self.blind_shards(t) for node in self._nodes[name]), 0.0)

    def coverage_by_engine(self, t: float) -> dict[str, float]:
        """Returns for each group with a serving engine whether its telemetry arrives; none of blind shards."""
        blind = self.blind_shards(t)
        found: dict[str, float] = {}
        for name, one in self.known.items():
            found |= {} if name in blind else one.report.engine_coverage
        return found


def _last_number(new: Sequence[ShardTick], report: ShardReport) -> int:
    return max((tick.number for tick in new), default=report.last_number)


def _unite(incidents: Iterable[Incident]) -> list[Incident]:
    """Returns each id once: a fault of the fleet as a whole fires where any shard says so."""
    found: dict[str, Incident] = {}
    for one in incidents:
        other = found.get(one.id)
        if other is None:
            found[one.id] = one
            continue
        lead = other if other.resolved_at is None else one
        radii = (other.blast_radius, one.blast_radius)
        radius = BlastRadius(*(sum(getattr(each, name) for each in radii) for name in ("nodes", "groups", "replicas")))
        found[one.id] = replace(lead, blast_radius=radius, also=tuple(sorted({*one.also, *other.also})))
    return list(found.values())


def _add_states(states: Sequence[SourceState], name: str, known: int) -> SourceState:
    ages = [one.age_s for one in states if one.age_s is not None]
    kind = states[0].kind if states else "reporters"
    notes = join_names([one.note for one in states if one.note], 2)
    return SourceState(name, kind, sum(one.reporting for one in states), known, min(ages, default=None), notes)
