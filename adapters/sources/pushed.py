"""Sources that others push to over the controller's HTTP server: what they have in common.

Each has a path of its own. Bodies are read in a thread of the source, one after the other; where more wait than it can
read, senders are asked to come again.
"""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from skewscope.adapters.more_fields import number, yes
from skewscope.adapters.sources import World
from skewscope.adapters.sources.base import Batch, Sink
from skewscope.adapters.sources.samples import Series
from skewscope.adapters.sources.targets import Labels, labels
from skewscope.kb.fields import Fields
from skewscope.kb.yamlfile import Path_

OPTIONAL = ("name", "path", "labels", "honor_labels", "most_mib", "note")
MOST_WAITING = 16
"""Bodies that may wait for being read."""
LOOK = 5.0
"""Seconds between two looks at what is wrong."""

Headers = Mapping[str, str]


class UnfitError(ValueError):
    """A body that is not what the path takes."""


class BusyError(Exception):
    """No room for more at the moment."""


class Reply(NamedTuple):
    """What is answered to somebody who pushed."""

    status: int = 204
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()


class Read(NamedTuple):
    """What became of a body."""

    batch: Batch | None
    reply: Reply


Reader = Callable[[bytes, Headers, "Settings", Series], Read]
"""Reads a body; raises UnfitError. It runs in one thread, one body at a time."""


class About(NamedTuple):
    """What is told of a path that somebody may push to."""

    summary: str
    contents: tuple[str, ...]
    """Types of a body."""
    good: str = "204"
    """The status of the answer, where all of it was taken."""


class Receiving(Protocol):
    """A source that is pushed to."""

    @property
    def about(self) -> About:
        """What it takes."""
        ...

    @property
    def path(self) -> str:
        """Where on the server."""
        ...

    async def take(self, body: bytes, headers: Headers) -> Reply:
        """Takes a body in; header names are in small letters.

        Raises:
            UnfitError: it is none.
            BusyError: there is no room.
        """
        ...


@dataclass(frozen=True, slots=True)
class Settings:
    """One source that is pushed to."""

    name: str
    path: str
    labels: Labels = ()
    honor_labels: bool = True
    """Whether the labels of a series win over those of its source."""
    most: int = 32 << 20
    """Bytes of a body, unpacked."""


def settings(fields: Fields, at: Path_, name: str, path: str) -> Settings:
    """The settings of a source; faults are noted."""
    fields.known(at, ("kind",), OPTIONAL)
    told = fields.text((*at, "path")) or path
    if told != path and not told.startswith(f"{path}/"):
        fields.fault((*at, "path"), f"{told!r:.80}", f"{path}, or a path below it")
    honor = fields.at((*at, "honor_labels")) is None or yes(fields, (*at, "honor_labels"))
    most = int(number(fields, (*at, "most_mib"), 32.0, (0.001, 1024.0)) * (1 << 20))
    return Settings(name, told, labels(fields, (*at, "labels")), honor, most)


@dataclass
class Pushed:
    """Reads what is pushed to one path."""

    settings: Settings
    world: World
    reader: Reader
    about: About
    series: Series = field(init=False)
    unfit: int = 0
    """Bodies that were none."""
    _waiting: int = 0
    _sink: Sink | None = None
    _readers: ThreadPoolExecutor | None = None
    _trouble: str = ""

    period: float = 0.0
    """Nobody can say when something comes."""

    def __post_init__(self) -> None:
        self.series = Series(self.world.names, dict(self.settings.labels), self.settings.honor_labels)

    @property
    def name(self) -> str:
        """What the config calls it."""
        return self.settings.name

    @property
    def path(self) -> str:
        """Where it is pushed to."""
        return self.settings.path

    async def run(self, sink: Sink) -> None:
        """Takes in until it is cancelled."""
        readers = ThreadPoolExecutor(1, f"pushed {self.name}")
        self._sink, self._readers = sink, readers
        try:
            while True:
                sink.trouble = "; ".join(filter(None, (self._trouble, self.series.trouble)))
                await self.world.clock.sleep(LOOK)
        finally:
            self._sink = self._readers = None
            # A body that takes long to read must hold up nobody else.
            readers.shutdown(wait=False, cancel_futures=True)

    async def take(self, body: bytes, headers: Headers) -> Reply:
        """Takes a body in.

        Raises:
            UnfitError: it is none; nothing of it was taken.
            BusyError: too many wait, or the source is not running.
        """
        if self._sink is None or self._readers is None or self._waiting >= MOST_WAITING:
            raise BusyError("too much at once")
        self._waiting += 1
        try:
            arguments = body, headers, self.settings, self.series
            batch, reply = await asyncio.get_running_loop().run_in_executor(self._readers, self.reader, *arguments)
        except UnfitError as error:
            self.unfit += 1
            self._trouble = f"{self.unfit} bodies were none, the last one: {error}"
            raise
        finally:
            self._waiting -= 1
        if batch is not None and self._sink is not None:
            self._sink.put(batch)
        return reply
