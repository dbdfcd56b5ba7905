"""SGLang's router: driven for real where it is installed, and with strange answers."""

import asyncio
import importlib.util
import json
import sys
import time

import pytest

from skewscope.adapters.actions.carry_out import make_change, undo_change
from skewscope.adapters.config.secret import Secret
from skewscope.adapters.sources.common.http_client import FetchOptions
from skewscope.adapters.targets import target_kinds
from skewscope.adapters.targets.common.base import ConflictError, TargetError
from skewscope.adapters.targets.common.calls import HttpCall
from skewscope.adapters.targets.common.probe import ProbeSettings
from skewscope.adapters.targets.common.settings import TargetSettings
from skewscope.adapters.targets.sglang_router import SglangRouterSettings, SglangRouterTarget
from skewscope.engine.actions.change import ABSENT, DEWEIGHT, DRAIN, FOREIGN, OURS, Change, MemberState, TargetState
from skewscope.engine.actions.comparison import MemberLoad
from skewscope.kb import yamlfile
from skewscope.kb.field_reader import FieldReader
from tests.support import removal_contract
from tests.support.removal_contract import RouterStart
from tests.support.strange_server import GARBAGE, HANG, strange_server
from tests.support.target_contract import wait_for_standing

needs_router = pytest.mark.skipif(
    importlib.util.find_spec("sglang_router") is None, reason="sglang-router is not installed (extra `targets`)"
)
WORKER = "http://10.0.0.7:8000"
MEMBERS = (("r0", WORKER), ("r1", "http://10.0.0.8:8000"))


def command(port: int, metrics: int, workers: list[str]) -> list[str]:
    where = ["--host", "127.0.0.1", "--port", str(port), "--prometheus-port", str(metrics)]
    program = [sys.executable, "-m", "sglang_router.launch_router", "--policy", "round_robin"]
    return [*program, *where, "--worker-urls", *workers]


def make_target(url: str, metrics: str = "", members: tuple[tuple[str, str], ...] = MEMBERS) -> SglangRouterTarget:
    probe = ProbeSettings("/v1/completions", "m")
    common = TargetSettings("front", members, 2.0)
    return SglangRouterTarget(SglangRouterSettings(common, url, FetchOptions(2.0, 1 << 20), metrics, probe))


START = RouterStart(command, make_target)


@needs_router
@pytest.mark.slow
def test_a_removed_worker_gets_no_requests_until_it_is_back(tmp_path):
    (call,) = removal_contract.check_cycle(START, tmp_path)
    assert call.startswith("DELETE http://127.0.0.1:")


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
def test_a_worker_gets_its_fields_back(tmp_path):
    async def run() -> None:
        async with removal_contract.router_rig(START, tmp_path) as rig:
            change = rig.change()
            worker_id = json.loads((await rig.target.read_state()).version)[change.member]
            body = json.dumps({"priority": 7, "labels": {"tier": "gold"}})
            await rig.target.make_call(HttpCall("PUT", f"{rig.url}/workers/{worker_id}", body, statuses=(202,)))
            for _ in range(50):
                before = (await rig.target.read_state()).members[change.member]
                if '"priority": 7' in before.detail("fields"):
                    break
                await asyncio.sleep(0.1)
            await make_change(rig.target, change, before)
            await wait_for_standing(rig.target, change, before, OURS)
            await undo_change(rig.target, change, before)
            after = await wait_for_standing(rig.target, change, before, ABSENT)
            kept, now = (json.loads(member.detail("fields")) for member in (before, after))
            assert (now["priority"], now["labels"]["tier"]) == (kept["priority"], kept["labels"]["tier"]) == (7, "gold")
            assert json.loads((await rig.target.read_state()).version)[change.member] != worker_id

    asyncio.run(run())


def workers_page(*urls: str) -> bytes:
    entries = [{"id": f"id-{n}", "url": url, "priority": 50, "is_healthy": True} for n, url in enumerate(urls)]
    return json.dumps({"workers": entries}).encode()


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ((500, b"no"), "the answer 500: no"),
        ((200, b"<html>"), "no JSON"),
        ((200, b"[" * 100_000), "no JSON"),
        ((200, b"[]"), "without a list of workers"),
        ((200, b'{"workers": {}}'), "without a list of workers"),
        ((200, b'{"workers": [{"url": 3}]}'), "a worker without a url"),
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


def test_a_removal_that_is_accepted_and_never_done_stays_absent():
    calls: list[str] = []

    def answer(method: str, path: str) -> tuple[int, bytes]:
        calls.append(f"{method} {path}")
        return (200, workers_page(WORKER)) if method == "GET" else (202, b"{}")

    async def run() -> str:
        async with strange_server(answer) as url:
            target, change = make_target(url), Change(DRAIN, "front", WORKER, "a-1")
            before = (await target.read_state()).members[WORKER]
            await make_change(target, change, before)
            return target.find_standing(change, before, await target.read_state())

    assert asyncio.run(run()) == ABSENT
    assert "DELETE /workers/id-0" in calls


def test_an_id_that_changed_meanwhile_is_looked_up_again():
    deleted: list[str] = []
    ids = iter(["old", "old", "new", "new", "new"])

    def answer(method: str, path: str) -> tuple[int, bytes]:
        if method == "DELETE":
            deleted.append(path)
            return (202, b"{}") if path.endswith("/new") else (404, b'{"code": "WORKER_NOT_FOUND"}')
        return 200, json.dumps({"workers": [{"id": next(ids), "url": WORKER}]}).encode()

    async def run() -> None:
        async with strange_server(answer) as url:
            target, change = make_target(url), Change(DRAIN, "front", WORKER, "a-1")
            await make_change(target, change, (await target.read_state()).members[WORKER])

    asyncio.run(run())
    assert deleted == ["/workers/old", "/workers/new"]


def test_an_id_is_quoted_in_the_path():
    target = make_target("http://router")
    state = TargetState(
        {WORKER: MemberState(WORKER, True, details=(("registered", "yes"),))},
        json.dumps({WORKER: "../../flush_cache?x="}),
    )
    (call,) = target.render_change(Change(DRAIN, "front", WORKER, "a-1"), state)
    assert call.describe() == "DELETE http://router/workers/..%2F..%2Fflush_cache%3Fx%3D"


def test_the_key_of_workers_is_sent_and_never_shown():
    bodies: list[str] = []

    async def run() -> None:
        async with strange_server(lambda _method, _path: (500, b'{"api_key": "hush-hush"}')) as url:
            settings = SglangRouterSettings(TargetSettings("front", MEMBERS), url, worker_key=Secret("hush-hush"))
            target = SglangRouterTarget(settings)
            call = HttpCall("POST", f"{url}/workers", '{"url": "http://w"}', statuses=(202,))
            bodies.append(call.describe())
            await target.make_call(call)

    with pytest.raises(TargetError) as caught:
        asyncio.run(run())
    assert "***" in str(caught.value)
    assert "hush" not in str(caught.value) + bodies[0]


def test_a_worker_that_is_gone_is_a_conflict_only_when_it_is_removed():
    async def run(method: str) -> None:
        async with strange_server(lambda _method, _path: (404, b"")) as url:
            await make_target(url).make_call(HttpCall(method, f"{url}/workers/x"))

    with pytest.raises(ConflictError):
        asyncio.run(run("DELETE"))
    with pytest.raises(TargetError, match="the answer 404") as caught:
        asyncio.run(run("POST"))
    assert not isinstance(caught.value, ConflictError)


def test_impossible_changes_are_errors():
    async def run(change: Change) -> str:
        async with strange_server(lambda _method, _path: (200, workers_page(WORKER))) as url:
            target = make_target(url)
            state = await target.read_state()
            assert target.find_standing(change, state.members[WORKER], state) in (ABSENT, FOREIGN)
            target.render_change(change, state)
            return "rendered"

    with pytest.raises(TargetError, match="the router cannot deweight"):
        asyncio.run(run(Change(DEWEIGHT, "front", WORKER, "a-1", share=0.1)))
    with pytest.raises(TargetError, match="names no worker"):
        asyncio.run(run(Change(DRAIN, "front", "http://other:1", "a-1")))


def test_a_target_without_a_metrics_page_counts_nothing():
    assert asyncio.run(make_target("http://router").read_work()) == {}


def test_the_requests_under_way_are_read_where_the_router_counts_them():
    page = b"""smg_worker_cb_outcomes_total{worker="a",outcome="success"} 4
smg_worker_requests_active{worker="a"} 2
smg_worker_cb_outcomes_total{worker="b",outcome="success"} 1
"""

    async def run() -> object:
        async with strange_server(lambda _method, _path: (200, page)) as url:
            return await make_target(url, f"{url}/metrics").read_load()

    assert asyncio.run(run()) == {"a": MemberLoad(4.0, 2.0)}
    assert asyncio.run(make_target("http://router").read_load()) == {}


@pytest.mark.parametrize(
    ("page", "found"),
    [
        (
            b"""smg_worker_cb_outcomes_total{worker="a",outcome="success"} 4
smg_worker_cb_outcomes_total{worker="a",outcome="failure"} 1
smg_worker_cb_outcomes_total{outcome="failure"} 1
smg_worker_cb_outcomes_totals{worker="a"} 9
""",
            {"a": 5.0},
        ),
        (b'smg_worker_cb_outcomes_total{worker="a"} many\n', None),
        (b"", {}),
    ],
)
def test_work_is_added_up_by_worker(page, found):
    async def run() -> object:
        async with strange_server(lambda _method, _path: (200, page)) as url:
            return await make_target(url, f"{url}/metrics").read_work()

    if found is None:
        with pytest.raises(TargetError, match="cannot be read"):
            asyncio.run(run())
    else:
        assert asyncio.run(run()) == found


SETTINGS = """
targets:
- {kind: sglang-router, url: "router:30000", metrics: "router:29000/metrics", members: {r0: "http://10.0.0.7:8000"}}
- {kind: sglang-router, url: "http://router/", members: {r0: "10.0.0.7:8000", r1: "http://w/?x=1", r2: "http://w/%2e"}}
- {kind: sglang-router, url: "http://user:pw@router", members: {r0: "http://w:1"}, worker_key: {token: plain}}
"""


def test_settings_are_checked():
    fields = FieldReader(yamlfile.parse(SETTINGS, "skewscope.yaml"))
    kind = target_kinds()["sglang-router"]
    good, *_ = [kind.read(fields, ("targets", n), f"t{n}") for n in range(3)]
    assert kind.build(good).members == {"r0": WORKER}
    assert good.url == "http://router:30000"
    assert good.metrics == "http://router:29000/metrics"
    assert good.probe == ProbeSettings("/health")
    assert hash(good) == hash(kind.read(fields, ("targets", 0), "t0"))
    assert sorted({(problem.line, problem.found) for problem in fields.problems}) == [
        (4, "'10.0.0.7:8000'"),
        (4, "'http://w/%2e'"),
        (4, "'http://w/?x=1'"),
        (5, "'http://router'"),
        (5, "a secret in plain text"),
    ]
    assert "pw" not in str(fields.problems)
