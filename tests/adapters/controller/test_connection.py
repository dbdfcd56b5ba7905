"""Rows on a connection: the short way answers what the long way answers, whatever comes before, between and after."""

import asyncio
import json
import logging

import numpy as np
import pytest

from skewscope.adapters.controller import api, config, order_api, protocol
from skewscope.adapters.controller import server as module
from skewscope.adapters.controller.controller import Controller
from skewscope.adapters.controller.server import ControllerApp, create_server, open_socket
from skewscope.adapters.controller.store import Store
from skewscope.adapters.formats.row_protocol import (
    MAX_PACKED_BYTES,
    ROWS_PATH,
    HelloFrame,
    RowFrame,
    SeriesFrame,
    encode,
)
from skewscope.adapters.inputs.recording import demo_path
from tests.adapters.controller.processes import KEYS

HELLO = HelloFrame("n0", "b", "1")
ANNOUNCED = encode([HELLO, SeriesFrame(0, 0, KEYS)])
ASKED = b"GET /nothing HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
TOKEN = "n0-0123456789abcdef"


def row(sequence):
    return encode([HELLO, RowFrame(sequence, 1000.0 + sequence, 0, np.array([1.0, 5.0]))])


def post(body, *more):
    lines = (f"POST {ROWS_PATH} HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {len(body)}", *more)
    return "\r\n".join((*lines, "", "")).encode() + body


def chunked(body):
    head = f"POST {ROWS_PATH} HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    return head + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)


async def answer(reader):
    """(status, told) of the next answer."""
    head = await reader.readuntil(b"\r\n\r\n")
    size = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    return int(head.split()[1]), json.loads(await reader.readexactly(size))


@pytest.fixture
def talk(tmp_path):
    """Runs a conversation with a controller that takes rows and judges none; gives what it gave, and the controller."""
    (tmp_path / "topology.yaml").write_bytes((demo_path() / "topology.yaml").read_bytes())

    def run(conversation, more=""):
        (tmp_path / "skewscope.yaml").write_text(f"version: 1\ntopology: topology.yaml\nlisten: {{port: 0}}\n{more}")

        async def play():
            settings = config.read(tmp_path / "skewscope.yaml")
            controller = Controller(settings)
            with open_socket(settings.listen) as door:
                app = ControllerApp(controller)
                web = create_server(app, None)
                serving = asyncio.create_task(web.serve([door]))
                try:
                    reader, writer = await asyncio.open_connection(*door.getsockname())
                    async with asyncio.timeout(30):
                        return await conversation(reader, writer), controller
                finally:
                    writer.close()
                    web.should_exit = True
                    await serving
                    app.close()

        return asyncio.run(play())

    return run


def says(*requests, pieces=1):
    """Sends requests at once, in so many pieces; all answers."""

    async def conversation(reader, writer):
        text = b"".join(requests)
        for n in range(pieces):
            writer.write(text[len(text) * n // pieces : len(text) * (n + 1) // pieces])
            await writer.drain()
            await asyncio.sleep(0)
        return [await answer(reader) for _ in requests]

    return conversation


@pytest.mark.parametrize("pieces", [1, 2, 7, 50])
def test_rows_that_come_at_once_or_in_pieces_are_all_taken(talk, pieces):
    found, controller = talk(says(post(ANNOUNCED), post(row(0)), post(row(1)), post(row(2)), pieces=pieces))
    assert found == [(200, {"taken": n}) for n in (-1, 0, 1, 2)]
    assert [batch.time for batch in controller.receiver.sink.take()] == [1000.0, 1001.0, 1002.0]


def test_what_is_asked_between_rows_is_answered_in_its_turn(talk):
    found, _ = talk(says(post(ANNOUNCED), ASKED, post(row(0)), chunked(row(1)), post(row(2)), ASKED))
    assert [status for status, _ in found] == [200, 404, 200, 200, 200, 404]
    assert [told.get("taken") for _, told in found] == [-1, None, 0, 1, 2, None]


def test_who_waits_to_be_told_to_go_on_is_told(talk):
    async def conversation(reader, writer):
        head, rest = post(ANNOUNCED, "Expect: 100-continue").split(b"\r\n\r\n", 1)
        writer.write(head + b"\r\n\r\n")
        told = await reader.readuntil(b"\r\n\r\n")
        writer.write(rest)
        return told, await answer(reader)

    (told, found), _ = talk(conversation)
    assert told == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert found == (200, {"taken": -1})


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (row(0), 409),
        (b"no rows", 400),
        (b"", 400),
        (encode([HelloFrame("nobody", "b", "1")]), 403),
        (encode([HELLO]), 200),
    ],
)
def test_the_short_way_answers_as_the_long_way(talk, body, status):
    short, _ = talk(says(post(body)))
    long, _ = talk(says(post(body, "Connection: close")))
    assert short == long
    assert short[0][0] == status


def test_more_than_any_agent_sends_is_not_read(talk):
    found, _ = talk(says(post(b"x" * (MAX_PACKED_BYTES + 1))))
    assert found[0][0] == 413


def test_who_may_not_send_rows_is_told(talk, monkeypatch):
    monkeypatch.setenv("N0", TOKEN)
    bearer = f"Authorization: Bearer {TOKEN}"
    foreign = encode([HelloFrame("n1", "b", "1")])
    requests = post(ANNOUNCED), post(ANNOUNCED, bearer), post(foreign, bearer), post(row(0), bearer)
    found, _ = talk(says(*requests), 'agents: {tokens: [{node: n0, token: "${N0}"}]}\n')
    assert [status for status, _ in found] == [401, 200, 403, 200]


def test_a_body_that_does_not_come_is_not_waited_for_for_ever(talk, monkeypatch):
    monkeypatch.setattr(protocol, "REQUEST_TIMEOUT", 0.05)

    async def conversation(reader, writer):
        writer.write(post(ANNOUNCED)[:-1])
        return await answer(reader), await reader.read()

    (found, rest), _ = talk(conversation)
    assert found[0] == 408
    assert rest == b""


def test_a_fault_of_ours_is_told_and_logged_and_ends_nothing(talk, monkeypatch, caplog):
    taken = ControllerApp.receive_rows

    def once(self, body, allowed):
        monkeypatch.setattr(ControllerApp, "receive_rows", taken)
        raise RuntimeError("no luck")

    monkeypatch.setattr(ControllerApp, "receive_rows", once)
    with caplog.at_level(logging.ERROR):
        found, _ = talk(says(post(ANNOUNCED), post(ANNOUNCED)))
    assert [status for status, _ in found] == [500, 200]
    assert "no luck" in caplog.text


def test_who_hangs_up_in_the_middle_leaves_nothing_behind(talk):
    async def conversation(reader, writer):
        writer.write(post(ANNOUNCED)[:-1])
        await writer.drain()
        writer.write_eof()
        return await reader.read()

    _, controller = talk(conversation)
    assert controller.receiver.agents == {}


def test_there_is_an_end_to_streams_also_for_those_who_ask_at_once(talk, monkeypatch, tmp_path):
    Store(tmp_path / "skewscope.db").close()
    monkeypatch.setattr(api, "MAX_STREAMS", 3)
    asked = f"GET {api.API_PREFIX}/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()

    async def status(reader):
        return int((await reader.readuntil(b"\r\n\r\n")).split()[1])

    async def together(where):
        talks = [await asyncio.open_connection(*where) for _ in range(10)]
        for _, writer in talks:
            writer.write(asked)
        found = [await status(reader) for reader, _ in talks]
        for _, writer in talks:
            writer.transport.abort()
        return found

    async def conversation(_reader, writer):
        where = writer.get_extra_info("peername")
        first = await together(where)
        while (again := await together(where)).count(200) < 3:  # noqa: ASYNC110 - nobody tells when those are gone
            await asyncio.sleep(0.05)
        return first, again

    (first, again), _ = talk(conversation)
    assert sorted(first) == sorted(again) == [200] * 3 + [503] * 7


def test_there_is_an_end_to_the_bodies_of_all_together(talk, monkeypatch):
    """Who finds no room is asked to come again, and room is given back."""
    monkeypatch.setattr(module, "MAX_INFLIGHT_BYTES", 3000)
    size = 2000
    head = (
        f"POST {ROWS_PATH} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: {size}\r\n\r\n".encode()
    )

    async def status(reader):
        return int((await reader.readuntil(b"\r\n\r\n")).split()[1])

    async def conversation(reader, writer):
        writer.write(head + b"x" * (size - 1))
        found = [200]
        while found == [200]:  # until what the first has sent is in
            other, there = await asyncio.open_connection(*writer.get_extra_info("peername"))
            there.write(head + b"x" * size)
            found = [await status(other)]
            there.close()
        writer.write(b"x")
        found.append(await status(reader))
        other, there = await asyncio.open_connection(*writer.get_extra_info("peername"))
        there.write(head + b"x" * size)
        found.append(await status(other))
        there.close()
        return found

    found, _ = talk(conversation)
    assert found == [503, 400, 400]


def test_a_store_that_is_gone_is_told_and_no_fault_of_ours(talk):
    asked = f"GET {api.API_PREFIX}/incidents HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()
    (found,), _ = talk(says(asked))
    assert found[0] == 503
    assert "no such file" in found[1]["error"]


@pytest.mark.parametrize("path", [f"{api.API_PREFIX}/silences", f"{api.API_PREFIX}/silences/preview", ROWS_PATH])
def test_a_client_that_leaves_in_the_middle_of_its_body_is_no_fault_of_ours(talk, caplog, path, monkeypatch):
    for name in ("ADMIN", "ANY"):
        monkeypatch.setenv(name, f"{name}-0123456789abcdef")
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {'ANY' if path == ROWS_PATH else 'ADMIN'}"
        "-0123456789abcdef\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{"
    )

    async def conversation(reader, writer):
        writer.write(head.encode())
        await writer.drain()
        await asyncio.sleep(0.05)
        writer.transport.abort()
        await asyncio.sleep(0.05)

    tokens = 'agents: {tokens: [{node: "*", token: "${ANY}"}]}\n'
    roles = 'auth: {tokens: [{name: a, role: admin, token: "${ADMIN}"}]}\n'
    with caplog.at_level(logging.WARNING):
        _, controller = talk(conversation, tokens + roles)
    assert [record.getMessage() for record in caplog.records if record.exc_info or record.levelno >= 40] == []
    assert controller.receiver.agents == {}


def test_one_name_cannot_take_the_event_streams_of_others(talk, monkeypatch, tmp_path):
    Store(tmp_path / "skewscope.db").close()
    monkeypatch.setattr(api, "MAX_STREAMS_OF_ONE", 3)
    names = ("GREEDY", "MODEST")
    for name in names:
        monkeypatch.setenv(name, f"{name}-0123456789abcdef")
    tokens = ", ".join(f'{{name: {name}, role: read, token: "${{{name}}}"}}' for name in names)

    def asked(name):
        lines = (
            f"GET {api.API_PREFIX}/events HTTP/1.1",
            "Host: 127.0.0.1",
            f"Authorization: Bearer {name}-0123456789abcdef",
        )
        return "\r\n".join((*lines, "", "")).encode()

    async def conversation(_reader, writer):
        talks = [await asyncio.open_connection(*writer.get_extra_info("peername")) for _ in range(7)]
        found = []
        for (reader, there), name in zip(talks, ["GREEDY"] * 5 + ["MODEST"] * 2, strict=True):
            there.write(asked(name))
            found.append(int((await reader.readuntil(b"\r\n\r\n")).split()[1]))
        for _, there in talks:
            there.transport.abort()
        return found

    found, _ = talk(conversation, f"auth: {{tokens: [{tokens}]}}\n")
    assert found == [200] * 3 + [429] * 2 + [200] * 2


@pytest.mark.parametrize("end", [b"", b"\r\n\r\n"])
def test_a_head_that_is_too_long_is_refused_also_in_one_piece(talk, end):
    async def conversation(reader, writer):
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"a" * protocol.MAX_HEAD + end)
        return await answer(reader), await reader.read()

    ((status, told), rest), _ = talk(conversation)
    assert (status, rest) == (431, b"")
    assert str(protocol.MAX_HEAD) in told["error"]


def test_a_head_after_a_long_body_in_the_same_piece_counts_alone(talk):
    async def conversation(reader, writer):
        parts = post(bytes(protocol.MAX_HEAD)) * 3 + ASKED
        writer.write(parts[:-4])
        await writer.drain()
        await asyncio.sleep(0.05)
        writer.write(parts[-4:])
        return [(await answer(reader))[0] for _ in range(4)]

    found, _ = talk(conversation)
    assert found == [400, 400, 400, 404]


def test_health_is_answered_where_others_are_turned_away(talk, monkeypatch):
    monkeypatch.setattr(module, "max_connections", lambda: 1)

    async def conversation(reader, writer):
        async def ask(path):
            writer.write(b"GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" % path)
            head = await reader.readuntil(b"\r\n\r\n")
            size = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
            await reader.readexactly(int(size or 0))
            return int(head.split()[1])

        return [await ask(b"/healthz"), await ask(b"/metrics")], await ask(b"/api/v1/incidents")

    (health, other), _ = talk(conversation)
    assert health == [200, 200]
    assert other == 503


def test_only_so_many_requests_of_an_agent_wait_for_orders(talk, monkeypatch):
    monkeypatch.setenv("N0", TOKEN)

    async def conversation(reader, writer):
        place = writer.get_extra_info("peername")
        text = (
            f"GET /api/v1/orders?node=n0&wait=10 HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
        ).encode()
        polls = [await asyncio.open_connection(*place) for _ in range(order_api.MAX_POLLS)]
        for _, poll in polls:
            poll.write(text)
        await asyncio.sleep(0.1)
        writer.write(text)
        refused = await answer(reader)
        for _, poll in polls:
            poll.close()
        return refused

    (status, _), _ = talk(conversation, 'agents: {tokens: [{node: n0, token: "${N0}"}]}\n')
    assert status == 429
