"""The whole machine in one step: a tick's samples in, incidents out."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from skewscope.engine.calibration import Calibration, calibration
from skewscope.engine.detect import Detector
from skewscope.engine.evaluate import unit_of
from skewscope.engine.feed import Block, Frame, SeriesTable
from skewscope.engine.incidents import Change, Incidents
from skewscope.engine.matcher import Policies
from skewscope.engine.topology import Topology
from skewscope.engine.tracks import Item, RuleInfo
from skewscope.engine.verdict import RuleVerdict
from skewscope.engine.wire.join import WireJoin
from skewscope.kb.model import Catalogue
from skewscope.kb.units import shown
from skewscope.rules.model import Rule

TICK = 1.0
"""Seconds of data between two judgements."""


def info_of(rule: Rule, worth: Calibration | None = None) -> RuleInfo:
    """What incidents tell of a rule, and what its confidence is worth."""
    items = tuple(
        Item(e.name, e.weight, e.against, e.required, e.text, shown(unit_of(e.when)), tuple(sorted(e.when.signals)))
        for e in rule.evidence
    )
    unit = shown(rule.impact.dim) if rule.impact else "1"
    return RuleInfo(rule.id, rule.condition, items, rule.hash, rule.impact_metric, unit, worth or calibration())


@dataclass
class Diagnosis:
    """Detector, joins and incidents of one fleet. Feed it ticks in order of time."""

    rules: Iterable[Rule]
    catalogue: Catalogue
    topology: Topology
    policies: Policies | None = None
    worth: Calibration | None = None
    """What confidence has been worth; None for what comes with Skewscope."""
    detector: Detector = field(init=False)
    incidents: Incidents = field(init=False)
    verdicts: list[RuleVerdict] = field(default_factory=list)
    """Of the last tick."""

    def __post_init__(self) -> None:
        self.rules = tuple(self.rules)
        self.detector = Detector(self.rules, self.catalogue, self.topology, TICK, [WireJoin(self.topology, TICK)])
        infos: Mapping[str, RuleInfo] = {rule.id: info_of(rule, self.worth) for rule in self.rules}
        self.incidents = Incidents(infos, self.catalogue, self.topology, self.policies)

    def step(self, t: float, block: Block, table: SeriesTable, frames: Sequence[Frame] = ()) -> tuple[Change, ...]:
        """What changed by the samples of the tick that ends at `t`; large fleets send frames."""
        self.verdicts = self.detector.step(t, block, table, frames)
        return self.incidents.step(t, self.verdicts)
