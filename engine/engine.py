"""The engine of one fleet: a tick's samples in, incidents out, and read-only queries of its state.

This module is the public interface of the engine. Adapters and the terminal import it, the value types of
`engine.model`, `engine.ingest.feed` and `engine.wire`, and nothing else that keeps state.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from skewscope.engine.advice.advice import ContextFact, PolicyEvaluator
from skewscope.engine.features.evaluator import unit_of
from skewscope.engine.features.transfer import transfer_features
from skewscope.engine.incidents.alerts import EvidenceSpec, RuleInfo
from skewscope.engine.incidents.confidence import Calibration, load_calibration, prior_log_odds
from skewscope.engine.incidents.lifecycle import SampleTimes
from skewscope.engine.incidents.state import IncidentTiming
from skewscope.engine.incidents.tracker import IncidentTracker
from skewscope.engine.incidents.tracker import order_for_contract as order_incidents
from skewscope.engine.ingest.feed import TICK_S, Block, SampleFrame, SeriesKey, SeriesTable
from skewscope.engine.ingest.series_state import WATERMARK, SampleCounts
from skewscope.engine.ingest.transfer import match_series, transfer_series
from skewscope.engine.judge.rule_detector import RuleDetector
from skewscope.engine.judge.transfer import end_tick, transfer_judges
from skewscope.engine.model.arrays import F64, Index
from skewscope.engine.model.detector import FindingDetector
from skewscope.engine.model.finding import Finding
from skewscope.engine.model.incident import Incident, IncidentChange
from skewscope.engine.model.locality import Entity
from skewscope.engine.model.tick import NewSamples, Tick
from skewscope.engine.model.topology import GonePlaces, Topology
from skewscope.engine.model.transfer import EntityPlaces
from skewscope.engine.model.verdict import RuleVerdict
from skewscope.engine.symptoms.detectors import SeriesDetectors
from skewscope.engine.symptoms.growing_steps import EPOCH_SIGNAL
from skewscope.engine.symptoms.progress import EVALUATION_SIGNAL
from skewscope.engine.symptoms.roles import LARGE_FLEET_NODES, judged_signals
from skewscope.engine.wire.join import WireJoin
from skewscope.kb.garbage import pause_collection
from skewscope.kb.model import Catalogue
from skewscope.kb.units import format_dimension
from skewscope.rules.entity_kinds import PEER_DEFAULTS
from skewscope.rules.expression import Peers
from skewscope.rules.model import Rule

__all__ = [
    "TICK_S",
    "WATERMARK",
    "Engine",
    "IncidentChange",
    "NewestSamples",
    "SampleCounts",
    "SignalSeries",
    "build_rule_info",
    "order_incidents",
]


@dataclass(frozen=True, slots=True)
class SignalSeries:
    """The series of one signal that have had a sample. Arrays are [series] int, one item per series."""

    signal: str
    kind: str
    """Kind of the entities."""
    entity_names: Sequence[str]
    """Entities of the kind, by number."""
    selectors: Sequence[str]
    """Selectors of the signal, by number."""
    entity: Index
    """Number in `entity_names`."""
    selector: Index
    """Number in `selectors`."""
    position: Index
    """Position for `Engine.newest_samples`."""


@dataclass(frozen=True, slots=True)
class NewestSamples:
    """The newest sample of some series. Arrays are [series] float64, NaN where there is none."""

    time: F64
    """Seconds since 1970 of the newest sample that had a value."""
    value: F64
    """As delivered, in the signal's unit; NaN after a gap as well."""
    counter_total: F64
    """Sum of a counter's increases since its first sample, in the signal's unit."""
    stale_after: F64
    """Age in seconds at which the value becomes stale."""


LATE_QUANTILE = 0.9
"""The part of samples that come no later than what counts as their delay (judgement: single ones may be held up)."""
DELAY_KEPT = 0.99
"""Part of the delay that is kept with each block: some polls find what is new at once (judgement: a hundred count)."""


class Engine:
    """Evaluates rules on the telemetry of one fleet and keeps its incidents. Ticks must come in order of time.

    Attributes:
        rules: the rules by id.
        catalogue: the signals and conditions that the rules refer to.
        topology: the fleet.
        verdicts: the verdicts of the last tick, one per rule, in the order of rule ids.
    """

    @pause_collection()
    def __init__(
        self,
        rules: Iterable[Rule],
        catalogue: Catalogue,
        topology: Topology,
        policies: PolicyEvaluator | None = None,
        calibration: Calibration | None = None,
        *,
        symptoms: bool = False,
        also_read: Iterable[str] = (),
        tick: float = TICK_S,
    ) -> None:
        """Builds the engine of one fleet.

        Args:
            rules: the rules to evaluate.
            catalogue: the catalogue that they refer to.
            topology: the fleet.
            policies: selects advice; None: incidents carry no advice.
            calibration: calibration of confidence; None: the one shipped with the package.
            symptoms: whether to tell what is abnormal where no rule names a cause.
            also_read: ids of signals that are kept though neither rules nor symptoms read them.
            tick: seconds of data between two steps that have samples.
        """
        self.catalogue = catalogue
        self.topology = topology
        self.verdicts: Sequence[RuleVerdict] = ()
        is_small = len(topology.nodes) <= LARGE_FLEET_NODES
        judged = {*judged_signals(catalogue.signals), EVALUATION_SIGNAL, EPOCH_SIGNAL} if symptoms and is_small else ()
        self._join = WireJoin(topology, tick)
        self._rules = RuleDetector(rules, catalogue, topology, tick, [self._join], {*judged, *also_read})
        self.rules: Mapping[str, Rule] = self._rules.rules
        known = calibration or load_calibration()
        prevalence = {id_: each.prevalence for id_, each in catalogue.conditions.items()}
        infos = {
            rule.id: build_rule_info(rule, prevalence.get(rule.condition, ""), known) for rule in self.rules.values()
        }
        timing = IncidentTiming(tick_s=tick)
        self._tick_s, self._delay, self._newest = tick, 0.0, -math.inf
        self._gone = GonePlaces()
        self._series = SeriesDetectors(self._rules.series_state, topology) if symptoms else None
        self._detectors: tuple[FindingDetector, ...] = (self._rules, *(self._series.all if self._series else ()))
        cells = self._series.cells if self._series is not None else None
        self._tracker = IncidentTracker(
            infos, catalogue, topology, policies, timing, self._join, cells=cells, calibration=known
        )

    def step(
        self,
        t: float,
        block: Block,
        table: SeriesTable,
        frames: Sequence[SampleFrame] = (),
        *,
        sampled: bool = False,
    ) -> tuple[IncidentChange, ...]:
        """Processes the samples of the tick that ends at `t` and returns the changes to incidents.

        Args:
            t: end of the tick, in seconds since 1970.
            block: samples, by series number of `table`.
            table: all series so far; it only grows.
            frames: samples in dense form, for large fleets.
            sampled: whether samples came of series that are left out here: windows move on in ticks with samples.
        """
        sampled = sampled or len(block) > 0 or len(frames) > 0
        self._rules.take_in(t, block, table, frames, sampled=sampled)
        self._tracker.senders.follow(table)
        if sampled:
            self._tracker.follow_samples(t, self._find_sample_times(t, block))
        tick = Tick(t, NewSamples.empty()) if self._series is None else self._series.read(t, sampled=sampled)
        with np.errstate(all="ignore"):
            for detector in self._detectors:
                detector.step(tick)
        return self._follow(t)

    def _find_sample_times(self, t: float, block: Block) -> SampleTimes:
        state = self._rules.series_state
        self._newest = max(self._newest, min(float(block.time.max()), t) if len(block) else t)
        delay = self._follow_delay(t, block)
        return SampleTimes(state.sampling.p90_period(), delay, state.sampled_since(), self._newest)

    def _follow_delay(self, t: float, block: Block) -> float:
        """Returns by how many seconds samples come late: where a server is polled, the more the longer ago it was."""
        if len(block):
            late = float(np.quantile(t - block.time, LATE_QUANTILE)) - self._tick_s
            self._delay = max(late, DELAY_KEPT * self._delay, 0.0)
        return self._delay

    def _follow(self, t: float) -> tuple[IncidentChange, ...]:
        self.verdicts = self._rules.findings()
        return self._tracker.step(t, [batch for detector in self._detectors for batch in detector.findings()])

    def conclude(self, t: float) -> tuple[IncidentChange, ...]:
        """Ends the data at the tick that was processed last, `t`: what was bad from the first to the last sample fires.

        Only for data that ends: no step may follow. Returns the changes to incidents.
        """
        with np.errstate(all="ignore"):
            for detector in self._detectors:
                detector.conclude()
        return self._follow(t)

    def judged_signals(self) -> frozenset[str]:
        """Returns the signals of which it could be told whether they are normal: by a rule, or by a symptom's past."""
        delivered = {series.signal for series in self.list_series() if len(series.entity)}
        rules = (self.rules[name] for name in self._rules.known_rules)
        able = (rule for rule in rules if not rule.blocking_signals(delivered))
        by_rules = {name for rule in able for item in rule.evidence if item.is_needed for name in item.when.signals}
        by_symptoms = self._series.judged_signals() if self._series is not None else frozenset()
        return frozenset(by_rules & delivered) | by_symptoms

    def doubts(self) -> tuple[Finding, ...]:
        """Returns what series show that may be bad and cannot be judged: with it, nothing found is no all-clear."""
        return self._series.doubts() if self._series is not None else ()

    def skip(self, t: float) -> None:
        """Leaves out a tick without samples that ends at `t`, before `next_change`: only its time counts."""
        self._rules.skip(t)

    def next_change(self) -> float:
        """Returns the time in seconds before which a step without samples would change nothing.

        A replay may `skip` the ticks that end before it; those after it must not be missed.
        """
        series = math.inf if self._series is None else self._series.next_change()
        return min(self._tracker.next_change(), series, *(detector.next_change() for detector in self._detectors))

    # --- another topology

    def has_place(self, key: SeriesKey) -> bool:
        """Returns whether a series is read, on an entity that the topology has."""
        entities = self._rules.entities
        is_read = key.signal in self.read_signals and key.kind in entities.numbers
        return is_read and entities.get_or_add(key.kind, key.entity) >= 0

    def expect_series(self, table: SeriesTable) -> None:
        """Makes room for the series of a table before their samples come. Call it before the first step."""
        self._rules.series_state.register_series(table)
        self._rules.evaluator.plan()
        if self._series is not None:
            self._series.prepare()

    def expect_ends(self, ends: Mapping[SeriesKey, float]) -> None:
        """Tells until when there may be samples at all, in seconds since 1970: what ends then has not fallen silent."""
        if self._series is not None:
            self._series.expect_ends(ends)

    def take_over(self, before: "Engine", table: SeriesTable, numbers: Index) -> None:
        """Goes on with all that another engine knows of what both have: windows, pasts, holds and incidents.

        Incidents on entities that there are no more are left out. Call it before the first step, with no step of the
        other engine after it: it may share state with this one.

        Args:
            before: the other engine, with the same rules.
            table: all series so far, which were expected.
            numbers: [series of the table] the numbers of the same series in the other's table; -1 where it has none.
        """
        then, join, tracker, series = before._rules, before._join, before._tracker, before._series  # noqa: SLF001
        now = self._rules
        entities = EntityPlaces(then.entities, now.entities)
        end_tick(then)
        places = match_series(now.series_state, then.series_state, numbers)
        transfer_series(now.series_state, then.series_state, places)
        transfer_features(now.evaluator, then.evaluator, entities, places)
        transfer_judges(now, then)
        self._join.take_over(join, table)
        self._delay, self._newest = before._delay, before._newest  # noqa: SLF001 - one of its own kind
        self._tracker.take_over(tracker, entities.has)
        if self._series is not None and series is not None:
            self._series.take_over(series, entities)

    def retire(self, t: float, gone: GonePlaces) -> None:
        """Ends the incidents at places that have ended; of these nothing is told until they are left out here again.

        Their windows and pasts are kept for what comes there next, and nothing of what fires there. Call it between two
        steps.

        Args:
            t: seconds since 1970.
            gone: all places that have ended, those of earlier calls too.
        """
        self._rules.forget(gone.without(self._gone))
        self._gone = gone
        self._tracker.retire(t, gone)
        if self._series is not None:
            self._series.retire(gone)

    # --- incidents

    def list_incidents(self, input_hash: str = "") -> tuple[Incident, ...]:
        """Returns all incidents by opening time, condition and entity; `input_hash` identifies the input.

        What has not changed since the last call is the same object: each incident, and the tuple of all.
        """
        return self._tracker.list_incidents(input_hash)

    def forget_incidents(self, before: float) -> None:
        """Drops incidents that were resolved before a time, except those that explain later ones."""
        self._tracker.forget(before)

    def display_name(self, kind: str, name: str) -> tuple[str, str]:
        """Returns kind and name of an entity as incidents show them."""
        return self._tracker.locality.display_name(Entity(kind, name))

    # --- series

    def set_context(self, context: Iterable[ContextFact]) -> None:
        """Sets the facts that policies are told from outside, such as mitigations already tried; for the next tick."""
        self._tracker.set_context(context)

    @property
    def rule_signals(self) -> frozenset[str]:
        """Ids of the signals that rules read."""
        return self._rules.series_state.rule_signals

    @property
    def read_signals(self) -> frozenset[str]:
        """Ids of the signals that rules or derivations read; samples of others have no effect."""
        return self.rule_signals | self._rules.series_state.extra_signals

    @property
    def sample_counts(self) -> SampleCounts:
        """Numbers of samples so far, by what became of them."""
        return self._rules.series_state.counts

    @property
    def series_version(self) -> tuple[int, int]:
        """Changes when `list_series` would return more than before."""
        state = self._rules.series_state
        return state.first_samples, sum(rows.version for rows in state.rows.values())

    def list_series(self) -> Iterator[SignalSeries]:
        """Yields the series that have had a sample, signal by signal in the order of ids."""
        state, entities = self._rules.series_state, self._rules.entities
        for signal in sorted(state.rows):
            rows, kind = state.rows_of(signal), state.kinds[signal]
            reported = (rows.series >= 0) & np.isfinite(state.newest_times(rows.series))
            selector, entity = np.nonzero(reported)
            position = rows.series[selector, entity]
            yield SignalSeries(signal, kind, entities.names[kind], rows.selectors, entity, selector, position)

    def newest_samples(self, position: Index) -> NewestSamples:
        """Returns the newest samples of series by `SignalSeries.position`."""
        state = self._rules.series_state
        total, time = state.counter_totals(position)
        return NewestSamples(time, state.latest[position], total, state.sampling.stale_after(position))

    def counter_starts(self, position: Index) -> F64:
        """Returns [series] float64 seconds since 1970 when counters last began anew, by `SignalSeries.position`.

        NaN where one never did, and where a series is no counter.
        """
        return self._rules.series_state.counter_starts(position)

    def newest_times(self, count: int) -> F64:
        """Returns [series] float64 seconds since 1970 of the newest samples, NaN where there is none.

        The first `count` series of the table; fewer where the engine has not seen that many.
        """
        state = self._rules.series_state
        return state.newest_by_number(min(count, state.known_count))[1]

    def newest_values(self, series: Index) -> F64:
        """Returns [series] the newest values, by number of the series below `newest_times`; NaN where there is none."""
        state = self._rules.series_state
        found: F64 = state.newest_by_number(state.known_count)[0][series]
        return found

    def stale_ages(self, series: Index) -> F64:
        """Returns [series] float64 seconds: the age at which a series is stale, by its number below `newest_times`."""
        return self._rules.series_state.stale_ages_by_number(series)

    def peer_set_numbers(self, kind: str) -> Index:
        """Returns [entity] int, the number of each entity's default peer set; -1 where it has none."""
        entities = self._rules.entities
        # One more: empty places of a bucket are -1.
        found = np.full(entities.count(kind) + 1, -1, np.intp)
        for bucket in entities.peer_sets(Peers(kind, PEER_DEFAULTS[kind])).buckets:
            found[bucket.members] = bucket.owners[:, None]
        return found[:-1]


def build_rule_info(rule: Rule, prevalence: str = "", calibration: Calibration | None = None) -> RuleInfo:
    """Builds what incidents need of a rule: its evidence, the unit of its impact, its prior and calibration."""
    items = tuple(
        EvidenceSpec(
            e.name,
            e.weight,
            e.against,
            e.required,
            e.full_text,
            format_dimension(unit_of(e.when)),
            tuple(sorted(e.when.signals)),
        )
        for e in rule.evidence
    )
    unit = format_dimension(rule.impact.dimension) if rule.impact else "1"
    return RuleInfo(
        rule.id,
        rule.condition,
        items,
        rule.hash,
        rule.impact_metric,
        unit,
        format_dimension(rule.level.dimension) if rule.level else "1",
        rule.fire.score,
        rule.lead,
        rule.persistence,
        prior_log_odds(prevalence),
        calibration or load_calibration(),
    )
