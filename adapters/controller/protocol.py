"""HTTP on one connection: rows of agents are taken where they come out of the parser; all else goes on to ASGI.

A thousand agents push a thousand times a second. A task, a scope and two writes for each would cost more than what is
in the rows. What is not plain (no length, a client that waits to be told to go on, somebody who may not) takes the
long way, which answers the same.
"""

import asyncio
import logging
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Protocol, cast

from starlette.responses import Response
from starlette.types import Scope
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from skewscope.adapters.controller.answers import fault
from skewscope.adapters.controller.auth import DeniedError
from skewscope.adapters.controller.porch import Porch
from skewscope.adapters.wire_rows import MOST_PACKED, PATH

PATIENCE = 10.0
"""Seconds that a request may take to come, and then its body."""
MOST_HEAD = 1 << 16
"""Bytes of a request besides its body, and as many as that has; the first piece of a request counts for nothing."""
MOST_AHEAD = 32
"""Requests that may wait for the answer to one before them."""
UNREAD = 30.0
"""Seconds that an answer may wait for somebody who does not read it."""
PEER = "skewscope.peer"
"""Where the name in a client's certificate stands in a request's scope."""
LENGTH = b"content-length"
TAKEN = b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n{"taken":%d}'
NUMBER = len('{"taken":}')

log = logging.getLogger(__name__)


class TooFarAheadError(Exception):
    """A client asks on and on without hearing any answer."""


class Taker(Protocol):
    """Takes rows of agents."""

    def admitted(self, scope: Scope) -> str | None:
        """The node that a sender may speak for; None for any.

        Raises:
            DeniedError: it may not send rows.
        """
        ...

    def taken(self, body: bytes, allowed: str | None) -> int | Response:
        """Takes a body; gives the highest sequence taken so far, or the answer that tells what is wrong."""
        ...


@dataclass(slots=True)
class _Body:
    """One that is coming in."""

    allowed: str | None
    """The node that its sender may speak for; None for any."""
    parts: list[bytes] = field(default_factory=list)
    slow: asyncio.TimerHandle | None = None
    """What ends the wait for the rest of it."""


class Connection(HttpToolsProtocol):
    """One connection: it tells whose certificate the client has, and waits for nobody who does not ask."""

    _rows: _Body | None = None
    _asking: asyncio.TimerHandle | None = None
    """When a connection ends that has not asked for anything by then."""
    _unread: asyncio.TimerHandle | None = None
    """When a connection ends whose client does not read what it is answered."""
    _begun = False
    """Whether a request begins in what is read just now."""
    _besides = 0
    """Bytes of a request beyond its body, less those of its body."""
    porch: Porch

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._asking = self.loop.call_later(PATIENCE, transport.abort)
        self.porch.enter(self)

    def abort(self) -> None:
        """Ends it at once."""
        self.transport.abort()

    def on_message_begin(self) -> None:
        self._begun, self._besides = True, 0
        super().on_message_begin()
        certificate = self.transport.get_extra_info("peercert") if self.transport else None
        if certificate:
            self.scope[PEER] = _common_name(certificate)  # type: ignore[literal-required]

    def on_headers_complete(self) -> None:
        self._asked()
        self.porch.busy(self)
        if len(self.pipeline) >= MOST_AHEAD:
            self.transport.abort()
            raise TooFarAheadError
        self._rows = self._awaited() if self.url == PATH.encode() else None
        if self._rows is None:
            super().on_headers_complete()

    def _awaited(self) -> _Body | None:
        """The body of a request whose rows can be taken here; None if it is to go the long way."""
        answering = self.cycle is not None and not self.cycle.response_complete
        plain = self.parser.get_method() == b"POST" and self.parser.get_http_version() == "1.1"
        if answering or not plain or self.expect_100_continue or not self.parser.should_keep_alive():
            return None
        if self.flow.write_paused or len(self.connections) >= (self.limit_concurrency or 0):
            return None
        told = next((value for name, value in self.headers if name == LENGTH), b"")
        if not told.isdigit() or int(told[:12]) > MOST_PACKED:
            return None
        try:
            return _Body(self._taker.admitted(cast("Scope", self.scope)))
        except DeniedError:
            return None

    @property
    def _taker(self) -> Taker:
        return cast("Taker", self.config.app)

    def data_received(self, data: bytes) -> None:
        idle = self._rows is None and (self.cycle is None or self.cycle.response_complete)
        if idle and self._asking is None:
            self._asking = self.loop.call_later(PATIENCE, self.transport.abort)
        self._begun = False
        super().data_received(data)
        if not self._begun:
            # Headers and trailers are kept for as long as more of them come.
            self._besides += len(data)
            if self._besides > MOST_HEAD:
                self._end(fault(431, f"more than {MOST_HEAD} bytes besides the body", Connection="close"))
                return
        if self._rows is not None and self._rows.slow is None:
            self._rows.slow = self.loop.call_later(PATIENCE, self._too_slow)

    def on_body(self, body: bytes) -> None:
        self._besides -= 2 * len(body)
        if self._rows is None:
            super().on_body(body)
        else:
            self._rows.parts.append(body)

    def on_message_complete(self) -> None:
        rows, self._rows = self._rows, None
        if rows is None:
            super().on_message_complete()
            return
        if rows.slow is not None:
            rows.slow.cancel()
        self.transport.write(self._answer(b"".join(rows.parts), rows.allowed))
        self.on_response_complete()

    def _answer(self, body: bytes, allowed: str | None) -> bytes:
        try:
            found = self._taker.taken(body, allowed)
        except Exception:
            log.exception("rows of an agent could not be taken")
            found = fault(500, "this went wrong here; the log tells how")
        if isinstance(found, Response):
            return _written(found)
        return TAKEN % (NUMBER + len(str(found)), found)

    def _too_slow(self) -> None:
        self._rows = None
        self._end(fault(408, f"the body took more than {PATIENCE:g} s", Connection="close"))

    def _end(self, answer: Response) -> None:
        """Answers, and hears no more."""
        if not self.transport.is_closing():
            self.transport.write(_written(answer))
            self.transport.close()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread = self.loop.call_later(UNREAD, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._read()

    def _read(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def connection_lost(self, exc: Exception | None) -> None:
        rows, self._rows = self._rows, None
        if rows is not None and rows.slow is not None:
            rows.slow.cancel()
        self._asked()
        self._read()
        self.porch.leave(self)
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self.pipeline:
            self.porch.rest(self)

    def _asked(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
            self._asking = None


def _written(answer: Response) -> bytes:
    """An answer in one piece, so that it goes out in one."""
    head = f"HTTP/1.1 {answer.status_code} {HTTPStatus(answer.status_code).phrase}\r\n".encode()
    lines = [name + b": " + value + b"\r\n" for name, value in answer.raw_headers]
    return b"".join([head, *lines, b"\r\n", bytes(answer.body)])


def _common_name(certificate: dict[str, Any]) -> str:
    parts = [pair for group in certificate.get("subject", ()) for pair in group]
    return next((value for name, value in parts if name == "commonName"), "")
