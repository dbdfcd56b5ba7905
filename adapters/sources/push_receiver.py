"""Sources that others push to over the controller's HTTP server: what they have in common.

Each has a path of its own. Bodies are read in a thread of the source, one after the other; where more wait than it can
read, senders are asked to come again.
"""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from skewscope.adapters.config.fields import read_bool, read_number
from skewscope.adapters.sources import SourceContext
from skewscope.adapters.sources.base import BatchSink, SourceBatch
from skewscope.adapters.sources.series_mapper import SeriesMapper
from skewscope.adapters.sources.targets import Labels, parse_labels
from skewscope.kb.field_reader import FieldReader
from skewscope.kb.yamlfile import FieldPath

OPTIONAL = ("name", "path", "labels", "honor_labels", "most_mib", "note")
MAX_WAITING = 16
"""Bodies that may wait for being read."""
CHECK_PERIOD = 5.0
"""Seconds between two looks at what is wrong."""

Headers = Mapping[str, str]


class InvalidBodyError(ValueError):
    """A body that is not what the path takes."""


class PushQueueFullError(Exception):
    """No room for more at the moment."""


class PushReply(NamedTuple):
    """What is answered to somebody who pushed."""

    status: int = 204
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()


class PushResult(NamedTuple):
    """What became of a body."""

    batch: SourceBatch | None
    reply: PushReply


BodyReader = Callable[[bytes, Headers, "PushSettings", SeriesMapper], PushResult]
"""Reads a body; raises UnfitError. It runs in one thread, one body at a time."""


class PushEndpointInfo(NamedTuple):
    """What is told of a path that somebody may push to."""

    summary: str
    content_types: tuple[str, ...]
    """Types of a body."""
    success_status: str = "204"
    """The status of the answer, where all of it was taken."""


class PushReceiver(Protocol):
    """A source that is pushed to."""

    @property
    def endpoint_info(self) -> PushEndpointInfo:
        """What it takes."""
        ...

    @property
    def path(self) -> str:
        """Where on the server."""
        ...

    async def take(self, body: bytes, headers: Headers) -> PushReply:
        """Takes a body in; header names are in small letters.

        Raises:
            UnfitError: it is none.
            BusyError: there is no room.
        """
        ...


@dataclass(frozen=True, slots=True)
class PushSettings:
    """One source that is pushed to."""

    name: str
    path: str
    labels: Labels = ()
    honor_labels: bool = True
    """Whether the labels of a series win over those of its source."""
    max_bytes: int = 32 << 20
    """Bytes of a body, unpacked."""


def parse_settings(fields: FieldReader, at: FieldPath, name: str, path: str) -> PushSettings:
    """The settings of a source; faults are noted."""
    fields.check_keys(at, ("kind",), OPTIONAL)
    told = fields.text((*at, "path")) or path
    if told != path and not told.startswith(f"{path}/"):
        fields.add_problem((*at, "path"), f"{told!r:.80}", f"{path}, or a path below it")
    honor = fields.value_at((*at, "honor_labels")) is None or read_bool(fields, (*at, "honor_labels"))
    most = int(read_number(fields, (*at, "most_mib"), 32.0, (0.001, 1024.0)) * (1 << 20))
    return PushSettings(name, told, parse_labels(fields, (*at, "labels")), honor, most)


@dataclass
class PushSource:
    """Reads what is pushed to one path."""

    settings: PushSettings
    context: SourceContext
    reader: BodyReader
    endpoint_info: PushEndpointInfo
    mapper: SeriesMapper = field(init=False)
    invalid_bodies: int = 0
    """Bodies that were none."""
    _waiting: int = 0
    _sink: BatchSink | None = None
    _executor: ThreadPoolExecutor | None = None
    _trouble: str = ""

    period: float = 0.0
    """Nobody can say when something comes."""

    def __post_init__(self) -> None:
        self.mapper = SeriesMapper(self.context.names, dict(self.settings.labels), self.settings.honor_labels)

    @property
    def name(self) -> str:
        """What the config calls it."""
        return self.settings.name

    @property
    def path(self) -> str:
        """Where it is pushed to."""
        return self.settings.path

    async def run(self, sink: BatchSink) -> None:
        """Takes in until it is cancelled."""
        readers = ThreadPoolExecutor(1, f"pushed {self.name}")
        self._sink, self._executor = sink, readers
        try:
            while True:
                sink.trouble = "; ".join(filter(None, (self._trouble, self.mapper.trouble)))
                await self.context.clock.sleep(CHECK_PERIOD)
        finally:
            self._sink = self._executor = None
            # A body that takes long to read must hold up nobody else.
            readers.shutdown(wait=False, cancel_futures=True)

    async def take(self, body: bytes, headers: Headers) -> PushReply:
        """Takes a body in.

        Raises:
            UnfitError: it is none; nothing of it was taken.
            BusyError: too many wait, or the source is not running.
        """
        if self._sink is None or self._executor is None or self._waiting >= MAX_WAITING:
            raise PushQueueFullError("too much at once")
        self._waiting += 1
        try:
            arguments = body, headers, self.settings, self.mapper
            batch, reply = await asyncio.get_running_loop().run_in_executor(self._executor, self.reader, *arguments)
        except InvalidBodyError as error:
            self.invalid_bodies += 1
            self._trouble = f"{self.invalid_bodies} bodies were none, the last one: {error}"
            raise
        finally:
            self._waiting -= 1
        if batch is not None and self._sink is not None:
            self._sink.put(batch)
        return reply
