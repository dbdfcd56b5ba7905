"""What a source of the controller is, and the bounded place where it puts what it read.

A source knows nothing of the engine, and the engine nothing of it: between the two are batches of numbers. A source
never waits for who takes them; what nobody took in time is dropped, the oldest first, and counted.
"""

import re
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import NamedTuple, Protocol

from skewscope.adapters.mapping.names import SeriesRegistry
from skewscope.adapters.runtime.clock import Clock
from skewscope.engine.ingest.feed import F64, I32, SeriesKey

MAX_WAITING = 16_000_000
"""Values that may wait to be taken, of one source."""
MAX_ERROR_TEXT = 200
"""Characters of what is told of a fault."""
SECRET_PATTERNS = (
    (re.compile(r"(?i)(//)[^/@\s]*@"), r"\1"),
    (re.compile(r"(?i)\b(bearer|basic)\s+\S+"), r"\1 ***"),
    (re.compile(r"(?i)\b([\w-]*(?:token|password|secret|api[_-]?key)[\w-]*)([=:]\s*)[^\s&,;'\"]+"), r"\1\2***"),
)


class SeriesColumns(Protocol):
    """The series of a source, or of a part of it, by number. It only grows; a number never changes its meaning."""

    @property
    def keys(self) -> Sequence[SeriesKey]:
        """What each number stands for."""
        ...

    @property
    def ranks(self) -> Sequence[int]:
        """[series] rank of the name that delivers each series (see `adapters.mapping.names`); the lowest rank wins."""
        ...


class SourceSeriesRegistry(SeriesRegistry):
    """Columns of a source that reads names of metrics. Two of them are never the same, whatever they hold.

    Threads may read for one source at once: what an earlier run of it began goes on for a while.
    """

    def __init__(self) -> None:
        super().__init__()
        self._lock = Lock()

    def register(self, key: SeriesKey, rank: int) -> int:
        """The number of a series as one of several names delivers it."""
        with self._lock:
            return super().register(key, rank)

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other


class SourceBatch(NamedTuple):
    """Some values of a source."""

    columns: SeriesColumns
    numbers: I32 | None
    """Of the series in `columns`; None: the first so many, in their order."""
    time: F64 | float
    """Seconds since 1970, of each value or of all."""
    value: F64


@dataclass
class BatchSink:
    """Where one source puts its batches."""

    clock: Clock
    max_values: int = MAX_WAITING
    last_batch_time: float | None = None
    """When the newest batch came."""
    values: int = 0
    """Taken so far."""
    dropped: int = 0
    """Values that nobody took in time."""
    trouble: str = ""
    """What is wrong with some of it, in words; '' when nothing is."""
    _waiting: deque[SourceBatch] = field(default_factory=deque)
    _waiting_values: int = 0

    def put(self, batch: SourceBatch) -> None:
        """Hands a batch over; drops the oldest ones where too much waits."""
        self.last_batch_time = self.clock.now()
        size = len(batch.value)
        self.values += size
        self._waiting.append(batch)
        self._waiting_values += size
        while self._waiting_values > self.max_values and self._waiting:
            gone = len(self._waiting.popleft().value)
            self._waiting_values -= gone
            self.dropped += gone

    @property
    def is_crowded(self) -> bool:
        """Whether so much waits that who can keep its own should do so for a while."""
        return self._waiting_values > self.max_values // 2

    def take(self) -> list[SourceBatch]:
        """All that waits, oldest first."""
        found = list(self._waiting)
        self._waiting.clear()
        self._waiting_values = 0
        return found


class TelemetrySource(Protocol):
    """Something that telemetry comes from."""

    @property
    def name(self) -> str:
        """What it is called in states and recordings; no other has the same."""
        ...

    @property
    def period(self) -> float:
        """Seconds between two batches; 0 where nobody can say, and silence is nothing to restart for."""
        ...

    async def run(self, sink: BatchSink) -> None:
        """Puts batches into the sink until it is cancelled. What it raises ends it; it is then started anew."""
        ...


def redact_address(error: object) -> str:
    """What is told of a fault: one short line without passwords and tokens."""
    text = " ".join(str(error).split())
    for pattern, kept in SECRET_PATTERNS:
        text = pattern.sub(kept, text)
    text = "".join(c if c.isprintable() else "?" for c in text)
    return text if len(text) <= MAX_ERROR_TEXT else text[: MAX_ERROR_TEXT - 3] + "..."


def count_values(batches: Iterable[SourceBatch]) -> int:
    """How many values are in some batches."""
    return sum(len(batch.value) for batch in batches)
