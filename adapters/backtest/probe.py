"""Why a condition was, or was not, told of an entity at a time: each item of evidence of its rules as it stood."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import isfinite, isnan, nan

import numpy as np

from skewscope.engine.engine import Engine, build_rule_info
from skewscope.engine.model.locality import LocalityIndex
from skewscope.engine.model.topology import Topology
from skewscope.engine.model.verdict import NO, UNKNOWN, YES, EvidenceBatch, RuleVerdict
from skewscope.rules.expression import Expr
from skewscope.rules.model import EvidenceItem, Rule

WORDS = {NO: "no", UNKNOWN: "unknown", YES: "yes"}


@dataclass(frozen=True, slots=True)
class ItemState:
    """One item of evidence at one time."""

    name: str
    weight: float
    against: bool
    required: bool
    verdict: str
    """yes, no or unknown."""
    value: float | None
    """What its decisive comparison looked at; None where it was unknown, or where several values decided."""
    unit: str
    expr: str
    """With the definitions of its lets."""
    thresholds: tuple[str, ...]
    """What its comparisons compare with, as `> 4*s`."""
    missing: tuple[str, ...]
    """Why it was unknown, signal by signal."""


@dataclass(frozen=True, slots=True)
class RuleState:
    """One rule on one entity at one time."""

    rule: str
    condition: str
    kind: str
    name: str
    """The entity as incidents show it."""
    time: float
    """End of the tick, seconds since 1970."""
    firing: bool
    state: str
    """yes, no or unknown: the verdict of the tick alone, before it has held."""
    applies: bool
    score: float
    needed: float
    """Score from which it fires."""
    hold: float
    """Seconds that the score must hold."""
    coverage: float
    items: tuple[ItemState, ...]

    def reasons(self) -> Iterator[str]:
        """Yields why it does not fire, in sentences; nothing where it does."""
        if self.firing:
            return
        if not self.applies:
            yield "The rule does not apply here: its applies_when is not met."
        for item in self.items:
            if item.required and item.verdict != "yes":
                yield f"{item.name} is required and is {item.verdict}."
        if self.score < self.needed:
            yield f"The score is {self.score:g}, less than {self.needed:g}."
        if self.state == "yes":
            yield f"All of it is there, but has not held for {self.hold:g} s yet, or the rule still warms up."


def probe_rules(
    engine: Engine, topology: Topology, rules: Iterable[str], places: Sequence[str], t: float
) -> list[RuleState]:
    """Returns the states of rules on the entities that a person may mean, as of the last step.

    Args:
        engine: the engine, just after the step.
        topology: its fleet.
        rules: ids of rules.
        places: names of entities, as series or as incidents name them.
        t: end of the tick in seconds.
    """
    locality = LocalityIndex(topology)
    wanted = set(rules)
    return [
        _state_of(engine, locality, verdict, at, t)
        for verdict in engine.verdicts
        if verdict.rule in wanted
        for at in _find_entities(engine, verdict, places)
    ]


def _find_entities(engine: Engine, verdict: RuleVerdict, places: Sequence[str]) -> Iterator[int]:
    """Yields the positions of entities with one of some names, with or without their kind before it."""
    for at, name in enumerate(verdict.names):
        kind, display = engine.display_name(verdict.kind, name)
        if not {name, display, f"{kind} {display}"}.isdisjoint(places):
            yield at


def _state_of(engine: Engine, locality: LocalityIndex, verdict: RuleVerdict, at: int, t: float) -> RuleState:
    rule, name = engine.rules[verdict.rule], verdict.names[at]
    evidence = verdict.evidence_of([at])
    kind, display = engine.display_name(verdict.kind, name)
    near = _nodes_of(locality, verdict.kind, name)
    items = tuple(
        _item_state(engine, locality, item, (verdict.kind, name, near, t), (*_cell(evidence, n), spec.unit))
        for n, (item, spec) in enumerate(zip(rule.evidence, build_rule_info(rule).items, strict=True))
    )
    return RuleState(
        rule.id,
        rule.condition,
        kind,
        display,
        t,
        bool(verdict.firing[at]),
        WORDS[int(verdict.state[at])],
        bool(evidence.applies[0]),
        round(float(evidence.score[0]), 6),
        rule.fire.score,
        rule.fire.hold,
        round(float(evidence.coverage[0]), 6),
        items,
    )


def _cell(evidence: EvidenceBatch, item: int) -> tuple[int, float]:
    """Returns verdict and value of one item on the only entity."""
    return int(evidence.evidence[item, 0]), float(evidence.values[item, 0])


Place = tuple[str, str, frozenset[str], float]
"""Kind and name of an entity, the nodes that it lies on, and the time in seconds."""


def _item_state(
    engine: Engine, locality: LocalityIndex, item: EvidenceItem, place: Place, cell: tuple[int, float, str]
) -> ItemState:
    verdict, value, unit = cell
    missing = tuple(_missing_signals(engine, locality, item.when, place)) if verdict == UNKNOWN else ()
    return ItemState(
        item.name,
        item.weight,
        item.against,
        item.required,
        WORDS[verdict],
        float(f"{value:.6g}") if isfinite(value) else None,
        unit,
        item.full_text,
        tuple(thresholds(item.when)),
        missing,
    )


def thresholds(expr: Expr) -> Iterator[str]:
    """Yields what the comparisons of an expression compare with, as `> 4*s`, each once."""
    told = []
    for one in _comparisons(expr):
        left, right = one.args
        sides = (FLIPPED[one.name], left) if not left.kind and right.kind else (one.name, right)
        told.append(f"{sides[0]} {_rounded(sides[1])}")
    yield from dict.fromkeys(told)


def _rounded(expr: Expr) -> Expr:
    """Returns a constant without the rounding errors of its unit, anything else as it is."""
    return replace(expr, value=float(f"{expr.value:.9g}")) if expr.op == "number" else expr


FLIPPED = {">": "<", ">=": "<=", "<": ">", "<=": ">=", "==": "==", "!=": "!="}
"""Comparisons with their sides exchanged."""


def _comparisons(expr: Expr) -> Iterator[Expr]:
    """Yields the comparisons that decide a truth value, also those of the whole that an entity belongs to."""
    if expr.op == "compare":
        yield expr
    elif expr.op in {"and", "or", "not", "lift"}:
        for arg in expr.args:
            yield from _comparisons(arg)


def _nodes_of(locality: LocalityIndex, kind: str, name: str) -> frozenset[str]:
    """Returns the nodes of an entity; none stands for the whole fleet."""
    if kind in ("group", "replica"):
        return frozenset(locality.nodes_of_group(name))
    return frozenset(locality.nodes_of(kind, name))


def _missing_signals(engine: Engine, locality: LocalityIndex, expr: Expr, place: Place) -> Iterator[str]:
    """Yields why an expression is unknown at a place: what was never delivered, not from there, or no longer."""
    t = place[3]
    is_told = False
    for signal in expr.signals:
        newest, horizon = _newest_near(engine, locality, signal, place)
        if newest is None:
            yield f"{signal} was never delivered"
        elif isnan(newest):
            yield f"{signal} is delivered, but not from here"
        elif t - newest > horizon:
            yield f"{signal} is stale: its last sample is {t - newest:.3g} s old"
        else:
            continue
        is_told = True
    if not is_told:
        yield "all signals are there; a window or a past is still too short, or there are too few peers"


def _newest_near(engine: Engine, locality: LocalityIndex, signal: str, place: Place) -> tuple[float | None, float]:
    """Returns the time of the newest sample of a signal near an entity and the age at which it is stale, in seconds.

    None where the signal was never delivered at all; NaN where none was near.
    """
    kind, name, near, _t = place
    newest: float | None = None
    horizon = nan
    for series in engine.list_series():
        if series.signal != signal or not len(series.position):
            continue
        newest = nan if newest is None else newest
        here = [
            n
            for n, entity in enumerate(series.entity.tolist())
            if _is_near(locality, series.kind, series.entity_names[entity], (kind, name, near))
        ]
        if here:
            samples = engine.newest_samples(series.position[np.array(here, np.intp)])
            at = int(np.nanargmax(samples.time))
            newest, horizon = float(samples.time[at]), float(samples.stale_after[at])
    return newest, horizon


def _is_near(locality: LocalityIndex, kind: str, name: str, place: tuple[str, str, frozenset[str]]) -> bool:
    if kind == place[0]:
        return name == place[1]
    nodes = _nodes_of(locality, kind, name)
    return not nodes or not place[2] or not nodes.isdisjoint(place[2])


def rules_of(rules: Iterable[Rule], condition: str) -> list[str]:
    """Returns the ids of the rules of a condition."""
    return [rule.id for rule in rules if rule.condition == condition]
