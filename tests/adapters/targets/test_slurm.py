"""Slurm, driven for real: a cluster of four nodes with daemons of its own."""

import asyncio
import json
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from skewscope.adapters.actions.carry_out import ForeignStateError, make_change, undo_change
from skewscope.adapters.actions.coordinator import Coordinator
from skewscope.adapters.actions.planner import Planner
from skewscope.adapters.actions.settings import ActionSettings
from skewscope.adapters.config.secret import Secret
from skewscope.adapters.discovery.slurm import expand_hosts
from skewscope.adapters.sources.common.http_client import FetchOptions
from skewscope.adapters.targets import target_kinds
from skewscope.adapters.targets.common import slurm_state
from skewscope.adapters.targets.common.base import TargetError
from skewscope.adapters.targets.common.calls import describe_calls
from skewscope.adapters.targets.common.settings import TargetSettings
from skewscope.adapters.targets.slurm import SlurmSettings, SlurmTarget, find_writable_version, mark_weight
from skewscope.engine.actions.action import UNDONE
from skewscope.engine.actions.change import (
    ABSENT,
    DEWEIGHT,
    DRAIN,
    EVICT,
    FOREIGN,
    OURS,
    REQUEUE,
    Change,
    MemberState,
    TargetState,
)
from skewscope.engine.actions.lifecycle import Timing
from skewscope.engine.actions.limits import ActionLimits
from skewscope.engine.model.incident import Advice, Incident
from skewscope.engine.model.topology import Group, Node, Topology
from skewscope.kb import yamlfile
from skewscope.kb.field_reader import FieldReader
from skewscope.kb.loader import catalogue
from tests.support.acting_world import MemoryStore, SimulatedFault, build_incident
from tests.support.loopback import Asked, Says, Server
from tests.support.slurm_cluster import NODES, SlurmCluster, missing, slurm_cluster, wait_until
from tests.support.target_contract import run_cycle, wait_for_standing

needs_slurm = pytest.mark.skipif(bool(missing()), reason=missing() or "Slurm is here")
MEMBERS = tuple((f"n{n}", node) for n, node in enumerate(NODES))
BOTH = ("-N2", "--exclusive", "--gres=gpu:8", "--requeue")


@pytest.fixture(scope="module")
def cluster_of_module(tmp_path_factory) -> Iterator[SlurmCluster]:
    with slurm_cluster(tmp_path_factory.mktemp("slurm")) as cluster:
        yield cluster


@pytest.fixture
def cluster(cluster_of_module) -> Iterator[SlurmCluster]:
    """Yields the cluster with four idle nodes; afterwards no job runs and no node is drained."""
    yield cluster_of_module
    cluster_of_module.run("scancel", "-u", "root")
    wait_until(lambda: not cluster_of_module.run("squeue", "-h", "-t", "R,PD,CG"), "end of all jobs")
    wait_until(cluster_of_module.resume_all, "idle nodes")


def target_of(cluster: SlurmCluster) -> SlurmTarget:
    return SlurmTarget(SlurmSettings(TargetSettings("cluster", MEMBERS), str(cluster.config)))


async def wait_for(check, what: str, seconds: float = 20.0) -> None:
    await asyncio.to_thread(wait_until, check, what, seconds)


@needs_slurm
@pytest.mark.slow
def test_a_drained_node_ends_its_job_and_gets_no_other(cluster):
    job = cluster.submit("srun sleep 100", "-w", "gpu3", *BOTH[1:])
    cluster.wait_for_job(job)

    async def check() -> None:
        assert cluster.node_state("gpu3") == "draining"
        assert cluster.reason("gpu3") == "skewscope:a-1 it is slow"
        second = cluster.submit("sleep 100", "-N3", *BOTH[1:])
        await wait_for(lambda: cluster.job(second)[0] == "RUNNING", "second job")
        assert cluster.job(second)[1] == "gpu[1-2,4]"
        assert cluster.job(job)[0] == "RUNNING"
        cluster.run("scancel", second)

    calls = asyncio.run(run_cycle(target_of(cluster), Change(DRAIN, "cluster", "gpu3", "a-1", "it is\n'slow'"), check))
    assert calls == ("scontrol update nodename=gpu3 state=drain 'reason=skewscope:a-1 it is slow'",)
    assert cluster.job(job)[0] == "RUNNING"
    assert cluster.reason("gpu3") == "none"


@needs_slurm
@pytest.mark.slow
def test_a_requeued_job_starts_elsewhere_soon(cluster):
    job = cluster.submit("srun sleep 100", *BOTH)
    assert cluster.wait_for_job(job) == "gpu[1-2]"
    begun = time.monotonic()

    async def check() -> None:
        await wait_for(lambda: cluster.job(job)[0] == "RUNNING", "job on other nodes", 40)
        assert "gpu1" not in expand_hosts(cluster.job(job)[1])
        # Slurm's own delay is 120 s.
        assert time.monotonic() - begun < 30
        await asyncio.sleep(5)
        assert cluster.job(job)[0] == "RUNNING", "it was ended for good"

    calls = asyncio.run(run_cycle(target_of(cluster), Change(REQUEUE, "cluster", "gpu1", "a-1"), check))
    drain, requeue, begin = calls
    assert "state=drain" in drain
    assert (requeue, begin) == (f"scontrol requeue {job}", f"scontrol update jobid={job} starttime=now+10")


@needs_slurm
@pytest.mark.slow
def test_a_diagnosis_moves_a_job_and_its_end_gives_the_node_back(cluster):
    """A loop from diagnosis to undo; `python -m bench.closed_loop slurm` has it with a fault in telemetry."""
    job = cluster.submit("srun sleep 100", *BOTH)
    assert cluster.wait_for_job(job) == "gpu[1-2]"
    topology = Topology(
        tuple(Node(node) for node in NODES), (Group("job", "data-parallel", NODES[:2], front_end=NODES[0]),), ()
    )
    target = SlurmTarget(SlurmSettings(TargetSettings("cluster", tuple((n, n) for n in NODES)), str(cluster.config)))
    settings = ActionSettings("act", limits=ActionLimits(share_of_groups=1.0), timing=Timing(hold=2.0))
    coordinator = Coordinator(settings, Planner(topology, catalogue(), {"cluster": target}), MemoryStore())
    begun = time.time()
    firing = build_incident(SimulatedFault("gpu1", begun - 60.0, begun + 600.0, 0.2), begun)
    firing = replace(firing, kind="node", name="gpu1", mitigations=(Advice("change-placement", "scheduler", "slow"),))

    async def step_until(incident: Incident, check, what: str) -> None:
        for _ in range(240):
            coordinator.step(time.time(), (incident,))
            if await asyncio.to_thread(check):
                return
            await asyncio.sleep(0.25)
        raise AssertionError(f"{what}: not within a minute: {coordinator.actions}")

    def is_elsewhere() -> bool:
        state, nodes = cluster.job(job)
        return state == "RUNNING" and "gpu1" not in expand_hosts(nodes)

    async def run() -> None:
        await step_until(firing, is_elsewhere, "job elsewhere")
        (action,) = coordinator.actions.values()
        assert action.change.kind == REQUEUE
        assert cluster.reason("gpu1").startswith(f"skewscope:{action.id} ")
        await step_until(firing, lambda: coordinator.actions[action.id].seen_in_state, "new state")
        over = replace(firing, state="resolved", resolved_at=time.time())
        await step_until(over, lambda: coordinator.actions[action.id].state == UNDONE, "undo")
        await wait_for(lambda: cluster.node_state("gpu1") == "idle", "idle node")
        assert cluster.reason("gpu1") == "none"
        assert is_elsewhere()
        await coordinator.close()

    asyncio.run(run())


@needs_slurm
@pytest.mark.slow
def test_a_job_whose_user_forbids_it_is_not_requeued(cluster):
    job = cluster.submit("srun sleep 100", "-w", "gpu1", "--exclusive", "--gres=gpu:8", "--no-requeue")
    cluster.wait_for_job(job)

    async def run() -> None:
        target, change = target_of(cluster), Change(REQUEUE, "cluster", "gpu1", "a-1")
        before = (await target.read_state()).members["gpu1"]
        (call,) = describe_calls(await make_change(target, change, before))
        assert "state=drain" in call
        await wait_for_standing(target, change, before, OURS)

    asyncio.run(run())
    assert cluster.job(job) == ("RUNNING", "gpu1")


@needs_slurm
@pytest.mark.slow
def test_a_node_that_is_weighed_down_is_taken_last(cluster):
    async def check() -> None:
        job = cluster.submit("sleep 100", "-N3", *BOTH[1:])
        await wait_for(lambda: cluster.job(job) == ("RUNNING", "gpu[2-4]"), "job on the other nodes")
        last = cluster.submit("sleep 100", "-N1", *BOTH[1:])
        await wait_for(lambda: cluster.job(last) == ("RUNNING", "gpu1"), "job on the last node")
        cluster.run("scancel", job, last)
        await wait_for(lambda: not cluster.run("squeue", "-h", "-t", "R,CG"), "end of jobs")

    asyncio.run(run_cycle(target_of(cluster), Change(DEWEIGHT, "cluster", "gpu1", "a-1", share=0.2), check))
    job = cluster.submit("sleep 100", "-N1", *BOTH[1:])
    assert cluster.wait_for_job(job) == "gpu1"


@pytest.mark.slow
@needs_slurm
@pytest.mark.parametrize("state", ["drain", "down", "fail"])
def test_what_a_person_took_out_stays_theirs(cluster, state):
    cluster.run("scontrol", "update", "nodename=gpu2", f"state={state}", "reason=new DIMM")

    async def run() -> None:
        target = target_of(cluster)
        before = (await target.read_state()).members["gpu2"]
        assert before.serving is False
        for kind in (DRAIN, REQUEUE):
            change = Change(kind, "cluster", "gpu2", "a-1")
            with pytest.raises(ForeignStateError):
                await make_change(target, change, before)
            assert await undo_change(target, change, before) == ()

    asyncio.run(run())
    assert cluster.reason("gpu2") == "new DIMM"


@pytest.mark.slow
@needs_slurm
@pytest.mark.parametrize("reason", ["under repair", "skewscope:a-10 of another action", "was skewscope:a-1 before"])
def test_a_drain_that_somebody_took_over_is_not_undone(cluster, reason):
    async def run() -> None:
        target, change = target_of(cluster), Change(DRAIN, "cluster", "gpu2", "a-1")
        before = (await target.read_state()).members["gpu2"]
        await make_change(target, change, before)
        cluster.run("scontrol", "update", "nodename=gpu2", "state=drain", f"reason={reason}")
        assert target.find_standing(change, before, await target.read_state()) == FOREIGN
        assert await undo_change(target, change, before) == ()

    asyncio.run(run())
    assert cluster.reason("gpu2") == reason


@needs_slurm
def test_a_node_that_a_person_resumed_is_left_alone(cluster):
    async def run() -> None:
        target, change = target_of(cluster), Change(DRAIN, "cluster", "gpu2", "a-1")
        before = (await target.read_state()).members["gpu2"]
        await make_change(target, change, before)
        cluster.run("scontrol", "update", "nodename=gpu2", "state=resume")
        assert await undo_change(target, change, before) == ()

    asyncio.run(run())


@needs_slurm
@pytest.mark.slow
def test_the_job_of_a_dead_node_starts_elsewhere_before_slurm_gives_the_node_up(tmp_path):
    # Slurm itself would wait for its timeout.
    with slurm_cluster(tmp_path, timeout=30) as cluster:
        job = cluster.submit("srun sleep 100", *BOTH)
        cluster.wait_for_job(job)
        wait_until(lambda: len(cluster.processes("gpu2")) > 2, "task on gpu2")
        cluster.kill_daemon("gpu2")

        async def run() -> None:
            target, change = target_of(cluster), Change(REQUEUE, "cluster", "gpu2", "a-1", "its daemon is dead")
            before = (await target.read_state()).members["gpu2"]
            await wait_for(lambda: cluster.node_state("gpu2").endswith("*"), "silent node", 40)
            silent = time.monotonic()
            calls = describe_calls(await make_change(target, change, before))
            assert [part.split()[3] for part in calls if "nodename" in part] == ["state=drain", "state=down"]
            await wait_for(lambda: cluster.job(job)[0] == "RUNNING", "job on other nodes")
            place = cluster.job(job)
            assert "gpu2" not in expand_hosts(place[1])
            # KillWait of 2 s, 8 s, and the scheduler.
            assert time.monotonic() - silent < 15
            await asyncio.sleep(6)
            assert cluster.job(job) == place, "the old job has ended the new one"
            assert await make_change(target, change, before) == ()
            (call,) = describe_calls(await undo_change(target, change, before))
            assert "state=undrain" in call
            assert cluster.node_state("gpu2").startswith("down")
            cluster.start_node("gpu2")
            await wait_for(lambda: cluster.node_state("gpu2") == "idle", "node that is back")

        asyncio.run(run())


@needs_slurm
@pytest.mark.slow
def test_a_mark_outlives_the_controller_of_slurm(cluster):
    async def run() -> None:
        target, change = target_of(cluster), Change(DRAIN, "cluster", "gpu4", "a-1")
        before = (await target.read_state()).members["gpu4"]
        await make_change(target, change, before)
        cluster.stop_controller()
        begun = time.monotonic()
        with pytest.raises(TargetError):
            await target.read_state()
        assert time.monotonic() - begun < target.settings.common.timeout + 1
        cluster.start_controller()
        assert target.find_standing(change, before, await target.read_state()) == OURS
        await undo_change(target, change, before)
        await wait_for(lambda: cluster.node_state("gpu4") == "idle", "idle node")

    asyncio.run(run())


@needs_slurm
@pytest.mark.slow
def test_jobs_are_counted_where_they_start(cluster):
    async def run() -> None:
        target = target_of(cluster)
        before = await target.read_work()
        job = cluster.submit("sleep 100", *BOTH)
        await wait_for(lambda: cluster.job(job)[0] == "RUNNING", "job")
        for _ in range(2):
            after = await target.read_work()
            assert {node: after[node] - before[node] for node in NODES} == {"gpu1": 1, "gpu2": 1, "gpu3": 0, "gpu4": 0}

    asyncio.run(run())


@needs_slurm
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (Change(EVICT, "cluster", "gpu1", "a-1"), "Slurm cannot evict"),
        (Change(DRAIN, "cluster", "gpu9", "a-1"), "no node 'gpu9'"),
        (Change(DRAIN, "cluster", "gpu1", "a 1"), "no id of an action"),
    ],
)
def test_an_impossible_change_is_an_error(cluster, change, message):
    async def run() -> None:
        target = target_of(cluster)
        with pytest.raises(TargetError, match=message):
            target.render_change(change, await target.read_state())

    asyncio.run(run())


@pytest.mark.slow
def test_without_slurm_there_is_a_clear_error(tmp_path):
    target = SlurmTarget(SlurmSettings(TargetSettings("cluster", MEMBERS), str(tmp_path / "slurm.conf")))
    with pytest.raises(TargetError, match=r"sinfo|scontrol"):
        asyncio.run(target.read_state())


# --- slurmrestd, as its versions describe themselves and answer

NODE = {"name": "gpu1", "state": ["IDLE"], "reason": "", "weight": 1}
DRAINED = NODE | {"state": ["IDLE", "DRAIN"], "reason": "skewscope:a-1 it is slow"}
JOB = {
    "job_id": 7,
    "het_job_id": {"set": True, "infinite": False, "number": 0},
    "job_state": ["RUNNING"],
    "nodes": "gpu[1-2]",
    "start_time": {"set": True, "infinite": False, "number": 1795421000},
    "batch_flag": True,
    "requeue": True,
}
PATHS = {f"/slurm/v0.0.{n}/node/{{node_name}}": {"get": {}, "post": {}} for n in (9, 41, 40)}
OLD_PATHS = {"/slurm/v0.0.38/node/{node_name}": {"get": {}}, "/slurm/v0.0.38/job/{job_id}": {"post": {}}}


class RestServer:
    """Answers as slurmrestd of version 24.05 does."""

    def __init__(self, refuse: bool = False) -> None:
        self.node, self.refuse, self.asked = dict(NODE), refuse, list[Asked]()

    def answer(self, asked: Asked) -> Says:
        self.asked.append(asked)
        if asked.headers.get("authorization") != "Bearer a-token":
            return Says(401, b"Authentication failure")
        if asked.path == "/openapi/v3":
            return Says(body=json.dumps({"paths": PATHS}).encode())
        if asked.path == "/slurm/v0.0.41/nodes/":
            return Says(body=json.dumps({"nodes": [self.node], "errors": []}).encode())
        if asked.path == "/slurm/v0.0.41/jobs/":
            return Says(body=json.dumps({"jobs": [JOB], "errors": []}).encode())
        if asked.path != "/slurm/v0.0.41/node/gpu1" or asked.method != "POST":
            return Says(404)
        if self.refuse:
            return Says(body=json.dumps({"errors": [{"error": "Access/permission denied"}]}).encode())
        self.node = dict(DRAINED if asked.json.get("state") == ["DRAIN"] else NODE)
        if "weight" in asked.json:
            self.node["weight"] = asked.json["weight"]["number"]
        return Says(body=b'{"errors": [], "warnings": []}')


def rest_target(url: str, timeout: float = 5.0) -> SlurmTarget:
    options = FetchOptions(timeout, bearer=Secret("a-token"))
    return SlurmTarget(SlurmSettings(TargetSettings("cluster", MEMBERS, timeout), "", url, options))


@pytest.mark.parametrize("kind", [DRAIN, DEWEIGHT])
def test_nodes_are_changed_over_rest_where_its_version_can(kind):
    server = RestServer()
    with Server(server.answer) as place:
        change = Change(kind, "cluster", "gpu1", "a-1", "it is slow", share=0.5)
        (call,) = asyncio.run(run_cycle(rest_target(place.url), change))
    wanted = {
        DRAIN: {"state": ["DRAIN"], "reason": "skewscope:a-1 it is slow"},
        DEWEIGHT: {"weight": {"set": True, "infinite": False, "number": mark_weight("a-1")}},
    }[kind]
    assert call.partition("\n  ")[2] == json.dumps(wanted)
    assert "a-token" not in call
    assert sum(asked.path == "/openapi/v3" for asked in server.asked) == 1


def test_jobs_are_requeued_by_command_over_rest_too():
    async def run(url: str) -> tuple[str, ...]:
        target = rest_target(url)
        return describe_calls(
            target.render_change(Change(REQUEUE, "cluster", "gpu1", "a-1"), await target.read_state())
        )

    with Server(RestServer().answer) as place:
        first, *rest = asyncio.run(run(place.url))
    assert first.startswith("POST ")
    assert rest == ["scontrol requeue 7", "scontrol update jobid=7 starttime=now+10"]


def test_a_node_is_probed_by_a_program_of_ones_own(tmp_path):
    program = tmp_path / "check"
    program.write_text("#!/bin/sh\ntest $1 = quick || test $2 = gpu1 || { echo $2 is ill; exit 3; }\nsleep 0.2\n")
    program.chmod(0o755)
    settings = SlurmSettings(TargetSettings("cluster", MEMBERS), probe=(str(program), "quick"))
    assert 0.2 <= asyncio.run(SlurmTarget(settings).probe("gpu1")) < 2.0
    settings = SlurmSettings(TargetSettings("cluster", MEMBERS), probe=(str(program), "slow"))
    with pytest.raises(TargetError, match="exit code 3: gpu2 is ill"):
        asyncio.run(SlurmTarget(settings).probe("gpu2"))
    assert asyncio.run(SlurmTarget(SlurmSettings(TargetSettings("cluster", MEMBERS))).probe("gpu1")) is None


@pytest.mark.parametrize(
    ("owner", "flags", "calls"),
    [
        ("a-1", "DRAIN", ["state=down", "starttime=now+38"]),
        ("a-1", "DOWN,DRAIN,NOT_RESPONDING", ["starttime=now+38"]),
        ("", "", ["state=drain"]),
    ],
)
def test_a_node_that_holds_a_requeued_job_is_set_down(owner, flags, calls):
    target = SlurmTarget(SlurmSettings(TargetSettings("cluster", MEMBERS)))
    details = tuple(sorted({"flags": flags, "jobs": "", "leaving": "7", "reason": ""}.items()))
    state = TargetState({"gpu1": MemberState("gpu1", False, 1.0, owner, details)})
    change = Change(REQUEUE, "cluster", "gpu1", "a-1")
    assert target.find_standing(change, state.members["gpu1"], state) == ABSENT
    words = [word for call in target.render_change(change, state) for word in call.arguments[3:]]
    assert [word for word in words if "reason" not in word] == calls


def test_an_error_in_an_answer_of_status_200_is_an_error():
    async def run(url: str) -> None:
        target = rest_target(url)
        before = (await target.read_state()).members["gpu1"]
        with pytest.raises(TargetError, match="permission denied"):
            await make_change(target, Change(DRAIN, "cluster", "gpu1", "a-1"), before)

    with Server(RestServer(refuse=True).answer) as place:
        asyncio.run(run(place.url))


def test_a_version_that_only_reads_nodes_is_not_used():
    assert find_writable_version({"paths": PATHS}) == "v0.0.41"
    assert find_writable_version({"paths": OLD_PATHS}) == ""
    with pytest.raises(TargetError):
        find_writable_version({"paths": []})


@pytest.mark.parametrize(
    ("says", "message"),
    [
        (Says(500, b"oops"), "the answer 500"),
        (Says(body=b"<html>"), "no JSON"),
        (Says(body=b"[" * 100_000), "no JSON"),
        (Says(body=b'{"paths": 3}'), "without paths"),
        (None, "GET"),
    ],
)
def test_a_strange_answer_over_rest_is_an_error(says, message):
    with Server(lambda _asked: says) as place, pytest.raises(TargetError, match=message):
        asyncio.run(rest_target(place.url).read_state())


def test_a_server_that_hangs_costs_its_timeout_only():
    def hang(_asked: Asked) -> None:
        time.sleep(2)

    begun = time.monotonic()
    with Server(hang) as place, pytest.raises(TargetError):
        asyncio.run(rest_target(place.url, 0.3).read_state())
    assert time.monotonic() - begun < 1.5


@pytest.mark.parametrize(
    "nodes",
    [
        "",
        "[]",
        '{"nodes": {}}',
        '{"nodes": [1]}',
        '{"nodes": [], "errors": [{"error": "x"}]}',
        '{"nodes": [{"name": "a", "state": 3}]}',
        '{"nodes": [{"name": "a", "state": "idle", "state_flags": "x"}]}',
        '{"nodes": [{"name": 1, "state": "idle"}]}',
        '{"nodes": [{"name": "a", "state": "idle", "weight": 1e999}]}',
        '{"nodes": [{"name": "a", "state": "idle", "weight": "x"}]}',
    ],
)
def test_strange_nodes_are_an_error(nodes):
    with pytest.raises(TargetError):
        slurm_state.parse_nodes(slurm_state.read_items(nodes, "nodes"), [])


@pytest.mark.parametrize(
    "field", [{"nodes": "gpu[1-"}, {"nodes": 3}, {"job_state": None}, {"job_id": "x", "het_job_id": 0}]
)
def test_strange_jobs_are_an_error(field):
    with pytest.raises(TargetError):
        slurm_state.parse_jobs([JOB | field])


def test_a_part_of_a_heterogeneous_job_is_requeued_by_its_leader():
    (job,) = slurm_state.parse_jobs([JOB | {"job_id": 8, "het_job_id": 7}])
    assert job.job == 7


SETTINGS = """
targets:
- {kind: slurm, members: {n0: gpu1, n1: gpu-2.a}}
- {kind: slurm, members: {n0: ALL, n1: "gpu[1-2]", n2: "gpu1,gpu2", n3: "-x"}, conf: none.conf}
- {kind: slurm, members: {n0: gpu1}, rest: "http://user:secret@slurm", timeout: 0}
"""


def test_settings_are_checked():
    fields = FieldReader(yamlfile.parse(SETTINGS, "skewscope.yaml"))
    kind = target_kinds()["slurm"]
    good, *_ = [kind.read(fields, ("targets", n), f"t{n}") for n in range(3)]
    assert kind.build(good).members == {"n0": "gpu1", "n1": "gpu-2.a"}
    assert kind.read(fields, ("targets", 0), "t0") == good
    found = {(problem.line, problem.found) for problem in fields.problems}
    assert {where for where, _ in found} == {4, 5}
    assert {"'ALL'", "'gpu[1-2]'", "'gpu1,gpu2'", "'-x'", "no file 'none.conf'"} == {
        what for n, what in found if n == 4
    }
    assert not any("secret" in what for _, what in found)
