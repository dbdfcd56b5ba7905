"""A simulated fleet played live: pages of Prometheus text over HTTP, each number as old as its exporter leaves it.

`/metrics` has everything, `/metrics/dcgm` what dcgm-exporter tells, and so on; `/topology.yaml` says whose it is. Pages
hold the labels that a scrape would add, for all nodes are behind one address: a scraper is to honour them, as those of
a federation.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import AF_INET, AF_INET6
from socketserver import TCPServer
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skewscope.adapters.formats.exposition import ESCAPES
from skewscope.adapters.formats.topology_text import format_topology
from skewscope.adapters.mapping.names import HISTOGRAM_PARTS
from skewscope.adapters.simulator.exporters import source_of
from skewscope.adapters.simulator.recording_writer import ExportedSeries
from skewscope.engine.ingest.feed import Block, SeriesKey
from skewscope.engine.model.topology import Topology
from skewscope.kb.model import Catalogue, Signal

METRICS_PATH = "/metrics"
TOPOLOGY_PATH = "/topology.yaml"
CANONICAL_PAGE = "skewscope"
"""The page of what has canonical names."""
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
MAX_SERIES = 250_000
"""More make a page of which no scraper wants to hear: some 400 nodes."""
MAX_AT_ONCE = 16
"""Requests; further ones are turned away."""
CLIENT_TIMEOUT = 10.0
"""Seconds that a client may take to ask, or to read on."""
LOOPBACK = "127.0.0.1"


class MetricFamily(NamedTuple):
    """All series of one metric, as they stand on a page."""

    comment: str
    numbers: NDArray[np.intp]
    series_texts: list[str]
    """Name and labels of each."""


class ExporterPages:
    """The newest number of each series, as text."""

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
        """In which tick each was told last."""
        self._periods = np.array([periods[source_of(key.signal)] for key in keys])
        self._tick = 0
        self._lock = threading.Lock()
        self._families = _build_families(keys, series, catalogue)
        self._rendered: dict[str, tuple[int, bytes]] = {}

    @property
    def paths(self) -> tuple[str, ...]:
        """Where pages are, that of everything first."""
        return tuple(self._families)

    def update(self, block: Block) -> None:
        """Learns what was told in the second that ended."""
        with self._lock:
            self._tick += 1
            self._values[block.series] = block.value / self._scales[block.series]
            self._last_ticks[block.series] = self._tick

    def render(self, path: str) -> bytes | None:
        """A page, made once a tick however many ask; None where there is none."""
        if path not in self._families:
            return None
        with self._lock:
            tick, found = self._rendered.get(path, (-1, b""))
            if tick != self._tick:
                found = "".join(self._render_lines(self._families[path])).encode()
                self._rendered[path] = self._tick, found
            return found

    def _render_lines(self, families: Iterable[MetricFamily]) -> Iterator[str]:
        """What an exporter did not tell again by its next turn is gone."""
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
    """The families of each page, by its path; those of one page in the order of their names."""
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
    """The metric's name: where a recording has a signal's id, its canonical one."""
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
    told = (f'{name}="{value.translate(ESCAPES)}"' for name, value in labels.items() if name != "signal")
    return metric + "{" + ",".join(told) + "}"


# --- serving


class SimulatorServer(ThreadingHTTPServer):
    """Answers a bounded number of requests at a time."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], pages: ExporterPages, topology: Topology) -> None:
        self.address_family = AF_INET6 if ":" in address[0] else AF_INET
        self._pages = pages
        self._fixed = {TOPOLOGY_PATH: format_topology(topology).encode()}
        self._fixed["/"] = "".join(f"{path}\n" for path in (*pages.paths, TOPOLOGY_PATH)).encode()
        self._slots = threading.BoundedSemaphore(MAX_AT_ONCE)
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        """Binds without asking for the host's full name, which may take long."""
        TCPServer.server_bind(self)

    @property
    def url(self) -> str:
        """Of everything."""
        host, port = self.server_address[:2]
        return f"http://{f'[{host!s}]' if ':' in str(host) else host!s}:{port}{METRICS_PATH}"

    def page(self, path: str) -> bytes | None:
        """What is at a path, None where nothing is."""
        return self._fixed.get(path) or self._pages.render(path)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Turns a request away where too many are being answered."""
        if not self._slots.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._slots.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answers one request."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._slots.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news."""


class _Handler(BaseHTTPRequestHandler):
    server: SimulatorServer
    timeout = CLIENT_TIMEOUT
    server_version = "skewscope"
    sys_version = ""

    def do_GET(self) -> None:
        """One page."""
        found = self.server.page(self.path.partition("?")[0])
        self.send_response(404 if found is None else 200)
        body = b"no such page\n" if found is None else found
        self.send_header("Content-Type", CONTENT_TYPE)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as the base has it
        """Nobody reads who asked."""


@contextmanager
def serve_in_background(server: SimulatorServer) -> Iterator[None]:
    """The server answers while the block runs, and is closed after it."""
    with server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()


def play(blocks: Iterable[Block], pages: ExporterPages, wait: Callable[[float], object] = time.sleep) -> None:
    """Shows each second's samples when its time has come."""
    began = time.monotonic()
    for second, block in enumerate(blocks):
        wait(max(began + second - time.monotonic(), 0.0))
        pages.update(block)


def parse_address(text: str) -> tuple[str, int]:
    """Host and port of `HOST:PORT`; a port alone is of this machine only.

    Raises:
        ValueError: it is neither.
    """
    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdigit() and len(port) <= 5 and int(port) < 1 << 16):
        raise ValueError(f"{text!r} ends on no port")
    return host.removeprefix("[").removesuffix("]") or LOOPBACK, int(port)
