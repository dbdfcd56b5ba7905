"""A controller in small: takes what agents push, keeps it, and answers as the contract wants."""

import json
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import SHUT_RDWR, socket

from skewscope.adapters.wire_rows import Announced, Hello, Row, decode
from skewscope.engine.feed import SeriesKey


class Taken:
    """What was taken, and what is known of series."""

    def __init__(self) -> None:
        self.rows: dict[int, tuple[float, dict[SeriesKey, float]]] = {}
        """Time and values by sequence."""
        self.tables: dict[tuple[str, int], dict[int, SeriesKey]] = {}

    def take(self, body: bytes) -> tuple[int, bytes]:
        """Status and text of the answer."""
        frames = list(decode(body))
        hello = frames[0]
        assert isinstance(hello, Hello)
        unknown, last = set(), 0
        for frame in frames:
            if isinstance(frame, Announced):
                self._announced(hello.boot, frame)
            elif isinstance(frame, Row):
                columns = self.tables.get((hello.boot, frame.table), {})
                if not columns.keys() >= set(range(len(frame.values))):
                    unknown.add(frame.table)
                elif not unknown:
                    some = {columns[n]: v for n, v in enumerate(frame.values.tolist()) if v == v}
                    self.rows[frame.sequence] = (frame.time, some)
                    last = frame.sequence
        if unknown:
            return 409, json.dumps({"unknown": sorted(unknown)}).encode()
        return 200, json.dumps({"taken": last}).encode()

    def _announced(self, boot: str, frame: Announced) -> None:
        columns = self.tables.setdefault((boot, frame.table), {})
        columns.update(enumerate(frame.series, frame.first))

    def values(self, signal: str) -> list[float]:
        """All values of a signal, in the order in which they were sent."""
        return [v for _, (_, row) in sorted(self.rows.items()) for key, v in row.items() if key.signal == signal]


class Receiver(Taken):
    """Listens on a port until it is closed; what it knows of series is gone with it, as after a restart."""

    def __init__(self, address: tuple[str, int] = ("127.0.0.1", 0), topology: str = "") -> None:
        super().__init__()
        self.tokens: set[str] = set()
        self.paths: list[str] = []
        self.topology = topology
        self._clients: list[socket] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.tokens.add(self.headers.get("Authorization", ""))
                self._send(*receiver.take(body))

            def do_GET(self) -> None:
                receiver.paths.append(self.path)
                if self.headers.get("If-None-Match") == '"1"':
                    self._send(304, b"")
                else:
                    self._send(200 if receiver.topology else 404, receiver.topology.encode())

            def _send(self, status: int, body: bytes) -> None:
                self.send_response(status)
                self.send_header("ETag", '"1"')
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def process_request(self, request: socket, client_address: object) -> None:
                receiver._clients.append(request)
                super().process_request(request, client_address)

        self._server = Server(address, Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        host, port = self._server.server_address[:2]
        return f"http://{host}:{port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        for client in self._clients:
            with suppress(OSError):
                client.shutdown(SHUT_RDWR)
