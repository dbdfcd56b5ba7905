"""A server that answers requests of clients of a controller, and keeps what it was asked."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Asked:
    """One request."""

    method: str
    path: str
    token: str
    body: Any = None
    content_type: str = ""


Answer = Callable[[Asked], tuple[int, Any]]
"""Returns status and JSON value."""


@contextmanager
def serve_api(answer: Answer) -> Iterator[tuple[str, list[Asked]]]:
    """Yields the address of a server on the loopback and the list of its requests."""
    asked: list[Asked] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            text = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            kind = self.headers.get("Content-Type", "")
            token = self.headers.get("Authorization", "")
            asked.append(Asked(self.command, self.path, token, json.loads(text) if text else None, kind))
            status, value = answer(asked[-1])
            body = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_DELETE = do_PATCH = do_GET  # noqa: N815

        def log_message(self, *_args: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
