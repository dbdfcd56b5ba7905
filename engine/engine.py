"""The whole machine in one step: a tick's samples in, incidents out."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from skewscope.engine.advice.matcher import PolicyEvaluator
from skewscope.engine.attribution.calibration import Calibration, load_calibration
from skewscope.engine.features.evaluator import unit_of
from skewscope.engine.incidents.lifecycle import IncidentChange, IncidentTracker
from skewscope.engine.ingest.feed import Block, SampleFrame, SeriesTable
from skewscope.engine.judge.alerts import EvidenceSpec, RuleInfo
from skewscope.engine.judge.detector import Detector
from skewscope.engine.model.topology import Topology
from skewscope.engine.model.verdict import RuleVerdict
from skewscope.engine.wire.join import WireJoin
from skewscope.kb.model import Catalogue
from skewscope.kb.units import format_dimension
from skewscope.rules.model import Rule

TICK_S = 1.0
"""Seconds of data between two judgements."""


def build_rule_info(rule: Rule, worth: Calibration | None = None) -> RuleInfo:
    """What incidents tell of a rule, and what its confidence is worth."""
    items = tuple(
        EvidenceSpec(
            e.name,
            e.weight,
            e.against,
            e.required,
            e.text,
            format_dimension(unit_of(e.when)),
            tuple(sorted(e.when.signals)),
        )
        for e in rule.evidence
    )
    unit = format_dimension(rule.impact.dimension) if rule.impact else "1"
    return RuleInfo(rule.id, rule.condition, items, rule.hash, rule.impact_metric, unit, worth or load_calibration())


@dataclass
class Engine:
    """Detector, joins and incidents of one fleet. Feed it ticks in order of time."""

    rules: Iterable[Rule]
    catalogue: Catalogue
    topology: Topology
    policies: PolicyEvaluator | None = None
    calibration: Calibration | None = None
    """What confidence has been worth; None for what comes with Skewscope."""
    detector: Detector = field(init=False)
    incidents: IncidentTracker = field(init=False)
    verdicts: list[RuleVerdict] = field(default_factory=list)
    """Of the last tick."""

    def __post_init__(self) -> None:
        self.rules = tuple(self.rules)
        self.detector = Detector(self.rules, self.catalogue, self.topology, TICK_S, [WireJoin(self.topology, TICK_S)])
        infos: Mapping[str, RuleInfo] = {rule.id: build_rule_info(rule, self.calibration) for rule in self.rules}
        self.incidents = IncidentTracker(infos, self.catalogue, self.topology, self.policies)

    def step(
        self, t: float, block: Block, table: SeriesTable, frames: Sequence[SampleFrame] = ()
    ) -> tuple[IncidentChange, ...]:
        """What changed by the samples of the tick that ends at `t`; large fleets send frames."""
        self.verdicts = self.detector.step(t, block, table, frames)
        return self.incidents.step(t, self.verdicts)
