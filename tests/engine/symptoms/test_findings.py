"""What a finding says of itself: how far it is from the healthy value, and its sentence."""

from dataclasses import replace

import pytest

from skewscope.engine.incidents.finding_incidents import _keep_worse
from skewscope.engine.model.finding import PAST, PEERS, Finding
from skewscope.engine.model.locality import Entity, LocalityIndex
from skewscope.engine.model.topology import Group, Node, Topology
from skewscope.engine.symptoms.summaries import summarise
from skewscope.kb.loader import catalogue

REPLICA = Entity("replica", "r0")


def finding(signal, value, reference, direction="up", pattern=PEERS):
    return Finding(catalogue().signals[signal], REPLICA, pattern, direction, 0.0, value, reference)


@pytest.mark.parametrize(
    ("value", "reference", "direction", "size"),
    [(8.0, 2.0, "up", 4.0), (2.0, 8.0, "down", 4.0), (2.0, 8.0, "up", 0.25), (8.0, 2.0, "down", 0.25)],
)
def test_the_size_of_a_finding_is_in_its_direction(value, reference, direction, size):
    assert finding("serve.ttft", value, reference, direction).size == size


def test_an_answer_that_is_many_times_faster_is_no_worse_finding():
    slow, fast = finding("serve.ttft", 9.0, 3.0), finding("serve.ttft", 0.15, 2.8)
    assert _keep_worse(slow, fast) == slow
    slower = replace(slow, value=30.0)
    assert _keep_worse(slow, slower) == slower


def test_the_sentence_about_a_mask_names_its_reasons_and_no_sum():
    gpu = Entity("gpu", "n0/gpu3")
    mask = replace(finding("gpu.throttle_reasons", 96.0, 279.0, "begins", PAST), place=gpu)
    text = summarise(mask, catalogue().symptoms["lost-clock"], gpu.name)
    assert "sw_thermal" in text
    assert not {"96", "279"} & set(text.replace(",", " ").split())


def test_a_gpu_hits_its_own_replica_and_not_those_beside_it():
    groups = tuple(
        Group(f"r{n}", "tensor-parallel", (f"n0/gpu{2 * n}", f"n0/gpu{2 * n + 1}"), front_end="n0") for n in range(2)
    )
    fleet = Topology((Node("n0", gpus=4),), groups)
    assert LocalityIndex(fleet).blast_radius([Entity("gpu", "n0/gpu3")]).groups == 1
    assert LocalityIndex(fleet).blast_radius([Entity("node", "n0")]).groups == 2
