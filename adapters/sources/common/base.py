"""The interface of a source, and the bounded queue between a source and the engine.

Source and engine do not know each other: batches of numbers connect them. A source never waits for the engine; when the
queue is full the oldest batches are dropped and counted.
"""

import re
from collections import Counter, deque
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import NamedTuple, Protocol

from skewscope.adapters.mapping.names import SeriesRegistry
from skewscope.adapters.runtime.clock import Clock
from skewscope.engine.ingest.feed import SeriesKey
from skewscope.engine.model.arrays import F64, I32

BATCH_COST = 16
"""Values that a batch counts for besides its own: one without values takes memory and work too."""
MAX_WAITING = 16_000_000
"""Maximum queued values per source."""
MAX_REASONS = 20
"""Maximum reasons that are told apart in the number of series without a place."""
MAX_REFUSALS = 1000
"""Maximum pairs of sender and reason for which refused series are counted."""
MAX_ERROR_TEXT = 200
"""Maximum characters of an error text."""
SECRET_PATTERNS = (
    (re.compile(r"(?i)(//)[^/@\s]*@"), r"\1"),
    (re.compile(r"(?i)\b(bearer|basic)\s+\S+"), r"\1 ***"),
    (re.compile(r"(?i)\b([\w-]*(?:token|password|secret|api[_-]?key)[\w-]*)([=:]\s*)[^\s&,;'\"]+"), r"\1\2***"),
)


class SeriesColumns(Protocol):
    """The series of a source, or of a part of it, by number. It only grows, and numbers never change their meaning."""

    @property
    def keys(self) -> Sequence[SeriesKey]:
        """[series] the key of each number."""
        ...

    @property
    def ranks(self) -> Sequence[int]:
        """[series] rank of the name that delivers each series (see `adapters.mapping.names`); the lowest rank wins."""
        ...

    @property
    def senders(self) -> Mapping[SeriesKey, str]:
        """Senders of the series that another than the entity's own node delivers."""
        ...

    @property
    def owner(self) -> str:
        """Who may have only so many series, whatever columns they come in: the node of an agent; '' for nobody."""
        ...


class SourceSeriesRegistry(SeriesRegistry):
    """Series registry of a source that reads metric names. Each instance is distinct, whatever it holds.

    Thread-safe: a read that an earlier run of the source began may still be in progress.
    """

    owner = ""
    """Its source bounds it."""

    def __init__(self) -> None:
        super().__init__()
        self.refusals: Counter[tuple[str, str]] = Counter()
        """Series that their sender must not report, by sender and reason."""
        self.seen: list[Hashable] = []
        """[series] what each says of who there is; None where it says nothing, or nobody wants to know."""
        self._lock = Lock()

    def refuse(self, sender: str, reason: str) -> None:
        """Counts a series that its sender must not report."""
        with self._lock:
            known = (sender, reason) in self.refusals or len(self.refusals) < MAX_REFUSALS
            self.refusals[(sender, reason) if known else ("further senders", reason)] += 1

    def register(self, key: SeriesKey, rank: int, seen: Hashable = None) -> int:
        """Returns the number of a series as delivered under a name of this rank."""
        with self._lock:
            number = super().register(key, rank, seen)
            if number == len(self.seen):
                self.seen.append(seen)
            return number

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other


class SourceBatch(NamedTuple):
    """Some values of one source."""

    columns: SeriesColumns
    numbers: I32 | None
    """[value] indexes into `columns`; None: 0, 1, 2, ... in order."""
    time: F64 | float
    """[value] float64 seconds since 1970, or one time for all values."""
    value: F64


@dataclass
class BatchSink:
    """Queue of the batches of one source."""

    clock: Clock
    max_values: int = MAX_WAITING
    last_batch_time: float | None = None
    """Time of the newest batch."""
    heard_at: float | None = None
    """The same by the clock that nobody sets."""
    values: int = 0
    """Values accepted so far."""
    dropped: int = 0
    """Values dropped because the queue was full."""
    trouble: str = ""
    """A partial problem in words; '' for none."""
    unmapped: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """Number of series of the source that have no place, by metric and reason; the source keeps it current."""
    refusals: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """Number of series that their sender must not report, by sender and reason; the source keeps it current."""
    _waiting: deque[SourceBatch] = field(default_factory=deque)
    _waiting_values: int = 0
    _lock: Lock = field(default_factory=Lock, repr=False)

    def put(self, batch: SourceBatch, *, is_answer: bool = True) -> None:
        """Appends a batch; drops the oldest ones when the queue is full. Any thread may put.

        Args:
            batch: some values.
            is_answer: whether it comes from what is read, and not from the source itself.
        """
        if is_answer:
            self.last_batch_time, self.heard_at = self.clock.now(), self.clock.uptime()
        size = len(batch.value)
        with self._lock:
            self.values += size
            self._waiting.append(batch)
            self._waiting_values += size + BATCH_COST
            while self._waiting_values > self.max_values and self._waiting:
                gone = len(self._waiting.popleft().value)
                self._waiting_values -= gone + BATCH_COST
                self.dropped += gone

    def follow(self, registry: SourceSeriesRegistry) -> None:
        """Shows from now on which series of a registry are not used."""
        self.unmapped, self.refusals = registry.unmapped, registry.refusals

    @property
    def is_crowded(self) -> bool:
        """Returns whether a source that can buffer should pause for a while."""
        return self._waiting_values > self.max_values // 2

    def count_by_reason(self) -> dict[str, int]:
        """Returns the number of series without a place by reason, the most first; beyond some, reasons are joined."""
        # Copied first: the thread that reads pages may add to it.
        found: Counter[str] = Counter()
        for (_, reason), count in dict(self.unmapped).items():
            found[reason] += count
        ordered = sorted(found.items(), key=lambda item: (-item[1], item[0]))
        rest = sum(count for _, count in ordered[MAX_REASONS:])
        return dict(ordered[:MAX_REASONS]) | ({"other reasons": rest} if rest else {})

    def count_refusals(self) -> dict[str, dict[str, int]]:
        """Returns the number of series that their sender must not report, by sender, then by reason."""
        found: dict[str, dict[str, int]] = {}
        for (sender, reason), count in dict(self.refusals).items():
            found.setdefault(sender, {})[reason] = count
        return found

    def take(self) -> list[SourceBatch]:
        """Removes and returns all batches, oldest first."""
        with self._lock:
            found = list(self._waiting)
            self._waiting.clear()
            self._waiting_values = 0
        return found


class TelemetrySource(Protocol):
    """A source of telemetry."""

    @property
    def name(self) -> str:
        """Unique name, shown in statuses and recordings."""
        ...

    @property
    def period(self) -> float:
        """Seconds between two batches; 0 where none are expected, so that silence causes no restart."""
        ...

    async def run(self, sink: BatchSink) -> None:
        """Puts batches into the sink until cancelled. An exception ends the run, and the source is restarted."""
        ...


def redact_message(message: object) -> str:
    """Returns an error, an address or another text as one short line without passwords and tokens."""
    text = " ".join(str(message).split())
    for pattern, replacement in SECRET_PATTERNS:
        text = pattern.sub(replacement, text)
    text = "".join(c if c.isprintable() else "?" for c in text)
    return text if len(text) <= MAX_ERROR_TEXT else text[: MAX_ERROR_TEXT - 3] + "..."


def count_values(batches: Iterable[SourceBatch]) -> int:
    """Returns the number of values in some batches."""
    return sum(len(batch.value) for batch in batches)
