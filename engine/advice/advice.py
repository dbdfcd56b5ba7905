"""Compiled policies and the facts that they match, the matcher protocol with its reference, and ranked advice."""

import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from operator import attrgetter, itemgetter
from typing import Any, Protocol

from skewscope.engine.advice.driver_errors import find_error
from skewscope.engine.incidents.alerts import Alert, AlertKey, EvidenceSnapshot
from skewscope.engine.incidents.result_cache import KeyedCache
from skewscope.engine.model.incident import SEVERITIES, Advice
from skewscope.engine.model.locality import Entity, LocalityIndex
from skewscope.engine.model.verdict import YES
from skewscope.kb.model import Catalogue
from skewscope.rules.policy import FACTS, WORK_KINDS, FactProperty, Scalar

MAX_TEXT = 200

SCALE = 1000
"""A `number` is stored in thousandths as an integer, because the library's parser fails on floats."""

COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


Value = int | str


@dataclass(frozen=True, slots=True)
class Fact:
    """One live fact; there is at most one per kind and entity."""

    kind: str
    entity: str
    values: tuple[tuple[str, Value], ...] = ()
    """Sorted by name."""


@dataclass(frozen=True, slots=True)
class FactTest:
    """A literal comparison."""

    __test__ = False  # not for pytest

    name: str
    op: str
    value: Value


@dataclass(frozen=True, slots=True)
class CompiledPattern:
    """A pattern: a kind and literal comparisons."""

    kind: str
    tests: tuple[FactTest, ...] = ()


@dataclass(frozen=True, slots=True, order=True)
class Conclusion:
    """What a policy concludes for an entity; sorts in the order of advice."""

    priority: int
    policy: str
    subject: str
    """Topic of the first pattern, which is the condition; '' if the fact has no topic."""
    entity: str
    mitigation: str = ""
    why: str = ""
    diagnosis: str = ""
    fact: str = ""
    hash: str = ""
    work: str = ""
    """Kind of work that its advice is for; '' and both: any."""

    def suits(self, work: str) -> bool:
        """Whether the advice is for an entity of a kind of work; '' is one of which nothing is known."""
        return work in ("", self.work) or self.work not in WORK_KINDS


@dataclass(frozen=True, slots=True)
class CompiledRule:
    """One variant of a policy: lists of values expand to several rules."""

    when: tuple[CompiledPattern, ...]
    unless: CompiledPattern | None
    conclusion: Conclusion
    """With an empty entity."""

    def patterns(self) -> tuple[CompiledPattern, ...]:
        """Returns all patterns, the negated one last."""
        return self.when if self.unless is None else (*self.when, self.unless)


@dataclass(frozen=True)
class Program:
    """Compiled policies: rules in the order of their conclusions, and their division into rulesets."""

    rules: tuple[CompiledRule, ...] = ()
    rulesets: tuple[tuple[int, ...], ...] = ()
    depth: int = 1
    """Number of rounds in which derived facts are fed back."""
    by_kind: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Rules by the kinds of facts that they match; facts of other kinds are ignored."""

    @cached_property
    def conclusion_keys(self) -> tuple[tuple[int, str, str], ...]:
        """Sort key of the conclusions of each rule."""
        return tuple((r.conclusion.priority, r.conclusion.policy, r.conclusion.subject) for r in self.rules)


def build_fact(name: str, entity: str, topic: str = "", values: Mapping[str, Scalar] | None = None) -> Fact:
    """Returns a fact with every property of its kind, as an integer or text.

    Raises:
        ValueError: the values are not the properties of this kind of fact.
    """
    known = FACTS[name].properties if name in FACTS else {}
    given = values or {}
    if set(given) != set(known):
        raise ValueError(f"a {name} has {sorted(known)}, not {sorted(given)}")
    lowered = tuple((key, encode_value(known[key], given[key])) for key in sorted(given))
    return Fact(kind_of_fact(name, topic), entity, lowered)


def kind_of_fact(name: str, topic: str = "") -> str:
    """Returns the constant by which a kind of fact is matched."""
    return f"{name}:{topic}" if topic else name


def encode_value(prop: FactProperty, value: Scalar) -> Value:
    """Returns a value as matchers compare it.

    Raises:
        ValueError: it is not a finite number, or not one of the property's choices.
    """
    if prop.type == "text":
        return str(value)[:MAX_TEXT]
    if prop.type == "level":
        return prop.choices.index(str(value))
    number = float(value)
    if not math.isfinite(number) or abs(number) > 1e9:
        raise ValueError(f"{value!r} cannot be compared")
    return round(number * SCALE) if prop.type == "number" else int(number)


def fnv1a32(text: str) -> int:
    """Returns the FNV-1a hash by which the Rete library compares names."""
    value = 0x811C9DC5
    for byte in text.encode():
        value = ((value ^ byte) * 0x01000193) & 0xFFFFFFFF
    return value


class Matcher(Protocol):
    """Matches facts against policies. All matchers return the same conclusions in the same order."""

    def assert_fact(self, fact: Fact) -> None:
        """Add a fact; it replaces the one of its kind and entity."""

    def retract(self, kind: str, entity: str) -> None:
        """Remove a fact, if there is one."""

    def conclusions(self) -> tuple[Conclusion, ...]:
        """Returns the current conclusions, ordered by priority, policy, subject and entity, each once."""

    def close(self) -> None:
        """Release all resources; the matcher can be used again and is empty then."""


class ReferenceMatcher:
    """The matcher in plain Python: evaluates only the rules and the entity that a changed fact concerns."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._facts: dict[tuple[str, str], Fact] = {}
        self._active: dict[tuple[tuple[int, str, str], str, int], Conclusion] = {}
        """The conclusions that hold, by place in their order and number of their rule."""
        self._conclusions: tuple[Conclusion, ...] | None = ()

    def assert_fact(self, fact: Fact) -> None:
        """Add a fact; it replaces the one of its kind and entity."""
        self._facts[fact.kind, fact.entity] = fact
        self._update_rules(fact.kind, fact.entity)

    def retract(self, kind: str, entity: str) -> None:
        """Remove a fact, if there is one."""
        if self._facts.pop((kind, entity), None) is not None:
            self._update_rules(kind, entity)

    def conclusions(self) -> tuple[Conclusion, ...]:
        """Returns the current conclusions, ordered by priority, policy, subject and entity, each once."""
        if self._conclusions is None:
            self._active = dict(sorted(self._active.items(), key=itemgetter(0)))  # almost in order: little to do
            self._conclusions = tuple({place[:2]: one for place, one in self._active.items()}.values())
        return self._conclusions

    def close(self) -> None:
        """Remove all facts."""
        self._facts.clear()
        self._active.clear()
        self._conclusions = ()

    def _update_rules(self, kind: str, entity: str) -> None:
        for number in self.program.by_kind.get(kind, ()):
            rule = self.program.rules[number]
            holds, place = self._is_met(rule, entity), (self.program.conclusion_keys[number], entity, number)
            if holds != (place in self._active):
                self._conclusions = None
                if holds:
                    self._active[place] = replace(rule.conclusion, entity=entity)
                else:
                    del self._active[place]

    def _is_met(self, rule: CompiledRule, entity: str) -> bool:
        blocked = rule.unless is not None and self._has_match(rule.unless, entity)
        return not blocked and all(self._has_match(shape, entity) for shape in rule.when)

    def _has_match(self, shape: CompiledPattern, entity: str) -> bool:
        fact = self._facts.get((shape.kind, entity))
        return fact is not None and matches_tests(fact, shape.tests)


def matches_tests(fact: Fact, tests: tuple[FactTest, ...]) -> bool:
    """Whether a fact passes every comparison; a missing property, or one of another type, passes none."""
    values = dict(fact.values)
    for test in tests:
        value = values.get(test.name)
        if value is None or type(value) is not type(test.value) or not COMPARE[test.op](value, test.value):
            return False
    return True


def build_conclusions(program: Program, active: set[tuple[int, str]]) -> tuple[Conclusion, ...]:
    """Returns the conclusions of the rules that hold, in the order of `Matcher.conclusions`."""
    found = {(program.conclusion_keys[n], entity): program.rules[n].conclusion for n, entity in active}
    return tuple(replace(one, entity=entity) for (_, entity), one in sorted(found.items(), key=lambda item: item[0]))


class PolicyEvaluator:
    """Evaluates policies on facts: sends changed facts only, and feeds derived facts back until nothing changes."""

    def __init__(self, program: Program, matcher: Matcher | None = None) -> None:
        self.program = program
        self.matcher: Matcher = matcher or ReferenceMatcher(program)
        self._asserted: dict[tuple[str, str], Fact] = {}
        self._last_result: tuple[Mapping[tuple[str, str], Fact], tuple[Conclusion, ...]] = ({}, ())

    def evaluate(self, facts: Mapping[tuple[str, str], Fact]) -> tuple[Conclusion, ...]:
        """Returns the conclusions from exactly these facts, which are keyed by kind and entity."""
        base = {key: fact for key, fact in facts.items() if key[0] in self.program.by_kind}
        if base == self._last_result[0]:
            return self._last_result[1]
        wanted = base
        conclusions: tuple[Conclusion, ...] = ()
        for _ in range(self.program.depth + 1):
            self._update_facts(wanted)
            conclusions = self.matcher.conclusions()
            again = _add_derived_facts(base, wanted, conclusions)
            if again == wanted:
                break
            wanted = again
        self._last_result = (base, conclusions)
        return conclusions

    def _update_facts(self, wanted: Mapping[tuple[str, str], Fact]) -> None:
        for key in sorted(self._asserted.keys() - wanted.keys()):
            self.matcher.retract(*key)
            del self._asserted[key]
        known = self._asserted
        changed = [key for key, fact in wanted.items() if (old := known.get(key)) is not fact and old != fact]
        for key in sorted(changed):
            self.matcher.assert_fact(wanted[key])
            self._asserted[key] = wanted[key]


def _add_derived_facts(
    base: dict[tuple[str, str], Fact], wanted: Mapping[tuple[str, str], Fact], conclusions: tuple[Conclusion, ...]
) -> dict[tuple[str, str], Fact]:
    """Returns the facts with those derived from them; a measured fact takes precedence over a derived one."""
    deriving = [c for c in conclusions if c.diagnosis or c.fact]
    facts = dict(base) if deriving else base
    for c in deriving:
        kind = kind_of_fact("diagnosis", c.diagnosis) if c.diagnosis else c.fact
        source = wanted.get((kind_of_fact("diagnosis", c.subject), c.entity)) if c.diagnosis else None
        facts.setdefault((kind, c.entity), Fact(kind, c.entity, source.values if source else ()))
    return facts


QUANTISATION_STEP = 0.05
"""Step of confidence and coverage in facts: both vary from tick to tick, and facts are sent on change."""
MAX_MOVES = 9
"""Largest number of moves in a fact."""

Facts = dict[tuple[str, str], Fact]


@dataclass(frozen=True, slots=True, order=True)
class ContextFact:
    """A fact from outside about an entity and everything on it: maintenance, mitigations already tried."""

    fact: str
    entity: Entity
    topic: str = ""


@dataclass(frozen=True, slots=True)
class FiringDiagnosis:
    """A firing alert with the numbers of its incident."""

    alert: Alert
    confidence: float
    """Confidence of the incident, as of this tick, quantised."""
    moves: int = 0

    @property
    def content(self) -> tuple[object, ...]:
        """All that its fact is made of, but for the key of the alert."""
        return self.alert.severity, self.confidence, self.alert.peak_evidence, self.moves


class FactBuilder:
    """Builds the facts of policies; a fact of which nothing has changed is the same object."""

    def __init__(self, locality: LocalityIndex) -> None:
        self._locality = locality
        self._diagnoses = KeyedCache[AlertKey, Fact]()
        self._places = KeyedCache[Entity, Fact]()

    def build(self, diagnoses: Sequence[FiringDiagnosis], context: Iterable[ContextFact]) -> Facts:
        """Returns the facts by kind and entity: the diagnoses, the location of their entities, their context."""
        found: Facts = {}
        for one in diagnoses:
            _put_fact(found, self._diagnoses.get(one.alert.key, one.content, partial(_diagnosis_fact, one)))
        entities = list(dict.fromkeys(one.alert.entity for one in diagnoses))
        for entity in entities:
            _put_fact(found, self._places.get(entity, None, partial(self._topology_fact, entity)))
        for context_fact in sorted(context):
            for entity in entities:
                if context_applies(context_fact.entity, entity, self._locality):
                    _put_fact(found, build_fact(context_fact.fact, entity.key, context_fact.topic))
        self._diagnoses.forget_all_but({one.alert.key for one in diagnoses})
        self._places.forget_all_but({*entities})
        return found

    def _topology_fact(self, entity: Entity) -> Fact:
        return build_fact("topology", entity.key, values=self._locality.topology_facts(entity))


def _put_fact(facts: Facts, one: Fact) -> None:
    facts[one.kind, one.entity] = one


def _diagnosis_fact(diagnosis: FiringDiagnosis) -> Fact:
    alert = diagnosis.alert
    values: dict[str, str | int | float | bool] = {
        "severity": SEVERITIES[alert.severity],
        "confidence": diagnosis.confidence,
        "coverage": quantise(alert.peak_evidence.coverage),
        "scope": alert.entity.kind,
        "moves": min(diagnosis.moves, MAX_MOVES),
        "error": _alert_error(alert.peak_evidence),
    }
    return build_fact("diagnosis", alert.entity.key, alert.condition, values)


def _alert_error(evidence: EvidenceSnapshot) -> int:
    """Returns the driver error of a GPU that the evidence was decided by, 0 for none."""
    held = zip(evidence.info.items, evidence.verdicts, evidence.values, strict=True)
    return find_error((item.expr, value) for item, verdict, value in held if verdict == YES)


def quantise(value: float) -> float:
    """Returns the largest multiple of the step that is not above a share; 0 for what is not a share."""
    return int(value / QUANTISATION_STEP + 1e-6) * QUANTISATION_STEP if 0 <= value <= 1 else 0.0


def context_applies(context: Entity, entity: Entity, locality: LocalityIndex) -> bool:
    """Whether a fact about one entity holds for another one: the same, or one on it or in it."""
    here, there = locality.location_of(context), locality.location_of(entity)
    if context == entity or context.kind == "fleet":
        return True
    if context.kind == "node":
        return bool(here.self_tokens & there.nodes)
    return bool(here.self_tokens & (there.groups | there.pools))


def rank_advice(
    conclusions: Iterable[Conclusion], catalogue: Catalogue, names: Mapping[str, str]
) -> dict[tuple[str, str], tuple[Advice, ...]]:
    """Returns advice by (condition, entity key), best first, each mitigation once.

    Args:
        conclusions: of the policies, each once.
        catalogue: names the actor of each mitigation.
        names: display names by entity key.
    """
    found: dict[tuple[str, str], dict[str, Advice]] = {}
    for one in sorted(conclusions, key=attrgetter("priority", "policy", "subject", "entity")):
        if one.mitigation:
            known = catalogue.mitigations.get(one.mitigation)
            why = one.why.replace("{entity}", names.get(one.entity, one.entity)).replace("{condition}", one.subject)
            advice = Advice(one.mitigation, known.actor if known else "", why)
            found.setdefault((one.subject, one.entity), {}).setdefault(one.mitigation, advice)
    return {key: tuple(advice.values()) for key, advice in found.items()}
