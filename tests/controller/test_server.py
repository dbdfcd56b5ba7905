"""Who connects and does not ask is let go; who asks is answered beside thousands of them."""

import asyncio
import contextlib
import resource

import pytest

from skewscope.adapters.controller import protocol
from skewscope.adapters.controller import server as module
from skewscope.adapters.controller.config import Listen
from skewscope.adapters.controller.server import listening, most_connections, server

ASK = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


async def app(_scope, receive, send):
    await receive()
    await asyncio.sleep(0.6)  # longer than anybody may take to ask
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


@contextlib.asynccontextmanager
async def serving(monkeypatch, most=1000):
    """Where a server is that waits 0.3 s for a request."""
    monkeypatch.setattr(protocol, "PATIENCE", 0.3)
    monkeypatch.setattr(module, "most_connections", lambda: most)
    with listening(Listen(port=0)) as door:
        web = server(app, None)
        task = asyncio.create_task(web.serve([door]))
        try:
            async with asyncio.timeout(30):
                while not web.started:  # noqa: ASYNC110 - it has no event for this
                    await asyncio.sleep(0.01)
                yield door.getsockname()[:2]
        finally:
            web.should_exit = True
            await task


@pytest.mark.parametrize("said", [b"", b"GET / HT", ASK[:-2], b"\r\n"])
@pytest.mark.parametrize("before", [b"", ASK])
def test_who_does_not_ask_to_the_end_is_let_go(monkeypatch, said, before):
    """On a new connection, and on one that asked before."""
    if before and not said:
        pytest.skip("a kept connection may rest for longer")

    async def play():
        async with serving(monkeypatch) as where:
            reader, writer = await asyncio.open_connection(*where)
            if before:
                writer.write(before)
                assert (await reader.readuntil(b"ok")).endswith(b"ok")
            writer.write(said)
            with contextlib.suppress(ConnectionError):
                assert await asyncio.wait_for(reader.read(), 10) == b""
            writer.close()

    asyncio.run(play())


def test_who_asks_is_answered_beside_many_who_do_not(monkeypatch):
    async def play():
        async with serving(monkeypatch, most=20) as where:
            idle = [await asyncio.open_connection(*where) for _ in range(60)]
            await asyncio.sleep(0.5)
            reader, writer = await asyncio.open_connection(*where)
            writer.write(ASK)
            assert b"200 OK" in await reader.readuntil(b"ok")
            for _, each in (*idle, (reader, writer)):
                each.close()

    asyncio.run(play())


def test_files_and_sources_keep_a_part_of_what_may_be_open():
    assert most_connections() <= resource.getrlimit(resource.RLIMIT_NOFILE)[1] * 3 // 4
