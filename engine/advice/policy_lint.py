"""Lints of policies: all problems of a set of policies at once, beyond those that prevent compilation."""

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from skewscope.engine.advice.advice import Program, ReferenceMatcher, build_fact, encode_value
from skewscope.engine.advice.policy import ERROR_PLACEHOLDER, compile_policies
from skewscope.kb.model import Catalogue
from skewscope.kb.problems import InputError, Problem, join_names
from skewscope.rules.policy import FACTS, WORK_KINDS, FactPattern, FieldPath, Policy, Scalar, check_references

PLACEHOLDERS = ("{entity}", "{condition}", ERROR_PLACEHOLDER)
LOWEST_CONFIDENCE: Mapping[str, Scalar] = {"confidence": 0.3, "coverage": 0.3, "scope": "rank", "moves": 0, "error": 0}
"""Less certain than any diagnosis that fires."""

TOPOLOGY_CORNERS: Mapping[str, Sequence[Scalar]] = {
    "siblings": (0, 3),
    "rails": (0, 4),
    "members": (0, 8),
    "parallelism": ("none", "tensor-parallel"),
}
"""Topologies in which there must be advice: a single entity and several, known and unknown."""
DEFAULT_TOPOLOGY: Mapping[str, Scalar] = {"nodes": 1, "front_end": "no"}


def lint_policies(policies: Sequence[Policy], catalogue: Catalogue) -> list[Problem]:
    """Returns all problems of policies: references, the profile of the matchers, impossible or missing cases."""
    found = [*check_references(policies, catalogue), *_unused_facts(policies), *_unknown_placeholders(policies)]
    found += _unstated_work(policies, catalogue)
    found += [problem for policy in policies for problem in _impossible_comparisons(policy)]
    try:
        program = compile_policies(policies)
    except InputError as error:
        found += error.problems
    else:
        found += _missing_advice(policies, program, catalogue)
    return sorted(set(found))


def _unstated_work(policies: Iterable[Policy], catalogue: Catalogue) -> Iterator[Problem]:
    """Yields a problem for each policy without the kind of work that it is for, or with one that no condition meets."""
    for policy in policies:
        conditions = [catalogue.conditions[topic] for topic in policy.when[0].topics if topic in catalogue.conditions]
        met = {work for condition in conditions for work in condition.scope}
        fitting = [work for work in WORK_KINDS if work in met] or list(WORK_KINDS)
        if len(fitting) == len(WORK_KINDS):
            fitting.append("both")
        if policy.mitigation and policy.work not in fitting:
            found = repr(policy.work) if policy.work else "no kind of work"
            expected = f"{join_names(fitting)}: the work of {join_names(list(policy.when[0].topics))}"
            yield policy.problem(("work",), found, expected, "Does it help training, inference or both?")


def _unused_facts(policies: Iterable[Policy]) -> Iterator[Problem]:
    """Yields a problem for each derived fact that no policy matches."""
    asked = {pattern.fact for policy in policies for _, pattern in _patterns(policy)}
    for policy in policies:
        if policy.fact and policy.fact not in asked:
            expected = "a fact that some policy asks for"
            yield policy.problem(("derive", "fact"), repr(policy.fact), expected, "Delete it, or ask for it.")


def _patterns(policy: Policy) -> Iterator[tuple[FieldPath, FactPattern]]:
    yield from ((("when", n), pattern) for n, pattern in enumerate(policy.when))
    if policy.unless:
        yield ("unless",), policy.unless


def _unknown_placeholders(policies: Iterable[Policy]) -> Iterator[Problem]:
    """Yields a problem for each unknown placeholder in braces."""
    for policy in policies:
        asks_error = any(ask.property == "error" for pattern in policy.when for ask in pattern.comparisons)
        known = [word for word in PLACEHOLDERS if asks_error or word != ERROR_PLACEHOLDER]
        rest = re.sub("|".join(map(re.escape, known)), "", policy.why)
        for word in re.findall(r"\{[^{}]*\}?|\}", rest):
            yield policy.problem(("advise", "why"), repr(word), f"only {' and '.join(known)} in braces")


def _impossible_comparisons(policy: Policy) -> Iterator[Problem]:
    """Yields a problem for each set of comparisons that no value passes."""
    for path, pattern in _patterns(policy):
        properties = FACTS[pattern.fact].properties if pattern.fact in FACTS else {}
        for name in sorted({ask.property for ask in pattern.comparisons} & properties.keys()):
            asks = [ask for ask in pattern.comparisons if ask.property == name]
            if properties[name].type == "text" or any(ask.op == "is" for ask in asks):
                continue
            limits = [(ask.op, encode_value(properties[name], ask.values[0])) for ask in asks]
            numbers = [(op, limit) for op, limit in limits if isinstance(limit, int)]
            top = len(properties[name].choices) - 1 if properties[name].choices else None
            if not _is_possible(numbers, top):
                yield policy.problem((*path, name), "limits that no value keeps", "some room between them")


def _is_possible(limits: Iterable[tuple[str, int]], top: int | None) -> bool:
    """Whether some integer from 0 to `top` is within all limits."""
    low, high, holes = 0, 10**12 if top is None else top, set()
    for op, limit in limits:
        if op in ("at_least", "above"):
            low = max(low, limit + (op == "above"))
        elif op in ("at_most", "below"):
            high = min(high, limit - (op == "below"))
        else:
            holes.add(limit)
    while low in holes:
        low += 1
    return low <= high


def _missing_advice(policies: Sequence[Policy], program: Program, catalogue: Catalogue) -> Iterator[Problem]:
    """Yields a problem for each condition that has advice, but not for every severity, topology and kind of work."""
    first: dict[str, Policy] = {}
    for policy in policies:
        if policy.mitigation and policy.when[0].fact == "diagnosis":
            first |= {topic: first.get(topic, policy) for topic in policy.when[0].topics}
    for topic, policy in sorted(first.items()):
        condition = catalogue.conditions.get(topic)
        works = [work for work in WORK_KINDS if condition and work in condition.scope] or [""]
        silent = sorted(_unadvised_cases(program, topic, works))
        if silent:
            found = f"nothing for {topic} where {silent[0]}"
            hint = "Some policy must advise on the bare diagnosis, if only last."
            yield policy.problem(("when", 0), found, "advice whatever the severity and the topology", hint)


def _unadvised_cases(program: Program, topic: str, works: Iterable[str]) -> Iterator[str]:
    """Yields descriptions of the cases without advice."""
    matcher = ReferenceMatcher(program)
    cases: list[str] = []
    for values in itertools.product(*TOPOLOGY_CORNERS.values()):
        where = dict(zip(TOPOLOGY_CORNERS, values, strict=True))
        for severity in FACTS["diagnosis"].properties["severity"].choices:
            case = f"severity is {severity}, " + ", ".join(f"{name} is {value}" for name, value in where.items())
            matcher.assert_fact(build_fact("diagnosis", case, topic, {**LOWEST_CONFIDENCE, "severity": severity}))
            matcher.assert_fact(build_fact("topology", case, values={**DEFAULT_TOPOLOGY, **where}))
            cases.append(case)
    for work in works:
        # Siblings are other replicas of a pool, which serves.
        met = [case for case in cases if work != "training" or "siblings is 0" in case]
        advised = {one.entity for one in matcher.conclusions() if one.mitigation and one.suits(work)}
        suffix = f", for {work}" if work else ""
        yield from (f"{case}{suffix}" for case in met if case not in advised)
