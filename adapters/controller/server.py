"""The HTTP server: authenticates before answering, and has rows of agents read in a thread of their own."""

import asyncio
import logging
import math
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
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route as StarletteRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from skewscope.adapters.controller.agent_receiver import (
    ForeignNodeError,
    OverShareError,
    ReceiverBusyError,
    RowsMovedError,
    UnknownTablesError,
)
from skewscope.adapters.controller.api import ROUTES, ApiContext
from skewscope.adapters.controller.auth import AccessControl, Caller, DeniedError
from skewscope.adapters.controller.body_budget import BodyBudget, BodyReservation
from skewscope.adapters.controller.config import ListenConfig, TlsConfig
from skewscope.adapters.controller.connection_limit import ConnectionLimit
from skewscope.adapters.controller.controller import Controller
from skewscope.adapters.controller.fair_worker import FairWorker, WorkerFullError
from skewscope.adapters.controller.http_helpers import ACCESS_KEY, CALLER_KEY, error_response
from skewscope.adapters.controller.incident_pages import PageRenderer, login_page, wants_page
from skewscope.adapters.controller.protocol import PEER_KEY, REQUEST_TIMEOUT, HttpConnection, RowsSender
from skewscope.adapters.controller.route import Route
from skewscope.adapters.controller.shared_work import WorkRefusedError
from skewscope.adapters.controller.store_place import StoreError
from skewscope.adapters.controller.tls import TlsHandshake
from skewscope.adapters.formats.row_protocol import MAX_PACKED_BYTES, ROWS_PATH, BadRowsError, unpacked_size
from skewscope.adapters.sources.common import push_receiver
from skewscope.kb.problems import InputError, SkewscopeError

KEEP_ALIVE = 75
"""Seconds that a connection may be idle: agents keep theirs."""
MAX_CONNECTIONS = 20_000
RESERVED_CONNECTIONS = 64
"""Connections above the limit for health checks and metrics; other requests on them are answered with 503."""
BACKLOG = 2048
MAX_PUSHED = 16 << 20
"""Maximum encoded bytes of a push."""

MAX_INFLIGHT_BYTES = 256 << 20
"""Maximum total bytes of bodies in progress."""


class ClientGoneError(Exception):
    """The client left in the middle of its body; it reads no answer."""


class TooLargeError(Exception):
    """A body above the limit."""

    def __init__(self, most: int) -> None:
        super().__init__(f"more than {most} bytes")


ERROR_STATUS: dict[type[Exception], int] = {
    ForeignNodeError: 403,
    BadRowsError: 400,
    TooLargeError: 413,
    ClientGoneError: 400,
    ReceiverBusyError: 503,
    OverShareError: 503,
    push_receiver.InvalidBodyError: 400,
    push_receiver.PushQueueFullError: 503,
    WorkerFullError: 503,
}
BUSY_ERRORS = (ReceiverBusyError, push_receiver.PushQueueFullError, WorkerFullError)
LATE_ERRORS = (OverShareError, push_receiver.PushQueueFullError, WorkerFullError)
"""What is answered only after a while: a sender that has sent too much and does not wait would ask again at once, and
each answer takes time from others."""
REFUSAL_DELAY_S = 1.0
"""Seconds before these answers."""

SECONDS_A_BYTE = 5e-8
"""What a byte of an unpacked body is expected to take; a body with all series of an agent takes about so much."""

log = logging.getLogger(__name__)


@dataclass
class ControllerApp:
    """The ASGI application."""

    controller: Controller
    pages: PageRenderer | None = None
    """Renders pages for browsers; None where there are none."""
    access_control: AccessControl = field(init=False)
    body_budget: BodyBudget = field(default_factory=lambda: BodyBudget(MAX_INFLIGHT_BYTES))
    _rows_worker: FairWorker = field(init=False)
    """Reads rows; senders with much to read wait while a tick is judged."""
    _context: ApiContext = field(init=False)
    _asgi_app: ASGIApp = field(init=False)

    def __post_init__(self) -> None:
        self.access_control = AccessControl(self.controller.config, lambda: self.controller.config.topology)
        self._start_worker()
        self.controller.receiver.others = self._rows_worker
        context = self._context = ApiContext(self.controller, self.controller.reader, pages=self.pages)
        routes = [
            StarletteRoute(route.pattern, self._endpoint(route, context), methods=[route.method]) for route in ROUTES
        ]
        self._asgi_app = Starlette(routes=routes, exception_handlers={HTTPException: _route_error})

    def _start_worker(self) -> None:
        self._rows_worker = FairWorker("rows", is_yielding=lambda: self.controller.is_judging)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request."""
        posted = scope["type"] == "http" and scope["method"] == "POST"
        if posted and scope["path"] == ROWS_PATH:
            await (await self._receive_push(scope, receive, self._receive_rows_body))(scope, receive, send)
        elif posted and (source := self.controller.supervisor.receiver_at(scope["path"])) is not None:
            await (await self._receive_push(scope, receive, partial(self._receive_source_push, source)))(
                scope, receive, send
            )
        else:
            await self._asgi_app(scope, receive, send)

    def _endpoint(self, route: Route, context: ApiContext) -> Any:
        async def answer(request: Request) -> Response:
            try:
                self._check_host(request.scope)
                if route.role:
                    check = request.scope[ACCESS_KEY] = partial(self._authorise, route, request.scope)
                    request.scope[CALLER_KEY] = check()
                return await route.handler(request, context)
            except DeniedError as error:
                if route.is_page and wants_page(request):
                    return login_page(401, request.url.path)
                return _denial_response(error)
            except WorkRefusedError as error:
                return error_response(503, str(error), **{"Retry-After": "1"})
            except ClientDisconnect:
                return error_response(400, "the client left in the middle of its body")
            except (StoreError, sqlite3.Error, InputError) as error:
                return error_response(
                    503, f"nothing was changed: {error}" if route.method != "GET" else f"the store: {error}"
                )

        return answer

    def _authorise(self, route: Route, scope: Scope) -> Caller:
        """Returns who asks for a route.

        Raises:
            DeniedError: the caller may not use it.
        """
        caller = self._authenticate_reader(scope) if route.is_page else self._authenticate(scope)
        self.access_control.authorise(caller, route.role, agents=route.allows_agents)
        return caller

    def renew_access(self) -> None:
        """Applies the tokens of the present config, to answers that are under way too."""
        self.access_control = AccessControl(self.controller.config, lambda: self.controller.config.topology)
        self._context.wake_streams()

    def _check_host(self, scope: Scope) -> None:
        if not self.access_control.is_allowed_host(_get_header(scope, b"host")):
            raise DeniedError("unknown Host header; use the address of the controller", known=True)

    def _authenticate(self, scope: Scope) -> Caller:
        return self.access_control.authenticate(_get_header(scope, b"authorization"), scope.get(PEER_KEY, ""))

    def _authenticate_reader(self, scope: Scope) -> Caller:
        """Returns who reads a page: by a token, or by the session of a browser."""
        if _get_header(scope, b"authorization"):
            return self._authenticate(scope)
        session = self._context.sessions.authorization(_get_header(scope, b"cookie"), self.controller.clock.uptime())
        return self.access_control.authenticate(session, scope.get(PEER_KEY, ""))

    def authorise_sender(self, scope: Scope) -> str | None:
        """Returns the node that a sender of rows may report for; None for any.

        Raises:
            DeniedError: it may not send rows here.
        """
        self._check_host(scope)
        return self.access_control.sender_node(self._authenticate(scope))

    def submit_rows(self, body: bytes, sender: RowsSender, done: Callable[[int | Response], None]) -> None:
        """Has rows of an agent read in another thread; calls `done` on the event loop with what it is to be told.

        That is the highest received sequence number, or an error answer.
        """
        # Who may report for every node is told apart by connection.
        key = sender.connection if sender.node is None else sender.node
        receive, seconds = partial(self.receive_rows, body, sender.node), SECONDS_A_BYTE * unpacked_size(body)
        try:
            self._rows_worker.submit(key, receive, partial(_pass_rows, done), seconds)
        except WorkerFullError as error:
            _pass_rows(done, error)

    def receive_rows(self, body: bytes, allowed: str | None) -> int | Response:
        """Receives rows of an agent; returns the highest received sequence number or an error answer.

        Raises:
            OverShareError: the sender has sent more than its share.
        """
        try:
            return self.controller.receiver.receive(body, allowed)
        except OverShareError:
            raise
        except UnknownTablesError as error:
            return JSONResponse({"unknown": error.tables}, 409)
        except RowsMovedError as error:
            return Response(status_code=307, headers={"Location": f"{error.url}{ROWS_PATH}"})
        except tuple(ERROR_STATUS) as error:
            return _error_response(error)

    def close(self) -> None:
        """Ends the thread that reads rows."""
        self._rows_worker.close()

    async def _receive_push(self, scope: Scope, receive: Receive, take: "PushHandler") -> Response:
        """Handles a push with the errors that all pushes share."""
        try:
            allowed = self.authorise_sender(scope)
            async with asyncio.timeout(REQUEST_TIMEOUT):
                return await take(scope, receive, allowed)
        except DeniedError as error:
            return _denial_response(error)
        except TimeoutError:
            return error_response(408, f"the body took more than {REQUEST_TIMEOUT:g} s")
        except tuple(ERROR_STATUS) as error:
            if isinstance(error, LATE_ERRORS):
                await asyncio.sleep(REFUSAL_DELAY_S)
            return _error_response(error)

    async def _receive_rows_body(self, scope: Scope, receive: Receive, allowed: str | None) -> Response:
        """Receives rows of an agent on the ASGI path (see `protocol`)."""
        answered: asyncio.Future[int | Response] = asyncio.get_running_loop().create_future()
        with self.body_budget.reserve(allowed) as place:
            body = await _read_body(scope, receive, MAX_PACKED_BYTES, place)
            self.submit_rows(body, RowsSender(allowed, answered), lambda found: _resolve(answered, found))
            found = await answered
        return found if isinstance(found, Response) else JSONResponse({"taken": found})

    async def _receive_source_push(
        self, source: push_receiver.PushReceiver, scope: Scope, receive: Receive, allowed: str | None
    ) -> Response:
        """Receives a push to a source of the whole fleet."""
        if allowed is not None:
            raise DeniedError("this needs an agent's token for every node ('*')", known=True)
        with self.body_budget.reserve(allowed) as place:
            return await self._pass_to_source(source, scope, await _read_body(scope, receive, MAX_PUSHED, place))

    async def _pass_to_source(self, source: push_receiver.PushReceiver, scope: Scope, body: bytes) -> Response:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        reply = await source.take(body, headers)
        return Response(reply.body or None, reply.status, dict(reply.headers))


PushHandler = Callable[[Scope, Receive, str | None], Awaitable[Response]]
"""Receives a push of a sender limited to a node, or to none."""


def _get_header(scope: Scope, name: bytes) -> str:
    return next((value.decode("latin-1") for key, value in scope["headers"] if key == name), "")


async def _read_body(scope: Scope, receive: Receive, most: int, place: BodyReservation) -> bytes:
    payload = _get_header(scope, b"content-length")
    if payload.isdigit() and int(payload[:12]) > most:
        raise TooLargeError(most)
    parts, size = [], 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGoneError
        parts.append(message.get("body", b""))
        place.add(len(parts[-1]))
        size += len(parts[-1])
        if size > most:
            raise TooLargeError(most)
        if not message.get("more_body"):
            return parts[0] if len(parts) == 1 else b"".join(parts)


def _pass_rows(done: Callable[[int | Response], None], found: int | Response | Exception) -> None:
    """Passes on what became of a body; to a sender that sends too much only after a while."""
    if isinstance(found, LATE_ERRORS):
        asyncio.get_running_loop().call_later(REFUSAL_DELAY_S, done, _error_response(found))
        return
    if isinstance(found, Exception):
        log.error("error while receiving rows of an agent", exc_info=found)
        found = error_response(500, "internal error; see the log")
    done(found)


def _resolve(answered: "asyncio.Future[int | Response]", found: int | Response) -> None:
    if not answered.done():  # Whoever waited for it may be gone.
        answered.set_result(found)


def _error_response(error: Exception) -> Response:
    wait = error.wait if isinstance(error, ReceiverBusyError) else 1.0
    later = {"Retry-After": f"{math.ceil(wait)}"} if isinstance(error, BUSY_ERRORS) else {}
    return error_response(ERROR_STATUS[type(error)], str(error), **later)


def _denial_response(error: DeniedError) -> Response:
    if error.known:
        return error_response(403, str(error))
    return error_response(401, str(error), **{"WWW-Authenticate": "Bearer"})


async def _route_error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return error_response(error.status_code, error.detail, **(error.headers or {}))


class ControllerServer(uvicorn.Server):
    """Leaves signals to the process, and tracks all connections, including unfinished TLS handshakes."""

    connection_limit: ConnectionLimit

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Starts to serve on sockets."""
        await self.lifespan.startup()
        # At this number uvicorn itself refuses requests.
        most = max((self.config.limit_concurrency or MAX_CONNECTIONS) - 1, 1)
        self.connection_limit = ConnectionLimit(most, RESERVED_CONNECTIONS)
        serve = asyncio.get_running_loop().create_server
        self.servers = [
            await serve(self._create_protocol, sock=handshake, backlog=BACKLOG) for handshake in sockets or ()
        ]
        self.started = True

    def _create_protocol(self) -> asyncio.Protocol:
        inner = HttpConnection(self.config, self.server_state, self.lifespan.state)
        inner.connection_limit = self.connection_limit
        return TlsHandshake(inner, self.config.ssl, self.connection_limit) if self.config.ssl else inner

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stops the server without waiting for unfinished handshakes."""
        for who in self.connection_limit.idle_connections:
            if isinstance(who, TlsHandshake):
                who.abort()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Captures no signals."""
        yield


def open_socket(listen: ListenConfig) -> socket.socket:
    """Opens a listening socket.

    Raises:
        SkewscopeError: the address is not available.
    """
    family = socket.AF_INET6 if ":" in listen.host else socket.AF_INET
    # asyncio sets TCP_NODELAY only if the protocol is named; otherwise agents would wait 40 ms.
    handshake = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        handshake.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        handshake.bind((listen.host, listen.port))
        handshake.listen(BACKLOG)
    except OSError as error:
        handshake.close()
        where = f"{listen.host}:{listen.port}"
        raise SkewscopeError(f"Cannot listen on {where}: {error.strerror}. Is another controller running?") from None
    return handshake


def max_connections() -> int:
    """Returns the connection limit: a quarter of the process's descriptors is reserved for files and other sockets."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    return MAX_CONNECTIONS if soft == resource.RLIM_INFINITY else min(MAX_CONNECTIONS, max(soft * 3 // 4, 1))


def create_server(app: ControllerApp, tls: TlsConfig | None) -> ControllerServer:
    """Creates the server of an application; it runs until its `should_exit` is set."""
    settings = uvicorn.Config(
        app,
        http=HttpConnection,
        proxy_headers=False,
        ws="none",
        lifespan="off",
        interface="asgi3",
        access_log=False,
        log_config=None,
        server_header=False,
        date_header=False,
        limit_concurrency=max_connections(),
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=3,
        ssl_certfile=tls.certificate if tls else None,
        ssl_keyfile=tls.key if tls else None,
        ssl_ca_certs=(tls.clients or None) if tls else None,
        ssl_cert_reqs=ssl.CERT_OPTIONAL if tls and tls.clients else ssl.CERT_NONE,
    )
    return ControllerServer(settings)
