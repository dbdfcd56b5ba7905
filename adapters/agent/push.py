"""Rows on their way to one controller: kept while it is away, sent in order, announced again where it asks.

A thread of its own sends, so that nothing that a controller does holds up the next tick.
"""

import http.client
import json
import logging
import threading
from collections import deque
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Protocol

from skewscope.adapters.channel import Channel, Controller, Told
from skewscope.adapters.wire_rows import Announced, Frame, Hello, Row, encode
from skewscope.engine.feed import SeriesKey

log = logging.getLogger("skewscope.agent")

MOST_BATCH = 1 << 20
"""Bytes of rows in one body."""
FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0
"""Seconds before the next attempt, doubled each time."""
MOST_WHY = 200
"""Characters of what a controller says that are told on."""
ROW_OVERHEAD = 200
"""Bytes that a row costs in memory besides its numbers."""
_PERMANENT = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND)


class Post(Protocol):
    """Hands over a body; OSError or http.client.HTTPException where nobody takes it."""

    def __call__(self, body: bytes) -> Told:
        """The answer."""
        ...


@dataclass
class Backlog:
    """Rows that a controller has not taken yet, the oldest first, and what it knows of the tables."""

    hello: Hello
    most_bytes: int
    rows: deque[Row] = field(default_factory=deque)
    size: int = 0
    dropped: int = 0
    """Rows that had to make room."""
    refused: int = 0
    """Rows that the controller would not take."""
    announced: dict[int, int] = field(default_factory=dict)
    """By table, how many of its series the controller knows."""
    _keys: dict[int, list[SeriesKey]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, row: Row, keys: list[SeriesKey]) -> None:
        """Keeps a row; what is oldest makes room for it."""
        with self._lock:
            self._keys[row.table] = keys
            self.rows.append(row)
            self.size += _cost(row)
            while self.size > self.most_bytes and len(self.rows) > 1:
                self.size -= _cost(self.rows.popleft())
                self.dropped += 1

    def batch(self, most_bytes: int = MOST_BATCH) -> list[Frame]:
        """The hello, what has to be announced, and the oldest rows; nothing where there is no row."""
        with self._lock:
            rows: list[Row] = []
            size = 0
            for row in self.rows:
                size += _cost(row)
                if rows and size > most_bytes:
                    break
                rows.append(row)
            news = [told for table in sorted({row.table for row in rows}) if (told := self._news(table, rows))]
        return [self.hello, *news, *rows] if rows else []

    def _news(self, table: int, rows: list[Row]) -> Announced | None:
        """The series of a table that the controller does not know."""
        first = self.announced.get(table, 0)
        last = max(len(row.values) for row in rows if row.table == table)
        return Announced(table, first, tuple(self._keys[table][first:last])) if last > first else None

    def taken(self, sequence: int) -> None:
        """Forgets all rows up to a sequence."""
        with self._lock:
            self._forget(sequence)

    def give_up(self, sequence: int) -> None:
        """Forgets all rows up to a sequence, which the controller would not take."""
        with self._lock:
            self.refused += self._forget(sequence)

    def _forget(self, sequence: int) -> int:
        """How many rows there were up to a sequence."""
        before = len(self.rows)
        while self.rows and self.rows[0].sequence <= sequence:
            self.size -= _cost(self.rows.popleft())
        return before - len(self.rows)

    def known(self, frames: list[Frame]) -> None:
        """Remembers that the announcements among these frames arrived."""
        for frame in frames:
            if isinstance(frame, Announced):
                self.announced[frame.table] = frame.first + len(frame.series)


def _cost(row: Row) -> int:
    return row.values.nbytes + ROW_OVERHEAD


class Sender:
    """Sends the backlog of one controller, in a thread of its own."""

    def __init__(self, controller: Controller, hello: Hello, most_bytes: int, post: Post | None = None) -> None:
        self.controller = controller
        self.backlog = Backlog(hello, most_bytes)
        self.failures = 0
        self.reached = False
        """Whether the last attempt was answered well."""
        self._post: Post = post or Channel(controller).post
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._most = MOST_BATCH
        self._anew = False
        """Whether all series were announced anew since a body was taken, for one was called wrong."""
        self._given_up = 0
        """Bodies that were called wrong and given up since one was taken."""
        self._told_wrong = False
        self._wait = FIRST_WAIT
        self._thread = threading.Thread(target=self._run, name=f"push {controller.url}", daemon=True)

    def start(self) -> None:
        """Begins to send."""
        self._thread.start()

    def add(self, row: Row, keys: list[SeriesKey]) -> None:
        """Takes a row to be sent."""
        self.backlog.add(row, keys)
        self._wake.set()

    def stop(self, patience: float = 2.0) -> None:
        """Sends what it can within `patience` seconds, and ends."""
        self._stop.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(patience)

    def _run(self) -> None:
        while True:
            self._wake.wait(1.0)
            self._wake.clear()
            while self.backlog.rows:
                wait = self.attempt()
                if self._stop.is_set() and wait:
                    return
                if wait:
                    self._stop.wait(wait)
            if self._stop.is_set():
                return

    def attempt(self) -> float:
        """Sends one body; gives how long to wait before the next, s."""
        frames = self.backlog.batch(self._most)
        if not frames:
            return 0.0
        try:
            answer = self._post(encode(frames))
        except (OSError, http.client.HTTPException, ValueError) as error:
            return self._failed(f"{type(error).__name__}: {error}")
        return self._answered(answer, frames)

    def _answered(self, answer: Told, frames: list[Frame]) -> float:
        if answer.status == HTTPStatus.OK:
            return self._fine(answer, frames)
        if answer.status == HTTPStatus.CONFLICT:
            for table in _numbers(answer.text, "unknown"):
                self.backlog.announced.pop(table, None)
            return self._failed("it has to be told the series again", quiet=True)
        rows = [frame for frame in frames if isinstance(frame, Row)]
        if answer.status == HTTPStatus.BAD_REQUEST:
            return self._wrong(rows, _why(answer.text))
        if answer.status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
            if len(rows) == 1:
                self.backlog.give_up(rows[0].sequence)
            self._halve(rows)
            return self._failed("a body was too large for it", quiet=True)
        wait = self._failed(f"it answers {answer.status}{_why(answer.text)}")
        if answer.status in _PERMANENT:
            return LONGEST_WAIT
        return max(wait, min(_seconds(answer.retry_after), LONGEST_WAIT))

    def _wrong(self, rows: list[Row], why: str) -> float:
        """A body is called wrong: what it knows of us may be; then some row is, and is looked for by halves."""
        if not self._anew:
            self._anew = True
            self.backlog.announced.clear()
            self.failures += 1
            return 0.0
        if len(rows) > 1 and not self._given_up:
            self._halve(rows)
            self.failures += 1
            return 0.0
        if not self._told_wrong:
            self._told_wrong = True
            log.warning("%s calls rows wrong, which are given up%s; more are only counted", self.controller.url, why)
        self.backlog.give_up(rows[-1].sequence)
        self._given_up += 1
        if self._given_up == 1:
            return self._failed("", quiet=True)
        # It takes none at all: no use in looking for those that it would take.
        self._most = min(self._most * 2, MOST_BATCH)
        return self._failed(f"it answers {HTTPStatus.BAD_REQUEST.value}{why}")

    def _halve(self, rows: list[Row]) -> None:
        """Has the next body hold half as much."""
        self._most = max(sum(map(_cost, rows)) // 2, 1)

    def _fine(self, answer: Told, frames: list[Frame]) -> float:
        sent = max(frame.sequence for frame in frames if isinstance(frame, Row))
        found = _numbers(answer.text, "taken")
        if not found:
            return self._failed("its answer does not say what it has taken")
        self.backlog.known(frames)
        self.backlog.taken(min(found[0], sent))
        if not self.reached:
            log.info("%s takes rows", self.controller.url)
        self.reached, self._wait = True, FIRST_WAIT
        self._anew, self._given_up = False, 0
        self._most = min(self._most * 2, MOST_BATCH)
        return 0.0 if found[0] >= sent else FIRST_WAIT

    def _failed(self, why: str, *, quiet: bool = False) -> float:
        """Counts a failure; gives how long to wait."""
        self.failures += 1
        if not quiet and (self.reached or self.failures == 1):
            log.warning("%s takes no rows: %s", self.controller.url, why)
        if quiet:
            self._wait = min(self._wait, FIRST_WAIT)
        else:
            self.reached = False
        wait, self._wait = self._wait, min(self._wait * 2, LONGEST_WAIT)
        return wait


def _told(text: bytes, name: str) -> object:
    """What an answer gives under a name; None where it says nothing of the kind."""
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return told.get(name) if isinstance(told, dict) else None


def _why(text: bytes) -> str:
    """What a controller says is wrong, as the end of a line."""
    told = _told(text, "error")
    return f": {told[:MOST_WHY]}" if isinstance(told, str) and told.isprintable() else ""


def _numbers(text: bytes, name: str) -> list[int]:
    """The numbers that an answer gives under a name; none where it says nothing of the kind."""
    value = _told(text, name)
    return [one for one in (value if isinstance(value, list) else [value]) if type(one) is int]


def _seconds(text: str) -> float:
    return float(text) if text.isdecimal() and len(text) < 6 else 0.0
