"""Assistants over HTTP: the tokens of the API count, and the SDK's client is answered."""

import asyncio
import threading

import pytest

pytest.importorskip("mcp")

import httpx2
import uvicorn
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from skewscope.adapters.config.secret import Secret
from skewscope.adapters.controller.auth import AccessControl
from skewscope.adapters.controller.config import ApiToken, ControllerConfig, ListenConfig
from skewscope.engine.model.topology import Topology
from skewscope.kb.problems import SkewscopeError
from skewscope.tui.assistant.command_runner import CommandRunner
from skewscope.tui.assistant.http_server import build_app, serve
from skewscope.tui.assistant.server import build_server
from skewscope.tui.assistant.tools import AssistantTools

READER, AGENT = "reader-token-of-16", "agent-token-of-16"
TOKENS = (ApiToken("reader", "read", Secret(READER)), ApiToken("n0", "agent", Secret(AGENT)))


def config_of(path, host="127.0.0.1", tokens=TOKENS, anonymous="none"):
    topology = path / "topology.yaml"
    listen = ListenConfig(host, 8471)
    return ControllerConfig(path / "c.yaml", topology, Topology(()), listen=listen, tokens=tokens, anonymous=anonymous)


def status_of(app, headers):
    """Returns the status with which a request is answered."""
    sent = []

    async def ask():
        async def receive():
            return {"type": "http.request", "body": b"{}", "more_body": False}

        async def send(message):
            sent.append(message)

        raw = [(name.encode(), value.encode()) for name, value in headers.items()]
        await app({"type": "http", "method": "POST", "path": "/mcp", "headers": raw}, receive, send)

    asyncio.run(ask())
    return sent[0]["status"]


async def accept(_scope, _receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})


def checked(config):
    """Returns the check before an application that accepts everything."""
    app = build_app(build_server(AssistantTools(CommandRunner(config.path.parent)), "1"), AccessControl(config))
    app._app = accept
    return app


HOST = {"host": "127.0.0.1:8471"}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (HOST, 401),
        (HOST | {"authorization": "Bearer wrong-token-of-16"}, 401),
        (HOST | {"authorization": f"Basic {READER}"}, 401),
        (HOST | {"authorization": f"Bearer {AGENT}"}, 403),
        (HOST | {"authorization": f"Bearer {READER}"}, 200),
        (HOST | {"authorization": f"Bearer {READER}", "origin": "http://evil.example"}, 403),
        ({"host": "evil.example", "authorization": f"Bearer {READER}"}, 403),
        ({"authorization": f"Bearer {READER}"}, 403),
    ],
)
def test_only_a_reader_of_the_api_is_let_in(tmp_path, headers, status):
    assert status_of(checked(config_of(tmp_path)), headers) == status


def test_without_tokens_only_this_machine_is_let_in(tmp_path):
    assert status_of(checked(config_of(tmp_path, tokens=(), anonymous="read")), HOST) == 200
    tools = AssistantTools(CommandRunner(tmp_path))
    with pytest.raises(SkewscopeError, match="add tokens under auth"):
        serve(tools, config_of(tmp_path, tokens=(), anonymous="read"), "0.0.0.0", 8471)


@pytest.mark.slow
def test_the_client_of_the_sdk_is_answered_with_a_token(tmp_path):
    (tmp_path / "a.log").write_text("x\n")
    config = config_of(tmp_path)
    app = build_app(build_server(AssistantTools(CommandRunner(tmp_path)), "1"), AccessControl(config))
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            pass
        port = server.servers[0].sockets[0].getsockname()[1]

        async def ask():
            async with (
                httpx2.AsyncClient(headers={"authorization": f"Bearer {READER}"}) as http,
                Client(streamable_http_client(f"http://127.0.0.1:{port}/mcp", http_client=http)) as client,
            ):
                return await client.call_tool("list_files", {})

        assert "a.log 2" in asyncio.run(ask()).structured_content["text"]
    finally:
        server.should_exit = True
        thread.join(10)
