"""Symptoms of jobs of several groups: slow stages, stopped jobs, and work that begins."""

import pytest

from skewscope.engine.model.topology import Group, Node, Topology
from tests.support.incidents import Says, info, verdict
from tests.support.symptom_world import SymptomWorld

REPLICAS, STAGES = 2, 4
NODES = [f"d{replica}p{stage}" for replica in range(REPLICAS) for stage in range(STAGES)]
PIPELINES = {f"r{n}": NODES[STAGES * n : STAGES * n + STAGES] for n in range(REPLICAS)}


def job() -> Topology:
    """Two pipelines of four stages; the members of each stage are data-parallel."""
    pipelines = [Group(name, "pipeline-parallel", tuple(members)) for name, members in PIPELINES.items()]
    stages = [Group(f"s{n}", "data-parallel", tuple(NODES[n::STAGES])) for n in range(STAGES)]
    return Topology(tuple(map(Node, NODES)), (*pipelines, *stages), ())


def step_times(slow: dict[str, float]) -> dict[tuple[str, str, str], float]:
    return {
        ("step.compute_time", "rank", f"{name}:{member}"): 1.0 + slow.get(member, 0.0)
        for name, members in PIPELINES.items()
        for member in members
    }


def after(slow: dict[str, float], ticks: int = 30) -> SymptomWorld:
    world = SymptomWorld(fleet=job())
    for n in range(ticks):
        world.tick({key: value * (1 + 0.001 * (n % 7)) for key, value in step_times(slow).items()})
    return world


def test_a_stage_that_is_slow_in_each_pipeline_is_one_symptom_of_unequal_stages():
    (one,) = after({"d0p3": 0.7, "d1p3": 0.7}).incidents()
    assert {one.name, *one.also} == {"d0p3", "d1p3"}
    assert one.candidates[0] == "pp-bubble"


def test_late_members_of_different_stages_are_told_apart():
    found = after({"d0p1": 0.7, "d1p3": 0.7}).incidents()
    assert {one.name for one in found} == {"d0p1", "d1p3"}
    assert all("gpu-fail-slow" in one.candidates[:3] for one in found)


def test_a_slow_rank_explains_the_slow_steps_of_pipelines_that_wait_for_its_own():
    world = SymptomWorld(fleet=job(), rules={"late-rule": info("late")})
    for n in range(60):
        slow = 2.0 if n > 40 else 1.0
        world.tick({("step.duration", "group", name): slow * (1 + 0.001 * (n % 7)) for name in PIPELINES})
    assert {one.name for one in world.incidents()} == set(PIPELINES)
    world.step([verdict("late", {"r0:d0p1": Says()}, names=["r0:d0p1"])], sampled=False)
    diagnosis, *symptoms = sorted(world.incidents(), key=lambda one: one.is_symptom)
    assert {one.root_id for one in symptoms} == {diagnosis.id}


@pytest.mark.parametrize(("signal", "told"), [("nccl.coll_seq", True), ("wire.bursts", False)])
def test_a_job_of_which_every_counter_stands_has_stopped_if_its_ranks_still_report(signal, told):
    world = SymptomWorld(fleet=job())
    for n in range(140):
        count = float(10 * min(n, 40))
        world.tick({(signal, "rank", f"r0:{member}"): count for member in PIPELINES["r0"]})
    assert [(one.condition, one.name) for one in world.incidents()] == [("stopped-progress", "r0")] * told


def power(idle: dict[int, float]) -> SymptomWorld:
    """GPUs of one node that rest, and then begin to work one after another, at the given seconds."""
    world = SymptomWorld(size=1)
    for n in range(240):
        busy = {gpu: n >= 60 + idle.get(gpu, 0.0) for gpu in range(4)}
        world.tick({("gpu.power", "gpu", f"n0/gpu{gpu}"): 800.0 if busy[gpu] else 250.0 for gpu in range(4)})
    return world


def test_gpus_that_begin_to_work_one_after_another_have_no_unequal_share():
    assert not power({3: 40.0}).incidents()


def test_a_gpu_that_rests_while_its_peers_work_is_told():
    assert [one.condition for one in power({3: 150.0}).incidents()] == ["uneven-load"]
