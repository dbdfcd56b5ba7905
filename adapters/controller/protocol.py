"""HTTP on one connection: rows of agents go straight from the parser to a worker; all other requests go to ASGI.

A thousand agents send a thousand requests per second. A task, a scope and two writes per request would cost more than
the rows themselves. A body is read in a thread of its own, and answered from here when it has been. Unusual requests
(no length, `Expect: 100-continue`, a denied sender) take the ASGI path with the same answers.
"""

import asyncio
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from typing import Any, NamedTuple, Protocol, cast

from starlette.responses import Response
from starlette.types import Scope
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from skewscope.adapters.controller.auth import DeniedError
from skewscope.adapters.controller.body_budget import BodyBudget, BodyReservation
from skewscope.adapters.controller.connection_limit import ConnectionLimit
from skewscope.adapters.controller.http_helpers import error_response
from skewscope.adapters.formats.row_protocol import MAX_PACKED_BYTES, ROWS_PATH
from skewscope.adapters.sources.common.push_receiver import PushQueueFullError

REQUEST_TIMEOUT = 10.0
"""Seconds for a request to arrive, and then for its body."""
MAX_HEAD = 1 << 15
"""Maximum bytes of the head of a request."""
MAX_OVERHEAD = 1 << 16
"""Bytes of a request besides its head and its body, plus as many as the body has."""
MAX_PIPELINED = 32
"""Maximum number of pipelined requests."""
WRITE_TIMEOUT = 30.0
"""Seconds that an answer may wait for a client that does not read."""
ALWAYS_ANSWERED = frozenset({b"/healthz", b"/readyz", b"/metrics"})
"""Paths that are answered also at the limit of connections: else a full controller would look like one that is down."""
CONNECTION_KEY = "skewscope.connection"
"""Key of the connection in a request's scope."""
PEER_KEY = "skewscope.peer"
"""Key of the client certificate's name in a request's scope."""
LENGTH_HEADER = b"content-length"
OK_RESPONSE = b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n{"taken":%d}'
OK_BODY_LENGTH = len('{"taken":}')


class RefusedRequestError(Exception):
    """A client sends requests without reading the answers, or headers that are too long; ends the parsing."""


class RowsSender(NamedTuple):
    """Who sends a body of rows."""

    node: str | None
    """The node that it may report for; None for any."""
    connection: Hashable
    """What tells those apart that may report for any."""


class RowsHandler(Protocol):
    """Handles rows of agents."""

    body_budget: BodyBudget

    def authorise_sender(self, scope: Scope) -> str | None:
        """Returns the node that a sender may report for; None for any.

        Raises:
            DeniedError: it may not send rows.
        """
        ...

    def submit_rows(self, body: bytes, sender: RowsSender, done: Callable[[int | Response], None]) -> None:
        """Has a body read; calls `done` later, with the highest received sequence number or an error answer."""
        ...


@dataclass(slots=True)
class _RowsBody:
    """A body that is arriving."""

    place: BodyReservation
    parts: list[bytes] = field(default_factory=list)
    timeout: asyncio.TimerHandle | None = None
    """Timer of the body's timeout."""


@dataclass(slots=True)
class _RowsCycle:
    """Stands where uvicorn keeps the request that it answers: requests after it wait until its rows are read."""

    response_complete: bool = False
    keep_alive: bool = True
    disconnected: bool = False
    message_event: asyncio.Event = field(default_factory=asyncio.Event)


class HttpConnection(HttpToolsProtocol):
    """One connection: exposes the client's certificate and closes when idle for too long."""

    _rows_body: _RowsBody | None = None
    _request_timer: asyncio.TimerHandle | None = None
    """Closes the connection without a request."""
    _write_timer: asyncio.TimerHandle | None = None
    """Closes the connection of a client that does not read its answer."""
    _request_begun = False
    """Whether a request starts in the present chunk."""
    _is_in_head = False
    """Whether the head of a request has begun and not ended."""
    _head_size = 0
    """Bytes of the headers of a request."""
    _overhead = 0
    """Bytes of a request beyond its body, less those of its body."""
    _body_of_chunk = 0
    """Bytes of bodies in the present chunk."""
    connection_limit: ConnectionLimit

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._request_timer = self.loop.call_later(REQUEST_TIMEOUT, transport.abort)
        self.connection_limit.add(self)

    def abort(self) -> None:
        """Closes it at once."""
        self.transport.abort()

    def on_message_begin(self) -> None:
        self._request_begun, self._is_in_head, self._overhead, self._head_size = True, True, 0, 0
        super().on_message_begin()
        self.scope[CONNECTION_KEY] = self  # type: ignore[literal-required]
        certificate = self.transport.get_extra_info("peercert") if self.transport else None
        if certificate:
            self.scope[PEER_KEY] = _common_name(certificate)  # type: ignore[literal-required]

    def on_header(self, name: bytes, value: bytes) -> None:
        self._head_size += len(name) + len(value)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._is_in_head, self._overhead = False, 0
        self._cancel_request_timer()
        self.connection_limit.mark_busy(self)
        if len(self.pipeline) >= MAX_PIPELINED:
            self.transport.abort()
            raise RefusedRequestError
        if self._head_size > MAX_HEAD:
            self._refuse_size(MAX_HEAD)
            raise RefusedRequestError
        self._rows_body = self._open_rows_body() if self.url == ROWS_PATH.encode() else None
        if self._rows_body is None:
            limit = self.limit_concurrency
            if self.url.partition(b"?")[0] in ALWAYS_ANSWERED:
                self.limit_concurrency = None
            super().on_headers_complete()
            self.limit_concurrency = limit

    @contextmanager
    def wait_dispensably(self) -> Iterator[None]:
        """Marks a request that waits for something to happen: at the limit its connection is closed before others."""
        self.connection_limit.mark_waiting(self)
        try:
            yield
        finally:
            self.connection_limit.mark_busy(self)

    def _open_rows_body(self) -> _RowsBody | None:
        """Starts the body of a request that can be handled directly; None for the ASGI path."""
        answering = self.cycle is not None and not self.cycle.response_complete
        plain = self.parser.get_method() == b"POST" and self.parser.get_http_version() == "1.1"
        if answering or not plain or self.expect_100_continue or not self.parser.should_keep_alive():
            return None
        if self.flow.write_paused or len(self.connections) >= (self.limit_concurrency or 0):
            return None
        payload = next((value for name, value in self.headers if name == LENGTH_HEADER), b"")
        if not payload.isdigit() or int(payload[:12]) > MAX_PACKED_BYTES:
            return None
        try:
            place = self._rows_handler.body_budget.reserve(
                self._rows_handler.authorise_sender(cast("Scope", self.scope))
            )
            place.add(int(payload))
        except (DeniedError, PushQueueFullError):
            return None
        return _RowsBody(place)

    @property
    def _rows_handler(self) -> RowsHandler:
        return cast("RowsHandler", self.config.app)

    def data_received(self, data: bytes) -> None:
        idle = self._rows_body is None and (self.cycle is None or self.cycle.response_complete)
        if idle and self._request_timer is None:
            self._request_timer = self.loop.call_later(REQUEST_TIMEOUT, self.transport.abort)
        self._request_begun, self._body_of_chunk = False, 0
        super().data_received(data)
        # Headers and trailers are kept in memory as they arrive. A head that begins in a chunk may follow a body.
        if self._is_in_head or not self._request_begun:
            self._overhead += len(data) - (self._body_of_chunk if self._request_begun else 0)
        self.connection_limit.note_head(self, self._overhead if self._is_in_head else 0)
        limit = MAX_HEAD if self._is_in_head else MAX_OVERHEAD
        if self._overhead > limit:
            self.connection_limit.note_head(self, 0)
            self._refuse_size(limit)
            return
        if self._rows_body is not None and self._rows_body.timeout is None:
            self._rows_body.timeout = self.loop.call_later(REQUEST_TIMEOUT, self._on_body_timeout)

    def _refuse_size(self, limit: int) -> None:
        self._send_and_close(error_response(431, f"more than {limit} bytes besides the body", Connection="close"))

    def on_body(self, body: bytes) -> None:
        self._overhead -= 2 * len(body)
        self._body_of_chunk += len(body)
        if self._rows_body is None:
            super().on_body(body)
        else:
            self._rows_body.parts.append(body)

    def on_message_complete(self) -> None:
        rows, self._rows_body = self._rows_body, None
        if rows is None:
            super().on_message_complete()
            return
        if rows.timeout is not None:
            rows.timeout.cancel()
        cycle = _RowsCycle()
        self.cycle = cast("RequestResponseCycle", cycle)
        sender = RowsSender(rows.place.node, id(self))
        self._rows_handler.submit_rows(b"".join(rows.parts), sender, partial(self._answer_rows, cycle, rows.place))

    def _answer_rows(self, cycle: _RowsCycle, place: BodyReservation, found: int | Response) -> None:
        """Answers a body that has been read, and goes on with what came after it."""
        place.release()
        cycle.response_complete = True
        if not self.transport.is_closing():
            self.transport.write(_serialise_response(found) if isinstance(found, Response) else _serialise_ok(found))
            if not cycle.keep_alive:
                self.transport.close()
        self.on_response_complete()

    def _on_body_timeout(self) -> None:
        self._drop_rows_body()
        self._send_and_close(error_response(408, f"the body took more than {REQUEST_TIMEOUT:g} s", Connection="close"))

    def _send_and_close(self, answer: Response) -> None:
        """Answers and closes the connection."""
        if not self.transport.is_closing():
            self.transport.write(_serialise_response(answer))
            self.transport.close()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._write_timer = self.loop.call_later(WRITE_TIMEOUT, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._cancel_write_timer()

    def _cancel_write_timer(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def connection_lost(self, exc: Exception | None) -> None:
        self._drop_rows_body()
        self._cancel_request_timer()
        self._cancel_write_timer()
        self.connection_limit.remove(self)
        super().connection_lost(exc)

    def _drop_rows_body(self) -> None:
        """Forgets a body that has not arrived."""
        rows, self._rows_body = self._rows_body, None
        if rows is not None:
            rows.place.release()
            if rows.timeout is not None:
                rows.timeout.cancel()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        # A request that was waiting behind the one that was answered has begun by now.
        if self.cycle is not None and self.cycle.response_complete:
            if isinstance(self.cycle, RequestResponseCycle):
                # An idle connection needs nothing of the request that was answered.
                self.cycle.body, self.cycle.scope = bytearray(), cast("Any", {})
                if not self._is_in_head:
                    self.scope, self.headers = cast("Any", {}), []
            self.connection_limit.mark_idle(self)

    def _cancel_request_timer(self) -> None:
        if self._request_timer is not None:
            self._request_timer.cancel()
            self._request_timer = None


def _serialise_response(answer: Response) -> bytes:
    """Returns an answer in one piece, for a single write."""
    head = f"HTTP/1.1 {answer.status_code} {HTTPStatus(answer.status_code).phrase}\r\n".encode()
    lines = [name + b": " + value + b"\r\n" for name, value in answer.raw_headers]
    return b"".join([head, *lines, b"\r\n", bytes(answer.body)])


def _serialise_ok(sequence: int) -> bytes:
    """Returns the answer to rows that were taken."""
    return OK_RESPONSE % (OK_BODY_LENGTH + len(str(sequence)), sequence)


def _common_name(certificate: dict[str, Any]) -> str:
    parts = [pair for group in certificate.get("subject", ()) for pair in group]
    return next((value for name, value in parts if name == "commonName"), "")
