"""The detector: takes in the samples of each tick and judges all rules.

Time comes from the ticks alone: the same blocks at the same ticks give the same verdicts, bit by bit.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from skewscope.engine.features.evaluator import Evaluator
from skewscope.engine.ingest.feed import F64, Block, SampleFrame, SeriesTable
from skewscope.engine.ingest.series_state import SeriesState
from skewscope.engine.judge.judge import Judge
from skewscope.engine.model.entities import EntityIndex
from skewscope.engine.model.sets import Mask
from skewscope.engine.model.topology import Topology
from skewscope.engine.model.verdict import RuleVerdict
from skewscope.kb.model import Catalogue
from skewscope.rules.entity_kinds import contains
from skewscope.rules.model import Rule

Derivation = Callable[[float, SeriesTable, F64, F64], Block]
"""New samples from the newest values and times of all series, by number: called each tick before rules are judged."""


class Detector:
    """Judges all rules on all entities of a topology, tick by tick."""

    def __init__(
        self,
        rules: Iterable[Rule],
        catalogue: Catalogue,
        topology: Topology,
        tick: float,
        derivations: Sequence[Derivation] = (),
    ) -> None:
        self.rules: Mapping[str, Rule] = {rule.id: rule for rule in sorted(rules, key=lambda rule: rule.id)}
        self.catalogue = catalogue
        self.derivations = tuple(derivations)
        self.entities = EntityIndex(topology)
        wanted = {name for rule in self.rules.values() for name in rule.signals}
        also = {name for derive in self.derivations for name in getattr(derive, "reads", catalogue.signals)}
        self.series_state = SeriesState(catalogue.signals, self.entities, wanted, tick, also)
        expressions = (expr for rule in self.rules.values() for expr in rule.expressions)
        self.evaluator = Evaluator(expressions, self.series_state, self.entities)
        self._judges = [Judge(rule, self.entities, self.evaluator) for rule in self.rules.values()]
        self._is_container: dict[tuple[str, str], bool] = {}
        """Whether each entity of the second kind lies in one of the first, for kinds related by a baseline."""
        self._baseline_judges = self._baseline_readers()
        self._t = np.nan
        self._learned = True

    def step(self, t: float, block: Block, table: SeriesTable, frames: Sequence[SampleFrame] = ()) -> list[RuleVerdict]:
        """The verdicts of the tick that ends at `t`, in the order of rule ids."""
        t = float(np.fmax(t, self._t))
        passed = 0.0 if np.isnan(self._t) else t - self._t
        self._t = t
        self._learn()
        self._ingest(t, block, table, frames)
        self.evaluator.step(t)
        with np.errstate(all="ignore"):
            return [judge.step(t, passed) for judge in self._judges]

    def _learn(self) -> None:
        """End the tick before: until now its evidence could be requested."""
        if not self._learned:
            self.evaluator.learn(self._frozen_masks())
        self._learned = False

    def _ingest(self, t: float, block: Block, table: SeriesTable, frames: Sequence[SampleFrame]) -> None:
        self.series_state.begin_tick(t)
        self.series_state.ingest(block, table)
        for frame in frames:
            self.series_state.ingest_frame(frame)
        for derive in self.derivations:
            self.series_state.ingest(derive(t, table, *self.series_state.newest_by_number(len(table.keys))), table)
        self.series_state.refresh()

    # --- baselines

    def _baseline_readers(self) -> Mapping[int, list[Judge]]:
        found: dict[int, list[Judge]] = {number: [] for number in self.evaluator.baselines}
        for judge in self._judges:
            if not judge.feeds_baselines:
                continue
            nodes = {self.evaluator.number_of(node) for expr in judge.rule.expressions for node in expr.walk()}
            for number, readers in found.items():
                if number in nodes:
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
        touched: dict[tuple[str, str], Mask] = {}
        found = {}
        for number, judges in self._baseline_judges.items():
            kind = self.evaluator.expressions[number].kind
            mask = np.zeros(self.entities.count(kind), bool)
            for judge in judges:
                if judge.suspicious.any():
                    key = judge.rule.id, kind
                    if key not in touched:
                        touched[key] = self._affected_mask(judge, kind)
                    mask |= touched[key]
            found[number] = mask
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


def _max_over_members(x: F64) -> F64:
    found: F64 = np.fmax.reduce(x, axis=1)
    return found
