"""All rules judged on all entities of a topology, tick by tick: the detector of rules."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from skewscope.engine.features.evaluator import Evaluator
from skewscope.engine.ingest.feed import Block, SampleFrame, SeriesTable
from skewscope.engine.ingest.series_state import SeriesState
from skewscope.engine.judge.judge import ROUNDING, Judge
from skewscope.engine.model.arrays import F64, Mask, has_any
from skewscope.engine.model.entities import EntityIndex
from skewscope.engine.model.locality import Entity
from skewscope.engine.model.tick import NewSamples, Tick
from skewscope.engine.model.topology import GonePlaces, Topology
from skewscope.engine.model.verdict import RuleVerdict
from skewscope.kb.model import Catalogue
from skewscope.rules.entity_kinds import contains
from skewscope.rules.model import Rule

WAKE_MARGIN_S = 1e-3
"""Seconds before a change is due from which on ticks are no longer left out."""
Derivation = Callable[[float, SeriesTable, F64, F64], Block]
"""New samples from the newest values and times of all series, by number: called each tick before rules are judged.

After a tick without samples and without any from a derivation, it gives none until the next sample comes.
"""


class RuleDetector:
    """Judges all rules on all entities of a topology, tick by tick."""

    def __init__(
        self,
        rules: Iterable[Rule],
        catalogue: Catalogue,
        topology: Topology,
        tick: float,
        derivations: Sequence[Derivation] = (),
        judged: Iterable[str] = (),
    ) -> None:
        """Builds the judges of all rules; `judged` are signals that no rule needs."""
        self.rules: Mapping[str, Rule] = {rule.id: rule for rule in sorted(rules, key=lambda rule: rule.id)}
        self.catalogue = catalogue
        self.derivations = tuple(derivations)
        self.entities = EntityIndex(topology)
        wanted = {name for rule in self.rules.values() for name in rule.signals} | {*judged}
        derived = {name for derive in self.derivations for name in getattr(derive, "reads", catalogue.signals)}
        self.series_state = SeriesState(catalogue.signals, self.entities, wanted, tick, derived)
        expressions = [expr for rule in self.rules.values() for expr in rule.expressions]
        self.evaluator = Evaluator(expressions, self.series_state, self.entities)
        self._judges = [Judge(rule, self.entities, self.evaluator) for rule in self.rules.values()]
        self._is_container: dict[tuple[str, str], bool] = {}
        """Whether each entity of the second kind lies in one of the first, for kinds related by a baseline."""
        self._baseline_judges = self._baseline_readers()
        self._verdicts: list[RuleVerdict] = []
        self._plan = -1
        """The plan of the evaluator by which they were given."""
        self._feeders = [judge for judge in self._judges if judge.feeds_baselines]
        self._t = np.nan
        self._passed: float | None = None
        """Seconds since the tick before, if this one is judged."""
        self._idle_until = -np.inf
        """End of the last tick that was left out."""
        self._learned = True
        self._masks: tuple[int, Mapping[int, Mask]] = (-1, {})
        """(versions of the suspicions, masks of the entities from which baselines do not learn)."""
        self._has_derived = False
        """Whether a derivation gave samples in this tick."""
        self._wake: float | None = -np.inf
        """See `_wake_time`; None until it is asked for after a tick."""

    def take_in(
        self, t: float, block: Block, table: SeriesTable, frames: Sequence[SampleFrame] = (), *, sampled: bool = False
    ) -> None:
        """Takes in the samples of the tick that ends at `t`; `sampled` as of `Engine.step`."""
        sampled = sampled or len(block) > 0 or len(frames) > 0
        self._passed = None
        if not sampled and t < self._wake_time():
            self.skip(t)
            return
        self._wake = None
        self._pass_idle_time()
        t = float(np.fmax(t, self._t))
        passed = 0.0 if np.isnan(self._t) else t - self._t
        self._t = t
        # Without a sample nothing is learned and nothing leaves a window: what is known is no older than before.
        has_samples = sampled or self._has_derived
        if has_samples:
            self._learn()
        self._ingest(t, block, table, frames)
        self.evaluator.step(t, has_samples=has_samples or self._has_derived)
        self._passed = passed

    def forget(self, gone: GonePlaces) -> None:
        """Forgets what fires at places that have ended: no hold and no firing goes on where something else begins."""
        for judge in self._judges:
            places = (Entity(judge.rule.scope, name) for name in judge.names)
            mask = np.fromiter(map(gone.has, places), bool, len(judge.names))
            if has_any(mask):
                judge.forget(mask)

    def grow(self) -> None:
        """Makes room for nothing: rules are judged on the entities of the topology."""

    def step(self, _tick: Tick) -> None:
        """Judges the samples that were taken in, unless the tick is one of those that change nothing."""
        if self._passed is not None:
            with np.errstate(all="ignore"):
                self._judge_changed(self._t, self._passed)

    def judge_samples(
        self, t: float, block: Block, table: SeriesTable, frames: Sequence[SampleFrame] = ()
    ) -> list[RuleVerdict]:
        """Returns the verdicts of the tick that ends at `t` with some samples, where nothing else is judged."""
        self.take_in(t, block, table, frames)
        self.step(Tick(t, NewSamples.empty()))
        return self.findings()

    def findings(self) -> list[RuleVerdict]:
        """Returns the verdicts as of the last tick, a batch of each rule, in the order of rule ids."""
        return list(self._verdicts)

    def conclude(self) -> None:
        """Ends the data: what has held since it could first be judged fires at once."""
        with np.errstate(all="ignore"):
            concluded = [judge.conclude() for judge in self._judges]
        self._verdicts = [one or last for one, last in zip(concluded, self._verdicts, strict=False)]

    @property
    def known_rules(self) -> tuple[str, ...]:
        """The rules that have been yes or no on some entity."""
        return tuple(judge.rule.id for judge in self._judges if judge.is_known)

    def skip(self, t: float) -> None:
        """Leave out a tick without samples that ends before `next_change`."""
        self._idle_until = t

    def _pass_idle_time(self) -> None:
        """Take in the ticks that were left out since the last one."""
        if self._idle_until > self._t:
            for judge in self._judges:
                if judge.is_busy:
                    judge.pass_time(self._idle_until - self._t)
            self._t = self._idle_until

    def _judge_changed(self, t: float, passed: float) -> None:
        """Judges the rules whose verdicts may differ from those of the tick before."""
        stale, everything = self.evaluator.stale_numbers(), self._plan != self.evaluator.plan_count
        self._plan = self.evaluator.plan_count
        if everything:
            self._verdicts = [judge.step(t, passed) for judge in self._judges]
            return
        verdicts, latest = self._verdicts, t + ROUNDING
        for n, judge in enumerate(self._judges):
            if judge.is_busy or judge.watched & stale or judge.wake_time <= latest:
                verdicts[n] = judge.step(t, passed)
            verdicts[n].forget_evidence()

    def _learn(self) -> None:
        """End the tick before: until now its evidence could be requested."""
        if not self._learned:
            version = self._suspicion_version()
            changed = self._masks[0] != version
            if changed:
                self._masks = version, self._frozen_masks()
            self.evaluator.learn(self._masks[1], everything=changed)
        self._learned = False

    def _suspicion_version(self) -> int:
        """Returns a number that grows when the suspicions of any rule change."""
        return sum(judge.suspicion_version for judge in self._feeders)

    def _wake_time(self) -> float:
        """Returns the time in seconds before which a tick without samples leaves all verdicts as they are."""
        if self._wake is None:
            self._wake = self.next_change() - WAKE_MARGIN_S
        return self._wake

    def next_change(self) -> float:
        """Returns the time in seconds before which no verdict changes unless a sample comes.

        It is in the past where the next tick may differ from the last one.
        """
        if self._has_derived:
            return self._t
        wake_time = min([judge.wake_time for judge in self._judges], default=np.inf)
        return min(wake_time, self.evaluator.next_change(), self.series_state.next_stale_time())

    def _ingest(self, t: float, block: Block, table: SeriesTable, frames: Sequence[SampleFrame]) -> None:
        self.series_state.begin_tick(t)
        self.series_state.ingest(block, table)
        for frame in frames:
            self.series_state.ingest_frame(frame)
        self._has_derived = False
        for derive in self.derivations:
            derived = derive(t, table, *self.series_state.newest_by_number(len(table.keys)))
            self._has_derived |= derived.time.size > 0
            self.series_state.ingest(derived, table)
        self.series_state.refresh()

    # --- baselines

    def _baseline_readers(self) -> Mapping[int, list[Judge]]:
        found: dict[int, list[Judge]] = {number: [] for number in self.evaluator.baselines}
        for judge in self._judges:
            if not judge.feeds_baselines:
                continue
            for number, readers in found.items():
                if number in judge.numbers:
                    readers.append(judge)
                    self._prepare_relations(judge.rule.scope, self.evaluator.expressions[number].kind)
        return found

    def _prepare_relations(self, scope: str, kind: str) -> None:
        """Compute how the entities of two kinds contain each other, so that no tick has to wait for it."""
        self._is_container[scope, kind] = scope != kind and contains(scope, kind)
        if self._is_container[scope, kind]:
            self.entities.container_index(kind, scope)
        elif scope != kind:
            self.entities.part_sets(scope, kind)

    def _frozen_masks(self) -> Mapping[int, Mask]:
        """Returns [entity] what looks ill, for the baselines of which an entity does."""
        touched: dict[tuple[str, str], Mask] = {}
        found: dict[int, Mask] = {}
        suspecting = {judge.rule.id for judge in self._feeders if has_any(judge.suspicious)}
        for number, judges in self._baseline_judges.items():
            kind = self.evaluator.expressions[number].kind
            for judge in judges:
                key = judge.rule.id, kind
                if judge.rule.id not in suspecting:
                    continue
                if key not in touched:
                    touched[key] = self._affected_mask(judge, kind)
                found[number] = found[number] | touched[key] if number in found else touched[key]
        return found

    def _affected_mask(self, judge: Judge, kind: str) -> Mask:
        """Returns [entity of the kind] whether it is, contains or lies in a suspicious entity of a rule."""
        scope = judge.rule.scope
        suspicious = np.zeros(self.entities.count(scope) + 1)
        suspicious[judge.indices[judge.suspicious]] = 1.0
        if scope == kind:
            return suspicious[:-1] > 0
        if self._is_container[scope, kind]:
            return suspicious[self.entities.container_index(kind, scope)] > 0
        return self.entities.part_sets(scope, kind).reduce(suspicious[:-1], _max_over_members) > 0

    # --- for reports

    def entity_names(self, rule: str) -> tuple[str, ...]:
        """The entities that a rule judges, in the order of its verdicts."""
        return next(judge.names for judge in self._judges if judge.rule.id == rule)

    def leave_out(self, rule: str) -> None:
        """Judges a rule no longer."""
        kept = [n for n, judge in enumerate(self._judges) if judge.rule.id != rule]
        self._judges, self._verdicts = [self._judges[n] for n in kept], [self._verdicts[n] for n in kept]


def _max_over_members(x: F64) -> F64:
    found: F64 = np.fmax.reduce(x, axis=1)
    return found
