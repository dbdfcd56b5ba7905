"""The HTTP server: who asks is known before anything is answered, and rows of agents take the shortest way."""

import asyncio
import resource
import socket
import sqlite3
import ssl
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route as StarletteRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from skewscope.adapters.controller.agents import BusyError, ForeignNodeError, UnknownTablesError
from skewscope.adapters.controller.answers import CALLER, fault
from skewscope.adapters.controller.api import ROUTES, Route, Site
from skewscope.adapters.controller.auth import DeniedError, Gate
from skewscope.adapters.controller.config import Listen, Tls
from skewscope.adapters.controller.controller import Controller
from skewscope.adapters.controller.door import Handshake
from skewscope.adapters.controller.porch import Porch
from skewscope.adapters.controller.protocol import PATIENCE, PEER, Connection
from skewscope.adapters.controller.store import Reader, StoreError
from skewscope.adapters.sources import pushed
from skewscope.adapters.wire_rows import MOST_PACKED, PATH, BadRowsError
from skewscope.kb.problems import InputError, SkewscopeError

IDLE = 75
"""Seconds that a connection may wait for its next request: agents keep theirs."""
MOST_CONNECTIONS = 20_000
BACKLOG = 2048
MOST_PUSHED = 16 << 20
"""Bytes that are taken of who is no agent, as they travel."""

MOST_UNDER_WAY = 256 << 20
"""Bytes of bodies that are coming in or waiting to be read."""


class TooLargeError(Exception):
    """A body that is larger than anybody sends."""

    def __init__(self, most: int) -> None:
        super().__init__(f"more than {most} bytes")


STATUS: dict[type[Exception], int] = {
    ForeignNodeError: 403,
    BadRowsError: 400,
    TooLargeError: 413,
    BusyError: 503,
    pushed.UnfitError: 400,
    pushed.BusyError: 503,
}
BUSY = (BusyError, pushed.BusyError)


@dataclass
class Room:
    """How many bytes of bodies may be under way at a time, of all senders together."""

    most: int
    taken: int = 0

    @contextmanager
    def guest(self) -> Iterator[Callable[[int], None]]:
        """What takes room for so many more bytes of a body; all of it is given back in the end.

        Raises:
            pushed.BusyError: there is none, when it is called.
        """
        mine = 0

        def more(size: int) -> None:
            nonlocal mine
            if self.taken + size > self.most:
                raise pushed.BusyError("too many bodies at once")
            mine += size
            self.taken += size

        try:
            yield more
        finally:
            self.taken -= mine


@dataclass
class App:
    """Answers requests."""

    controller: Controller
    gate: Gate = field(init=False)
    _room: Room = field(default_factory=lambda: Room(MOST_UNDER_WAY))
    _site: ASGIApp = field(init=False)

    def __post_init__(self) -> None:
        self.gate = Gate(self.controller.config)
        site = Site(self.controller, Reader(self.controller.config.store))
        routes = [StarletteRoute(route.path, self._answering(route, site), methods=[route.method]) for route in ROUTES]
        self._site = Starlette(routes=routes, exception_handlers={HTTPException: _no_route})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        posted = scope["type"] == "http" and scope["method"] == "POST"
        if posted and scope["path"] == PATH:
            await (await self._received(scope, receive, self._rows))(scope, receive, send)
        elif posted and (source := self.controller.supervisor.receiving(scope["path"])) is not None:
            await (await self._received(scope, receive, partial(self._pushed, source)))(scope, receive, send)
        else:
            await self._site(scope, receive, send)

    def _answering(self, route: Route, site: Site) -> Any:
        async def answer(request: Request) -> Response:
            try:
                self._host(request.scope)
                if route.role:
                    caller = request.scope[CALLER] = self._caller(request.scope)
                    self.gate.admit(caller, route.role, agents=route.agents)
                return await route.answer(request, site)
            except DeniedError as error:
                return _denied(error)
            except (StoreError, sqlite3.Error, InputError) as error:
                return fault(503, f"nothing was changed: {error}" if route.method != "GET" else f"the store: {error}")

        return answer

    def _host(self, scope: Scope) -> None:
        if not self.gate.hosted(_header(scope, b"host")):
            raise DeniedError("this host is not served; ask for it by its address", known=True)

    def _caller(self, scope: Scope) -> Any:
        return self.gate.caller(_header(scope, b"authorization"), scope.get(PEER, ""))

    def admitted(self, scope: Scope) -> str | None:
        """The node that a sender of rows may speak for; None for any.

        Raises:
            DeniedError: it may not send any, or not here.
        """
        self._host(scope)
        return self.gate.node(self._caller(scope))

    def taken(self, body: bytes, allowed: str | None) -> int | Response:
        """Takes rows of an agent; gives the highest sequence taken so far, or what is to be answered instead."""
        try:
            return self.controller.receiver.take(body, allowed)
        except UnknownTablesError as error:
            return JSONResponse({"unknown": error.tables}, 409)
        except tuple(STATUS) as error:
            return _refused(error)

    async def _received(self, scope: Scope, receive: Receive, take: "Take") -> Response:
        """Lets somebody push."""
        try:
            allowed = self.admitted(scope)
            async with asyncio.timeout(PATIENCE):
                return await take(scope, receive, allowed)
        except DeniedError as error:
            return _denied(error)
        except TimeoutError:
            return fault(408, f"the body took more than {PATIENCE:g} s")
        except tuple(STATUS) as error:
            return _refused(error)

    async def _rows(self, scope: Scope, receive: Receive, allowed: str | None) -> Response:
        """Takes rows of an agent that came the long way (see `protocol`)."""
        with self._room.guest() as place:
            found = self.taken(await _body(scope, receive, MOST_PACKED, place), allowed)
        return found if isinstance(found, Response) else JSONResponse({"taken": found})

    async def _pushed(self, source: pushed.Receiving, scope: Scope, receive: Receive, allowed: str | None) -> Response:
        """Takes what somebody pushes to a source that speaks of the whole fleet."""
        if allowed is not None:
            raise DeniedError("this needs an agent's token for every node ('*')", known=True)
        with self._room.guest() as place:
            return await self._read(source, scope, await _body(scope, receive, MOST_PUSHED, place))

    async def _read(self, source: pushed.Receiving, scope: Scope, body: bytes) -> Response:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        reply = await source.take(body, headers)
        return Response(reply.body or None, reply.status, dict(reply.headers))


Take = Callable[[Scope, Receive, str | None], Awaitable[Response]]
"""Takes what is pushed by who may speak for a node, or for all."""


def _header(scope: Scope, name: bytes) -> str:
    return next((value.decode("latin-1") for key, value in scope["headers"] if key == name), "")


async def _body(scope: Scope, receive: Receive, most: int, place: Callable[[int], None]) -> bytes:
    told = _header(scope, b"content-length")
    if told.isdigit() and int(told[:12]) > most:
        raise TooLargeError(most)
    parts, size = [], 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return b""
        parts.append(message.get("body", b""))
        place(len(parts[-1]))
        size += len(parts[-1])
        if size > most:
            raise TooLargeError(most)
        if not message.get("more_body"):
            return parts[0] if len(parts) == 1 else b"".join(parts)


def _refused(error: Exception) -> Response:
    later = {"Retry-After": "1"} if isinstance(error, BUSY) else {}
    return fault(STATUS[type(error)], str(error), **later)


def _denied(error: DeniedError) -> Response:
    if error.known:
        return fault(403, str(error))
    return fault(401, str(error), **{"WWW-Authenticate": "Bearer"})


async def _no_route(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return fault(error.status_code, error.detail, **(error.headers or {}))


class Server(uvicorn.Server):
    """Leaves signals to the process, and knows all who are connected, those too whose TLS has still to begin."""

    porch: Porch

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begins to serve on sockets."""
        await self.lifespan.startup()
        # At as many as this uvicorn itself turns requests away.
        self.porch = Porch(max((self.config.limit_concurrency or MOST_CONNECTIONS) - 1, 1))
        serve = asyncio.get_running_loop().create_server
        self.servers = [await serve(self._coming, sock=door, backlog=BACKLOG) for door in sockets or ()]
        self.started = True

    def _coming(self) -> asyncio.Protocol:
        inner = Connection(self.config, self.server_state, self.lifespan.state)
        inner.porch = self.porch
        return Handshake(inner, self.config.ssl, self.porch) if self.config.ssl else inner

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Ends; who has not ended its handshake is not waited for."""
        for who in self.porch.resting:
            if isinstance(who, Handshake):
                who.abort()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Takes none."""
        yield


def listening(listen: Listen) -> socket.socket:
    """A socket that waits for connections.

    Raises:
        SkewscopeError: there is none to be had at this address.
    """
    family = socket.AF_INET6 if ":" in listen.host else socket.AF_INET
    # Only where the protocol is named does asyncio send each part of an answer at once; agents would wait 40 ms else.
    door = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        door.bind((listen.host, listen.port))
        door.listen(BACKLOG)
    except OSError as error:
        door.close()
        where = f"{listen.host}:{listen.port}"
        raise SkewscopeError(f"Cannot listen on {where}: {error.strerror}. Is another controller running?") from None
    return door


def most_connections() -> int:
    """How many there may be at a time: files, sources and tellers need a quarter of what the process may open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    return MOST_CONNECTIONS if soft == resource.RLIM_INFINITY else min(MOST_CONNECTIONS, max(soft * 3 // 4, 1))


def server(app: App, tls: Tls | None) -> Server:
    """What serves an application on sockets that it is given, until its `should_exit` is set."""
    settings = uvicorn.Config(
        app,
        http=Connection,
        proxy_headers=False,
        ws="none",
        lifespan="off",
        interface="asgi3",
        access_log=False,
        log_config=None,
        server_header=False,
        date_header=False,
        limit_concurrency=most_connections(),
        timeout_keep_alive=IDLE,
        timeout_graceful_shutdown=3,
        ssl_certfile=tls.certificate if tls else None,
        ssl_keyfile=tls.key if tls else None,
        ssl_ca_certs=(tls.clients or None) if tls else None,
        ssl_cert_reqs=ssl.CERT_OPTIONAL if tls and tls.clients else ssl.CERT_NONE,
    )
    return Server(settings)
