"""Advice is for training, for inference or for both, and nobody gets what is for others."""

import re
from dataclasses import replace

import pytest

from skewscope.engine.advice.advice import ReferenceMatcher, build_fact, rank_advice
from skewscope.engine.advice.driver_errors import find_error, order_commands
from skewscope.engine.advice.policy import compile_policies
from skewscope.engine.advice.policy_lint import lint_policies
from skewscope.engine.model.locality import Entity, LocalityIndex
from skewscope.engine.model.topology import Group, Node, Pool, Topology
from skewscope.kb import loader as house
from skewscope.rules.policy import load
from tests.support.incidents import SPEAKS, advised, catalogue, play
from tests.support.policies import policy

NODES = tuple(Node(f"n{n}", gpus=8) for n in range(6))
TENSOR, DATA, DOOR = "tensor-parallel", "data-parallel", {"front_end": "n0"}
LATE = {"fact": "diagnosis", "condition": "late"}


def place(groups, pools=()):
    return LocalityIndex(Topology(NODES, tuple(groups), tuple(pools)))


SERVING = place([Group("r0", TENSOR, ("n0", "n1")), Group("r1", TENSOR, ("n2", "n3"))], [Pool("chat", ("r0", "r1"))])
TRAINING = place([Group("dp", DATA, ("n0", "n1", "n2")), Group("tp", TENSOR, ("n0/gpu0", "n0/gpu1"))])


@pytest.mark.parametrize(
    ("groups", "pools", "expected"),
    [
        ([Group("r0", TENSOR, ("n0", "n1"))], [Pool("chat", ("r0",))], "inference"),
        ([Group("r0", TENSOR, ("n0", "n1"), **DOOR)], [], "inference"),
        ([Group("r0", TENSOR, ("n0",), engine=(("job", "vllm"),))], [], "inference"),
        ([Group("r0", DATA, ("n0", "n1"), **DOOR), Group("tp", TENSOR, ("n0/gpu0", "n0/gpu1"))], [], "inference"),
        ([Group("dp", DATA, ("n0", "n1")), Group("tp", TENSOR, ("n0/gpu0", "n0/gpu1"))], [], "training"),
        ([Group("tp", TENSOR, ("n0", "n1"))], [], ""),
        ([], [], ""),
        ([Group("r0", TENSOR, ("n0",), **DOOR), Group("dp", DATA, ("n0", "n5"))], [], ""),
    ],
    ids=["pool", "front end", "engine", "groups of a replica", "job", "a group alone", "nothing known", "both"],
)
def test_the_topology_tells_what_a_gpu_works_on(groups, pools, expected):
    assert place(groups, pools).work_of(Entity("gpu", "n0/gpu0")) == expected


def advice(locality, condition, severity="critical"):
    """Returns the mitigations for a diagnosis of a GPU, best first, as an incident would show them."""
    return [one.id for one in advised_for(locality, condition, severity)]


def advised_for(locality, condition, severity="critical", error=0):
    """Returns the advice for a diagnosis of a GPU with a driver error, best first."""
    known, entity = house.load()[0], Entity("gpu", "n0/gpu0")
    matcher = ReferenceMatcher(compile_policies(load()[0]))
    values = {"severity": severity, "confidence": 0.9, "coverage": 1.0, "scope": "gpu", "moves": 0, "error": error}
    matcher.assert_fact(build_fact("diagnosis", entity.key, condition, values))
    matcher.assert_fact(build_fact("topology", entity.key, values=locality.topology_facts(entity)))
    suited = [one for one in matcher.conclusions() if one.suits(locality.work_of(entity))]
    return rank_advice(suited, known, {})[condition, entity.key]


@pytest.mark.parametrize("severity", ["info", "warning", "critical"])
def test_a_hot_gpu_of_a_replica_gets_no_advice_for_training(severity):
    found = advice(SERVING, "gpu-thermal-throttle", severity)
    assert found[0] == "deweight-replica"
    assert "resplit-micro-batches" not in found


def test_a_hot_gpu_of_a_job_gets_no_advice_for_serving():
    found = advice(TRAINING, "gpu-thermal-throttle")
    assert found[0] == "resplit-micro-batches"
    assert "deweight-replica" not in found


@pytest.mark.parametrize("locality", [SERVING, TRAINING])
def test_a_dead_gpu_is_brought_back_as_its_error_says(locality):
    assert "recover-gpu" in advice(locality, "gpu-hard-fault", "info")[:2]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (0, "no driver error says how"),
        (94, "was contained (Xid 94)"),
        (79, "fell off the bus (Xid 79): no reset reaches it, its node needs a reboot"),
        *((error, f"Xid {error} of gpu n0/gpu0 needs a reset") for error in (48, 62, 64, 95, 119, 120, 140)),
    ],
)
def test_the_reason_is_that_of_the_error_that_was_seen(error, said):
    (found,) = [one for one in advised_for(TRAINING, "gpu-hard-fault", error=error) if one.id == "recover-gpu"]
    assert said in found.why
    assert not re.search(r"[{}]", found.why)


@pytest.mark.parametrize(
    ("error", "first"),
    [
        (0, ["nvidia-smi --id={gpu} -q", "scontrol requeue {job}"]),
        (94, ["nvidia-smi --id={gpu} -q", "scontrol requeue {job}", "dcgmi diag --run 3"]),
        (79, ["nvidia-smi --id={gpu} -q", "scontrol update", "scontrol reboot"]),
        (119, ["nvidia-smi --id={gpu} -q", "scontrol update", "nvidia-smi --gpu-reset"]),
    ],
)
def test_the_commands_for_the_error_that_was_seen_come_first(error, first):
    commands = house.load()[0].mitigations["recover-gpu"].commands
    found = [one.do for one in order_commands(commands, error)]
    assert [done.startswith(begin) for done, begin in zip(found, first, strict=False)] == [True] * len(first)
    assert sorted(found) == sorted(one.do for one in commands)


@pytest.mark.parametrize(
    ("expr", "value", "error"),
    [
        ("gpu.xid == 79 or gpu.xid == 48", 48.0, 48),
        ("gpu.xid == 79 or rate(gpu.ecc_dbe_vol, 10*s) > 0", 0.5, 0),
        ("gpu.xid == 79", 48.0, 0),
        ("gpu.xid == 79", None, 0),
        ("gpu.xid == 79", float("nan"), 0),
        ("gpu.util == 79", 79.0, 0),
    ],
)
def test_an_error_is_one_that_the_evidence_asks_for(expr, value, error):
    assert find_error([(expr, value)]) == error


def test_reset_reboot_and_replacement_are_named_with_their_commands():
    recover = house.load()[0].mitigations["recover-gpu"]
    commands = " ".join(one.do for one in recover.commands)
    for part in ("nvidia-smi --gpu-reset", "scontrol reboot", "dcgmi diag", "nvidia-bug-report.sh"):
        assert part in commands
    for part in ("94", "79", "154", "RMA"):
        assert part in recover.what


def test_incidents_show_only_advice_for_their_work():
    training = policy(
        id="train", when=[LATE], work="training", advise={"mitigation": "rest", "why": "It helps who trains."}
    )
    serving = policy(
        id="serve", when=[LATE], work="inference", advise={"mitigation": "rest", "why": "It helps who serves."}
    )
    made = play({("late", "A:n0"): [(0, 20, SPEAKS)]}, advised(training, serving), until=20)
    assert [one.why for one in made.list_incidents()[0].mitigations] == ["It helps who serves."]


def scoped(*scope):
    """Returns the catalogue of the tests, in which `late` is found in some kinds of work."""
    known = catalogue()
    return replace(known, conditions={**known.conditions, "late": replace(known.conditions["late"], scope=scope)})


@pytest.mark.parametrize("work", ["", "both", "training"])
def test_a_policy_states_work_that_its_condition_is_found_in(work):
    one = replace(policy(id="a", when=[LATE]), work=work)
    found = [problem for problem in lint_policies([one], scoped("inference")) if problem.field == "work"]
    assert [problem.expected for problem in found] == ["inference: the work of late"]


def test_a_condition_has_advice_for_each_kind_of_work_that_it_is_found_in():
    known = scoped("training", "inference")
    found = lint_policies([policy(id="a", when=[LATE], work="training")], known)
    assert [problem.found.rpartition(", ")[2] for problem in found] == ["for inference"]
    both = [policy(id="a", when=[LATE], work="training"), policy(id="b", when=[LATE], work="inference")]
    assert lint_policies(both, known) == []
