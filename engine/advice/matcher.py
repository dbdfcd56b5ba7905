"""The matcher protocol, its reference implementation, and the loop that feeds derived facts back."""

import operator
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Protocol

from skewscope.engine.advice.policy import (
    CompiledPattern,
    CompiledRule,
    Conclusion,
    Fact,
    FactTest,
    Program,
    kind_of_fact,
)

COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


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
        self._active: set[tuple[int, str]] = set()
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
            self._conclusions = build_conclusions(self.program, self._active)
        return self._conclusions

    def close(self) -> None:
        """Remove all facts."""
        self._facts.clear()
        self._active.clear()
        self._conclusions = ()

    def _update_rules(self, kind: str, entity: str) -> None:
        for number in self.program.by_kind.get(kind, ()):
            holds = self._is_met(self.program.rules[number], entity)
            if holds != ((number, entity) in self._active):
                (self._active.add if holds else self._active.discard)((number, entity))
                self._conclusions = None

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
        for key, fact in sorted(wanted.items()):
            if self._asserted.get(key) != fact:
                self.matcher.assert_fact(fact)
                self._asserted[key] = fact


def _add_derived_facts(
    base: Mapping[tuple[str, str], Fact], wanted: Mapping[tuple[str, str], Fact], conclusions: tuple[Conclusion, ...]
) -> dict[tuple[str, str], Fact]:
    """Returns the facts with those derived from them; a measured fact takes precedence over a derived one."""
    facts = dict(base)
    for c in conclusions:
        kind = kind_of_fact("diagnosis", c.diagnosis) if c.diagnosis else c.fact
        if kind:
            source = wanted.get((kind_of_fact("diagnosis", c.subject), c.entity)) if c.diagnosis else None
            facts.setdefault((kind, c.entity), Fact(kind, c.entity, source.values if source else ()))
    return facts
