"""durable-rules behind the matcher protocol: the same conclusions, whatever happens to its process."""

import os
import signal
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from policy_makers import diagnosis, policy, program, programs, steps

from skewscope.adapters import durable
from skewscope.adapters.durable import DurableMatcher, Ids, available, best_matcher, definition
from skewscope.engine.matcher import ReferenceMatcher
from skewscope.engine.policy import Conclusion, Program, Rule, Shape, fact, fnv1a32

needs_library = pytest.mark.skipif(not available(), reason="durable-rules cannot be imported here (Python >= 3.13?)")

N0, N1 = "rank A:n0", "rank A:n1"
LATE = {"fact": "diagnosis", "condition": "late"}


@pytest.fixture
def matcher():
    made = program(
        policy(id="a", when=[LATE], unless={"fact": "maintenance", "entity": "same"}),
        policy(id="b", when=[LATE, {"fact": "diagnosis", "entity": "same", "condition": "full"}]),
    )
    one = DurableMatcher(made)
    yield one
    one.close()


@needs_library
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs(), steps)
def test_both_matchers_give_the_same_conclusions_in_the_same_order(made, todo):
    reference, one = ReferenceMatcher(made), DurableMatcher(made)
    try:
        for action, what in todo:
            for matcher in (reference, one):
                if action == "assert":
                    matcher.assert_fact(what)
                elif action == "retract":
                    matcher.retract(what.kind, what.entity)
            if action == "look":
                assert one.conclusions() == reference.conclusions()
        assert one.conclusions() == reference.conclusions()
        assert (one.restarts, one.fallen_back) == (0, "")
    finally:
        one.close()


@needs_library
def test_no_process_starts_until_a_fact_concerns_some_policy(matcher):
    matcher.assert_fact(diagnosis("blind", N0))
    assert matcher.conclusions() == ()
    assert matcher.pid is None
    matcher.assert_fact(diagnosis("late", N0))
    assert [c.policy for c in matcher.conclusions()] == ["a"]
    assert matcher.pid is not None


@needs_library
def test_a_worker_killed_in_the_middle_changes_no_conclusion(matcher):
    reference = ReferenceMatcher(matcher.program)
    for step, what in enumerate([diagnosis("late", N0), diagnosis("full", N0), diagnosis("late", N1)]):
        for one in (matcher, reference):
            one.assert_fact(what)
        if step == 1:
            assert matcher.conclusions() == reference.conclusions()
            os.kill(matcher.pid, signal.SIGKILL)
    assert matcher.conclusions() == reference.conclusions()
    assert (matcher.restarts, matcher.fallen_back) == (1, "")


@needs_library
def test_a_worker_that_hangs_is_replaced_at_its_deadline():
    matcher = DurableMatcher(program(policy(id="a", when=[LATE])), deadline_s=0.3)
    try:
        matcher.assert_fact(diagnosis("late", N0))
        matcher.conclusions()
        os.kill(matcher.pid, signal.SIGSTOP)
        matcher.assert_fact(diagnosis("late", N1))
        assert [c.entity for c in matcher.conclusions()] == [N0, N1]
        assert (matcher.restarts, matcher.fallen_back) == (1, "")
    finally:
        matcher.close()


def test_a_worker_that_will_not_live_gives_way_to_the_reference(matcher, monkeypatch):
    monkeypatch.setattr(durable, "COMMAND", (sys.executable, "-c", "raise SystemExit(1)"))
    matcher.assert_fact(diagnosis("late", N0))
    assert [c.policy for c in matcher.conclusions()] == ["a"]
    assert matcher.fallen_back
    matcher.assert_fact(fact("maintenance", N0))
    assert matcher.conclusions() == ()
    matcher.retract("maintenance", N0)
    assert [c.policy for c in matcher.conclusions()] == ["a"]


def test_a_worker_that_cannot_be_started_gives_way_to_the_reference(matcher, monkeypatch):
    monkeypatch.setattr(durable, "COMMAND", ("/no/such/interpreter",))
    matcher.assert_fact(diagnosis("late", N0))
    assert [c.policy for c in matcher.conclusions()] == ["a"]


@pytest.mark.parametrize("answer", ["no json", "[1]", '{"error": "ImportError: no durable"}'])
def test_a_worker_that_answers_nonsense_gives_way_to_the_reference(matcher, monkeypatch, answer):
    code = f"print({answer!r}, flush=True); import time; time.sleep(60)"
    monkeypatch.setattr(durable, "COMMAND", (sys.executable, "-c", code))
    matcher.assert_fact(diagnosis("late", N0))
    assert [c.policy for c in matcher.conclusions()] == ["a"]
    assert matcher.fallen_back


@needs_library
def test_a_rulebook_on_which_the_library_hangs_never_stops_the_caller():
    rules = tuple(Rule((Shape(f"k{n}"),), None, Conclusion(1, f"p{n:03}", "", "")) for n in range(600))
    whole = Program(rules, (tuple(range(600)),), 1, {f"k{n}": (n,) for n in range(600)})
    matcher = DurableMatcher(whole, start_s=2.0)
    try:
        matcher.assert_fact(fact("k599", N0))
        assert [c.policy for c in matcher.conclusions()] == ["p599"]
        assert matcher.fallen_back
    finally:
        matcher.close()


@needs_library
def test_six_hundred_kinds_from_policies_reach_it_in_pieces_that_it_can_carry():
    made = program(*(policy(id=f"p{n:03}", when=[{"fact": "diagnosis", "condition": f"c{n}"}]) for n in range(600)))
    assert max(len(rules) for rules in definition(made)[0]) <= 150
    matcher = DurableMatcher(made)
    try:
        for n in (0, 299, 599):
            matcher.assert_fact(diagnosis(f"c{n}", N0))
        assert [c.policy for c in matcher.conclusions()] == ["p000", "p299", "p599"]
        assert (matcher.restarts, matcher.fallen_back) == (0, "")
    finally:
        matcher.close()


@needs_library
def test_closing_forgets_the_facts_and_the_matcher_serves_again(matcher):
    matcher.assert_fact(diagnosis("late", N0))
    matcher.conclusions()
    matcher.close()
    assert matcher.conclusions() == ()
    matcher.assert_fact(diagnosis("late", N1))
    assert [c.entity for c in matcher.conclusions()] == [N1]


def test_an_id_whose_hash_a_living_one_has_is_skipped():
    ids = Ids("f")
    ids._taken[fnv1a32("f1")] = "another with this hash"
    assert ids.new() == "f2"
    ids.free("f2")
    assert ids._taken == {fnv1a32("f1"): "another with this hash"}


def test_where_the_library_cannot_be_imported_the_reference_serves(monkeypatch):
    monkeypatch.setattr(durable.sys, "version_info", (3, 13, 0))
    assert isinstance(best_matcher(Program()), ReferenceMatcher)
