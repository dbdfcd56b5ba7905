"""HTTP server of the agent: `/metrics` as OpenMetrics text, and `/healthz`."""

import threading
from collections.abc import Callable, Iterable, Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import AF_INET, AF_INET6, socket
from typing import Any, NamedTuple

import numpy as np

from skewscope.adapters.agent.tables import RowTable
from skewscope.adapters.formats.exposition import ESCAPES, format_exposition
from skewscope.adapters.runtime.tasks import start_thread
from skewscope.engine.ingest.feed import Block, SeriesTable, concat_blocks, empty_block
from skewscope.kb.model import Catalogue

CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"
MAX_AT_ONCE = 4
"""Maximum concurrent requests; further ones are refused."""
CLIENT_TIMEOUT = 5.0
"""Seconds per client."""


class SelfMetric(NamedTuple):
    """A metric of the agent itself."""

    name: str
    """Name without the prefix `skewscope_agent_`."""
    type: str
    help: str
    values: tuple[tuple[tuple[tuple[str, str], ...], float], ...]
    """Labels and value of each series."""


def render_metrics(tables: Iterable[RowTable], own: Iterable[SelfMetric], catalogue: Catalogue) -> str:
    """Returns the page: the newest row of each table under canonical names, then the agent's own metrics."""
    series = SeriesTable()
    blocks = [_newest_block(table, series) for table in tables]
    lines = list(format_exposition(concat_blocks(blocks) if blocks else empty_block(), series, catalogue))
    return "".join([*lines[:-1], *(line for one in own for line in _render_self_metric(one)), lines[-1]])


def _newest_block(table: RowTable, series: SeriesTable) -> Block:
    some = np.flatnonzero(~np.isnan(table.values))
    numbers = np.array([series.number(table.keys[column]) for column in some], np.int32)
    return Block(np.full(len(some), table.time), numbers, table.values[some])


def _render_self_metric(one: SelfMetric) -> Iterator[str]:
    name = f"skewscope_agent_{one.name}"
    yield f"# TYPE {name} {one.type}\n# HELP {name} {one.help}\n"
    for labels, value in one.values:
        inner = ",".join(f'{label}="{text.translate(ESCAPES)}"' for label, text in labels)
        yield name + ("_total" if one.type == "counter" else "") + (f"{{{inner}}}" if inner else "") + f" {value!r}\n"


class MetricsProviders(NamedTuple):
    """Callbacks for the content of the pages."""

    metrics: Callable[[], str]
    health: Callable[[], tuple[bool, str]]
    """Returns whether the agent is healthy, and a line of text."""


class MetricsServer(ThreadingHTTPServer):
    """Serves both pages to a few clients at once."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], answers: MetricsProviders) -> None:
        self.address_family = AF_INET6 if ":" in address[0] else AF_INET
        self.providers = answers
        self._slots = threading.BoundedSemaphore(MAX_AT_ONCE)
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Handles a request in a thread if one is available."""
        if self._slots.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Handles one client."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._slots.release()

    def handle_error(self, request: socket | tuple[bytes, socket], client_address: Any) -> None:
        """Ignores clients that disconnect."""

    def start(self) -> None:
        """Starts to serve."""
        start_thread("metrics page", self.serve_forever)

    def stop(self) -> None:
        """Stops serving."""
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    timeout = CLIENT_TIMEOUT
    server: MetricsServer

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/metrics":
            self._send(HTTPStatus.OK, CONTENT_TYPE, self.server.providers.metrics())
        elif path == "/healthz":
            well, line = self.server.providers.health()
            status = HTTPStatus.OK if well else HTTPStatus.SERVICE_UNAVAILABLE
            self._send(status, "text/plain; charset=utf-8", line + "\n")
        else:
            self._send(HTTPStatus.NOT_FOUND, "text/plain", "available: /metrics and /healthz\n")

    def _send(self, status: HTTPStatus, kind: str, body: str) -> None:
        data = body.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Logs nothing per request."""
