"""Ray Serve: driven for real where `ray` is installed, by answers of a real cluster, and by written ones."""

import asyncio
import json
import sys
import time
from pathlib import Path

import pytest

from skewscope.adapters.actions.carry_out import ForeignStateError, make_change, undo_change
from skewscope.adapters.sources.common.http_client import FetchOptions, fetch
from skewscope.adapters.targets import target_kinds
from skewscope.adapters.targets.common.base import TargetError
from skewscope.adapters.targets.common.calls import CommandCall, describe_calls
from skewscope.adapters.targets.common.settings import TargetSettings
from skewscope.adapters.targets.ray_serve import RayServeSettings, RayServeTarget
from skewscope.engine.actions.change import ABSENT, DEWEIGHT, DRAIN, FOREIGN, OURS, Change
from skewscope.kb import yamlfile
from skewscope.kb.field_reader import FieldReader
from tests.support.processes import wait_until
from tests.support.strange_server import GARBAGE, HANG, strange_server
from tests.support.target_contract import wait_for_standing
from tests.support.target_ray import RayCluster, find_ray, running_ray

CHANGE = Change(DRAIN, "ray", "worker-2", "a-1", "slow")
RECORDED = Path(__file__).with_name("recorded") / "ray-serve-2.60.json"


# --- a real cluster, and what it answered


def real_target(cluster: RayCluster) -> RayServeTarget:
    common = TargetSettings("ray", (("n1", "worker-1"), ("n2", "worker-2")))
    pages = tuple(cluster.metrics.values())
    return RayServeTarget(
        RayServeSettings(common, cluster.dashboard, cluster.address, cluster.program, 30.0, metrics=pages)
    )


async def send(cluster: RayCluster, count: int) -> None:
    """Sends requests, all of which are answered."""
    await asyncio.gather(*(fetch(cluster.url, FetchOptions(10.0)) for _ in range(count)))


@pytest.mark.slow
@pytest.mark.skipif(
    find_ray() is None, reason="no ray with its dashboard: SKEWSCOPE_RAY=VENV/bin, pip install 'ray[serve]'"
)
def test_a_drained_node_hands_its_replica_over_and_ends(tmp_path):
    async def run() -> None:
        async with running_ray(tmp_path) as cluster:
            target = real_target(cluster)
            await send(cluster, 40)
            # Pages follow within some seconds.
            await wait_until(lambda: counts(target, "worker-1", "worker-2"), 30.0, "counted requests")
            before = (await target.read_state()).members["worker-2"]
            assert before.serving
            (call,) = await make_change(target, CHANGE, before)
            assert "drain-node" in call.arguments
            await wait_for_standing(target, CHANGE, before, OURS)
            await send(cluster, 20)
            assert await make_change(target, CHANGE, before) == ()

            async def has_ended() -> bool:
                return (await target.read_state()).members["worker-2"].owner == "a-1"

            await wait_until(has_ended, 60.0, "end of the node")
            state = await target.read_state()
            assert target.find_standing(CHANGE, before, state) == OURS
            assert state.members["worker-1"].serving
            await send(cluster, 20)
            # The page of the node that has ended is silent.
            assert set(await target.read_work()) == {"worker-1"}

    asyncio.run(run())


async def counts(target: RayServeTarget, *members: str) -> bool:
    work = await target.read_work()
    return all(work.get(member, 0.0) > 0.0 for member in members)


@pytest.mark.parametrize(
    ("phase", "serving", "standing", "work"),
    [
        ("running", True, ABSENT, {"worker-1": 20.0, "worker-2": 21.0}),
        # It waits to be moved, and gets requests meanwhile: accepted is not done.
        ("moving", True, ABSENT, {"worker-1": 20.0, "worker-2": 21.0}),
        ("stopping", False, OURS, {"worker-1": 20.0, "worker-2": 21.0}),
        ("gone", False, OURS, {"worker-1": 20.0, "worker-2": 0.0}),
        ("ended", False, OURS, {"worker-1": 437.0}),
    ],
)
def test_recorded_answers_of_a_real_cluster(phase, serving, standing, work):
    phases = json.loads(RECORDED.read_text())["phases"]
    now = "running"

    def answer(_method: str, path: str) -> tuple[int, bytes]:
        found = phases[now]
        if path.startswith("/metrics/"):
            page = found["metrics"][path.removeprefix("/metrics/")]
            return (404, b"") if page is None else (200, page.encode())
        return 200, json.dumps(found["nodes" if path.startswith("/api/v0/nodes") else "applications"]).encode()

    async def run() -> None:
        nonlocal now
        async with strange_server(answer) as url:
            pages = {name: f"{url}/metrics/{name}" for name in ("head", "worker-1", "worker-2")}
            target = real_target(RayCluster("ray", "h:1", url, url, pages))
            before = (await target.read_state()).members["worker-2"]
            now = phase
            state = await target.read_state()
            assert state.members["worker-2"].serving is serving
            assert target.find_standing(CHANGE, before, state) == standing
            assert await target.read_work() == work
            if phase != "ended":
                # A drain that goes on is not asked for again.
                assert len(target.render_change(CHANGE, state)) == (phase == "running")
            else:
                assert state.members["worker-2"].owner == "a-1"

    asyncio.run(run())


# --- written answers


class Cluster:
    """Answers of a cluster with a head and two workers, one replica each."""

    def __init__(self) -> None:
        self.nodes = [
            {"node_id": f"{n}" * 8, "node_name": name, "node_ip": f"10.0.0.{n}", "state": "ALIVE", "end_time_ms": 0}
            for n, name in enumerate(("10.0.0.0", "worker-1", "worker-2"))
        ]
        self.replicas = [{"node_id": f"{n}" * 8, "state": "RUNNING", "replica_id": f"rep{n}"} for n in range(3)]
        self.page = b""

    def answer(self, _method: str, path: str) -> tuple[int, bytes]:
        if path.startswith("/api/v0/nodes"):
            return 200, json.dumps({"result": True, "data": {"result": {"result": self.nodes}}}).encode()
        if path == "/metrics":
            return 200, self.page
        return 200, json.dumps({"applications": {"app": {"deployments": {"W": {"replicas": self.replicas}}}}}).encode()

    def move_replica(self, state: str = "STOPPING") -> None:
        self.replicas[2] |= {"state": state}

    def end_node(self, message: str) -> None:
        self.nodes[2] |= {"state": "DEAD", "state_message": message, "end_time_ms": 5}


def make_target(url: str, *, command: str = "ray", metrics: bool = False) -> RayServeTarget:
    members = (("n1", "worker-1"), ("n2", "worker-2"))
    pages = (f"{url}/metrics",) if metrics else ()
    common = TargetSettings("ray", members, 1.0)
    return RayServeTarget(RayServeSettings(common, url, "10.0.0.0:6379", command, 60.0, metrics=pages))


def write_program(folder: Path, body: str) -> str:
    path = folder / "ray"
    path.write_text(f"#!{sys.executable}\nimport sys, time\n{body}\n")
    path.chmod(0o755)
    return str(path)


def test_a_drain_is_told_by_its_replicas_and_has_no_undo(tmp_path):
    cluster = Cluster()
    program = write_program(tmp_path, f"open({str(tmp_path / 'seen')!r}, 'a').write(repr(sys.argv[1:]) + chr(10))")

    async def run() -> tuple[str, ...]:
        async with strange_server(cluster.answer) as url:
            target = make_target(url, command=program)
            assert not target.support[DRAIN].reversible
            before = (await target.read_state()).members["worker-2"]
            calls = await make_change(target, CHANGE, before)
            assert target.find_standing(CHANGE, before, await target.read_state()) == ABSENT, "accepted is not done"
            cluster.move_replica()
            assert target.find_standing(CHANGE, before, await target.read_state()) == OURS
            assert await make_change(target, CHANGE, before) == ()
            assert await undo_change(target, CHANGE, before) == ()
            cluster.replicas[2] = {"node_id": "1" * 8, "state": "RUNNING", "replica_id": "rep3"}
            cluster.end_node("Terminated due to preemption: skewscope:a-1 slow")
            state = await target.read_state()
            assert state.members["worker-2"].owner == "a-1"
            assert target.find_standing(CHANGE, before, state) == OURS
            return describe_calls(calls)

    (call,) = asyncio.run(run())
    assert call.endswith(
        "drain-node --address 10.0.0.0:6379 --node-id 22222222 --reason DRAIN_NODE_REASON_PREEMPTION "
        "--reason-message 'skewscope:a-1 slow' --deadline-remaining-seconds 60"
    )
    (seen,) = (tmp_path / "seen").read_text().splitlines()
    assert "'skewscope:a-1 slow'" in seen


@pytest.mark.parametrize("message", ["Terminated due to preemption: maintenance", "", "skewscope:b-2 slow"])
def test_a_node_that_somebody_else_ended_is_theirs(message):
    cluster = Cluster()

    async def run() -> None:
        async with strange_server(cluster.answer) as url:
            target = make_target(url)
            before = (await target.read_state()).members["worker-2"]
            cluster.move_replica("gone")
            cluster.end_node(message)
            assert target.find_standing(CHANGE, before, await target.read_state()) == FOREIGN
            with pytest.raises(ForeignStateError):
                await make_change(target, CHANGE, before)

    asyncio.run(run())


def test_a_node_that_was_started_again_under_its_name_is_another():
    cluster = Cluster()

    async def run() -> None:
        async with strange_server(cluster.answer) as url:
            target = make_target(url)
            before = (await target.read_state()).members["worker-2"]
            cluster.end_node("Terminated due to preemption: skewscope:a-1")
            cluster.nodes.append(cluster.nodes[2] | {"node_id": "9" * 8, "state": "ALIVE", "state_message": None})
            assert target.find_standing(CHANGE, before, await target.read_state()) == FOREIGN
            cluster.replicas[2] = {"node_id": "9" * 8, "state": "RUNNING", "replica_id": "rep9"}
            state = await target.read_state()
            assert state.members["worker-2"].detail("node") == "9" * 8
            assert target.find_standing(CHANGE, before, state) == ABSENT

    asyncio.run(run())


def test_requests_are_counted_by_the_node_of_their_replica():
    cluster = Cluster()
    cluster.page = b"""ray_serve_deployment_request_counter_total{replica="rep1"} 4
ray_serve_deployment_request_counter_total{replica="app#W#rep2"} 6
ray_serve_deployment_request_counter_total{replica="rep0"} 9
"""

    async def run() -> object:
        async with strange_server(cluster.answer) as url:
            assert await make_target(url).read_work() == {}
            return await make_target(url, metrics=True).read_work()

    assert asyncio.run(run()) == {"worker-1": 4.0, "worker-2": 6.0}


def test_without_any_page_there_is_an_error():
    def answer(method: str, path: str) -> tuple[int, bytes]:
        return (503, b"") if path == "/metrics" else Cluster().answer(method, path)

    async def run() -> None:
        async with strange_server(answer) as url:
            await make_target(url, metrics=True).read_work()

    with pytest.raises(TargetError, match="none of the 1 metrics pages answers"):
        asyncio.run(run())


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ((500, b"no"), "the answer 500"),
        ((200, b"<"), "no JSON"),
        ((200, b"[]"), "an answer without"),
        ((200, b'{"data": {"result": {"result": [3]}}, "applications": {}}'), "an answer without nodes"),
        ((200, b'{"data": {"result": {"result": []}}, "applications": {"a": 3}}'), "an answer without applications"),
        (GARBAGE, "no HTTP"),
    ],
)
def test_a_strange_answer_is_an_error(answer, message):
    async def run() -> None:
        async with strange_server(lambda _method, _path: answer) as url:
            await make_target(url).read_state()

    with pytest.raises(TargetError, match=message):
        asyncio.run(run())


def test_a_dashboard_that_hangs_is_an_error_in_time():
    async def run() -> None:
        async with strange_server(lambda _method, _path: HANG) as url:
            settings = RayServeSettings(TargetSettings("ray", ()), url, "a:1", options=FetchOptions(0.5))
            await RayServeTarget(settings).read_state()

    begun = time.monotonic()
    with pytest.raises(TargetError, match="no answer within"):
        asyncio.run(run())
    assert time.monotonic() - begun < 5.0


def test_a_command_that_fails_is_an_error(tmp_path):
    program = write_program(tmp_path, "sys.exit('no such cluster')")
    with pytest.raises(TargetError, match="exit code 1: no such cluster"):
        asyncio.run(make_target("http://h").make_call(CommandCall((program, "drain-node"))))


def test_impossible_changes_are_errors():
    cluster = Cluster()

    async def run(change: Change) -> None:
        async with strange_server(cluster.answer) as url:
            target = make_target(url)
            target.render_change(change, await target.read_state())

    with pytest.raises(TargetError, match="Ray cannot deweight"):
        asyncio.run(run(Change(DEWEIGHT, "ray", "worker-2", "a-1", share=0.1)))
    with pytest.raises(TargetError, match="no id of an action"):
        asyncio.run(run(Change(DRAIN, "ray", "worker-2", "a 1; x")))
    cluster.end_node("")
    with pytest.raises(TargetError, match="no node 'worker-2' that is alive"):
        asyncio.run(run(CHANGE))
    cluster.nodes[0] |= {"node_name": "worker-1"}
    with pytest.raises(TargetError, match="worker-1: 2 nodes"):
        asyncio.run(run(CHANGE))


SETTINGS = """
targets:
- {kind: ray-serve, dashboard: "h:8265", address: "h:6379", members: {n1: worker-1}, metrics: ["h:9000/metrics"]}
- {kind: ray-serve, dashboard: "h:8265", address: "--x", command: "ray stop", members: {n1: a}, deadline: 0}
"""


def test_settings_are_checked():
    fields = FieldReader(yamlfile.parse(SETTINGS, "skewscope.yaml"))
    kind = target_kinds()["ray-serve"]
    good, _ = [kind.read(fields, ("targets", n), f"t{n}") for n in range(2)]
    assert kind.build(good).members == {"n1": "worker-1"}
    assert (good.dashboard, good.command, good.deadline) == ("http://h:8265", "ray", 600.0)
    assert hash(good) == hash(kind.read(fields, ("targets", 0), "t0"))
    assert [problem.found for problem in fields.problems] == ["'--x'", "'ray stop'", "a whole number (0)"]
