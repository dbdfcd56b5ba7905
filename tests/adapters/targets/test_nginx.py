"""nginx, driven for real through the file of its upstream and reloads."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from skewscope.adapters.actions.carry_out import ForeignStateError, make_change, undo_change
from skewscope.adapters.targets import target_kinds
from skewscope.adapters.targets.common.base import TargetError
from skewscope.adapters.targets.common.calls import CommandCall, FileCall, HttpCall
from skewscope.adapters.targets.common.probe import ProbeSettings
from skewscope.adapters.targets.common.settings import TargetSettings
from skewscope.adapters.targets.nginx import NginxSettings, NginxTarget, list_servers
from skewscope.engine.actions.change import ABSENT, DEWEIGHT, DRAIN, EVICT, FOREIGN, OURS, Change
from skewscope.kb import yamlfile
from skewscope.kb.field_reader import FieldReader
from tests.support.openai_worker import OpenaiWorker
from tests.support.target_contract import run_cycle
from tests.support.target_traffic import count_answers, free_port

needs_nginx = pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed")
SETTLED = 0.5
"""Seconds after which a reload is in effect."""


@asynccontextmanager
async def running_nginx(folder: Path) -> AsyncIterator[tuple[NginxTarget, str, list[OpenaiWorker]]]:
    """Yields a target, the address of its server, and the three workers behind it."""
    async with AsyncExitStack() as stack:
        workers = [await stack.enter_async_context(OpenaiWorker(f"w{n}")) for n in range(3)]
        port, upstream = free_port(), folder / "upstream.conf"
        servers = "\n".join(f"    server 127.0.0.1:{w.port} weight=100; # {w.name}" for w in workers)
        upstream.write_text(f"upstream be {{  # ours\n{servers}\n}}\n")
        (folder / "nginx.conf").write_text(
            f"daemon off; master_process on; worker_processes 1; pid {folder}/nginx.pid;\n"
            f"error_log {folder}/error.log;\n"
            "events { worker_connections 64; }\n"
            f"http {{ access_log off; client_body_temp_path {folder}/b; proxy_temp_path {folder}/p;\n"
            f"  fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;\n"
            f"  include {upstream};\n"
            f"  server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://be; }} }} }}\n"
        )
        command = ("nginx", "-p", str(folder), "-c", str(folder / "nginx.conf"), "-e", str(folder / "error.log"))
        process = await asyncio.create_subprocess_exec(*command)
        try:
            for _ in range(100):
                if (folder / "nginx.pid").exists() and (folder / "nginx.pid").read_text():
                    break
                await asyncio.sleep(0.05)
            members = tuple((f"r{n}", f"127.0.0.1:{w.port}") for n, w in enumerate(workers))
            settings = NginxSettings(
                TargetSettings("front", members),
                str(upstream),
                "be",
                (*command, "-s", "reload"),
                ProbeSettings("/v1/completions", "m"),
            )
            yield NginxTarget(settings), f"http://127.0.0.1:{port}/v1/completions", workers
        finally:
            process.terminate()
            await process.wait()


@needs_nginx
def test_a_server_that_is_down_gets_no_requests_until_it_is_back(tmp_path):
    async def run() -> None:
        async with running_nginx(tmp_path) as (target, url, _workers):
            text = Path(target.settings.file).read_text()

            async def check() -> None:
                await asyncio.sleep(SETTLED)
                assert set(await count_answers(url, 10)) == {"w0", "w1"}

            calls = await run_cycle(target, Change(DRAIN, "front", target.members["r2"], "a-1", "slow; }"), check)
            assert [call.split()[0] for call in calls] == ["---", "nginx", "---"]
            await asyncio.sleep(SETTLED)
            assert set(await count_answers(url, 12)) == {"w0", "w1", "w2"}
            assert Path(target.settings.file).read_text() == text

    asyncio.run(run())


@needs_nginx
def test_a_lower_weight_moves_its_share_of_requests(tmp_path):
    async def run() -> None:
        async with running_nginx(tmp_path) as (target, url, _workers):
            text = Path(target.settings.file).read_text()

            async def check() -> None:
                await asyncio.sleep(SETTLED)
                found = await count_answers(url, 82)
                assert 1 <= found["w2"] <= 4
                assert found["w0"] >= 37

            await run_cycle(target, Change(DEWEIGHT, "front", target.members["r2"], "a-1", share=0.05), check)
            assert Path(target.settings.file).read_text() == text

    asyncio.run(run())


@needs_nginx
def test_a_reload_that_was_lost_is_made_up_for(tmp_path):
    async def run() -> None:
        async with running_nginx(tmp_path) as (target, url, _workers):
            text = Path(target.settings.file).read_text()
            change = Change(DRAIN, "front", target.members["r2"], "a-1")
            state = await target.read_state()
            before = state.members[change.member]
            # The controller dies behind the first call, and finishes at its restart.
            await target.make_call(target.render_change(change, state)[0])
            assert target.find_standing(change, before, await target.read_state()) == ABSENT
            calls = await make_change(target, change, before)
            assert [type(call) for call in calls] == [CommandCall, FileCall]
            assert target.find_standing(change, before, await target.read_state()) == OURS
            await asyncio.sleep(SETTLED)
            assert set(await count_answers(url, 6)) == {"w0", "w1"}
            # The same in the middle of the undo.
            await target.make_call(target.render_undo(change, before, await target.read_state())[0])
            assert target.find_standing(change, before, await target.read_state()) == OURS
            assert [type(call) for call in await undo_change(target, change, before)] == [CommandCall, FileCall]
            assert target.find_standing(change, before, await target.read_state()) == ABSENT
            await asyncio.sleep(SETTLED)
            assert set(await count_answers(url, 9)) == {"w0", "w1", "w2"}
            assert Path(target.settings.file).read_text() == text

    asyncio.run(run())


@needs_nginx
def test_a_configuration_that_nginx_refuses_is_an_error_and_undone(tmp_path):
    async def run() -> None:
        async with running_nginx(tmp_path) as (target, _url, _workers):
            (tmp_path / "nginx.conf").write_text("nonsense;")
            change = Change(DRAIN, "front", target.members["r2"], "a-1")
            before = (await target.read_state()).members[change.member]
            with pytest.raises(TargetError, match="unknown directive"):
                await make_change(target, change, before)
            assert target.find_standing(change, before, await target.read_state()) == ABSENT

    asyncio.run(run())


@needs_nginx
def test_a_server_that_is_down_is_probed_directly(tmp_path):
    async def run() -> None:
        async with running_nginx(tmp_path) as (target, _url, workers):
            workers[2].delay = 0.3
            assert (
                (await target.probe(target.members["r2"]) or 0) > 0.3 > (await target.probe(target.members["r0"]) or 1)
            )

    asyncio.run(run())


TEXT = """
# upstream be { server 9.9.9.9:1; }
map $a $b { default "};{"; ~^x\\.(y|z)$ ${c}; }
upstream other { server 127.0.0.1:1; }
upstream be { server 127.0.0.1:1 max_fails=3; server 127.0.0.1:2 weight=10
        fail_timeout=3s; # third: server
    server "[::1]:3"; server gpu9; zone z 64k; keepalive 3; }
"""


def make_target(folder: Path, text: str = TEXT) -> NginxTarget:
    """Returns a target whose reload is a program that does nothing."""
    file = folder / "up.conf"
    file.write_text(text)
    return NginxTarget(NginxSettings(TargetSettings("front", (("r0", "127.0.0.1:1"),)), str(file), "be", ("true",)))


@pytest.mark.parametrize("member", ["127.0.0.1:1", "127.0.0.1:2", "[::1]:3", "gpu9:80"])
@pytest.mark.parametrize("kind", [DRAIN, DEWEIGHT])
def test_the_text_is_the_same_after_an_undo(tmp_path, member, kind):
    async def run() -> None:
        text = TEXT.replace("server", "server", 1).replace("max_fails=3", "weight=50")
        text = text.replace('"[::1]:3"', '"[::1]:3" weight=20').replace("gpu9", "gpu9 weight=4 backup")
        target = make_target(tmp_path, text)
        await run_cycle(target, Change(kind, "front", member, "a-1", 'a "b" }; #', share=0.3))
        assert Path(target.settings.file).read_text() == text

    asyncio.run(run())


def test_two_actions_on_one_server_are_independent(tmp_path):
    async def run() -> None:
        target = make_target(tmp_path)
        lower = Change(DEWEIGHT, "front", "127.0.0.1:2", "a-1", share=0.1)
        drain = Change(DRAIN, "front", "127.0.0.1:2", "a-2")
        first = (await target.read_state()).members[lower.member]
        await make_change(target, lower, first)
        second = (await target.read_state()).members[lower.member]
        await make_change(target, drain, second)
        await undo_change(target, lower, first)
        state = (await target.read_state()).members[lower.member]
        assert (state.serving, state.weight, state.owner) == (False, 10.0, "a-2")
        await undo_change(target, drain, second)
        assert Path(target.settings.file).read_text() == TEXT

    asyncio.run(run())


def test_what_somebody_else_wrote_stays(tmp_path):
    async def run() -> None:
        target = make_target(tmp_path)
        file = Path(target.settings.file)
        change = Change(DEWEIGHT, "front", "127.0.0.1:2", "a-1", share=0.5)
        before = (await target.read_state()).members[change.member]
        # Before our change.
        file.write_text(TEXT.replace("weight=10", "weight=8"))
        with pytest.raises(ForeignStateError):
            await make_change(target, change, before)
        assert await undo_change(target, change, before) == ()
        # Behind it: their weight stays, our mark goes.
        file.write_text(TEXT)
        await make_change(target, change, before)
        file.write_text(file.read_text().replace("weight=5", "weight=7"))
        assert target.find_standing(change, before, await target.read_state()) == FOREIGN
        await undo_change(target, change, before)
        assert file.read_text() == TEXT.replace("weight=10", "weight=7")
        # The server is gone.
        file.write_text(TEXT.replace("127.0.0.1:2", "127.0.0.1:5"))
        assert target.find_standing(change, before, await target.read_state()) == FOREIGN
        assert await undo_change(target, change, before) == ()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (Change(EVICT, "front", "127.0.0.1:1", "a-1"), "nginx cannot evict"),
        (Change(DRAIN, "front", "127.0.0.1:9", "a-1"), "no server '127.0.0.1:9'"),
        (Change(DRAIN, "front", "127.0.0.1:1", "a-1\n}"), "is no id of an action"),
        (Change(DEWEIGHT, "front", "127.0.0.1:1", "a-1", share=0.1), "no whole weight is lower than 1;"),
    ],
)
def test_an_impossible_change_is_an_error(tmp_path, change, message):
    target = make_target(tmp_path)
    with pytest.raises(TargetError, match=message):
        target.render_change(change, asyncio.run(target.read_state()))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "upstream be { }",
        "upstream be { server a; server a:80; }",
        "}",
        'upstream be { server "a; }',
        "upstream be { server a weight=x; }",
        "# " + "x" * (1 << 20),
    ],
)
def test_a_strange_file_is_an_error(tmp_path, text):
    with pytest.raises(TargetError):
        asyncio.run(make_target(tmp_path, text).read_state())


def test_servers_are_found_by_the_rules_of_nginx():
    found = list_servers(TEXT, "f", "be")
    assert list(found) == ["127.0.0.1:1", "127.0.0.1:2", "[::1]:3", "gpu9:80"]


def test_only_the_configured_file_and_command_are_used(tmp_path):
    target = make_target(tmp_path)
    other = tmp_path / "other"
    for call in (FileCall(str(other), "", "b"), CommandCall(("touch", str(other))), HttpCall("GET", "http://h")):
        with pytest.raises(TargetError, match="neither"):
            asyncio.run(target.make_call(call))
    assert not other.exists()


def test_a_link_is_not_replaced_by_a_file(tmp_path):
    target = make_target(tmp_path)
    link = tmp_path / "link.conf"
    link.symlink_to(target.settings.file)
    linked = NginxTarget(replace(target.settings, file=str(link)))
    with pytest.raises(TargetError, match="symbolic link"):
        asyncio.run(linked.make_call(FileCall(str(link), TEXT, "")))
    assert link.read_text() == TEXT


SETTINGS = """
targets:
- {kind: nginx, file: link.conf, upstream: be, members: {r0: "10.0.0.1:80"}, reload: [sudo, nginx, -s, reload]}
- {kind: nginx, file: none.conf, upstream: "be {", members: {r0: w0}, reload: nginx -s reload}
- {kind: nginx, file: up.conf, upstream: be, members: {r0: "w0:80"}, reload: [3]}
"""


def test_settings_are_checked(tmp_path):
    (tmp_path / "up.conf").write_text("")
    (tmp_path / "link.conf").symlink_to(tmp_path / "up.conf")
    fields = FieldReader(yamlfile.parse(SETTINGS, str(tmp_path / "skewscope.yaml")))
    kind = target_kinds()["nginx"]
    good, *_ = [kind.read(fields, ("targets", n), f"t{n}") for n in range(3)]
    assert kind.build(good).members == {"r0": "10.0.0.1:80"}
    assert good.file == str((tmp_path / "up.conf").resolve())
    assert good.reload == ("sudo", "nginx", "-s", "reload")
    found = sorted({(problem.line, problem.found) for problem in fields.problems})
    assert found == [
        (4, "'be {'"),
        (4, "'w0'"),
        (4, "no file 'none.conf'"),
        (4, "text"),
        (5, "a whole number (3)"),
    ]
