"""Answers that take long end when their caller loses access."""

import asyncio
import json
from contextlib import nullcontext, suppress
from dataclasses import replace
from types import SimpleNamespace

import pytest

from skewscope.adapters.controller import config
from skewscope.adapters.controller.controller import Controller
from skewscope.adapters.controller.protocol import CONNECTION_KEY
from skewscope.adapters.controller.server import ControllerApp
from skewscope.adapters.runtime.tasks import cancel_and_wait
from tests.adapters.controller.clocks import FakeClock
from tests.adapters.controller.processes import AUTH, TOKENS


@pytest.fixture
def settings(tmp_path, monkeypatch):
    for name, token in TOKENS.items():
        monkeypatch.setenv(name, token)
    (tmp_path / "topology.yaml").write_text("version: 1\nnodes: [{name: n0}]\n")
    (tmp_path / "skewscope.yaml").write_text(f"version: 1\ntopology: topology.yaml\n{AUTH}")
    return config.read(tmp_path / "skewscope.yaml")


class Answer:
    """The answer to a request, as it comes."""

    def __init__(self, app, path, token, query=b""):
        self.status, self.body = 0, b""
        headers = [(b"host", b"localhost"), (b"authorization", f"Bearer {token}".encode())]
        connection = SimpleNamespace(wait_dispensably=nullcontext)
        self.scope = {"type": "http", "method": "GET", "path": path, "query_string": query, "headers": headers}
        self.scope[CONNECTION_KEY] = connection
        self.task = asyncio.create_task(app(self.scope, self.receive, self.send))

    async def receive(self):
        return await asyncio.Event().wait()

    async def send(self, message):
        self.status = message.get("status", self.status)
        self.body += message.get("body", b"")


def play(settings, test):
    """Runs a test with a controller that has begun, and its application."""

    async def run():
        controller = Controller(settings, FakeClock(1_700_000_000.0))
        await controller.start()
        app = ControllerApp(controller)
        try:
            async with asyncio.timeout(20):
                await test(controller, app)
        finally:
            app.close()
            await controller._close()

    asyncio.run(run())


def revoke(controller, app, token):
    """Takes a token away, as a reload does."""
    left = tuple(one for one in controller.config.tokens if one.secret.text != token)
    assert len(left) == len(controller.config.tokens) - 1
    controller.config = replace(controller.config, tokens=left)
    app.renew_access()


def test_the_event_stream_of_a_token_that_is_taken_away_ends_with_a_reason(settings):
    async def test(controller, app):
        mine = Answer(app, "/api/v1/events", TOKENS["READ"])
        others = Answer(app, "/api/v1/events", TOKENS["ADMIN"])
        while not (mine.body and others.body):  # noqa: ASYNC110 - a thread reads the store
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        revoke(controller, app, TOKENS["READ"])
        await mine.task
        *_, event, _ = mine.body.decode().split("\n\n")
        name, data = event.split("\n")
        assert (name, json.loads(data.removeprefix("data: "))) == ("event: end", {"reason": "unknown token"})
        await asyncio.sleep(0.05)
        assert not others.task.done()
        await cancel_and_wait(others.task)

    play(settings, test)


def test_an_agent_whose_token_is_taken_away_gets_no_order_that_comes_later(settings):
    async def test(controller, app):
        answer = Answer(app, "/api/v1/orders", TOKENS["N0"], b"node=n0&wait=1")
        await asyncio.sleep(0.05)
        revoke(controller, app, TOKENS["N0"])
        with suppress(asyncio.CancelledError):
            await answer.task
        assert answer.status == 401

    play(settings, test)
