"""vLLM's router: driven for real where it is installed, and with strange answers."""

import asyncio
import importlib.util
import json
import sys
import time

import pytest

from skewscope.adapters.actions.carry_out import make_change, undo_change
from skewscope.adapters.sources.common.http_client import FetchOptions
from skewscope.adapters.targets import target_kinds
from skewscope.adapters.targets.common.base import ConflictError, TargetError
from skewscope.adapters.targets.common.calls import HttpCall
from skewscope.adapters.targets.common.probe import ProbeSettings
from skewscope.adapters.targets.common.settings import TargetSettings
from skewscope.adapters.targets.common.worker_router import WorkerRouterSettings
from skewscope.adapters.targets.vllm_router import VllmRouterTarget
from skewscope.engine.actions.change import ABSENT, DEWEIGHT, DRAIN, OURS, Change, MemberState
from skewscope.kb import yamlfile
from skewscope.kb.field_reader import FieldReader
from tests.support import removal_contract
from tests.support.removal_contract import RouterStart
from tests.support.strange_server import GARBAGE, HANG, strange_server
from tests.support.target_contract import wait_for_standing

needs_router = pytest.mark.skipif(
    importlib.util.find_spec("vllm_router") is None, reason="vllm-router is not installed (extra `targets`)"
)
WORKER = "http://10.0.0.7:8000"
MEMBERS = (("r0", WORKER), ("r1", "http://10.0.0.8:8000"))


def command(port: int, metrics: int, workers: list[str]) -> list[str]:
    where = ["--host", "127.0.0.1", "--port", str(port), "--prometheus-port", str(metrics)]
    program = [sys.executable, "-m", "vllm_router.launch_router", "--policy", "random"]
    return [*program, *where, "--worker-urls", *workers]


def make_target(url: str, metrics: str = "", members: tuple[tuple[str, str], ...] = MEMBERS) -> VllmRouterTarget:
    probe = ProbeSettings("/v1/completions", "m")
    common = TargetSettings("front", members, 2.0)
    return VllmRouterTarget(WorkerRouterSettings(common, url, FetchOptions(2.0, 1 << 20), metrics, probe))


START = RouterStart(command, make_target)


@needs_router
@pytest.mark.slow
def test_a_removed_worker_gets_no_requests_until_it_is_back(tmp_path):
    (call,) = removal_contract.check_cycle(START, tmp_path)
    assert call.endswith(tuple(f"%3A{port}" for port in range(1024, 65536)))
    assert "/remove_worker?url=http%3A%2F%2F127.0.0.1" in call


@needs_router
@pytest.mark.slow
@pytest.mark.parametrize(
    "check",
    [
        removal_contract.check_drain,
        removal_contract.check_others_removal,
        removal_contract.check_restart,
        removal_contract.check_probe,
    ],
)
def test_real_router(tmp_path, check):
    check(START, tmp_path)


@needs_router
@pytest.mark.slow
def test_a_dead_worker_is_not_added_again_and_the_undo_says_so_in_time(tmp_path):
    async def run() -> float:
        async with removal_contract.router_rig(START, tmp_path) as rig:
            change = rig.change()
            before = (await rig.target.read_state()).members[change.member]
            await make_change(rig.target, change, before)
            await rig.workers[2].__aexit__()
            begun = time.monotonic()
            with pytest.raises(TargetError, match=r"add_worker.*no answer within 2 s"):
                await undo_change(rig.target, change, before)
            seconds = time.monotonic() - begun
            assert rig.target.find_standing(change, before, await rig.target.read_state()) == OURS
            await rig.workers[2].__aenter__()
            await undo_change(rig.target, change, before)
            await wait_for_standing(rig.target, change, before, ABSENT)
            return seconds

    assert asyncio.run(run()) < 4.0


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ((500, b"no"), "the answer 500: no"),
        ((200, b"<html>"), "no JSON"),
        ((200, b'{"workers": [3]}'), "a worker without a url"),
        ((200, b"x" * (2 << 20)), "more than"),
        (GARBAGE, "no HTTP"),
        (HANG, "no answer within 2 s"),
    ],
)
@pytest.mark.slow
def test_a_strange_answer_is_an_error_in_time(answer, message):
    async def run() -> None:
        async with strange_server(lambda _method, _path: answer) as url:
            await make_target(url).read_state()

    begun = time.monotonic()
    with pytest.raises(TargetError, match=message):
        asyncio.run(run())
    assert time.monotonic() - begun < 4.0


def page(*urls: str) -> tuple[int, bytes]:
    return 200, json.dumps({"workers": [{"url": url, "is_healthy": True} for url in urls]}).encode()


def test_a_worker_that_was_added_meanwhile_is_a_conflict_and_then_done():
    added: list[str] = []

    def answer(method: str, path: str) -> tuple[int, bytes]:
        if method == "POST":
            added.append(path)
            return 400, f"Worker {WORKER} already exists".encode()
        return page(WORKER) if added else page()

    async def run() -> None:
        async with strange_server(answer) as url:
            target, change = make_target(url), Change(DRAIN, "front", WORKER, "a-1")
            before = MemberState(WORKER, True, details=(("registered", "yes"),))
            assert await undo_change(target, change, before) == ()

    asyncio.run(run())
    assert added == ["/add_worker?url=http%3A%2F%2F10.0.0.7%3A8000"]


@pytest.mark.parametrize(("answer", "conflict"), [((400, b"w already exists"), True), ((400, b"bad url"), False)])
def test_only_an_existing_worker_is_a_conflict(answer, conflict):
    async def run() -> None:
        async with strange_server(lambda _method, _path: answer) as url:
            await make_target(url).make_call(HttpCall("POST", f"{url}/add_worker?url=x"))

    with pytest.raises(TargetError) as caught:
        asyncio.run(run())
    assert isinstance(caught.value, ConflictError) == conflict


def test_impossible_changes_are_errors():
    async def run(change: Change) -> None:
        async with strange_server(lambda _method, _path: page(WORKER)) as url:
            target = make_target(url)
            target.render_change(change, await target.read_state())

    with pytest.raises(TargetError, match="the router cannot deweight"):
        asyncio.run(run(Change(DEWEIGHT, "front", WORKER, "a-1", share=0.1)))
    with pytest.raises(TargetError, match="names no worker"):
        asyncio.run(run(Change(DRAIN, "front", "http://other:1", "a-1")))


SETTINGS = """
targets:
- {kind: vllm-router, url: "router:30000", metrics: "router:29000/metrics", members: {r0: "http://10.0.0.7:8000"}}
- {kind: vllm-router, url: "http://router/", members: {r0: "10.0.0.7:8000", r1: "http://w/?x=1&y"}}
- {kind: vllm-router, url: "http://user:pw@router", members: {r0: "http://w:1"}, worker: x}
"""


def test_settings_are_checked():
    fields = FieldReader(yamlfile.parse(SETTINGS, "skewscope.yaml"))
    kind = target_kinds()["vllm-router"]
    good, *_ = [kind.read(fields, ("targets", n), f"t{n}") for n in range(3)]
    assert kind.build(good).members == {"r0": WORKER}
    assert (good.url, good.metrics) == ("http://router:30000", "http://router:29000/metrics")
    assert good.probe == ProbeSettings("/health")
    assert hash(good) == hash(kind.read(fields, ("targets", 0), "t0"))
    assert sorted({(problem.line, problem.found) for problem in fields.problems}) == [
        (4, "'10.0.0.7:8000'"),
        (4, "'http://w/?x=1&y'"),
        (5, "'http://router'"),
        (5, "an unknown field 'worker'"),
    ]
    assert "pw" not in str(fields.problems)
