"""A rule as a frozen value. `schema/rule.md` describes the fields."""

from collections.abc import Collection
from dataclasses import dataclass, field, replace

from skewscope.kb.yamlfile import Document
from skewscope.rules.expression import Expr, Peers
from skewscope.rules.functions import FUNCTIONS
from skewscope.rules.persistence import find_persistence

MATURITIES = ("sandbox", "incubating", "stable", "withdrawn")
DEFINITIONS_MARK = " where "
"""Separates an expression from the definitions of its lets in the text of evidence."""
BY_SCORE = "by_score"
"""The mark of an item that is required because of the score."""
VANTAGES = ("dpu", "fabric", "gpu", "host", "serving")


@dataclass(frozen=True, slots=True)
class EntityFilter:
    """Which entities of the scope a rule judges; empty: all."""

    groups: tuple[str, ...] = ()
    networks: tuple[str, ...] = ()
    nodes: int = 0
    """Number of nodes of the group; 0: any number."""
    front_end: str = ""
    """own: groups whose front end serves no group on other nodes; none: groups without front end and pool."""


@dataclass(frozen=True, slots=True)
class ThresholdBasis:
    """The reason for an item's numbers, and what it rests on."""

    why: str
    basis: str = "judgement"
    """paper, vendor, measured or judgement."""
    source: str = ""


@dataclass(frozen=True, slots=True)
class Let:
    """A sub-expression that a rule names and uses in other expressions."""

    name: str
    text: str
    """The definition as written; it may use earlier lets."""
    expr: Expr


@dataclass(frozen=True, slots=True)
class EvidenceItem:
    """One item of evidence for or against the condition."""

    name: str
    weight: float
    """Always positive; `against` gives the direction."""
    against: bool
    required: bool
    when: Expr
    text: str
    """The expression as written."""
    threshold: ThresholdBasis | None = None
    required_by_score: bool = False
    """Whether `fire.score` cannot be reached without it, though it is not `required`."""
    definitions: tuple[tuple[str, str], ...] = ()
    """Name and definition of each let that the expression uses, also through other lets, in the file's order."""

    @property
    def is_needed(self) -> bool:
        """Whether the rule cannot fire without it."""
        return self.required or self.required_by_score

    @property
    def full_text(self) -> str:
        """Returns the expression followed by the definitions of its lets: `a > b where a = ...; b = ...`."""
        meanings = "; ".join(f"{name} = {text}" for name, text in self.definitions)
        return f"{self.text}{DEFINITIONS_MARK}{meanings}" if meanings else self.text


@dataclass(frozen=True, slots=True)
class ScoreThreshold:
    """A score, and for how many seconds it must hold."""

    score: float
    hold: float


@dataclass(frozen=True, slots=True)
class Rule:
    """Recognises one condition on one kind of entity."""

    id: str
    title: str
    description: str
    condition: str
    maturity: str
    vantage: str
    scope: str
    where: EntityFilter
    peers: Peers
    warm_up: float
    applies_when: Expr | None
    evidence: tuple[EvidenceItem, ...]
    fire: ScoreThreshold
    clear: ScoreThreshold
    lets: tuple[Let, ...] = ()
    impact_metric: str = ""
    impact: Expr | None = None
    """The share of the metric that is lost."""
    warning: float = 0.05
    critical: float = 0.2
    """Levels of the impact."""
    hash: str = ""
    """Hash of what decides its verdicts: not of layout, names of items and lets, title, description and reasons."""
    file: str = ""
    notes: tuple[str, ...] = ()
    document: Document = field(default=Document("<rule>", None), repr=False, compare=False)
    """The document that it was read from, for problems with line numbers."""

    @property
    def signals(self) -> tuple[str, ...]:
        """Returns the ids of all signals read, each once, in order."""
        return tuple(sorted({name for expr in self.expressions for name in expr.signals}))

    @property
    def texts(self) -> tuple[str, ...]:
        """Returns the expressions as written that may use lets: of lets, items, applies_when and impact."""
        data = self.document.data or {}
        rest = (data.get("applies_when"), data.get("impact", {}).get("change"))
        return (
            *(let.text for let in self.lets),
            *(item.text for item in self.evidence),
            *(text for text in rest if text),
        )

    @property
    def level(self) -> Expr | None:
        """Returns what the impact is a change of: of `drift(wire.round_period)` the period; None of a share."""
        return _find_level(self.impact) if self.impact else None

    @property
    def lead(self) -> float:
        """Returns how long before it fires a fault may have begun, in seconds: its longest window, and its hold."""
        calls = (node for item in self.evidence if item.required for node in item.when.walk() if node.op == "call")
        spans = (FUNCTIONS[node.name].window_spans(node.params) for node in calls)
        return max((span for each in spans for span in each), default=0.0) + self.fire.hold

    @property
    def persistence(self) -> float:
        """Returns for how many seconds, at least, what it finds has held before its hold begins."""
        return max((find_persistence(item.when) for item in self.evidence if item.is_needed), default=0.0)

    @property
    def expressions(self) -> tuple[Expr, ...]:
        """Returns all expressions to evaluate, in a fixed order."""
        rest = [expr for expr in (self.applies_when, self.impact, self.level) if expr]
        return (*(item.when for item in self.evidence), *rest)

    def blocking_signals(self, there: Collection[str]) -> tuple[str, ...]:
        """Returns the missing signals that keep it from firing: of needed items, or of the weight that it needs."""
        pro = [item for item in self.evidence if not item.against]
        needed = {name for item in pro if item.is_needed for name in item.when.missing_signals(there)}
        needed.update(self.applies_when.missing_signals(there) if self.applies_when else ())
        within_reach = sum(item.weight for item in pro if not item.when.missing_signals(there))
        if not needed and within_reach < self.fire.score:
            needed = {name for item in pro for name in item.when.missing_signals(there)}
        return tuple(sorted(needed))


def _find_level(impact: Expr) -> Expr | None:
    """Returns what a relative change is of, for the kind of entity that an impact has; None of another expression.

    That is x of `drift(x)`, and of `x / y - 1`.
    """
    inner = _find_level(impact.args[0]) if impact.op == "lift" else None
    if inner is not None:
        return replace(impact, args=(inner,), dimension=inner.dimension)
    if (impact.op, impact.name) == ("arith", "-") and impact.args[1].value == 1.0:
        quotient = impact.args[0]
        return quotient.args[0] if (quotient.op, quotient.name) == ("arith", "/") else None
    return impact.args[0] if (impact.op, impact.name) == ("call", "drift") else None
