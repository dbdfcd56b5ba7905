"""Pushes rows to one controller: queued while it is away, sent in order, with announcements on request.

The controller of a large fleet redirects to the shard of the node. The rows go there until it fails or sends the agent
away; then the controller is asked again.

A thread of its own sends, so that a slow controller never delays a tick.
"""

import http.client
import json
import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Protocol
from urllib.parse import urlsplit

from skewscope.adapters.formats.row_protocol import ROWS_PATH, HelloFrame, RowFrame, SeriesFrame, WireFrame, encode
from skewscope.adapters.runtime.channel import Channel, ControllerEndpoint, ControllerResponse
from skewscope.adapters.runtime.tasks import start_thread
from skewscope.engine.ingest.feed import SeriesKey

log = logging.getLogger("skewscope.agent")

MAX_BATCH = 1 << 20
"""Maximum bytes of rows per body."""
MIN_BACKOFF, MAX_BACKOFF = 0.5, 30.0
"""Seconds before the next attempt, doubled each time."""
MAX_ERROR_TEXT = 200
"""Maximum characters of a controller's error text."""
ROW_OVERHEAD = 200
"""Bytes of memory per row besides its numbers."""
MAX_MOVES = 3
"""Redirections in a row that are followed."""
QUICK_RETRIES = 12
"""Attempts in a row after a shard failed that are not delayed more and more: it is back after a second or two."""
_MOVED = (HTTPStatus.TEMPORARY_REDIRECT, HTTPStatus.PERMANENT_REDIRECT)
_PERMANENT = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND)


class Post(Protocol):
    """Sends a body; raises OSError or http.client.HTTPException on failure."""

    def __call__(self, body: bytes) -> ControllerResponse:
        """Returns the answer."""
        ...


@dataclass
class Backlog:
    """Rows not yet acknowledged by a controller, oldest first, and what it knows of the tables."""

    hello: HelloFrame
    max_bytes: int
    rows: deque[RowFrame] = field(default_factory=deque)
    size: int = 0
    dropped: int = 0
    """Rows dropped from the full queue."""
    refused: int = 0
    """Rows that the controller refused."""
    announced_counts: dict[int, int] = field(default_factory=dict)
    """By table, the number of series that the controller knows."""
    _keys: dict[int, list[SeriesKey]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, row: RowFrame, keys: list[SeriesKey]) -> None:
        """Queues a row; drops the oldest ones if the queue is full."""
        with self._lock:
            self._keys[row.table] = keys
            self.rows.append(row)
            self.size += _row_cost(row)
            while self.size > self.max_bytes and len(self.rows) > 1:
                self.size -= _row_cost(self.rows.popleft())
                self.dropped += 1

    def batch(self, most_bytes: int = MAX_BATCH) -> list[WireFrame]:
        """Returns the hello, necessary announcements, and the oldest rows; empty without rows."""
        with self._lock:
            rows: list[RowFrame] = []
            size = 0
            for row in self.rows:
                size += _row_cost(row)
                if rows and size > most_bytes:
                    break
                rows.append(row)
            news = [
                reported
                for table in sorted({row.table for row in rows})
                if (reported := self._announcement(table, rows))
            ]
        return [self.hello, *news, *rows] if rows else []

    def _announcement(self, table: int, rows: list[RowFrame]) -> SeriesFrame | None:
        """Returns the series of a table that the controller does not know; None if it knows all."""
        first = self.announced_counts.get(table, 0)
        last = max(len(row.values) for row in rows if row.table == table)
        return SeriesFrame(table, first, tuple(self._keys[table][first:last])) if last > first else None

    def acknowledge(self, sequence: int) -> None:
        """Removes all rows up to a sequence number."""
        with self._lock:
            self._forget(sequence)

    def reject(self, sequence: int) -> None:
        """Removes all rows up to a sequence number as refused."""
        with self._lock:
            self.refused += self._forget(sequence)

    def _forget(self, sequence: int) -> int:
        """Removes rows up to a sequence number; returns how many."""
        before = len(self.rows)
        while self.rows and self.rows[0].sequence <= sequence:
            self.size -= _row_cost(self.rows.popleft())
        return before - len(self.rows)

    def record_announcements(self, frames: list[WireFrame]) -> None:
        """Records that the announcements among these frames arrived."""
        for frame in frames:
            if isinstance(frame, SeriesFrame):
                self.announced_counts[frame.table] = frame.first + len(frame.series)


def _row_cost(row: RowFrame) -> int:
    return row.values.nbytes + ROW_OVERHEAD


class PushSender:
    """Sends the queue of one controller, in a thread of its own."""

    def __init__(
        self,
        controller: ControllerEndpoint,
        hello: HelloFrame,
        most_bytes: int,
        post: Post | None = None,
        connect: Callable[[ControllerEndpoint], Post] | None = None,
    ) -> None:
        self.controller = controller
        self.backlog = Backlog(hello, most_bytes)
        self.failures = 0
        self.is_reachable = False
        """Whether the last attempt succeeded."""
        self._connect = connect or (lambda endpoint: Channel(endpoint).post)
        self._home: Post = post or self._connect(controller)
        self._post = self._home
        self._moves = 0
        """Redirections since the last accepted body."""
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._max_bytes = MAX_BATCH
        self._reannounced = False
        """Whether all series were announced again since the last accepted body, because a body was refused as invalid.
        """
        self._rejected_bodies = 0
        """Bodies refused as invalid and dropped since the last accepted one."""
        self._rejection_logged = False
        self._backoff = MIN_BACKOFF
        self._quick_retries = 0
        """Attempts after a failed shard since the last accepted body."""
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Starts the thread."""
        self._thread = start_thread(f"push {self.controller.url}", self._run)

    def add(self, row: RowFrame, keys: list[SeriesKey]) -> None:
        """Queues a row."""
        self.backlog.add(row, keys)
        self._wake.set()

    def stop(self, patience: float = 2.0) -> None:
        """Sends what it can within `patience` seconds, and stops."""
        self._stop.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(patience)

    def _run(self) -> None:
        while True:
            self._wake.wait(1.0)
            self._wake.clear()
            while self.backlog.rows:
                wait = self.send_batch()
                if self._stop.is_set() and wait:
                    return
                if wait:
                    self._stop.wait(wait)
            if self._stop.is_set():
                return

    def send_batch(self) -> float:
        """Sends one body; returns the seconds until the next."""
        frames = self.backlog.batch(self._max_bytes)
        if not frames:
            return 0.0
        try:
            answer = self._post(encode(frames))
        except (OSError, http.client.HTTPException, ValueError) as error:
            return self._record_failure(f"{type(error).__name__}: {error}")
        return self._handle_response(answer, frames)

    def _handle_response(self, answer: ControllerResponse, frames: list[WireFrame]) -> float:
        if answer.status == HTTPStatus.OK:
            return self._handle_success(answer, frames)
        if answer.status in _MOVED:
            return self._follow(answer.location)
        if answer.status == HTTPStatus.CONFLICT:
            return self._announce_again(answer)
        rows = [frame for frame in frames if isinstance(frame, RowFrame)]
        if answer.status == HTTPStatus.BAD_REQUEST:
            return self._handle_rejection(rows, _error_text(answer.body))
        if answer.status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
            if len(rows) == 1:
                self.backlog.reject(rows[0].sequence)
            self._halve_batch(rows)
            return self._record_failure("a body was too large for it", quiet=True)
        return self._handle_refusal(answer)

    def _announce_again(self, answer: ControllerResponse) -> float:
        for table in _json_numbers(answer.body, "unknown"):
            self.backlog.announced_counts.pop(table, None)
        return self._record_failure("it needs the announcements again", quiet=True)

    def _handle_refusal(self, answer: ControllerResponse) -> float:
        is_home = self._post is self._home
        wait = self._record_failure(f"it answers {answer.status}{_error_text(answer.body)}")
        if not is_home:
            return wait
        if answer.status in _PERMANENT:
            return MAX_BACKOFF
        if self._quick_retries and answer.retry_after:
            # The controller is well, and says when to ask again for the shard.
            self._backoff = MIN_BACKOFF
            return min(_parse_seconds(answer.retry_after), MAX_BACKOFF)
        return max(wait, min(_parse_seconds(answer.retry_after), MAX_BACKOFF))

    def _follow(self, location: str) -> float:
        """Sends to another address from now on; returns the seconds until the next attempt."""
        url = location.removesuffix(ROWS_PATH)
        self._moves += 1
        if self._moves > MAX_MOVES or not _may_follow(self.controller.url, url):
            return self._record_failure(f"it redirects to {location[:MAX_ERROR_TEXT]!r}, which is not followed")
        log.info("%s redirects to %s", self.controller.url, url)
        self._post = self._connect(replace(self.controller, url=url))
        return 0.0

    def _handle_rejection(self, rows: list[RowFrame], why: str) -> float:
        """Handles a body refused as invalid: first announces again, then finds the invalid row by bisection."""
        if not self._reannounced:
            self._reannounced = True
            self.backlog.announced_counts.clear()
            self.failures += 1
            return 0.0
        if len(rows) > 1 and not self._rejected_bodies:
            self._halve_batch(rows)
            self.failures += 1
            return 0.0
        if not self._rejection_logged:
            self._rejection_logged = True
            log.warning(
                "%s refuses rows as invalid, which are dropped%s; further ones are only counted",
                self.controller.url,
                why,
            )
        self.backlog.reject(rows[-1].sequence)
        self._rejected_bodies += 1
        if self._rejected_bodies == 1:
            return self._record_failure("", quiet=True)
        # It refuses every row: bisection is of no use.
        self._max_bytes = min(self._max_bytes * 2, MAX_BATCH)
        return self._record_failure(f"it answers {HTTPStatus.BAD_REQUEST.value}{why}")

    def _halve_batch(self, rows: list[RowFrame]) -> None:
        """Halves the next body."""
        self._max_bytes = max(sum(map(_row_cost, rows)) // 2, 1)

    def _handle_success(self, answer: ControllerResponse, frames: list[WireFrame]) -> float:
        sent = max(frame.sequence for frame in frames if isinstance(frame, RowFrame))
        found = _json_numbers(answer.body, "taken")
        if not found:
            return self._record_failure("its answer lacks the acknowledged sequence number")
        self.backlog.record_announcements(frames)
        self.backlog.acknowledge(min(found[0], sent))
        if not self.is_reachable:
            log.info("%s accepts rows", self.controller.url)
        self.is_reachable, self._backoff, self._moves, self._quick_retries = True, MIN_BACKOFF, 0, 0
        self._reannounced, self._rejected_bodies = False, 0
        self._max_bytes = min(self._max_bytes * 2, MAX_BATCH)
        return 0.0 if found[0] >= sent else MIN_BACKOFF

    def _record_failure(self, why: str, *, quiet: bool = False) -> float:
        """Counts a failure; returns the seconds until the next attempt."""
        self.failures += 1
        is_quick = False
        if not quiet and self._post is not self._home:
            # Where the node's shard is now, the controller knows.
            self._post, self._moves = self._home, 0
            self._quick_retries += 1
            is_quick = self._quick_retries <= QUICK_RETRIES
        if not quiet and (self.is_reachable or self.failures == 1):
            log.warning("%s accepts no rows: %s", self.controller.url, why)
        if quiet:
            self._backoff = min(self._backoff, MIN_BACKOFF)
        else:
            self.is_reachable = False
        if is_quick:
            return MIN_BACKOFF
        wait, self._backoff = self._backoff, min(self._backoff * 2, MAX_BACKOFF)
        return wait


def _may_follow(before: str, url: str) -> bool:
    """Returns whether a redirection keeps the protection of the connection: the token goes there, too."""
    old, new = urlsplit(before), urlsplit(url)
    return bool(new.hostname) and not new.username and (new.scheme == "https" or new.scheme == old.scheme == "http")


def _json_field(text: bytes, name: str) -> object:
    """Returns a field of an answer; None if it is absent or invalid."""
    try:
        reported = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return reported.get(name) if isinstance(reported, dict) else None


def _error_text(text: bytes) -> str:
    """Returns a controller's error text as the end of a line."""
    reported = _json_field(text, "error")
    return f": {reported[:MAX_ERROR_TEXT]}" if isinstance(reported, str) and reported.isprintable() else ""


def _json_numbers(text: bytes, name: str) -> list[int]:
    """Returns a list of integers of an answer; empty if it is absent or invalid."""
    value = _json_field(text, name)
    return [one for one in (value if isinstance(value, list) else [value]) if type(one) is int]


def _parse_seconds(text: str) -> float:
    return float(text) if text.isdecimal() and len(text) < 6 else 0.0
