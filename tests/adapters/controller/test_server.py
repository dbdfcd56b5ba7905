"""Who connects and does not ask is let go; who asks is answered beside thousands of them."""

import asyncio
import contextlib
import resource
import ssl

import pytest

from skewscope.adapters.controller import protocol
from skewscope.adapters.controller import server as module
from skewscope.adapters.controller.config import ListenConfig, TlsConfig
from skewscope.adapters.controller.connection_limit import ConnectionLimit
from skewscope.adapters.controller.server import create_server, max_connections, open_socket
from tests.support.certificates import signed_by_itself

ASK = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


async def app(_scope, receive, send):
    await receive()
    await asyncio.sleep(0.6)  # longer than anybody may take to ask
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


@pytest.fixture(scope="module")
def tls(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    signed_by_itself(folder, "server.pem", "server.key")
    return TlsConfig(str(folder / "server.pem"), str(folder / "server.key"))


def trusting():
    """Of a client to whom any certificate will do."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


@contextlib.asynccontextmanager
async def serving(monkeypatch, most=1000, tls=None):
    """Where a server is that waits 0.3 s for a request."""
    monkeypatch.setattr(protocol, "REQUEST_TIMEOUT", 0.3)
    monkeypatch.setattr(module, "max_connections", lambda: most)
    with open_socket(ListenConfig(port=0)) as door:
        web = create_server(app, tls)
        task = asyncio.create_task(web.serve([door]))
        try:
            async with asyncio.timeout(30):
                while not web.started:  # noqa: ASYNC110 - it has no event for this
                    await asyncio.sleep(0.01)
                yield door.getsockname()[:2]
        finally:
            web.should_exit = True
            await task


@pytest.mark.slow
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


@pytest.mark.parametrize("said", [b"", b"\x16\x03\x01\x02\x00\x01", ASK])
def test_who_does_not_end_its_handshake_is_let_go(monkeypatch, tls, said):
    """One that says nothing, one that says half of it, and one that does not speak TLS."""

    async def play():
        async with serving(monkeypatch, tls=tls) as where:
            reader, writer = await asyncio.open_connection(*where)
            writer.write(said)
            with contextlib.suppress(ConnectionError):
                assert b"200 OK" not in await asyncio.wait_for(reader.read(), 10)
            writer.close()

    asyncio.run(play())


@pytest.mark.parametrize("secure", [False, True])
def test_who_asks_is_answered_beside_many_who_do_not(monkeypatch, tls, secure):
    """However long those may rest: who rests for longest makes room."""

    async def play():
        async with serving(monkeypatch, most=20, tls=tls if secure else None) as where:
            monkeypatch.setattr(protocol, "REQUEST_TIMEOUT", 60.0)
            idle = [await asyncio.open_connection(*where) for _ in range(60)]
            reader, writer = await asyncio.open_connection(*where, ssl=trusting() if secure else None)
            for _ in range(2):
                writer.write(ASK)
                assert b"200 OK" in await asyncio.wait_for(reader.readuntil(b"ok"), 10)
            for _, each in (*idle, (reader, writer)):
                each.transport.abort()

    asyncio.run(play())


CHUNKED = b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
FLOODS = {
    "a header": (b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ", b"x" * 65536),
    "headers": (b"GET / HTTP/1.1\r\nHost: localhost\r\n", b"x: y\r\n" * 10000),
    "an address": (b"GET /", b"x" * 65536),
    "parts of no size": (
        b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"1;x=" + b"y" * 65536,
    ),
    "trailers": (CHUNKED + b"1\r\nx\r\n0\r\n", b"x: y\r\n" * 10000),
}


@pytest.mark.parametrize("flood", FLOODS.values(), ids=list(FLOODS))
def test_headers_without_end_are_not_taken_in(monkeypatch, flood):
    async def play():
        async with serving(monkeypatch) as where:
            monkeypatch.setattr(protocol, "REQUEST_TIMEOUT", 60.0)
            reader, writer = await asyncio.open_connection(*where)
            writer.write(flood[0])
            with contextlib.suppress(ConnectionError):
                for _ in range(200):
                    writer.write(flood[1])
                    await asyncio.wait_for(writer.drain(), 10)
                pytest.fail("all of it was taken")
            with contextlib.suppress(ConnectionError):
                assert await asyncio.wait_for(reader.read(), 10) == b""
            writer.transport.abort()

    asyncio.run(play())


def test_a_request_that_comes_in_pieces_may_be_as_long_as_any(monkeypatch):
    async def play():
        async with serving(monkeypatch) as where:
            reader, writer = await asyncio.open_connection(*where)
            size = 4 << 20
            writer.write(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % size)
            writer.write(b"x" * size + ASK)
            for _ in range(2):
                assert b"200 OK" in await asyncio.wait_for(reader.readuntil(b"ok"), 10)
            writer.close()

    asyncio.run(play())


def test_who_asks_on_and_on_and_hears_nothing_is_let_go(monkeypatch):
    async def play():
        async with serving(monkeypatch) as where:
            reader, writer = await asyncio.open_connection(*where)
            writer.write(ASK * 10_000)
            with contextlib.suppress(ConnectionError):
                assert (await asyncio.wait_for(reader.read(), 10)).count(b"200 OK") == 0
            writer.close()

    asyncio.run(play())


def test_who_does_not_read_what_it_is_told_is_let_go(monkeypatch):
    ended = asyncio.Event()

    async def endless(_scope, receive, send):
        """Until nobody is there any more."""
        try:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            gone = asyncio.ensure_future(_gone(receive))
            while not gone.done():
                await send({"type": "http.response.body", "body": b"x" * 65536, "more_body": True})
                await asyncio.sleep(0)
        finally:
            ended.set()

    async def play():
        monkeypatch.setattr(protocol, "WRITE_TIMEOUT", 0.3)
        monkeypatch.setitem(globals(), "app", endless)
        async with serving(monkeypatch) as where:
            _, writer = await asyncio.open_connection(*where, limit=1 << 10)
            writer.write(ASK)
            await asyncio.wait_for(ended.wait(), 20)
            writer.transport.abort()

    asyncio.run(play())


async def _gone(receive):
    while (await receive())["type"] != "http.disconnect":
        pass


def test_a_server_that_ends_does_not_wait_for_a_handshake(monkeypatch, tls):
    async def play():
        async with serving(monkeypatch, tls=tls) as where:
            monkeypatch.setattr(protocol, "REQUEST_TIMEOUT", 60.0)
            reader, writer = await asyncio.open_connection(*where)
            await asyncio.sleep(0.1)
        with contextlib.suppress(ConnectionError):
            assert await asyncio.wait_for(reader.read(), 10) == b""
        writer.close()

    asyncio.run(play())


def test_who_rests_longest_makes_room_and_who_is_busy_does_not():
    gone = []

    class Somebody:
        def __init__(self, name):
            self.name = name

        def abort(self):
            gone.append(self.name)

    porch = ConnectionLimit(3)
    first, second, third, fourth, fifth, sixth = (Somebody(n) for n in range(1, 7))
    for who in (first, second, third):
        porch.add(who)
    porch.mark_busy(first)
    porch.mark_idle(second)
    porch.add(fourth)
    assert gone == [3]
    porch.mark_idle(third)
    assert porch.idle_connections == (second, fourth), "who is gone does not rest"
    porch.remove(second)
    porch.add(fifth)
    assert gone == [3]
    porch.mark_busy(fourth)
    porch.mark_busy(fifth)
    porch.add(sixth)
    assert gone == [3, 6], "there is nobody else to go"


class FakeConnection:
    def __init__(self, name, gone):
        self.name, self.gone = name, gone

    def abort(self):
        self.gone.append(self.name)


def test_whoever_waits_for_something_makes_room_where_nobody_is_idle():
    gone = []
    connections = ConnectionLimit(2, reserve=1)
    busy, poll, health, last = (FakeConnection(name, gone) for name in ("busy", "poll", "health", "last"))
    for each in (busy, poll):
        connections.add(each)
    connections.mark_busy(busy)
    connections.mark_waiting(poll)
    connections.add(health)
    assert gone == ["poll"]
    connections.mark_busy(health)
    connections.add(last)
    assert gone == ["poll"], "all are busy, and there is a reserve"
    connections.mark_busy(last)
    connections.add(FakeConnection("too many", gone))
    assert gone == ["poll", "too many"]


def test_heads_that_do_not_end_take_only_so_much_in_all(monkeypatch):
    gone = []
    monkeypatch.setattr("skewscope.adapters.controller.connection_limit.MAX_HEAD_BYTES", 100)
    connections = ConnectionLimit(10)
    first, second, third = (FakeConnection(name, gone) for name in (1, 2, 3))
    for each in (first, second, third):
        connections.add(each)
    connections.note_head(first, 40)
    connections.note_head(second, 40)
    connections.note_head(third, 20)
    assert gone == []
    connections.note_head(third, 21)
    assert gone == [1]
    connections.note_head(second, 0)
    connections.note_head(third, 79)
    connections.note_head(first, 100)
    assert gone == [1], "who is gone has nothing in memory"


def test_files_and_sources_keep_a_part_of_what_may_be_open():
    assert max_connections() <= resource.getrlimit(resource.RLIMIT_NOFILE)[1] * 3 // 4
