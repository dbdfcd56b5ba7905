"""durable-rules behind the matcher protocol: the same conclusions, whatever happens to its process."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings

from skewscope.adapters.runtime import durable
from skewscope.adapters.runtime.durable import DurableMatcher, IdAllocator, best_matcher, build_rulesets, is_available
from skewscope.engine.advice.advice import (
    CompiledPattern,
    CompiledRule,
    Conclusion,
    Program,
    ReferenceMatcher,
    build_fact,
    fnv1a32,
)
from skewscope.engine.advice.policy import compile_policies
from skewscope.engine.model.incident import SEVERITIES
from skewscope.rules.policy import load
from tests.support.policies import diagnosis, policy, program, programs, steps, topology
from tests.support.process_work import conclude_elsewhere

needs_library = pytest.mark.skipif(not is_available(), reason="durable-rules cannot be imported here (Python >= 3.13?)")

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
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
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
        assert (one.restarts, one.fallback_reason) == (0, "")
    finally:
        one.close()


@needs_library
def test_both_agree_over_many_changes_on_the_policies_of_the_house():
    made, random = compile_policies(load()[0]), Random(7)
    topics = sorted({kind.partition(":")[2] for kind in made.by_kind if kind.startswith("diagnosis:")})
    reference, one = ReferenceMatcher(made), DurableMatcher(made)
    try:
        for step in range(1500):
            entity, topic = f"rank A:n{random.randrange(25)}", random.choice(topics)
            what = random.choice(
                [
                    diagnosis(topic, entity, random.choice(SEVERITIES), random.choice([0.5, 0.6, 0.7, 0.8])),
                    topology(entity, random.choice([1, 4])),
                    build_fact("maintenance", entity),
                    build_fact("tried", entity, random.choice(["spread-flows", "chunk-prefill", "balance-by-work"])),
                ]
            )
            gone = random.random() < 0.4
            for matcher in (reference, one):
                matcher.retract(what.kind, entity) if gone else matcher.assert_fact(what)
            if step % 10 == 0:
                assert one.conclusions() == reference.conclusions()
        assert (one.restarts, one.fallback_reason) == (0, "")
        assert len(reference.conclusions()) > 20
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
    assert (matcher.restarts, matcher.fallback_reason) == (1, "")


@needs_library
def test_a_worker_that_hangs_is_replaced_at_its_deadline():
    matcher = DurableMatcher(program(policy(id="a", when=[LATE])), deadline_s=0.3)
    try:
        matcher.assert_fact(diagnosis("late", N0))
        matcher.conclusions()
        os.kill(matcher.pid, signal.SIGSTOP)
        matcher.assert_fact(diagnosis("late", N1))
        assert [c.entity for c in matcher.conclusions()] == [N0, N1]
        assert (matcher.restarts, matcher.fallback_reason) == (1, "")
    finally:
        matcher.close()


def test_a_worker_that_will_not_live_gives_way_to_the_reference(matcher, monkeypatch):
    monkeypatch.setattr(durable, "COMMAND", (sys.executable, "-c", "raise SystemExit(1)"))
    matcher.assert_fact(diagnosis("late", N0))
    assert [c.policy for c in matcher.conclusions()] == ["a"]
    assert matcher.fallback_reason
    matcher.assert_fact(build_fact("maintenance", N0))
    assert matcher.conclusions() == ()
    matcher.retract("maintenance", N0)
    assert [c.policy for c in matcher.conclusions()] == ["a"]


def test_a_worker_that_cannot_be_started_gives_way_to_the_reference(matcher, monkeypatch):
    monkeypatch.setattr(durable, "COMMAND", ("/no/such/interpreter",))
    matcher.assert_fact(diagnosis("late", N0))
    assert [c.policy for c in matcher.conclusions()] == ["a"]


FAKE = """
import json, sys, time
for line in sys.stdin:
    n = json.loads(line)["n"]
    if n == 1:
        print(json.dumps({"n": 1, "add": [], "drop": []}), flush=True)
    else:
        TWIST
"""
"""A worker that starts well and then does something else."""


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param("no json", id="no json"),
        pytest.param("[1]", id="no object"),
        pytest.param('{"error": "ImportError: no durable"}', id="an error"),
        pytest.param('{"error": ""}', id="an error without words"),
        pytest.param('{"n": 1}', id="half an answer"),
        pytest.param('{"n": 7, "add": [], "drop": []}', id="an answer to another question"),
        pytest.param("[" * 100_000, id="depth"),
    ],
)
def test_a_worker_that_answers_nonsense_gives_way_to_the_reference(matcher, monkeypatch, answer):
    code = f"print({answer!r}, flush=True); import time; time.sleep(60)"
    monkeypatch.setattr(durable, "COMMAND", (sys.executable, "-c", code))
    matcher.assert_fact(diagnosis("late", N0))
    assert [c.policy for c in matcher.conclusions()] == ["a"]
    assert matcher.fallback_reason


@pytest.mark.parametrize(
    ("twist", "why"),
    [
        pytest.param("sys.exit(3)", "it ended", id="dies"),
        pytest.param("time.sleep(60)", "no reply in time", id="hangs"),
        pytest.param("while True: sys.stdout.write('x' * 65536)", "a reply above the size limit", id="floods"),
        pytest.param("while True: print('{}', flush=True)", "an invalid reply", id="floods with lines"),
        pytest.param("print('\\0\\0', flush=True)", "an invalid reply", id="garbage"),
        pytest.param(
            "print(json.dumps({'n': n, 'add': [[0, 'e1', 5]], 'drop': []}), flush=True)",
            "an invalid reply",
            id="a wrong shape",
        ),
        pytest.param(
            "print(json.dumps({'n': n, 'add': [[999, 'e1']], 'drop': []}), flush=True)",
            "conclusions about unknown rules or entities",
            id="a rule that is none",
        ),
        pytest.param(
            "print(json.dumps({'n': n, 'add': [], 'drop': []}), flush=True)",
            "conclusions that differ from the reference",
            id="too few conclusions",
        ),
        pytest.param(
            "print(json.dumps({'n': n, 'add': [[0, 'e1'], [1, 'e1']], 'drop': []}), flush=True)",
            "conclusions that differ from the reference",
            id="too many conclusions",
        ),
    ],
)
def test_a_worker_that_goes_wrong_changes_no_conclusion_and_is_gone(matcher, monkeypatch, twist, why):
    monkeypatch.setattr(durable, "COMMAND", (sys.executable, "-c", FAKE.replace("TWIST", twist)))
    monkeypatch.setattr(durable, "MAX_REPLY", 1 << 20)
    one, pids = DurableMatcher(matcher.program, deadline_s=0.5), []
    start = durable.Worker.__init__

    def noted(self, *args):
        start(self, *args)
        pids.append(self.process.pid)

    monkeypatch.setattr(durable.Worker, "__init__", noted)
    one.assert_fact(diagnosis("late", N0))
    assert [c.policy for c in one.conclusions()] == ["a"]
    assert one.fallback_reason == why
    assert len(pids) == durable.MAX_FAILURES
    assert not any(alive(pid) for pid in pids)
    one.assert_fact(diagnosis("full", N0))
    assert [c.policy for c in one.conclusions()] == ["a", "b"]


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_worker_in_which_the_library_does_not_import_gives_way_to_the_reference(matcher, monkeypatch):
    code = (
        "import sys; sys.modules['durable'] = None; from skewscope.adapters.runtime.durable_worker import main; main()"
    )
    monkeypatch.setattr(durable, "COMMAND", (sys.executable, "-c", code))
    matcher.assert_fact(diagnosis("late", N0))
    assert [c.policy for c in matcher.conclusions()] == ["a"]
    assert "ModuleNotFoundError" in matcher.fallback_reason


PARENT = """
import os, sys, time
sys.path.insert(0, {tests!r})
from tests.support.policies import diagnosis, policy, program
from skewscope.adapters.runtime.durable import DurableMatcher
if __name__ == "__main__":
    matcher = DurableMatcher(program(policy(id="a", when=[{{"fact": "diagnosis", "condition": "late"}}])))
    matcher.assert_fact(diagnosis("late", "rank A:n0"))
    if ([c.policy for c in matcher.conclusions()], matcher.fallback_reason) != (["a"], ""):
        sys.exit("wrong")  # no assertion: python -O has none
    print(matcher.pid, flush=True)
    {then}
"""


def parent(then, *options):
    code = PARENT.format(tests=str(Path(__file__).parents[3]), then=then)
    return subprocess.Popen([sys.executable, *options, "-c", code], stdout=subprocess.PIPE, text=True)


def gone(pid, within=10.0):
    """Whether a process, which is not our child, ends in time."""
    end = time.monotonic() + within
    while alive(pid) and time.monotonic() < end:
        if (status := Path(f"/proc/{pid}/stat")).exists() and status.read_text().split()[2] == "Z":
            return True
        time.sleep(0.02)
    return not alive(pid)


@needs_library
@pytest.mark.parametrize(
    "options", [("-X", "utf8"), *(pytest.param((option,), marks=pytest.mark.slow) for option in ("-I", "-O"))]
)
@pytest.mark.parametrize(
    ("then", "code"),
    [
        pytest.param("matcher.close()", 0, id="closed"),
        pytest.param("pass", 0, id="forgotten"),
        pytest.param("raise SystemExit(3)", 3, id="left"),
        pytest.param("os.kill(os.getpid(), 9)", -9, id="killed"),
    ],
)
def test_no_worker_outlives_its_parent_however_that_ends(options, then, code):
    process = parent(then, *options)
    pid = int(process.stdout.readline())
    assert process.wait(30) == code
    process.stdout.close()
    assert gone(pid)


@needs_library
def test_it_works_in_a_spawned_process_and_leaves_nothing_behind(matcher):
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=conclude_elsewhere, args=(matcher.program, queue), daemon=True)
    process.start()
    said, fallen_back, pid = queue.get(timeout=60)
    process.join(30)
    assert (said, fallen_back) == (["a"], "")
    assert gone(pid)


@needs_library
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_fork_of_the_owner_does_not_end_the_worker(matcher):
    matcher.assert_fact(diagnosis("late", N0))
    matcher.conclusions()
    child = os.fork()
    if child == 0:
        try:
            matcher._worker._finalizer()
        except BaseException:  # noqa: BLE001 - a forked test runner must never go on
            os._exit(1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    matcher.assert_fact(diagnosis("late", N1))
    assert len(matcher.conclusions()) == 2
    assert matcher.restarts == 0


@needs_library
@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="no /proc here")
def test_workers_that_come_and_go_leave_no_descriptor_open(matcher):
    def descriptors():
        return len(list(Path("/proc/self/fd").iterdir()))

    before = descriptors()
    for n in range(6):
        matcher.assert_fact(diagnosis("late", f"rank A:n{n}"))
        matcher.conclusions()
        os.kill(matcher.pid, signal.SIGKILL)
    matcher.close()
    assert descriptors() == before


@needs_library
def test_it_works_with_descriptors_beyond_a_thousand(matcher):
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2048:
        pytest.skip("too few descriptors are allowed here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2048), hard))
    taken = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:
        matcher.assert_fact(diagnosis("late", N0))
        assert [c.policy for c in matcher.conclusions()] == ["a"]
        assert matcher.fallback_reason == ""
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@needs_library
def test_a_rulebook_on_which_the_library_hangs_never_stops_the_caller():
    rules = tuple(
        CompiledRule((CompiledPattern(f"k{n}"),), None, Conclusion(1, f"p{n:03}", "", "")) for n in range(600)
    )
    whole = Program(rules, (tuple(range(600)),), 1, {f"k{n}": (n,) for n in range(600)})
    matcher = DurableMatcher(whole, start_s=1.0)
    try:
        matcher.assert_fact(build_fact("k599", N0))
        assert [c.policy for c in matcher.conclusions()] == ["p599"]
        assert matcher.fallback_reason
    finally:
        matcher.close()


@needs_library
def test_six_hundred_kinds_from_policies_reach_it_in_pieces_that_it_can_carry():
    made = program(*(policy(id=f"p{n:03}", when=[{"fact": "diagnosis", "condition": f"c{n}"}]) for n in range(600)))
    assert max(len(rules) for rules in build_rulesets(made)[0]) <= 150
    matcher = DurableMatcher(made)
    try:
        for n in (0, 299, 599):
            matcher.assert_fact(diagnosis(f"c{n}", N0))
        assert [c.policy for c in matcher.conclusions()] == ["p000", "p299", "p599"]
        assert (matcher.restarts, matcher.fallback_reason) == (0, "")
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
    ids = IdAllocator("f")
    ids._in_use[fnv1a32("f1")] = "another with this hash"
    assert ids.allocate() == "f2"
    ids.release("f2")
    assert ids._in_use == {fnv1a32("f1"): "another with this hash"}


def test_where_the_library_cannot_be_imported_the_reference_serves(monkeypatch):
    monkeypatch.setattr(durable.sys, "version_info", (3, 13, 0))
    assert isinstance(best_matcher(Program()), ReferenceMatcher)
