"""Pages of exporters on the node, fetched and parsed here, so that only numbers travel."""

import http.client
import io
import logging
import ssl
import threading
from collections.abc import Callable, Iterator, Sequence
from http import HTTPStatus
from time import monotonic
from urllib.parse import urlsplit

from skewscope.adapters.agent.config import Target
from skewscope.adapters.agent.files import Troubles
from skewscope.adapters.agent.kernel import Sample
from skewscope.adapters.names import Intake, Names
from skewscope.adapters.openmetrics import Exposition
from skewscope.engine.feed import SeriesKey
from skewscope.kb.problems import InputError

log = logging.getLogger("skewscope.agent")

MOST_REMEMBERED = 8 << 20
"""Bytes of label text; beyond it all is forgotten and learned anew."""
CHUNK = 1 << 16
ACCEPT = "application/openmetrics-text;version=1.0.0;q=0.9,text/plain;version=0.0.4"
OLD = 2.0
"""Periods: a sample that says it is older than that is left out."""
MOST_TOLD = 20
"""Metrics without a place that are named in the log, page by page."""

Tell = Callable[[float, Sequence[Sample]], None]
Fetch = Callable[[Target], bytes]


def fetch(target: Target) -> bytes:
    """A page.

    Raises:
        OSError, http.client.HTTPException: nobody gives one, or a larger one than allowed.
    """
    parts = urlsplit(target.url)
    host = parts.hostname or ""
    made = _secure(host, parts.port, target) if parts.scheme == "https" else _plain(host, parts.port, target)
    try:
        path = (parts.path or "/metrics") + (f"?{parts.query}" if parts.query else "")
        made.request("GET", path, headers={"Accept": ACCEPT})
        answer = made.getresponse()
        if answer.status != HTTPStatus.OK:
            raise http.client.HTTPException(f"it answers {answer.status}")
        return b"".join(_bounded(answer, target))
    finally:
        made.close()


def _plain(host: str, port: int | None, target: Target) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(host, port, timeout=target.timeout)


def _secure(host: str, port: int | None, target: Target) -> http.client.HTTPConnection:
    return http.client.HTTPSConnection(host, port, timeout=target.timeout, context=ssl.create_default_context())


def _bounded(answer: http.client.HTTPResponse, target: Target) -> Iterator[bytes]:
    """The parts of a page that ends: after some bytes, and after some time, however it trickles."""
    size, end = 0, monotonic() + target.timeout
    while part := answer.read1(CHUNK):
        size += len(part)
        if size > target.most_bytes:
            raise http.client.HTTPException(f"a page of more than {target.most_bytes} bytes")
        if monotonic() > end:
            raise TimeoutError(f"a page that was not complete after {target.timeout:g} s")
        yield part


class Relay:
    """One page, fetched every so often in a thread of its own."""

    def __init__(self, target: Target, node: str, names: Names, troubles: Troubles, tell: Tell) -> None:
        self.target = target
        self._node = node
        self._names = names
        self._troubles = troubles
        self._tell = tell
        self._up = SeriesKey("host.up", "node", node, f"source={urlsplit(target.url).netloc}".replace(",", "%2C"))
        self._forget()
        self._stop = threading.Event()

    def _forget(self) -> None:
        self._intake = Intake()
        static = {**dict(self.target.labels), "node": self._node}
        self._exposition = Exposition(self._names.known(static, self._intake))
        self._best: dict[tuple[str, str, str], int] = {}
        self._ranked = 0

    def start(self, clock: Callable[[], float]) -> None:
        """Begins to fetch."""
        threading.Thread(target=self._run, args=(clock,), name=f"relay {self.target.url}", daemon=True).start()

    def stop(self) -> None:
        """Ends after the fetch that may be under way."""
        self._stop.set()

    def _run(self, clock: Callable[[], float]) -> None:
        period = self.target.period
        while not self._stop.wait(period - clock() % period):
            now = clock()
            samples = self.read(now)
            if not self._stop.is_set():
                self._tell(now, samples)

    def read(self, now: float, fetch: Fetch = fetch) -> list[Sample]:
        """What the page says now, and whether it answered."""
        try:
            samples = list(self._samples(fetch(self.target), now))
        except (OSError, http.client.HTTPException, InputError, ValueError) as error:
            self._troubles.note(self.target.url, str(error).partition("\n")[0])
            return [(self._up, 0.0)]
        return [*samples, (self._up, 1.0)]

    def _samples(self, page: bytes, now: float) -> Iterator[Sample]:
        first = not self._intake.keys
        block = self._exposition.read(io.BytesIO(page), self.target.url, now)
        self._rank()
        if first and self._intake.unmapped:
            most = sorted({metric for metric, _ in self._intake.unmapped})
            log.info("%s: %d metrics have no place, among them %s", self.target.url, len(most), most[:MOST_TOLD])
        keys, ranks = self._intake.keys, self._intake.ranks
        for time, number, value in zip(block.time.tolist(), block.series.tolist(), block.value.tolist(), strict=True):
            key = keys[number]
            if ranks[number] == self._best[_subject(key)] and now - time <= OLD * self.target.period:
                yield key, value
        if self._exposition.remembered > MOST_REMEMBERED:
            self._forget()

    def _rank(self) -> None:
        """By which name each signal of an entity comes: the one that the catalogue lists first."""
        for number in range(self._ranked, len(self._intake.keys)):
            subject, rank = _subject(self._intake.keys[number]), self._intake.ranks[number]
            self._best[subject] = min(rank, self._best.get(subject, rank))
        self._ranked = len(self._intake.keys)


def _subject(key: SeriesKey) -> tuple[str, str, str]:
    return key.signal, key.kind, key.entity
