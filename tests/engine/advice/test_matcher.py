"""The reference matcher, and the loop that hands derived facts back."""

from hypothesis import given, settings
from hypothesis import strategies as st

from skewscope.engine.advice.advice import (
    CompiledPattern,
    CompiledRule,
    Fact,
    PolicyEvaluator,
    Program,
    ReferenceMatcher,
    build_fact,
    matches_tests,
)
from tests.support.policies import diagnosis, facts, policy, program, programs, steps, topology

N0, N1 = "rank A:n0", "rank A:n1"
LATE = {"fact": "diagnosis", "condition": "late"}
MAINTENANCE = {"fact": "maintenance", "entity": "same"}


def said(matcher):
    return [(c.policy, c.subject, c.entity) for c in matcher.conclusions()]


def test_a_diagnosis_alone_leads_to_its_advice_until_it_goes():
    matcher = ReferenceMatcher(program(policy(id="p", when=[LATE])))
    matcher.assert_fact(diagnosis("late", N0))
    assert said(matcher) == [("p", "late", N0)]
    matcher.retract("diagnosis:late", N0)
    assert said(matcher) == []


def test_facts_join_only_on_the_same_entity():
    matcher = ReferenceMatcher(program(policy(id="p", when=[LATE, {"fact": "topology", "entity": "same"}])))
    matcher.assert_fact(diagnosis("late", N0))
    matcher.assert_fact(topology(N1))
    assert said(matcher) == []
    matcher.assert_fact(topology(N0))
    assert said(matcher) == [("p", "late", N0)]


def test_a_blocker_withdraws_advice_and_its_going_gives_it_back():
    matcher = ReferenceMatcher(program(policy(id="p", when=[LATE], unless=MAINTENANCE)))
    matcher.assert_fact(diagnosis("late", N0))
    matcher.assert_fact(build_fact("maintenance", N0))
    assert said(matcher) == []
    matcher.assert_fact(build_fact("maintenance", N1))
    matcher.retract("maintenance", N0)
    assert said(matcher) == [("p", "late", N0)]


def test_a_changed_fact_replaces_the_one_before():
    matcher = ReferenceMatcher(program(policy(id="p", when=[{**LATE, "severity": "critical"}])))
    matcher.assert_fact(diagnosis("late", N0, "critical"))
    matcher.assert_fact(diagnosis("late", N0, "info"))
    assert said(matcher) == []


def test_conclusions_come_by_priority_then_policy_then_entity_each_once():
    made = program(
        policy(id="b", when=[{"fact": "diagnosis", "condition": ["late", "full"], "severity": ["info", "warning"]}]),
        policy(id="a", when=[LATE]),
        policy(id="z", when=[LATE], priority=1),
    )
    matcher = ReferenceMatcher(made)
    for entity in (N1, N0):
        matcher.assert_fact(diagnosis("late", entity))
    assert said(matcher) == [(p, "late", n) for p in ("z", "a", "b") for n in (N0, N1)]


def test_a_property_that_is_absent_or_of_another_type_passes_no_comparison():
    shape = program(policy(id="p", when=[{**LATE, "severity": {"not": "info"}}])).rules[0].when[0]
    assert matches_tests(diagnosis("late", N0), shape.tests)
    assert not matches_tests(Fact("diagnosis:late", N0), shape.tests)
    assert not matches_tests(Fact("diagnosis:late", N0, (("severity", "warning"),)), shape.tests)


def brute(made: Program, live: dict[tuple[str, str], Fact]) -> set[tuple[str, str, str]]:
    """What follows, found by trying every rule on every entity."""

    def there(shape: CompiledPattern, entity: str) -> bool:
        one = live.get((shape.kind, entity))
        return one is not None and matches_tests(one, shape.tests)

    def holds(rule: CompiledRule, entity: str) -> bool:
        blocked = rule.unless is not None and there(rule.unless, entity)
        return all(there(s, entity) for s in rule.when) and not blocked

    entities = {entity for _, entity in live}
    return {(r.conclusion.policy, r.conclusion.subject, e) for r in made.rules for e in entities if holds(r, e)}


@given(programs(), steps)
@settings(max_examples=20)
def test_looking_only_at_what_changed_finds_what_looking_at_everything_finds(made, todo):
    matcher, live = ReferenceMatcher(made), {}
    for action, one in todo:
        if action == "assert":
            live[one.kind, one.entity] = one
            matcher.assert_fact(one)
        elif action == "retract":
            live.pop((one.kind, one.entity), None)
            matcher.retract(one.kind, one.entity)
        assert set(said(matcher)) == brute(made, live)


@given(programs(), st.lists(facts, max_size=12, unique_by=lambda f: (f.kind, f.entity)), st.randoms())
@settings(max_examples=20)
def test_the_order_of_facts_changes_nothing(made, some, random):
    shuffled = list(some)
    random.shuffle(shuffled)
    first, second = ReferenceMatcher(made), ReferenceMatcher(made)
    for one, other in zip(some, shuffled, strict=True):
        first.assert_fact(one)
        second.assert_fact(other)
    assert first.conclusions() == second.conclusions()


def layered() -> Program:
    return program(
        policy(id="d1", when=[LATE], derive={"fact": "hurt"}),
        policy(id="d2", when=[{"fact": "hurt"}], unless=MAINTENANCE, derive={"fact": "worth-acting"}),
        policy(id="d3", when=[LATE, {"fact": "worth-acting", "entity": "same"}], derive={"diagnosis": "lossy"}),
        policy(id="act", when=[{"fact": "diagnosis", "condition": "lossy", "severity": "warning"}]),
    )


def by_key(*some):
    return {(f.kind, f.entity): f for f in some}


def test_derived_facts_lead_on_and_go_with_what_they_rest_on():
    policies = PolicyEvaluator(layered())
    told = policies.evaluate(by_key(diagnosis("late", N0)))
    assert [c.policy for c in told] == ["act", "d1", "d2", "d3"]
    blocked = policies.evaluate(by_key(diagnosis("late", N0), build_fact("maintenance", N0)))
    assert [c.policy for c in blocked] == ["d1"]
    assert policies.evaluate({}) == ()


def test_what_was_measured_stands_before_what_was_derived():
    policies = PolicyEvaluator(layered())
    told = policies.evaluate(by_key(diagnosis("late", N0), diagnosis("lossy", N0, "info")))
    assert [c.policy for c in told] == ["d1", "d2", "d3"]


class Counting(ReferenceMatcher):
    """The reference, counting what reaches it."""

    calls = 0

    def assert_fact(self, fact):
        self.calls += 1
        super().assert_fact(fact)


def test_only_changes_that_some_policy_looks_at_are_sent():
    made = program(policy(id="p", when=[LATE]))
    matcher = Counting(made)
    policies = PolicyEvaluator(made, matcher)
    for _ in range(3):
        policies.evaluate(by_key(diagnosis("late", N0), topology(N0)))
    assert matcher.calls == 1
