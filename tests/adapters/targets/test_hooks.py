"""Programs and web services of the user, by the contract of docs/acting-hooks.md."""

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from skewscope.adapters.actions import carry_out
from skewscope.adapters.actions.carry_out import ForeignStateError, make_change, undo_change
from skewscope.adapters.targets import target_kinds
from skewscope.adapters.targets.common.base import BusyError, ConflictError, TargetError
from skewscope.adapters.targets.common.calls import CommandCall, HttpCall
from skewscope.adapters.targets.common.external import ExternalSettings, ExternalTarget
from skewscope.adapters.targets.common.settings import TargetSettings
from skewscope.adapters.targets.exec import ExecSettings
from skewscope.adapters.targets.webhook import WebhookSettings
from skewscope.engine.actions.change import ABSENT, DRAIN, EVICT, LIMIT, OURS, Change
from skewscope.engine.actions.comparison import MemberLoad
from skewscope.kb import yamlfile
from skewscope.kb.field_reader import FieldReader
from tests.support import acting_hook
from tests.support.loopback import Asked, Says, Server
from tests.support.target_contract import run_cycle
from tests.support.target_traffic import HANGS, scripted_server

CHANGE = Change(DRAIN, "ours", "w0", "a-1", "slow $(reboot)", 5.0)
MEMBERS = {
    name: {"serving": True, "weight": 100, "details": {"slot": "3"}, "work": 7, "in_flight": 2} for name in ("w0", "w1")
}


def settings(timeout: float = 5.0) -> ExternalSettings:
    common = TargetSettings("ours", (("r0", "w0"), ("r1", "w1")), timeout)
    return ExternalSettings(common, (DRAIN, EVICT), (EVICT,))


def make_program(folder: Path, *how: str, timeout: float = 5.0) -> ExternalTarget:
    """Returns a target whose hook is a program."""
    file = folder / "members.json"
    file.write_text(json.dumps(MEMBERS))
    command = (sys.executable, acting_hook.__file__, str(file), *how)
    external = settings(timeout)
    return ExternalTarget(external, ExecSettings(external, command))


@contextmanager
def running_service(how: str = "", timeout: float = 5.0) -> Iterator[tuple[ExternalTarget, dict[str, Any]]]:
    """Yields a target whose hook is a web service, and the members that the service keeps."""
    members = json.loads(json.dumps(MEMBERS))

    def answer(asked: Asked) -> Says:
        return Says(200, json.dumps(acting_hook.answer(asked.json, members, how)).encode())

    with Server(answer) as server:
        external = settings(timeout)
        yield ExternalTarget(external, WebhookSettings(external, server.url)), members


def test_a_program_makes_and_undoes_a_change(tmp_path):
    target = make_program(tmp_path)

    async def check() -> None:
        state = await target.read_state()
        assert [state.members[name].serving for name in ("w0", "w1")] == [False, True]
        assert await target.read_work() == {"w0": 7.0, "w1": 7.0}
        assert await target.read_load() == {"w0": MemberLoad(5.0, 2.0), "w1": MemberLoad(5.0, 2.0)}

    calls = asyncio.run(run_cycle(target, CHANGE, check))
    assert ['"verb": "apply"' in calls[0], '"verb": "verify"' in calls[1]] == [True, True]
    assert json.loads((tmp_path / "members.json").read_text())["w0"]["serving"] is True


def test_a_web_service_makes_and_undoes_a_change():
    with running_service() as (target, members):
        asyncio.run(run_cycle(target, CHANGE))
        assert members["w0"]["serving"] is True


def test_what_another_holds_is_neither_repeated_nor_undone():
    with running_service() as (target, members):

        async def run() -> None:
            state = await target.read_state()
            members["w0"]["owners"] = {"drain": "an operator"}
            with pytest.raises(ForeignStateError):
                await make_change(target, CHANGE, state.members["w0"])
            assert await undo_change(target, CHANGE, state.members["w0"]) == ()
            # It was taken between reading and applying: the hook itself refuses.
            with pytest.raises(ConflictError, match="held by another"):
                await target.make_call(target.render_change(CHANGE, state)[0])

        asyncio.run(run())


def test_a_change_that_was_accepted_but_not_done_is_an_error_in_time(tmp_path, monkeypatch):
    monkeypatch.setattr(carry_out, "BUSY_WAIT", 0.01)
    with running_service("ignores", 0.3) as (target, _members):

        async def run() -> None:
            before = (await target.read_state()).members["w0"]
            with pytest.raises(BusyError, match=r"accepted, but not done within 0\.3 s"):
                await make_change(target, CHANGE, before)
            assert target.find_standing(CHANGE, before, await target.read_state()) == ABSENT

        asyncio.run(run())


def test_a_plan_changes_nothing():
    with running_service() as (target, members):

        async def run() -> None:
            apply, verify = target.render_change(CHANGE, await target.read_state())
            await target.make_call(target.render_dry_run(apply))
            assert target.render_dry_run(verify) is None
            assert "owners" not in members["w0"] or not members["w0"]["owners"]
            members["w0"]["owners"] = {"drain": "x"}
            with pytest.raises(ConflictError):
                await target.make_call(target.render_dry_run(apply))

        asyncio.run(run())


def test_a_change_without_undo_is_not_undone():
    with running_service() as (target, _members):

        async def run() -> None:
            change = Change(EVICT, "ours", "w0", "a-1")
            before = (await target.read_state()).members["w0"]
            await make_change(target, change, before)
            assert target.find_standing(change, before, await target.read_state()) == OURS
            assert await undo_change(target, change, before) == ()
            assert not target.support[EVICT].reversible

        asyncio.run(run())


def test_a_program_gets_no_secrets_of_the_controller(tmp_path, monkeypatch):
    monkeypatch.setenv("API_TOKEN", "secret")
    monkeypatch.setenv("ENDPOINT", "http://h")
    code = "import json, os; print(json.dumps({'error': ' '.join(sorted(os.environ))}))"
    external = settings()
    target = ExternalTarget(external, ExecSettings(external, (sys.executable, "-c", code), ("ENDPOINT",)))
    with pytest.raises(TargetError) as caught:
        asyncio.run(target.read_state())
    assert "API_TOKEN" in os.environ
    assert "ENDPOINT" in str(caught.value)
    assert "API_TOKEN" not in str(caught.value)


@pytest.mark.parametrize(("how", "message"), [("hangs", "no end within 0.5 s"), ("fails", "no such cluster")])
def test_a_program_that_fails_is_an_error_in_time(tmp_path, how, message):
    with pytest.raises(TargetError, match=message):
        asyncio.run(make_program(tmp_path, how, timeout=0.5).read_state())


@pytest.mark.parametrize(
    "page",
    [
        b"",
        b"[]",
        b"{}",
        b"[" * 100_000,
        b'{"members": []}',
        b'{"members": {"w0": 3}}',
        b'{"members": {"w0": {"serving": "yes"}}}',
        b'{"members": {"w0": {"weight": NaN}}}',
        b'{"members": {"w0": {"owners": {"drain": 3}}}}',
        b'{"members": {"w0": {"details": ["a"]}}}',
        Says(500, b"broken"),
        Says(202, b"{}"),
        None,
        HANGS,
        b"x" * (5 << 20),
    ],
)
def test_a_strange_answer_is_an_error_in_time(page):
    external = settings(0.5)
    with scripted_server([page]) as url, pytest.raises(TargetError):
        asyncio.run(ExternalTarget(external, WebhookSettings(external, url)).read_state())


@pytest.mark.parametrize(("status", "kind"), [(409, ConflictError), (429, BusyError), (503, BusyError)])
def test_a_service_may_refuse_by_its_status(status, kind):
    external = settings(0.5)
    with scripted_server([Says(status, b"later")]) as url, pytest.raises(kind, match="later"):
        asyncio.run(ExternalTarget(external, WebhookSettings(external, url)).read_state())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (Change(LIMIT, "ours", "w0", "a-1"), "declares no limit"),
        (Change(DRAIN, "ours", "w9", "a-1"), "no member 'w9'"),
        (Change(DRAIN, "ours", "w0", "a 1"), "is no id of an action"),
    ],
)
def test_an_impossible_change_is_an_error(change, message):
    with running_service() as (target, _members), pytest.raises(TargetError, match=message):
        target.render_change(change, asyncio.run(target.read_state()))


def test_only_the_configured_program_and_address_are_used(tmp_path):
    mark = tmp_path / "mark"
    target = make_program(tmp_path)
    with pytest.raises(TargetError, match="another program"):
        asyncio.run(target.make_call(CommandCall(("touch", str(mark)), '{"verb": "apply"}')))
    with pytest.raises(TargetError, match="with the verb"):
        asyncio.run(target.make_call(CommandCall(("touch", str(mark)), "{}")))
    assert not mark.exists()
    with running_service() as (service, _members), pytest.raises(TargetError, match="another address"):
        asyncio.run(service.make_call(HttpCall("POST", "http://127.0.0.1:9", '{"verb": "apply"}')))


SETTINGS = """
targets:
- {kind: exec, command: [hook, a b], changes: [drain, evict], irreversible: [evict], members: {r0: w0}}
- {kind: exec, command: hook, changes: [explode], irreversible: [drain], environment: ["A B"], members: {r0: w0}}
- {kind: webhook, url: "https://h/hook", changes: [drain], members: {r0: w0}}
- {kind: webhook, url: "https://u:p@h", changes: [drain], irreversible: [evict], members: {}}
"""


def test_settings_are_checked():
    fields = FieldReader(yamlfile.parse(SETTINGS, "skewscope.yaml"))
    kinds = target_kinds()
    program, _ = [kinds["exec"].read(fields, ("targets", n), f"t{n}") for n in range(2)]
    service, _ = [kinds["webhook"].read(fields, ("targets", n), f"t{n}") for n in (2, 3)]
    assert kinds["exec"].build(program).members == {"r0": "w0"}
    assert (program.command, kinds["exec"].build(program).support[EVICT].reversible) == (("hook", "a b"), False)
    assert kinds["webhook"].build(service).transport.url == "https://h/hook"
    assert sorted((problem.line, problem.field) for problem in fields.problems) == [
        (4, "targets[1].changes[0]"),
        (4, "targets[1].command"),
        (4, "targets[1].environment"),
        (6, "targets[3].irreversible[0]"),
        (6, "targets[3].members"),
        (6, "targets[3].url"),
    ]
