"""Sources that receive pushes through the controller's HTTP server: their common part.

Each has a path of its own. Bodies are read in a thread of the source, one after the other; when too many wait, senders
are asked to retry.
"""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from skewscope.adapters.config.fields import read_bool, read_number
from skewscope.adapters.mapping.senders import FLEET
from skewscope.adapters.sources import SourceContext
from skewscope.adapters.sources.common.base import BatchSink, SourceBatch
from skewscope.adapters.sources.common.senders import build_lookup, read_reports_for
from skewscope.adapters.sources.common.series_mapper import SeriesMapper
from skewscope.adapters.sources.common.targets import Labels, parse_labels
from skewscope.kb.field_reader import FieldReader
from skewscope.kb.yamlfile import FieldPath

OPTIONAL = ("name", "path", "labels", "honor_labels", "most_mib", "reports_for", "note")
MAX_WAITING = 16
"""Maximum number of waiting bodies."""
CHECK_PERIOD = 5.0
"""Seconds between two updates of the status."""

Headers = Mapping[str, str]


class InvalidBodyError(ValueError):
    """The body is invalid for the path."""


class PushQueueFullError(Exception):
    """The queue is full; the sender should retry."""


class PushReply(NamedTuple):
    """The answer to a push."""

    status: int = 204
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()


class PushResult(NamedTuple):
    """The result of reading a body."""

    batch: SourceBatch | None
    reply: PushReply


BodyReader = Callable[[bytes, Headers, "PushSettings", SeriesMapper], PushResult]
"""Reads a body; raises InvalidBodyError. Runs in one thread, one body at a time."""


class PushEndpointInfo(NamedTuple):
    """Documentation of a push path."""

    summary: str
    content_types: tuple[str, ...]
    """Accepted media types."""
    success_status: str = "204"
    """Status of the answer when everything was accepted."""


class PushReceiver(Protocol):
    """A source that receives pushes."""

    @property
    def endpoint_info(self) -> PushEndpointInfo:
        """What it accepts."""
        ...

    @property
    def path(self) -> str:
        """Path on the server."""
        ...

    async def take(self, body: bytes, headers: Headers) -> PushReply:
        """Receives a body; header names are in lower case.

        Raises:
            InvalidBodyError: the body is invalid.
            PushQueueFullError: the queue is full.
        """
        ...


@dataclass(frozen=True, slots=True)
class PushSettings:
    """Settings of one push source."""

    name: str
    path: str
    labels: Labels = ()
    honor_labels: bool = True
    """Whether labels of a series take precedence over those of its source."""
    max_bytes: int = 32 << 20
    """Maximum bytes of the decompressed body."""
    reports_for: tuple[str, ...] = (FLEET,)
    """What it reports for: who may push holds a token for every node."""


def parse_settings(fields: FieldReader, at: FieldPath, name: str, path: str) -> PushSettings:
    """Parses the settings of a source; problems are added to `fields`."""
    fields.check_keys(at, ("kind",), OPTIONAL)
    reported = fields.text((*at, "path")) or path
    if reported != path and not reported.startswith(f"{path}/"):
        fields.add_problem((*at, "path"), f"{reported!r:.80}", f"{path}, or a path below it")
    honor = fields.value_at((*at, "honor_labels")) is None or read_bool(fields, (*at, "honor_labels"))
    most = int(read_number(fields, (*at, "most_mib"), 32.0, (0.001, 1024.0)) * (1 << 20))
    reports_for = read_reports_for(fields, (*at, "reports_for"), (FLEET,))
    return PushSettings(name, reported, parse_labels(fields, (*at, "labels")), honor, most, reports_for)


@dataclass
class PushSource:
    """Reads what is pushed to one path."""

    settings: PushSettings
    context: SourceContext
    reader: BodyReader
    endpoint_info: PushEndpointInfo
    mapper: SeriesMapper = field(init=False)
    invalid_bodies: int = 0
    """Number of invalid bodies."""
    _waiting: int = 0
    _sink: BatchSink | None = None
    _executor: ThreadPoolExecutor | None = None
    _trouble: str = ""

    period: float = 0.0
    """Zero: pushes come at any time."""

    _version: int = 0
    """That of the topology for which series are mapped."""

    def __post_init__(self) -> None:
        self._map_anew()

    def _map_anew(self) -> None:
        settings, labels, self._version = self.settings, dict(self.settings.labels), self.context.version
        senders = build_lookup(settings.name, self.context.topology, settings.reports_for, labels, collects=True)
        self.mapper = SeriesMapper(self.context.names, labels, settings.honor_labels, senders=senders)

    @property
    def name(self) -> str:
        """Name in the config."""
        return self.settings.name

    @property
    def path(self) -> str:
        """Path on the server."""
        return self.settings.path

    async def run(self, sink: BatchSink) -> None:
        """Reads bodies until cancelled."""
        readers = ThreadPoolExecutor(1, f"pushed {self.name}")
        self._sink, self._executor = sink, readers
        sink.follow(self.mapper.registry)
        try:
            while True:
                if self._version != self.context.version:
                    self._map_anew()
                    sink.follow(self.mapper.registry)
                sink.trouble = "; ".join(filter(None, (self._trouble, self.mapper.trouble)))
                await self.context.clock.sleep(CHECK_PERIOD)
        finally:
            self._sink = self._executor = None
            # A long body must not block the event loop.
            readers.shutdown(wait=False, cancel_futures=True)

    async def take(self, body: bytes, headers: Headers) -> PushReply:
        """Receives a body.

        Raises:
            InvalidBodyError: the body is invalid; nothing of it was used.
            PushQueueFullError: the queue is full, or the source is not running.
        """
        if self._sink is None or self._executor is None or self._waiting >= MAX_WAITING:
            raise PushQueueFullError("too much at once")
        self._waiting += 1
        try:
            arguments = body, headers, self.settings, self.mapper
            batch, reply = await asyncio.get_running_loop().run_in_executor(self._executor, self.reader, *arguments)
        except InvalidBodyError as error:
            self.invalid_bodies += 1
            self._trouble = f"{self.invalid_bodies} invalid bodies, the last one: {error}"
            raise
        finally:
            self._waiting -= 1
        if batch is not None and self._sink is not None:
            self._sink.put(batch)
        return reply
