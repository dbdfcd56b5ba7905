"""Serves a simulated fleet live: pages of Prometheus text over HTTP, updated at each exporter's period.

`/metrics` has everything, `/metrics/dcgm` the metrics of dcgm-exporter, and so on; `/topology.yaml` is the topology.
Pages contain the labels that a scrape would add, since all nodes share one address: a scraper must honour them, as with
federation.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import AF_INET, AF_INET6
from socketserver import TCPServer
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skewscope.adapters.formats.exposition import ESCAPES
from skewscope.adapters.formats.topology_text import format_topology
from skewscope.adapters.mapping.names import HISTOGRAM_PARTS
from skewscope.adapters.runtime.tasks import start_thread
from skewscope.adapters.simulator.exporters import source_of
from skewscope.adapters.simulator.recording_writer import ExportedSeries
from skewscope.engine.ingest.feed import Block, SeriesKey
from skewscope.engine.model.topology import Topology
from skewscope.kb.model import Catalogue, Signal

METRICS_PATH = "/metrics"
TOPOLOGY_PATH = "/topology.yaml"
CANONICAL_PAGE = "skewscope"
"""Page of metrics with canonical names."""
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
MAX_SERIES = 250_000
"""Maximum series; more make a page that scrapers refuse: some 400 nodes."""
MAX_AT_ONCE = 16
"""Maximum concurrent requests; further ones are refused."""
CLIENT_TIMEOUT = 10.0
"""Seconds for a client to send a request or to read the answer."""
LOOPBACK = "127.0.0.1"


class MetricFamily(NamedTuple):
    """All series of one metric, as text."""

    comment: str
    numbers: NDArray[np.intp]
    series_texts: list[str]
    """Name and labels of each series."""


class ExporterPages:
    """The newest value of each series, as text."""

    def __init__(
        self,
        keys: Sequence[SeriesKey],
        series: Sequence[ExportedSeries],
        catalogue: Catalogue,
        periods: Mapping[str, float],
    ) -> None:
        self._values = np.zeros(len(keys))
        self._scales = np.array([one.scale for one in series])
        self._last_ticks = np.full(len(keys), -np.inf)
        """[series] float64 tick of the newest value."""
        self._periods = np.array([periods[source_of(key.signal)] for key in keys])
        self._tick = 0
        self._lock = threading.Lock()
        self._families = _build_families(keys, series, catalogue)
        self._rendered: dict[str, tuple[int, bytes]] = {}

    @property
    def paths(self) -> tuple[str, ...]:
        """Paths of all pages, the one with everything first."""
        return tuple(self._families)

    def update(self, block: Block) -> None:
        """Updates the values with the second that ended."""
        with self._lock:
            self._tick += 1
            self._values[block.series] = block.value / self._scales[block.series]
            self._last_ticks[block.series] = self._tick

    def render(self, path: str) -> bytes | None:
        """Returns a page, rendered once per tick; None if there is none."""
        if path not in self._families:
            return None
        with self._lock:
            tick, found = self._rendered.get(path, (-1, b""))
            if tick != self._tick:
                found = "".join(self._render_lines(self._families[path])).encode()
                self._rendered[path] = self._tick, found
            return found

    def _render_lines(self, families: Iterable[MetricFamily]) -> Iterator[str]:
        """Yields lines; a value that its exporter did not repeat within a period is omitted."""
        there = self._tick - self._last_ticks < self._periods
        for family in families:
            shown = np.flatnonzero(there[family.numbers])
            if len(shown):
                yield family.comment
            values = self._values[family.numbers[shown]].tolist()
            yield from (
                f"{family.series_texts[n]} {value!r}\n" for n, value in zip(shown.tolist(), values, strict=True)
            )


def _build_families(
    keys: Sequence[SeriesKey], series: Sequence[ExportedSeries], catalogue: Catalogue
) -> dict[str, list[MetricFamily]]:
    """Returns the metric families of each page, by path; those of one page by name."""
    signals = [catalogue.signals[key.signal] for key in keys]
    heads = []
    found: dict[str, dict[str, list[int]]] = {METRICS_PATH: {}}
    for number, (key, one, signal) in enumerate(zip(keys, series, signals, strict=True)):
        metric = _metric_name(key, one, signal)
        heads.append(_series_text(metric, one.labels))
        for path in (METRICS_PATH, f"{METRICS_PATH}/{one.exporter or CANONICAL_PAGE}"):
            found.setdefault(path, {}).setdefault(_family_name(metric, signal), []).append(number)
    return {
        path: [
            MetricFamily(
                _family_comment(name, signals[numbers[0]]), np.array(numbers, np.intp), [heads[n] for n in numbers]
            )
            for name, numbers in sorted(names.items())
        ]
        for path, names in found.items()
    }


def _metric_name(key: SeriesKey, one: ExportedSeries, signal: Signal) -> str:
    """Returns the metric's name: the canonical one where a recording has a signal's id."""
    name = one.labels["signal"]
    if name != key.signal:
        return name
    return signal.metric.removesuffix("_total") + "_total" if signal.type == "counter" else signal.metric


def _family_name(metric: str, signal: Signal) -> str:
    part = metric.rpartition("_")[2] if signal.type == "histogram" else ""
    return metric.removesuffix(f"_{part}") if part in HISTOGRAM_PARTS else metric


def _family_comment(family: str, signal: Signal) -> str:
    kind = signal.type if signal.type in {"counter", "gauge", "histogram"} else "gauge"
    return f"# HELP {family} {signal.name}\n# TYPE {family} {kind}\n"


def _series_text(metric: str, labels: Mapping[str, str]) -> str:
    reported = (f'{name}="{value.translate(ESCAPES)}"' for name, value in labels.items() if name != "signal")
    return metric + "{" + ",".join(reported) + "}"


# --- server


class SimulatorServer(ThreadingHTTPServer):
    """Handles a limited number of requests at a time."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], pages: ExporterPages, topology: Topology) -> None:
        self.address_family = AF_INET6 if ":" in address[0] else AF_INET
        self._pages = pages
        self._fixed = {TOPOLOGY_PATH: format_topology(topology).encode()}
        self._fixed["/"] = "".join(f"{path}\n" for path in (*pages.paths, TOPOLOGY_PATH)).encode()
        self._slots = threading.BoundedSemaphore(MAX_AT_ONCE)
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        """Binds without resolving the host's full name, which may take long."""
        TCPServer.server_bind(self)

    @property
    def url(self) -> str:
        """URL of the page with everything."""
        host, port = self.server_address[:2]
        return f"http://{f'[{host!s}]' if ':' in str(host) else host!s}:{port}{METRICS_PATH}"

    def page(self, path: str) -> bytes | None:
        """Returns the page at a path, None if there is none."""
        return self._fixed.get(path) or self._pages.render(path)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Refuses a request above the limit."""
        if not self._slots.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._slots.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Handles one request."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._slots.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores clients that disconnect."""


class _Handler(BaseHTTPRequestHandler):
    server: SimulatorServer
    timeout = CLIENT_TIMEOUT
    server_version = "skewscope"
    sys_version = ""

    def do_GET(self) -> None:
        """Answers with a page."""
        found = self.server.page(self.path.partition("?")[0])
        self.send_response(404 if found is None else 200)
        body = b"no such page\n" if found is None else found
        self.send_header("Content-Type", CONTENT_TYPE)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as the base has it
        """Logs nothing per request."""


@contextmanager
def serve_in_background(server: SimulatorServer) -> Iterator[None]:
    """Serves in a thread while the block runs."""
    with server:
        thread = start_thread("simulator", partial(server.serve_forever, poll_interval=0.1))
        try:
            yield
        finally:
            server.shutdown()
            thread.join()


def play(blocks: Iterable[Block], pages: ExporterPages, wait: Callable[[float], object] = time.sleep) -> None:
    """Publishes each second's samples at its time."""
    began = time.monotonic()
    for second, block in enumerate(blocks):
        wait(max(began + second - time.monotonic(), 0.0))
        pages.update(block)


def parse_address(text: str) -> tuple[str, int]:
    """Parses `HOST:PORT`; a port alone is on loopback.

    Raises:
        ValueError: it is neither.
    """
    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdigit() and len(port) <= 5 and int(port) < 1 << 16):
        raise ValueError(f"{text!r} does not end with a port")
    return host.removeprefix("[").removesuffix("]") or LOOPBACK, int(port)
