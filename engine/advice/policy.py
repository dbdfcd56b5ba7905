"""Compiles policies for the matchers, within the profile in which the Rete library was measured to be exact.

The profile: one live fact per kind and entity; a pattern is a kind and literal comparisons; joins are equality of the
entity with the first pattern; one negation at most, last; few patterns, rules and kinds per ruleset; whole numbers and
text only; no two names with the same 32-bit hash, because the library compares names by that hash alone.
"""

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from skewscope.engine.advice.advice import (
    CompiledPattern,
    CompiledRule,
    Conclusion,
    FactTest,
    Program,
    Value,
    encode_value,
    fnv1a32,
    kind_of_fact,
)
from skewscope.kb.problems import InputError, Problem, suggest_name
from skewscope.rules.policy import FACTS, FactPattern, FactProperty, Policy, PropertyComparison, Scalar

MAX_PATTERNS = 4
MAX_RULES = 150
MAX_CONSTANTS = 480
"""Constants of one property in one ruleset, kinds included. The library hangs at 512."""
MAX_HITS = 60
"""Patterns of one ruleset that one fact may match; the library fails at 65."""

OPS = {"is": "eq", "not": "ne", "at_least": "ge", "at_most": "le", "above": "gt", "below": "lt"}
ERROR_TEST, ERROR_PLACEHOLDER = ("error", "eq"), "{error}"
"""The comparison that names the driver error of a GPU, and what stands for it in the reason of advice."""
RESERVED = ("id", "k", "e", "sid")


def compile_policies(policies: Iterable[Policy]) -> Program:
    """The program of some policies.

    Raises:
        InputError: policies outside the profile, all of them at once.
    """
    ordered = sorted(policies, key=lambda p: (p.priority, p.id))
    kinds = frozenset(p.fact for p in ordered if p.fact)
    problems = [problem for p in ordered for problem in _profile_problems(p, kinds)]
    problems += _duplicate_problems(ordered)
    if problems:
        raise InputError(problems)
    bundles = [tuple(_variants(p)) for p in ordered]
    problems += [
        _size_problem(p, b) for p, b in zip(ordered, bundles, strict=True) if not _RulesetLoad().with_rules(b).fits()
    ]
    problems += [
        _contradiction_problem(p) for p, b in zip(ordered, bundles, strict=True) if any(_is_self_blocking(r) for r in b)
    ]
    problems += _hash_collisions(ordered, bundles)
    depth, circular = _derivation_depth(ordered)
    problems += circular
    if problems:
        raise InputError(problems)
    return _assemble(bundles, depth)


def _assemble(bundles: Sequence[tuple[CompiledRule, ...]], depth: int) -> Program:
    rules = tuple(rule for bundle in bundles for rule in bundle)
    by_kind: dict[str, list[int]] = {}
    for n, rule in enumerate(rules):
        for kind in dict.fromkeys(shape.kind for shape in rule.patterns()):
            by_kind.setdefault(kind, []).append(n)
    return Program(
        rules, tuple(_pack_rulesets(bundles)), depth, {kind: tuple(ns) for kind, ns in sorted(by_kind.items())}
    )


def _profile_problems(policy: Policy, derived: frozenset[str]) -> Iterator[Problem]:
    """What of one policy cannot be carried out."""
    count = len(policy.when) + (policy.unless is not None)
    if count > MAX_PATTERNS:
        yield policy.problem(
            ("when",), f"{count} patterns", f"at most {MAX_PATTERNS}, `unless` included", "Derive a fact from some."
        )
    places: list[tuple[tuple[str | int, ...], FactPattern]] = [(("when", n), p) for n, p in enumerate(policy.when)]
    if policy.unless:
        places.append((("unless",), policy.unless))
    for n, (path, pattern) in enumerate(places):
        if pattern.same_entity != (n > 0):
            found = "`entity: same`" if pattern.same_entity else "a pattern joined to nothing"
            expected = "no `entity` in the first pattern, it names it" if pattern.same_entity else "`entity: same`"
            yield policy.problem(path, found, expected, "Joins are by equality of the entity with the first pattern.")
        if pattern.fact not in FACTS and pattern.fact not in derived:
            known = sorted({*FACTS, *derived})
            yield policy.problem(
                (*path, "fact"), repr(pattern.fact), f"one of {', '.join(known)}", suggest_name(pattern.fact, known)
            )
    if policy.unless and (len(policy.unless.topics) > 1 or any(len(a.values) > 1 for a in policy.unless.comparisons)):
        yield policy.problem(
            ("unless",),
            "a list",
            "one value",
            "Derive a fact from the list and negate that, so one fact at most blocks.",
        )
    yield from _outcome_problems(policy)


def _outcome_problems(policy: Policy) -> Iterator[Problem]:
    if policy.fact in FACTS:
        yield policy.problem(("derive", "fact"), repr(policy.fact), "a name that the engine does not use itself")
    if (policy.mitigation or policy.diagnosis) and policy.when[0].fact != "diagnosis":
        yield policy.problem(
            ("when", 0, "fact"), repr(policy.when[0].fact), "a diagnosis", "Advice and further diagnoses are about one."
        )


def _duplicate_problems(policies: Sequence[Policy]) -> Iterator[Problem]:
    counts = Counter(p.id for p in policies)
    for policy in policies:
        if counts[policy.id] > 1:
            yield policy.problem(("id",), f"{policy.id!r} {counts[policy.id]} times", "an id of its own")


def _variants(policy: Policy) -> Iterator[CompiledRule]:
    """Yields the rules of a policy, one for each combination of its lists."""
    unless = next(_compile_pattern(policy.unless)) if policy.unless else None
    says = Conclusion(
        policy.priority,
        policy.id,
        subject="",
        entity="",
        mitigation=policy.mitigation,
        why=policy.why,
        diagnosis=policy.diagnosis,
        fact=policy.fact,
        hash=policy.hash,
        work=policy.work,
    )
    choices = [tuple(itertools.islice(_compile_pattern(p), MAX_RULES + 1)) for p in policy.when]
    every = itertools.islice(itertools.product(*choices), MAX_RULES + 1)
    for when in dict.fromkeys(map(_merge_patterns, every)):
        why = says.why.replace(ERROR_PLACEHOLDER, _error_of(when))
        yield CompiledRule(when, unless, replace(says, subject=when[0].kind.partition(":")[2], why=why))


def _error_of(when: Iterable[CompiledPattern]) -> str:
    """Returns the driver error of a GPU that a rule asks for, 'error' where it asks for none."""
    return next(
        (str(test.value) for shape in when for test in shape.tests if (test.name, test.op) == ERROR_TEST), "error"
    )


def _merge_patterns(shapes: tuple[CompiledPattern, ...]) -> tuple[CompiledPattern, ...]:
    """Merges the patterns of each kind: the library matches a fact with only one pattern of a rule."""
    tests: dict[str, dict[FactTest, None]] = {}
    for shape in shapes:
        tests.setdefault(shape.kind, {}).update(dict.fromkeys(shape.tests))
    return tuple(CompiledPattern(kind, tuple(found)) for kind, found in tests.items())


def _compile_pattern(pattern: FactPattern) -> Iterator[CompiledPattern]:
    props = FACTS[pattern.fact].properties if pattern.fact in FACTS else {}
    choices = [tuple(_compile_test(props[a.property], a, v) for v in a.values) for a in pattern.comparisons]
    for topic in pattern.topics or ("",):
        for tests in itertools.product(*choices):
            yield CompiledPattern(kind_of_fact(pattern.fact, topic), tests)


def _compile_test(prop: FactProperty, ask: PropertyComparison, value: Scalar) -> FactTest:
    return FactTest(ask.property, OPS[ask.op], encode_value(prop, value))


@dataclass
class _RulesetLoad:
    """Load of one ruleset."""

    rules: int = 0
    hits: Counter[str] = field(default_factory=Counter)
    constants: frozenset[tuple[str, Value]] = frozenset()

    def with_rules(self, bundle: Iterable[CompiledRule]) -> "_RulesetLoad":
        """Returns the load with further rules."""
        rules, hits, constants = self.rules, self.hits.copy(), set(self.constants)
        for rule in bundle:
            # A rule with a negation has a copy without it, which reports when the negated fact is added.
            copies = 1 if rule.unless is None else 2
            rules += copies
            for shape in rule.patterns():
                hits[shape.kind] += copies
                constants.add(("k", shape.kind))
                constants.update((test.name, test.value) for test in shape.tests)
        return _RulesetLoad(rules, hits, frozenset(constants))

    def fits(self) -> bool:
        """Whether it is within the limits of one ruleset."""
        widest = max(Counter(name for name, _ in self.constants).values(), default=0)
        return self.rules <= MAX_RULES and widest <= MAX_CONSTANTS and max(self.hits.values(), default=0) <= MAX_HITS


def _pack_rulesets(bundles: Sequence[tuple[CompiledRule, ...]]) -> Iterator[tuple[int, ...]]:
    """Yields rule numbers by ruleset, filled in order, each within the limits."""
    load, start = _RulesetLoad(), 0
    numbers: list[int] = []
    for bundle in bundles:
        more = load.with_rules(bundle)
        if not more.fits():
            yield tuple(numbers)
            more, numbers = _RulesetLoad().with_rules(bundle), []
        load = more
        numbers += range(start, start + len(bundle))
        start += len(bundle)
    if numbers:
        yield tuple(numbers)


def _size_problem(policy: Policy, bundle: tuple[CompiledRule, ...]) -> Problem:
    shown = f"more than {MAX_RULES}" if len(bundle) > MAX_RULES else str(len(bundle))
    return policy.problem(
        ("when",),
        f"lists that make {shown} rules",
        f"at most {MAX_HITS // 2} rules of one policy looking at one kind of fact",
        "Use at_least, or derive a fact from the list first.",
    )


def _is_self_blocking(rule: CompiledRule) -> bool:
    return rule.unless is not None and rule.unless.kind in {shape.kind for shape in rule.when}


def _contradiction_problem(policy: Policy) -> Problem:
    return policy.problem(
        ("unless",),
        "a kind of fact that `when` asks for, too",
        "another kind",
        "It is one and the same fact: compare it in `when`, with {not: ...}, at_most or below.",
    )


def _hash_collisions(policies: Sequence[Policy], bundles: Sequence[tuple[CompiledRule, ...]]) -> Iterator[Problem]:
    """Yields a problem for each name whose hash is that of another name."""
    first: dict[int, str] = {}
    for name in (*RESERVED, *sorted({p for kind in FACTS.values() for p in kind.properties})):
        first.setdefault(fnv1a32(name), name)
    for policy, bundle in zip(policies, bundles, strict=True):
        names = {shape.kind for rule in bundle for shape in rule.patterns()}
        names |= {t.value for r in bundle for s in r.patterns() for t in s.tests if isinstance(t.value, str)}
        for name in sorted(names):
            other = first.setdefault(fnv1a32(name), name)
            if other != name:
                yield policy.problem(
                    ("when",),
                    f"{name!r}, whose 32-bit hash is that of {other!r}",
                    "another name",
                    "Rename one of them.",
                )


def _derivation_depth(policies: Sequence[Policy]) -> tuple[int, list[Problem]]:
    """Returns the number of layers of derived facts, and a problem for each policy of a cycle."""
    makers: dict[str, list[Policy]] = {}
    for policy in policies:
        if made := _derived_kind(policy):
            makers.setdefault(made, []).append(policy)
    layer: dict[str, int] = {kind: 0 for p in policies for kind in _requested_kinds(p) if kind not in makers}
    waiting = dict(makers)
    while ready := [k for k, ps in waiting.items() if all(kind in layer for p in ps for kind in _requested_kinds(p))]:
        for kind in ready:
            layer[kind] = 1 + max(layer[k] for p in waiting[kind] for k in _requested_kinds(p))
            del waiting[kind]
    stuck = [p for ps in waiting.values() for p in ps]
    problems = [
        p.problem(
            ("derive",), f"{_derived_kind(p)!r}, which depends on itself", "facts that are derived in one direction"
        )
        for p in stuck
    ]
    return 1 + max(layer.values(), default=0), problems


def _derived_kind(policy: Policy) -> str:
    return kind_of_fact("diagnosis", policy.diagnosis) if policy.diagnosis else policy.fact


def _requested_kinds(policy: Policy) -> list[str]:
    patterns = [*policy.when, *([policy.unless] if policy.unless else [])]
    return [kind_of_fact(p.fact, topic) for p in patterns for topic in p.topics or ("",)]
