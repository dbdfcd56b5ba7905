"""An HTTP server on loopback, in its own threads, for the duration of a test."""

import json
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import SHUT_RDWR, socket
from typing import Any

POLL = 0.02
"""Seconds after which it sees at the latest that it is to end."""


@dataclass(frozen=True)
class Asked:
    """A request."""

    method: str
    path: str
    headers: dict[str, str]
    """By names in small letters."""
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Says:
    """An answer."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


class Server(ThreadingHTTPServer):
    """Sends the answers of a function; None ends the connection without an answer."""

    daemon_threads = True

    def __init__(self, answer: Callable[[Asked], Says | None], address: tuple[str, int] = ("127.0.0.1", 0)) -> None:
        super().__init__(address, _Handler)
        self.answer = answer
        self._clients: list[socket] = []
        threading.Thread(target=self.serve_forever, args=(POLL,), daemon=True).start()

    @property
    def place(self) -> str:
        """Returns HOST:PORT."""
        return f"{self.server_address[0]}:{self.server_port}"

    @property
    def url(self) -> str:
        return f"http://{self.place}"

    def process_request(self, request: socket, client_address: object) -> None:
        self._clients.append(request)
        super().process_request(request, client_address)

    def handle_error(self, request: Any, client_address: object) -> None:
        """Passes over clients that went away: a traceback in this thread disturbs `ast` in others (CPython 106905)."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    def close(self) -> None:
        """Closes the server and its open connections."""
        self.shutdown()
        self.server_close()
        for client in self._clients:
            with suppress(OSError):
                client.shutdown(SHUT_RDWR)

    def __exit__(self, *_: object) -> None:
        self.close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {name.lower(): text for name, text in self.headers.items()}
        says = self.server.answer(Asked(self.command, self.path, headers, body))
        if says is None:
            self.close_connection = True
            return
        self.send_response(says.status)
        for name, text in says.headers.items():
            self.send_header(name, text)
        self.send_header("Content-Length", str(len(says.body)))
        self.end_headers()
        self.wfile.write(says.body)

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815 - the names that the library looks for

    def log_message(self, *_: object) -> None:
        pass
