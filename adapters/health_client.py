"""Client for schedulers and routers that asks a controller for the health of a node, GPU, group or replica.

It needs only the standard library and caches answers for some seconds. Without an answer in time, or with one that is
old or rests on no telemetry, the score is None: unknown is never reported as healthy.
"""

import http.client
import json
import os
import socket
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from skewscope.adapters.config.tls_context import ClientTls, client_context

MAX_RESPONSE_BYTES = 1 << 20
"""Limit on a response."""
MAX_OVERVIEW_BYTES = 64 << 20
"""Limit on a response with all entities."""
OVERVIEW_TIMEOUT = 5.0
"""Least seconds for a response with all entities."""
MAX_TOKEN = 4096
DEFAULT_URL = "http://127.0.0.1:8470"
IT_IS_GONE = "it is gone"
MAX_CACHED = 100_000
"""Limit on cached answers."""


@dataclass(frozen=True, slots=True)
class HealthAnswer:
    """Health of a node, GPU, group or replica."""

    kind: str
    name: str
    score: float | None = None
    """1: healthy, 0: unusable; None: unknown, never to be taken for either."""
    reasons: tuple[Mapping[str, Any], ...] = ()
    """What lowers the score, worst first: condition, entity, severity, confidence, incident."""
    coverage: float | None = None
    """Share of the expected telemetry of its nodes and its engine that arrives."""
    age: float | None = None
    """Age of the answer in seconds; None where unknown."""
    trouble: str = ""
    """Why the score is unknown; '' where it is known."""
    placement: float | None = None
    """Of `query_all`: score for ranking places; an unknown place is placed like most, never as the worst; one that is
    gone has 0."""
    is_gone: bool = False
    """Whether it was there and is not any more; its score is unknown then."""

    @property
    def state(self) -> str:
        """`well`, `ill` (a diagnosis lowers the score), `unknown` or `gone`."""
        if self.is_gone:
            return "gone"
        return "unknown" if self.score is None else "ill" if self.reasons else "well"

    @property
    def known(self) -> bool:
        """Whether the score is known."""
        return self.score is not None

    def at_least(self, score: float) -> bool:
        """Returns whether the score is known and at least this high."""
        return self.score is not None and self.score >= score


@dataclass(frozen=True, slots=True)
class HealthOverview:
    """Health of all entities of a fleet."""

    answers: tuple[HealthAnswer, ...] = ()
    """The worst first; those whose score is unknown last."""
    age: float | None = None
    """Age of the answer in seconds; None where there is none."""
    trouble: str = ""
    """Why there is no answer; '' where there is one."""

    def find(self, kind: str, name: str) -> HealthAnswer:
        """Returns the health of an entity; unknown where it is not among the answers."""
        missing = HealthAnswer(kind, name, trouble=self.trouble or "not among the answers")
        return next((one for one in self.answers if (one.kind, one.name) == (kind, name)), missing)


@dataclass
class Health:
    """Client of one controller; thread-safe.

    Raises:
        ValueError: the address is none, or there is a token without an address.
    """

    url: str = ""
    """Address of the controller; '' for the one at its usual port on this host, to which no token is sent."""
    token: str = field(default="", repr=False)
    timeout: float = 0.5
    """Seconds for an answer, from connecting to the last byte."""
    cache_time: float = 2.0
    """Seconds that an answer, or the lack of one, is cached."""
    max_age: float = 30.0
    """Age in seconds from which an answer counts as unknown."""
    ca_file: str = ""
    """CA file that verifies the server's certificate; '' for the system's."""
    _cache: dict[tuple[str, str], tuple[float, HealthAnswer]] = field(default_factory=dict, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def __post_init__(self) -> None:
        if self.token and not self.url:
            raise ValueError("a token without an address: it is sent only to an address that is named with it")
        self.url = self.url or DEFAULT_URL
        split = urlsplit(self.url)
        if split.scheme not in ("http", "https") or not split.hostname:
            raise ValueError(f"{self.url!r} is not the address of a controller; write http://HOST:PORT")

    @classmethod
    def from_environment(cls, **more: Any) -> "Health":
        """Returns a client for SKEWSCOPE_URL with the token of SKEWSCOPE_TOKEN_FILE or SKEWSCOPE_TOKEN.

        Raises:
            OSError: the file cannot be read.
            ValueError: the address is none, or there is a token without an address.
        """
        url, file = os.environ.get("SKEWSCOPE_URL", ""), os.environ.get("SKEWSCOPE_TOKEN_FILE", "")
        token = os.environ.get("SKEWSCOPE_TOKEN", "")
        if file:
            with Path(file).open(encoding="ascii") as opened:
                token = opened.read(MAX_TOKEN).strip()
        if token and not url:
            raise ValueError("a token without SKEWSCOPE_URL: it is sent only to an address named with it")
        return cls(url, token, ca_file=os.environ.get("SSL_CERT_FILE", ""), **more)

    def query(self, kind: str, name: str) -> HealthAnswer:
        """Returns the health of a `node`, `gpu` (as `n3/gpu0`), `group` or `replica`; never raises."""
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

    def query_all(self, below: float | None = None, kind: str = "") -> HealthOverview:
        """Returns the health of all nodes, GPUs, groups and replicas in one call; never raises, caches nothing.

        Args:
            below: only entities whose known score is lower; None for all.
            kind: only `node`, `gpu`, `group` or `replica`; '' for all.
        """
        wanted = {"kind": kind} | ({} if below is None else {"below": f"{below:g}"})
        query = urlencode({name: value for name, value in wanted.items() if value})
        try:
            status, data = self._fetch(
                f"/api/v1/health?{query}", max(self.timeout, OVERVIEW_TIMEOUT), MAX_OVERVIEW_BYTES
            )
            if status != 200:
                return HealthOverview(trouble=f"the answer {status}: {str(data.get('error', ''))[:200]}")
            age = float(data["age_s"])
            if not 0.0 <= age <= self.max_age:
                return HealthOverview(trouble=f"what the controller knows is {age:.0f} s old")
            return HealthOverview(tuple(_parse_entity(one, age) for one in data["entities"]), age)
        except (OSError, http.client.HTTPException, ValueError, TypeError, KeyError, RecursionError) as error:
            return HealthOverview(trouble=f"no answer ({str(error)[:200] or type(error).__name__})")

    def _query_controller(self, kind: str, name: str) -> HealthAnswer:
        unknown = HealthAnswer(kind, name)
        try:
            status, data = self._fetch(f"/api/v1/health/{quote(kind, safe='')}/{quote(name, safe='')}")
            if status != 200:
                return replace(unknown, trouble=f"the answer {status}: {str(data.get('error', ''))[:200]}")
            return self._parse_answer(unknown, data)
        except (OSError, http.client.HTTPException, ValueError, TypeError, KeyError, RecursionError) as error:
            return replace(unknown, trouble=f"no answer ({str(error)[:200] or type(error).__name__})")

    def _parse_answer(self, unknown: HealthAnswer, data: Mapping[str, Any]) -> HealthAnswer:
        """Parses an answer; the score stays unknown where it is old or rests on no telemetry."""
        score = None if data["score"] is None else float(data["score"])
        age, coverage = float(data["age_s"]), data["coverage"]
        is_sound = age >= 0.0 and (score is None or 0.0 <= score <= 1.0)
        if (data["kind"], data["name"]) != (unknown.kind, unknown.name) or not is_sound:
            raise ValueError("an answer to another query")
        reasons = tuple(dict(reason) for reason in data["reasons"])
        found = replace(unknown, reasons=reasons, coverage=None if coverage is None else float(coverage), age=age)
        if age > self.max_age:
            return replace(found, age=None, trouble=f"what the controller knows is {age:.0f} s old")
        if data.get("state") == "gone":
            return replace(found, is_gone=True, trouble=IT_IS_GONE)
        if score is None or (not found.coverage and not reasons):
            return replace(found, age=None, trouble="no telemetry comes from there")
        return replace(found, score=score)

    def _fetch(
        self, path: str, timeout: float | None = None, most: int = MAX_RESPONSE_BYTES
    ) -> tuple[int, dict[str, Any]]:
        """Returns status and content of a response of at most so many bytes."""
        split, timeout = urlsplit(self.url), self.timeout if timeout is None else timeout
        connection = self._connect(split.scheme, split.netloc, timeout)
        over = threading.Event()
        connection.connect()
        # A server that sends a byte now and then stays below every socket timeout, but not below this one.
        watch = threading.Timer(timeout, _abort, (connection.sock, over))
        watch.daemon = True
        watch.start()
        try:
            headers = {"Accept": "application/json"} | ({"Authorization": f"Bearer {self.token}"} if self.token else {})
            connection.request("GET", split.path.rstrip("/") + path, headers=headers)
            answer = connection.getresponse()
            text = answer.read(most)
            if over.is_set():
                raise TimeoutError(f"not within {timeout:g} s")
            data = json.loads(text)
            return answer.status, data if isinstance(data, dict) else {}
        finally:
            watch.cancel()
            connection.close()

    def _connect(self, scheme: str, where: str, timeout: float) -> http.client.HTTPConnection:
        where = where.rpartition("@")[2]
        if scheme == "http":
            return http.client.HTTPConnection(where, timeout=timeout)
        context = client_context(ClientTls(self.ca_file))
        return http.client.HTTPSConnection(where, timeout=timeout, context=context)


def _parse_entity(data: Mapping[str, Any], age: float) -> HealthAnswer:
    """Returns the health of one entity of an overview.

    Raises:
        KeyError, TypeError, ValueError: it is not of that form.
    """
    score, placement, coverage = (
        None if data[key] is None else float(data[key]) for key in ("score", "placement", "coverage")
    )
    if placement is None or not all(0.0 <= one <= 1.0 for one in (placement, placement if score is None else score)):
        raise ValueError("a score that is not between 0 and 1")
    reasons = tuple(dict(reason) for reason in data["reasons"])
    is_gone = data.get("state") == "gone"
    trouble = IT_IS_GONE if is_gone else "no telemetry comes from there" if score is None else ""
    return HealthAnswer(
        str(data["kind"]), str(data["name"]), score, reasons, coverage, age, trouble, placement, is_gone=is_gone
    )


def _abort(sock: socket.socket, over: threading.Event) -> None:
    over.set()
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        return
