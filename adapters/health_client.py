"""What schedulers and routers ask before they place work: how well is this node, group or replica?

The standard library is all it needs. An answer is kept for some seconds. Where nobody answers in time, where the answer
is old or rests on no telemetry, nothing is known: that is never told as health.
"""

import http.client
import json
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote, urlsplit

MAX_RESPONSE_BYTES = 1 << 20
"""Bytes of an answer."""
MAX_CACHED = 100_000
"""Answers that are kept."""


@dataclass(frozen=True, slots=True)
class HealthAnswer:
    """How well something is, as far as anybody knows."""

    kind: str
    name: str
    score: float | None = None
    """1 in health, 0 unusable; None where nothing is known."""
    reasons: tuple[Mapping[str, Any], ...] = ()
    """What takes away from it, worst first: condition, entity, severity, confidence, incident."""
    coverage: float | None = None
    """Share of the telemetry of its nodes that comes."""
    age: float | None = None
    """Seconds since that was so; None where nothing is known."""
    trouble: str = ""
    """Why nothing is known; '' where it is."""

    @property
    def known(self) -> bool:
        """Whether there is a score."""
        return self.score is not None

    def at_least(self, score: float) -> bool:
        """Whether it is known to be this well."""
        return self.score is not None and self.score >= score


@dataclass
class Health:
    """Asks one controller. Any thread may use it."""

    url: str = "http://127.0.0.1:8470"
    token: str = field(default="", repr=False)
    timeout: float = 0.5
    """Seconds for an answer, from knocking to its last byte."""
    cache_time: float = 2.0
    """Seconds that an answer is kept, and that nobody is asked again where none came."""
    max_age: float = 30.0
    """Seconds after which what was true is not known to be any more."""
    ca_file: str = ""
    """File of the authorities that a server's certificate is checked against; '' for the system's."""
    _cache: dict[tuple[str, str], tuple[float, HealthAnswer]] = field(default_factory=dict, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def __post_init__(self) -> None:
        split = urlsplit(self.url)
        if split.scheme not in ("http", "https") or not split.hostname:
            raise ValueError(f"{self.url!r} is no address of a controller; write http://HOST:PORT")

    def query(self, kind: str, name: str) -> HealthAnswer:
        """How well a `node`, `group` or `replica` is; never raises."""
        now, key = time.monotonic(), (kind, name)
        with self._lock:
            kept = self._cache.get(key)
        if kept is not None and now - kept[0] < self.cache_time:
            at, found = kept
            return found if found.age is None else replace(found, age=found.age + now - at)
        found = self._query_controller(kind, name)
        with self._lock:
            if len(self._cache) >= MAX_CACHED:
                self._cache.clear()
            self._cache[key] = (time.monotonic(), found)
        return found

    def _query_controller(self, kind: str, name: str) -> HealthAnswer:
        unknown = HealthAnswer(kind, name)
        try:
            status, told = self._fetch(f"/api/v1/health/{quote(kind, safe='')}/{quote(name, safe='')}")
            if status != 200:
                return replace(unknown, trouble=f"the answer {status}: {str(told.get('error', ''))[:200]}")
            return self._parse_answer(unknown, told)
        except (OSError, http.client.HTTPException, ValueError, TypeError, KeyError, RecursionError) as error:
            return replace(unknown, trouble=f"no answer ({str(error)[:200] or type(error).__name__})")

    def _parse_answer(self, unknown: HealthAnswer, told: Mapping[str, Any]) -> HealthAnswer:
        """What an answer says, where it says anything."""
        score, age, coverage = float(told["score"]), float(told["age_s"]), told["coverage"]
        if (told["kind"], told["name"]) != (unknown.kind, unknown.name) or not (0.0 <= score <= 1.0 and age >= 0.0):
            raise ValueError("an answer to something else")
        reasons = tuple(dict(reason) for reason in told["reasons"])
        found = replace(unknown, reasons=reasons, coverage=None if coverage is None else float(coverage), age=age)
        if age > self.max_age:
            return replace(found, age=None, trouble=f"what the controller knows is {age:.0f} s old")
        if not found.coverage and not reasons:
            return replace(found, age=None, trouble="no telemetry comes from there")
        return replace(found, score=score)

    def _fetch(self, path: str) -> tuple[int, dict[str, Any]]:
        """Status and content of an answer."""
        split = urlsplit(self.url)
        connection = self._connect(split.scheme, split.netloc)
        over = threading.Event()
        connection.connect()
        # A server that sends a byte now and then keeps every single wait short, and all of them long.
        watch = threading.Timer(self.timeout, _abort, (connection.sock, over))
        watch.daemon = True
        watch.start()
        try:
            headers = {"Accept": "application/json"} | ({"Authorization": f"Bearer {self.token}"} if self.token else {})
            connection.request("GET", split.path.rstrip("/") + path, headers=headers)
            answer = connection.getresponse()
            text = answer.read(MAX_RESPONSE_BYTES)
            if over.is_set():
                raise TimeoutError(f"not within {self.timeout:g} s")
            told = json.loads(text)
            return answer.status, told if isinstance(told, dict) else {}
        finally:
            watch.cancel()
            connection.close()

    def _connect(self, scheme: str, where: str) -> http.client.HTTPConnection:
        where = where.rpartition("@")[2]
        if scheme == "http":
            return http.client.HTTPConnection(where, timeout=self.timeout)
        context = ssl.create_default_context(cafile=self.ca_file or None)
        return http.client.HTTPSConnection(where, timeout=self.timeout, context=context)


def _abort(sock: socket.socket, over: threading.Event) -> None:
    over.set()
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        return
