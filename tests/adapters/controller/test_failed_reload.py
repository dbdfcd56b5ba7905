"""A reload that fails in the middle, a server or a tick that fails: the process says so, and is never half changed."""

import asyncio
from dataclasses import replace

import pytest

from skewscope.adapters.controller import process
from skewscope.adapters.controller.controller import Controller
from skewscope.adapters.controller.metrics import format_metrics
from skewscope.kb.problems import SkewscopeError
from tests.support.still_controller import play

BEFORE = """version: 1
topology: topology.yaml
listen: {port: 0}
tell: [{kind: cloudevents, name: events, urls: ["127.0.0.1:1"]}]
sources: [{kind: remote-write, name: pushed}]
"""
AFTER = BEFORE.replace("name: events", "name: others").replace("name: pushed", "name: more")


@pytest.fixture
def path(tmp_path):
    (tmp_path / "topology.yaml").write_text("version: 1\nnodes: [{name: n0}]\n")
    (tmp_path / "skewscope.yaml").write_text(BEFORE)
    return tmp_path / "skewscope.yaml"


def break_notifiers(controller, times):
    """Has the notifiers fail to start some times, when sources and all else were changed already."""
    restart, calls = controller._restart_notifiers, []

    async def fail(*arguments, **named):
        calls.append(1)
        if len(calls) <= times:
            raise RuntimeError("a bug")
        await restart(*arguments, **named)

    controller._restart_notifiers = fail


def test_a_reload_that_fails_in_the_middle_leaves_the_config_before(path, caplog):
    async def test(controller, app):
        before = controller.config
        break_notifiers(controller, 1)
        path.write_text(AFTER)
        await process._reload(app, path)
        assert controller.config == before
        assert controller.supervisor.names == ("agents", "pushed")
        assert controller.dispatcher.names == ("events",)
        assert "skewscope_config_reload_ok 0.0" in format_metrics(controller)
        assert 'skewscope_task_failures_total{task="reload"}' in format_metrics(controller)
        await process._reload(app, path)
        assert controller.supervisor.names == ("agents", "more")
        assert controller.dispatcher.names == ("others",)
        assert "skewscope_config_reload_ok 1.0" in format_metrics(controller)

    play(path, test)
    assert "the config was not reloaded: RuntimeError: a bug; the one before is in use" in caplog.text


def test_a_reload_that_cannot_be_taken_back_says_in_which_state_it_is(path):
    async def test(controller, _app):
        break_notifiers(controller, 2)
        with pytest.raises(SkewscopeError, match="applied in part: restart the controller"):
            await controller.reload(replace(controller.config, notifiers=()))
        await controller.dispatcher.stop("events")
        await controller.reload(controller.config)
        assert controller.dispatcher.names == ("events",)

    play(path, test)


class BrokenServer:
    """A server that ends by itself."""

    should_exit = False

    def __init__(self, error):
        self.error = error

    async def serve(self, _sockets):
        await asyncio.sleep(0)
        if self.error is not None:
            raise self.error


@pytest.mark.parametrize("error", [RuntimeError("a bug"), None])
def test_a_server_that_ends_by_itself_ends_the_process_with_an_error(path, monkeypatch, error):
    monkeypatch.setattr(process, "create_server", lambda *_: BrokenServer(error))
    with pytest.raises(SkewscopeError, match="the HTTP server has ended by itself"):
        asyncio.run(process._serve(path, None))


def test_a_tick_that_fails_ends_the_process_with_an_error(path, monkeypatch, caplog):
    async def fail(*_):
        raise RuntimeError("a bug")

    monkeypatch.setattr(Controller, "_run_tick", fail)
    with pytest.raises(SkewscopeError, match="the controller cannot go on: RuntimeError: a bug"):
        asyncio.run(process._serve(path, None))
    assert "ticks: failed" in caplog.text
