"""HAProxy, driven for real through its stats socket."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from skewscope.adapters.actions.carry_out import ForeignStateError, make_change, undo_change
from skewscope.adapters.targets import target_kinds
from skewscope.adapters.targets.common.base import TargetError
from skewscope.adapters.targets.common.calls import SocketCall
from skewscope.adapters.targets.common.probe import ProbeSettings
from skewscope.adapters.targets.common.settings import TargetSettings
from skewscope.adapters.targets.haproxy import HaproxySettings, HaproxyTarget, parse_servers, parse_sessions
from skewscope.engine.actions.change import DEWEIGHT, DRAIN, EVICT, FOREIGN, Change
from skewscope.kb import yamlfile
from skewscope.kb.field_reader import FieldReader
from tests.support.openai_worker import OpenaiWorker
from tests.support.processes import running, wait_until
from tests.support.target_contract import run_cycle
from tests.support.target_traffic import count_answers, free_port

needs_haproxy = pytest.mark.skipif(shutil.which("haproxy") is None, reason="haproxy is not installed")
MEMBERS = (("r0", "w0"), ("r1", "w1"), ("r2", "w2"))


@asynccontextmanager
async def running_haproxy(folder: Path) -> AsyncIterator[tuple[HaproxyTarget, str, list[OpenaiWorker]]]:
    """Yields a target, the address of its front end, and the three workers behind it."""
    async with AsyncExitStack() as stack:
        workers = [await stack.enter_async_context(OpenaiWorker(f"w{n}")) for n in range(3)]
        port, admin = free_port(), folder / "admin.sock"
        servers = "\n".join(f"  server w{n} 127.0.0.1:{w.port} weight 100" for n, w in enumerate(workers))
        (folder / "haproxy.cfg").write_text(
            f"global\n  stats socket {admin} mode 600 level admin\n"
            "defaults\n  mode http\n  timeout connect 2s\n  timeout client 10s\n  timeout server 10s\n"
            f"frontend fe\n  bind 127.0.0.1:{port}\n  default_backend be\n"
            f"backend be\n  balance roundrobin\n{servers}\n"
        )
        await stack.enter_async_context(running(["haproxy", "-db", "-f", str(folder / "haproxy.cfg")], folder / "log"))
        probe = ProbeSettings("/v1/completions", "m")
        target = HaproxyTarget(HaproxySettings(TargetSettings("front", MEMBERS), str(admin), "be", probe))

        async def is_ready() -> bool:
            # The socket's file is there before HAProxy listens on it.
            try:
                await target.read_state()
            except TargetError:
                return False
            return True

        await wait_until(is_ready, 20.0, "HAProxy answers")
        yield target, f"http://127.0.0.1:{port}/v1/completions", workers


@needs_haproxy
def test_a_drained_server_gets_no_requests_until_it_is_back(tmp_path):
    async def run() -> tuple[str, ...]:
        async with running_haproxy(tmp_path) as (target, url, _workers):

            async def check() -> None:
                work = await target.read_work()
                assert set(await count_answers(url, 10)) == {"w0", "w1"}
                moved = await target.read_work()
                assert moved["w2"] == work["w2"]
                assert moved["w0"] == work["w0"] + 5
                state = await target.read_state()
                assert [state.members[f"w{n}"].serving for n in range(3)] == [True, True, False]

            calls = await run_cycle(target, Change(DRAIN, "front", "w2", "a-1"), check)
            assert set(await count_answers(url, 9)) == {"w0", "w1", "w2"}
            return calls

    (call,) = asyncio.run(run())
    assert call.startswith("set server be/w2 state drain")


@needs_haproxy
def test_each_start_is_a_run_of_its_own(tmp_path):
    async def run() -> list[str]:
        runs = []
        for name in ("a", "b"):
            (tmp_path / name).mkdir()
            async with running_haproxy(tmp_path / name) as (target, _url, _workers):
                runs += [(await target.read_state()).run for _ in range(2)]
        return runs

    first, again, second, later = asyncio.run(run())
    assert first == again != second == later


@needs_haproxy
def test_a_lower_weight_moves_its_share_of_requests(tmp_path):
    async def run() -> None:
        async with running_haproxy(tmp_path) as (target, url, _workers):

            async def check() -> None:
                found = await count_answers(url, 82)
                # 5 of 205 parts of the weight, give or take where in its turn the algorithm begins.
                assert 1 <= found["w2"] <= 3
                assert found["w0"] >= 39
                assert found["w1"] >= 39

            await run_cycle(target, Change(DEWEIGHT, "front", "w2", "a-1", share=0.05), check)

    asyncio.run(run())


@needs_haproxy
def test_what_an_operator_changed_is_neither_repeated_nor_undone(tmp_path):
    async def run() -> None:
        async with running_haproxy(tmp_path) as (target, _url, _workers):
            change = Change(DRAIN, "front", "w2", "a-1")
            before = (await target.read_state()).members["w2"]
            await target.make_call(SocketCall(target.settings.socket, "set server be/w2 state maint"))
            with pytest.raises(ForeignStateError, match="changed by somebody else"):
                await make_change(target, change, before)
            assert await undo_change(target, change, before) == ()
            assert not (await target.read_state()).members["w2"].serving

    asyncio.run(run())


@needs_haproxy
def test_a_drained_server_is_probed_directly(tmp_path):
    async def run() -> None:
        async with running_haproxy(tmp_path) as (target, _url, workers):
            before = (await target.read_state()).members["w2"]
            await make_change(target, Change(DRAIN, "front", "w2", "a-1"), before)
            workers[2].delay = 0.3
            slow, quick = await target.probe("w2"), await target.probe("w0")
            assert slow is not None
            assert quick is not None
            assert slow > 0.3 > quick

    asyncio.run(run())


@needs_haproxy
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (Change(EVICT, "front", "w2", "a-1"), "HAProxy cannot evict"),
        (Change(DRAIN, "front", "w9", "a-1"), "no server 'w9'"),
    ],
)
def test_an_impossible_change_is_an_error(tmp_path, change, message):
    async def run() -> None:
        async with running_haproxy(tmp_path) as (target, _url, _workers):
            with pytest.raises(TargetError, match=message):
                target.render_change(change, await target.read_state())

    asyncio.run(run())


def test_without_an_answer_there_is_a_clear_error(tmp_path):
    target = HaproxyTarget(HaproxySettings(TargetSettings("front", MEMBERS), str(tmp_path / "none.sock"), "be"))
    with pytest.raises(TargetError, match=r"none\.sock: No such file"):
        asyncio.run(target.read_state())


@pytest.mark.parametrize(
    "text", ["1\n# be_id srv_name\n3 w0\n", "1\n# srv_name srv_admin_state\nw0 x\n", "1\n# srv_name\nw0 more\n"]
)
def test_a_strange_answer_is_an_error(text):
    with pytest.raises(TargetError, match="cannot be read"):
        parse_servers(text)


ROW = "1\n# srv_name srv_addr srv_port srv_op_state srv_admin_state srv_uweight\nw0 127.0.0.1 1 2 0 "


@pytest.mark.parametrize("weight", ["nan", "inf", "-1", "9" * 400])
def test_a_weight_that_is_none_is_an_error(weight):
    with pytest.raises(TargetError, match=r"srv_uweight: .*, expected a number from 0 on"):
        parse_servers(f"{ROW}{weight}\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("# pxname,svname,stot,\nbe,w0,,\n", "stot of w0: '', expected a number"),
        ("# pxname,svname,stot,\nbe,w0\n", "stot of w0: None, expected a number"),
        ("# pxname,svname,stot,\nbe,w0,nan,\n", "stot of w0: 'nan', expected a number"),
        ("# pxname,svname\nbe,w0\n", "cannot be read: 'stot'"),
        ("# pxname,stot,\nbe,5,\n", "cannot be read: 'svname'"),
        ("# svname,stot,\nw0,5,\n", "cannot be read: 'pxname'"),
        (f'# pxname,svname,stot,\nbe,w0,"{"x" * 200_000}', "cannot be read: field larger"),
    ],
)
def test_strange_statistics_are_an_error(text, message):
    with pytest.raises(TargetError, match=message):
        parse_sessions(text, "be")


def test_sessions_that_ended_and_those_under_way_are_told_apart():
    text = "# pxname,svname,stot,scur,\nbe,w0,10,3,\nbe,w1,4,5,\nbe,BACKEND,14,8,\nother,w0,9,1,\n"
    assert parse_sessions(text, "be") == {"w0": (7.0, 3.0), "w1": (0.0, 5.0)}


def test_a_server_with_an_ipv6_address_can_be_probed():
    state = parse_servers(ROW.replace("127.0.0.1", "::1") + "100\n")
    assert state.members["w0"].detail("address") == "[::1]:1"


def test_a_server_that_vanished_is_in_a_foreign_state():
    target = HaproxyTarget(HaproxySettings(TargetSettings("front", MEMBERS), "/none", "be"))
    before = parse_servers(
        "1\n# srv_name srv_addr srv_port srv_op_state srv_admin_state srv_uweight\nw0 127.0.0.1 1 2 0 100\n"
    )
    gone = parse_servers("1\n# srv_name\n")
    assert target.find_standing(Change(DRAIN, "front", "w0", "a-1"), before.members["w0"], gone) == FOREIGN


SETTINGS = """
targets:
- {kind: haproxy, socket: /run/haproxy.sock, backend: be, members: {r0: w0, r1: w1}, probe: {path: /healthz}}
- {kind: haproxy, socket: /run/haproxy.sock, backend: "b e", members: {r0: "w0; disable", r1: w1, r2: w1}}
- {kind: haproxy, socket: /run/haproxy.sock, members: []}
"""


def test_settings_are_checked():
    fields = FieldReader(yamlfile.parse(SETTINGS, "skewscope.yaml"))
    kind = target_kinds()["haproxy"]
    good, *_ = [kind.read(fields, ("targets", n), f"t{n}") for n in range(3)]
    assert kind.build(good).members == {"r0": "w0", "r1": "w1"}
    assert good.socket == "/run/haproxy.sock"
    assert kind.read(fields, ("targets", 0), "t0") == good
    assert sorted({(problem.line, problem.found) for problem in fields.problems}) == [
        (4, "'b e'"),
        (4, "'w0; disable'"),
        (4, "'w1' for the second time"),
        (5, "a list"),
        (5, "no value"),
        (5, "nothing"),
    ]


def test_a_weight_of_one_cannot_be_lowered():
    target = HaproxyTarget(HaproxySettings(TargetSettings("front", MEMBERS), "/none", "be"))
    state = parse_servers(
        "1\n# srv_name srv_addr srv_port srv_op_state srv_admin_state srv_uweight\nw0 127.0.0.1 1 2 0 1\n"
    )
    with pytest.raises(TargetError, match="give each server a weight of 100"):
        target.render_change(Change(DEWEIGHT, "front", "w0", "a-1", share=0.5), state)


def test_a_relative_socket_lies_beside_the_config():
    text = "targets: [{kind: haproxy, socket: run/h.sock, backend: be, members: {r0: w0}}]"
    fields = FieldReader(yamlfile.parse(text, "/etc/skewscope/skewscope.yaml"))
    settings = target_kinds()["haproxy"].read(fields, ("targets", 0), "t")
    assert settings.socket == "/etc/skewscope/run/h.sock"


def test_a_server_that_was_drained_before_is_not_ours_to_undo():
    target = HaproxyTarget(HaproxySettings(TargetSettings("front", MEMBERS), "/none", "be"))
    state = parse_servers(
        "1\n# srv_name srv_addr srv_port srv_op_state srv_admin_state srv_uweight\nw0 127.0.0.1 1 2 8 100\n"
    )
    change = Change(DRAIN, "front", "w0", "a-1")
    assert target.render_undo(change, state.members["w0"], state) == ()
