"""Relays pages of exporters on the node: fetched and parsed locally, so that only numbers are sent."""

import http.client
import io
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from http import HTTPStatus
from time import monotonic
from urllib.parse import urlsplit

from skewscope.adapters.agent.collectors.counter_names import Sample
from skewscope.adapters.agent.collectors.kernel_files import ReadFailures
from skewscope.adapters.agent.config import RelayTarget
from skewscope.adapters.config.tls_context import ClientTls, client_context
from skewscope.adapters.formats.openmetrics import ExpositionReader
from skewscope.adapters.mapping.names import MetricResolver, SeriesRegistry
from skewscope.adapters.runtime.tasks import start_thread
from skewscope.engine.ingest.feed import SeriesKey
from skewscope.kb.problems import InputError

log = logging.getLogger("skewscope.agent")

MAX_REMEMBERED = 8 << 20
"""Maximum cached bytes of label text; beyond it the cache is cleared."""
CHUNK = 1 << 16
ACCEPT = "application/openmetrics-text;version=1.0.0;q=0.9,text/plain;version=0.0.4"
MAX_AGE_PERIODS = 2.0
"""Periods: samples with an older timestamp are omitted."""
MAX_LOGGED = 20
"""Unmapped metrics named in the log, page by page."""

EmitSamples = Callable[[float, Sequence[Sample]], None]
Fetch = Callable[[RelayTarget], bytes]


def fetch(target: RelayTarget) -> bytes:
    """Fetches a page.

    Raises:
        OSError, http.client.HTTPException: there is no page, or it is too large.
    """
    parts = urlsplit(target.url)
    host = parts.hostname or ""
    made = (
        _https_connection(host, parts.port, target)
        if parts.scheme == "https"
        else _http_connection(host, parts.port, target)
    )
    try:
        path = (parts.path or "/metrics") + (f"?{parts.query}" if parts.query else "")
        made.request("GET", path, headers={"Accept": ACCEPT})
        answer = made.getresponse()
        if answer.status != HTTPStatus.OK:
            raise http.client.HTTPException(f"it answers {answer.status}")
        return b"".join(_read_chunks(answer, target))
    finally:
        made.close()


def _http_connection(host: str, port: int | None, target: RelayTarget) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(host, port, timeout=target.timeout)


def _https_connection(host: str, port: int | None, target: RelayTarget) -> http.client.HTTPConnection:
    return http.client.HTTPSConnection(host, port, timeout=target.timeout, context=client_context(ClientTls()))


def _read_chunks(answer: http.client.HTTPResponse, target: RelayTarget) -> Iterator[bytes]:
    """Yields the chunks of a page, limited in bytes and in total time."""
    size, end = 0, monotonic() + target.timeout
    while part := answer.read1(CHUNK):
        size += len(part)
        if size > target.max_bytes:
            raise http.client.HTTPException(f"a page of more than {target.max_bytes} bytes")
        if monotonic() > end:
            raise TimeoutError(f"a page that was not complete after {target.timeout:g} s")
        yield part


class PageRelay:
    """One page, fetched periodically in a thread of its own."""

    def __init__(
        self, target: RelayTarget, node: str, names: MetricResolver, troubles: ReadFailures, tell: EmitSamples
    ) -> None:
        self.target = target
        self._node = node
        self._names = names
        self._failures = troubles
        self._emit = tell
        self._up = SeriesKey("host.up", "node", node, f"source={urlsplit(target.url).netloc}".replace(",", "%2C"))
        self._forget()
        self._stop = threading.Event()

    def _forget(self) -> None:
        self._registry = SeriesRegistry()
        static = {**dict(self.target.labels), "node": self._node}
        self._exposition = ExpositionReader(self._names.target_lookup(static, self._registry))
        self._best_rank: dict[tuple[str, str, str], int] = {}
        self._ranked_count = 0

    def start(self, clock: Callable[[], float]) -> None:
        """Starts the thread."""
        start_thread(f"relay {self.target.url}", partial(self._run, clock))

    def stop(self) -> None:
        """Stops after the present fetch."""
        self._stop.set()

    def _run(self, clock: Callable[[], float]) -> None:
        period = self.target.period
        while not self._stop.wait(period - clock() % period):
            now = clock()
            samples = self.read(now)
            if not self._stop.is_set():
                self._emit(now, samples)

    def read(self, now: float, fetch: Fetch = fetch) -> list[Sample]:
        """Returns the samples of the page."""
        try:
            samples = list(self._parse_page(fetch(self.target), now))
        except (OSError, http.client.HTTPException, InputError, ValueError) as error:
            self._failures.note(self.target.url, str(error).partition("\n")[0])
            return [(self._up, 0.0)]
        return [*samples, (self._up, 1.0)]

    def _parse_page(self, page: bytes, now: float) -> Iterator[Sample]:
        first = not self._registry.keys
        block = self._exposition.read(io.BytesIO(page), self.target.url, now)
        self._update_ranks()
        if first and self._registry.unmapped:
            most = sorted({metric for metric, _ in self._registry.unmapped})
            log.info("%s: %d unmapped metrics, among them %s", self.target.url, len(most), most[:MAX_LOGGED])
        keys, ranks = self._registry.keys, self._registry.ranks
        for time, number, value in zip(block.time.tolist(), block.series.tolist(), block.value.tolist(), strict=True):
            key = keys[number]
            if (
                ranks[number] == self._best_rank[_signal_of_entity(key)]
                and now - time <= MAX_AGE_PERIODS * self.target.period
            ):
                yield key, value
        if self._exposition.cached_bytes > MAX_REMEMBERED:
            self._forget()

    def _update_ranks(self) -> None:
        """Updates which name delivers each signal of an entity: the first one in the catalogue."""
        for number in range(self._ranked_count, len(self._registry.keys)):
            subject, rank = _signal_of_entity(self._registry.keys[number]), self._registry.ranks[number]
            self._best_rank[subject] = min(rank, self._best_rank.get(subject, rank))
        self._ranked_count = len(self._registry.keys)


def _signal_of_entity(key: SeriesKey) -> tuple[str, str, str]:
    return key.signal, key.kind, key.entity
