"""The first advice for whatever rules and symptoms can report, at every kind of place."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import pytest

from skewscope.engine.advice.steps import AT_START, READS, STARTED_KINDS, advised_steps
from skewscope.engine.model.incident import SURE, SYMPTOM, Advice, Explanation, IncidentEvidence
from skewscope.engine.model.topology import Group, Node, Pool, Port, Topology
from skewscope.kb.diagnostic_commands import load_diagnostic_commands
from skewscope.kb.loader import catalogue
from skewscope.rules.entity_kinds import SIGNAL_KINDS
from skewscope.rules.loader import load_builtin
from skewscope.rules.policy import load as load_policies
from tests.tui.samples import ROOT


def node(name):
    return Node(name, gpus=8, ports=(Port(name, "ew", "east-west", devices=("eth2", "mlx5_0")),))


TOPOLOGY = Topology(
    (
        node("n0"),
        node("n1"),
        Node("leaf1", ports=(Port("leaf1", "Ethernet4", "east-west", peer="spine1/Ethernet0"),)),
        Node("spine1", ports=(Port("spine1", "Ethernet0", "east-west", peer="leaf1/Ethernet4"),)),
    ),
    (Group("A", "tensor-parallel", ("n0", "n1")),),
    (Pool("chat", ("A",)),),
)
NAMES = {
    "gpu": ("n1/gpu0",),
    "node": ("n1",),
    "port": ("n1/ew", "leaf1/Ethernet4"),
    "rank": ("n1",),
    "peer": ("n0/ew>n1/ew",),
    "link": ("n0/ew>n1/ew", "leaf1/Ethernet4>spine1/Ethernet0"),
    "group": ("A",),
    "replica": ("A",),
    "pool": ("chat",),
    "fleet": ("fleet",),
}


@cache
def diagnoses():
    """Returns (condition, kind, advised mitigations) for whatever a rule concludes or a symptom may come from."""
    known, policies = catalogue(), sorted(load_policies()[0], key=lambda one: one.priority)
    found = {}
    for rule in load_builtin(known)[0].values():
        advised = (one.mitigation for one in policies if rule.condition in one.when[0].topics and one.mitigation)
        found[rule.condition, rule.scope] = tuple(dict.fromkeys(advised))
    for condition in known.conditions.values():
        signals = (known.signals[name] for name in condition.signature_signals)
        for kind in {SIGNAL_KINDS[signal.entity] for signal in signals if signal.judged is not None}:
            found.setdefault((condition.id, kind), condition.mitigations)
    return tuple((*key, advised) for key, advised in sorted(found.items()) if not known.conditions[key[0]].withdrawn)


def advised_at(kind, name, mitigations=(), **more):
    incident = replace(
        ROOT, kind=kind, name=name, mitigations=tuple(Advice(id_, "", "") for id_ in mitigations), **more
    )
    return advised_steps(incident, catalogue(), TOPOLOGY)


def lacks_of(steps) -> Iterator[str]:
    """Yields what keeps an operator from carrying out the first step without a doubt."""
    if not steps or steps[0].first is None:
        yield "a command"
        return
    step, first = steps[0], steps[0].first
    yield from first.unfilled
    yield from (word for word in ("NODE", "SWITCH", "REPLICA") if word in first.place.split())
    yield "" if step.test else "what shows success"
    yield "" if step.undo or step.shows else "a way back"
    yield "" if step.shows or step.mitigation.risk != "high" else "low risk"
    yield "a program before its options" if first.command.do.startswith("-") else ""
    yield "what FORMER was" if "FORMER" in first.command.undo and " first: " not in first.note_first else ""


@pytest.mark.parametrize("is_symptom", [False, True])
def test_the_first_advice_for_each_condition_can_be_carried_out(is_symptom):
    lacks = {
        (condition, name): missing
        for condition, kind, advised in diagnoses()
        for name in NAMES[kind]
        if (missing := [each for each in lacks_of(likely(condition, kind, name, advised, is_symptom)) if each])
    }
    assert not lacks


def likely(condition, kind, name, advised, is_symptom):
    if not is_symptom:
        return advised_at(kind, name, advised, condition=condition)
    cause = {"category": SYMPTOM, "candidates": (condition,), "probabilities": (0.9,), "none": 0.1}
    return advised_at(kind, name, advised, condition="slow-steps", **cause)


def test_where_the_cause_is_unknown_the_first_advice_shows_more_of_what_was_seen():
    known, lacks = catalogue(), {}
    for signal in known.signals.values():
        if signal.judged is None:
            continue
        kind = SIGNAL_KINDS[signal.entity]
        for name in NAMES[kind]:
            evidence = (IncidentEvidence("seen", "yes", 1.0, 1.0, signal.unit, signal.id),)
            steps = advised_at(kind, name, ("quarantine-node",), category=SYMPTOM, candidates=(), evidence=evidence)
            missing = [each for each in lacks_of(steps) if each]
            if missing or not steps[0].shows:
                lacks[signal.id, name] = missing
    assert not lacks


def test_a_setting_of_a_job_is_not_offered_first_for_a_port_of_a_switch():
    at_switch = advised_at("port", "leaf1/Ethernet4", ("spread-flows",), condition="ecmp-hash-collision")
    assert at_switch[0].first.command.do == "show interfaces counters errors"
    assert at_switch[0].first.place == "on switch leaf1"
    of_job = advised_at("group", "A", ("spread-flows",), condition="ecmp-hash-collision")
    assert of_job[0].first.place == "in the start script of the job"


def test_what_only_reads_stands_between_what_is_safe_now_and_what_is_risky_or_incomplete():
    ids = [one.advice.id for one in advised_at("node", "n1", ("isolate-link", "restart-exporter", "quarantine-node"))]
    assert ids == ["quarantine-node", "", "isolate-link", "restart-exporter"]


@pytest.mark.parametrize(("probability", "is_first"), [(SURE - 0.01, False), (SURE, True)])
def test_a_node_is_drained_without_a_look_only_where_the_cause_is_sure(probability, is_first):
    cause = {"candidates": ("gpu-hard-fault",), "probabilities": (probability,), "none": 1 - probability}
    steps = advised_at("gpu", "n1/gpu0", ("quarantine-node",), category=SYMPTOM, **cause)
    assert [bool(one.shows) for one in steps] == [not is_first, is_first]
    diagnosis = advised_at("gpu", "n1/gpu0", ("quarantine-node",), condition="gpu-hard-fault", confidence=probability)
    assert bool(diagnosis[0].shows) != is_first


def test_what_helps_with_the_next_fault_only_comes_after_what_shows_this_one():
    steps = advised_at("group", "A", ("trace-collectives",), condition="tp-straggler")
    assert [one.advice.id for one in steps] == ["", "trace-collectives"]
    (_, validate) = advised_at("gpu", "n1/gpu0", ("validate-before-use",), condition="power-cap", confidence=0.5)
    assert validate.first.command.do == "dcgmi health --set a"


def test_commands_of_another_engine_than_the_one_that_is_named_are_no_advice():
    dead = (IncidentEvidence("dead", "yes", 1.0, 1.0, "1", "event.vllm_engine_dead"),)
    (chunk, _) = advised_at("replica", "A", ("chunk-prefill",), condition="prefill-decode-interference", evidence=dead)
    assert [one.is_for_other for one in chunk.commands] == [False, False, True]
    (reads,) = advised_at("replica", "sglang-a", condition="pd-ratio-imbalance", evidence=())
    assert reads.first.command.do == "curl --max-time 5 http://localhost:30000/metrics"


def test_a_command_for_the_cause_itself_comes_before_what_needs_a_restart():
    steps = advised_at("replica", "A", ("check-liveness",), condition="engine-connection-liveness")
    assert steps[0].first.command.do == "curl --max-time 5 --include http://localhost:8000/health"
    assert steps[1].first.command.do.startswith("python -m sglang_router.launch_router ... --health-check")


def test_a_node_that_stands_for_an_unknown_one_is_never_a_target():
    pod = Topology((Node("chat-7d9f"),), (Group("chat-7d9f", "tensor-parallel", ("chat-7d9f",)),))
    incident = replace(ROOT, kind="replica", name="chat-7d9f", mitigations=(Advice("quarantine-node", "", ""),))
    steps = advised_steps(incident, catalogue(), pod)
    assert steps[0].first.place == "on a machine of replica chat-7d9f"
    assert steps[1].first.unfilled == ("NODE",)
    known = Topology((replace(pod.nodes[0], gpus=8),), pod.groups)
    assert advised_steps(incident, catalogue(), known)[0].title == "Drain chat-7d9f"


def test_what_another_incident_explains_has_no_advice():
    assert advised_at("node", "n1", ("quarantine-node",), explained_by=Explanation("other", "caused")) == ()


def test_the_command_for_the_signal_that_decides_comes_before_that_for_the_evidence():
    evidence = (IncidentEvidence("clock", "yes", 1.0, 1.0, "MHz", "gpu.sm_clock"),)
    more = {"category": SYMPTOM, "candidates": (), "evidence": evidence}
    (seen,) = advised_at("gpu", "n1/gpu0", decides="", **more)
    assert seen.first.command.do == "nvidia-smi -i 0 -q -d PERFORMANCE,POWER,TEMPERATURE,CLOCK"
    (decides,) = advised_at("gpu", "n1/gpu0", decides="gpu.nvlink_crc_flit_errors", **more)
    assert decides.first.command.do == "nvidia-smi nvlink --status -i 0"


def test_where_a_node_is_unknown_its_rank_is_named():
    alone = Topology((Node("rank0"), Node("rank1")), (Group("dp", "data-parallel", ("rank0", "rank1")),))
    incident = replace(ROOT, kind="rank", name="rank1", condition="collective-hang", mitigations=())
    (step,) = advised_steps(incident, catalogue(), alone)
    assert (step.first.command.do, step.first.place) == ("ncclras -v", "on the machine of rank1")
    assert step.commands[1].unfilled == ("PROCESS",)


def test_every_pattern_and_condition_of_a_diagnostic_command_is_of_the_catalogue():
    known = catalogue()
    for one in load_diagnostic_commands():
        unknown = [p for p in one.signals if not any(replace(one, signals=(p,)).covers(id_) for id_ in known.signals)]
        assert not unknown, one.title
        assert set(one.conditions) <= set(known.conditions), one.title
        assert set(one.places) <= {*NAMES}, one.title


def test_kinds_whose_start_is_changed_have_one():
    assert set(STARTED_KINDS) <= {*NAMES}
    assert AT_START < READS
