"""Sources of kind `nccl-ras`: what NCCL knows of its own ranks, asked at its RAS port (28028 on each host of a job).

JSON is asked for, which NCCL speaks since 2.28.7; older ones answer with text, of which only is taken who does not
answer. While no job runs nobody listens: that is no fault, only silence.
"""

import asyncio
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from skewscope.adapters.more_fields import number
from skewscope.adapters.sources import World
from skewscope.adapters.sources.base import Sink, scrubbed
from skewscope.adapters.sources.communicators import Communicators, Rank, labels
from skewscope.adapters.sources.samples import Rows, Series
from skewscope.kb.fields import Fields
from skewscope.kb.problems import listed
from skewscope.kb.yamlfile import Path_

PORT = 28028
PROTOCOL = 2
MOST_TARGETS = 1000
MOST_LINE = 1 << 12
CHUNK = 1 << 16
PLACE = re.compile(r"(?P<host>[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::(?P<port>\d{1,5}))?")
PROCESS = re.compile(r"^ *Process \d{1,20} on node (?P<host>\S{1,253}) managing GPUs? (?P<gpu>\d{1,4})", re.MULTILINE)
MISSING = re.compile(r"^(?:INCOMPLETE|DEAD)\n(?P<lines>(?:  .*\n?)*)", re.MULTILINE)
TIMEOUTS = re.compile(r"Encountered (?P<count>\d{1,9}) communication timeouts?")

RANK_MISSING, COLLECTIVES, RAS_TIMEOUTS = (
    f"skewscope_nccl_{word}" for word in ("rank_missing", "coll_seq", "ras_timeouts")
)


class RasError(Exception):
    """Somebody who is no RAS of NCCL."""


class Value(NamedTuple):
    """One number of one rank."""

    metric: str
    labels: tuple[tuple[str, str], ...]
    value: float


@dataclass(frozen=True, slots=True)
class Settings:
    """Some hosts that are asked."""

    name: str
    targets: tuple[tuple[str, int], ...]
    period: float
    timeout: float
    """Seconds that NCCL may take to ask its ranks."""
    most: int = 64 << 20


def read(fields: Fields, at: Path_, name: str) -> Settings:
    """The settings of one source; faults are noted."""
    fields.known(at, ("kind",), ("name", "targets", "period", "timeout", "most_mib", "note"))
    items = list(fields.items((*at, "targets"), MOST_TARGETS))
    targets = tuple(_place(fields, item) for item in items) if items else (("localhost", PORT),)
    period = number(fields, (*at, "period"), 10.0, (1.0, 3600.0))
    timeout = number(fields, (*at, "timeout"), 5.0, (1.0, 60.0))
    most = int(number(fields, (*at, "most_mib"), 64.0, (0.001, 1024.0)) * (1 << 20))
    return Settings(name, targets, period, timeout, most)


def _place(fields: Fields, at: Path_) -> tuple[str, int]:
    text = fields.some_text(at)
    match = PLACE.fullmatch(text)
    if not match or int(match["port"] or PORT) > 65535:
        fields.fault(at, f"{text!r:.80}", "HOST or HOST:PORT")
        return "", 0
    return match["host"].strip("[]"), int(match["port"] or PORT)


def build(wanted: Settings, world: World) -> "Ras":
    """The source."""
    return Ras(wanted, world)


@dataclass
class Ras:
    """Asks some hosts."""

    settings: Settings
    world: World
    series: Series = field(init=False)
    period: float = 0.0
    """Where no job runs nobody answers."""
    _missed: set[tuple[str, str]] = field(default_factory=set)
    """Groups and members that were told as missing in text, which does not tell who is there."""

    def __post_init__(self) -> None:
        self.series = Series(self.world.names, {})
        self.communicators = Communicators(self.world.topology, self.world.names)

    @property
    def name(self) -> str:
        """What the config calls it."""
        return self.settings.name

    async def run(self, sink: Sink) -> None:
        """Asks until it is cancelled."""
        while True:
            now = self.world.clock.now()
            told = await asyncio.gather(*(self._one(target, sink) for target in self.settings.targets))
            down = [trouble for trouble in told if trouble]
            sink.trouble = scrubbed(f"{len(down)} of {len(told)} do not tell: {listed(down, 2)}") if down else ""
            await self.world.clock.sleep(self.settings.period - (self.world.clock.now() - now))

    async def _one(self, target: tuple[str, int], sink: Sink) -> str:
        """Asks one host; what is wrong with it."""
        try:
            answer = await asked(target, self.settings)
            values = await asyncio.to_thread(lambda: list(self.values(answer)))
        except (OSError, RasError, ValueError, asyncio.LimitOverrunError) as error:
            return f"{target[0]}:{target[1]}: {error or type(error).__name__}"
        rows, now = Rows(), self.world.clock.now()
        for metric, of, value in values:
            rows.put(self.series.of(metric, of), now, value)
        if batch := rows.batch(self.series.listing):
            sink.put(batch)
        return ""

    def values(self, answer: str) -> Iterator[Value]:
        """What an answer tells of ranks.

        Raises:
            RasError: it is none.
        """
        if not answer.lstrip().startswith("{"):
            yield from self._of_text(answer)
            return
        try:
            yield from self._of_json(json.loads(answer))
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError):
            raise RasError("an answer in an unknown shape") from None

    def _of_json(self, told: dict[str, Any]) -> Iterator[Value]:
        timeouts = float(told["ras"]["timeouts_count"])
        for communicator in told["communicators"]:
            there = [(_rank(communicator, rank), rank) for rank in communicator.get("ranks", ())]
            missing = [(_rank(communicator, rank), rank) for rank in communicator.get("missing_ranks", ())]
            # Only all ranks together may tell which group it is.
            for named, _ in there + missing:
                self.communicators.member(named)
            for absent, (named, rank) in [(0.0, one) for one in there] + [(1.0, one) for one in missing]:
                group, member = self.communicators.member(named)
                if not group:
                    continue
                yield Value(RANK_MISSING, labels(group, member), absent)
                yield Value(RAS_TIMEOUTS, labels(group, member), timeouts)
                for kind, count in rank.get("collective_counts", {}).items():
                    yield Value(COLLECTIVES, labels(group, member, collective=str(kind)), float(count))

    def _of_text(self, answer: str) -> Iterator[Value]:
        processes = [one for found in MISSING.finditer(answer) for one in PROCESS.finditer(found["lines"])]
        missing = {place for one in processes for place in self.communicators.everywhere(one["host"], int(one["gpu"]))}
        told = TIMEOUTS.search(answer)
        self._missed |= missing
        for group, member in sorted(self._missed):
            yield Value(RANK_MISSING, labels(group, member), float((group, member) in missing))
            yield Value(RAS_TIMEOUTS, labels(group, member), float(told["count"]) if told else 0.0)


def _rank(communicator: dict[str, Any], rank: dict[str, Any]) -> Rank:
    # The numbers of CUDA count only the GPUs that a process may see: NVML's are the node's own.
    gpu = int(rank["nvml_dev"])
    return Rank(str(communicator["hash"]), int(communicator["size"]), int(rank["rank"]), str(rank["host"]), gpu)


async def asked(target: tuple[str, int], wanted: Settings) -> str:
    """What a RAS says of all its ranks, as JSON, or as text where it knows no other.

    Raises:
        OSError: nobody listens, or nobody answers in time.
        RasError: it is no RAS.
    """
    # NCCL may take the time it is given, and some more to put its answer together.
    async with asyncio.timeout(2 * wanted.timeout + 5.0):
        return await _asked(target, wanted, "json") or await _asked(target, wanted, "")


async def _asked(target: tuple[str, int], wanted: Settings, form: str) -> str:
    """The answer in a form; '' where it does not know the form."""
    reader, writer = await asyncio.open_connection(*target, limit=MOST_LINE)
    try:
        greeting = await _said(reader, writer, f"CLIENT PROTOCOL {PROTOCOL}")
        if not greeting.upper().startswith("SERVER PROTOCOL "):
            raise RasError(f"it says {greeting:.40}")
        if await _said(reader, writer, f"TIMEOUT {round(wanted.timeout)}") != "OK":
            raise RasError("it knows no time-out")
        if form and await _said(reader, writer, f"SET FORMAT {form}") != "OK":
            return ""
        writer.write(b"VERBOSE STATUS\n")
        return await _whole(reader, wanted.most)
    finally:
        writer.transport.abort()


async def _said(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, line: str) -> str:
    writer.write(line.encode() + b"\n")
    try:
        return (await reader.readuntil(b"\n")).decode("ascii", "replace").strip()
    except asyncio.IncompleteReadError:
        raise RasError("it hung up") from None


async def _whole(reader: asyncio.StreamReader, most: int) -> str:
    parts, size = [], 0
    while part := await reader.read(CHUNK):
        parts.append(part)
        size += len(part)
        if size > most:
            raise RasError(f"an answer of more than {most} bytes")
    return b"".join(parts).decode("utf-8", "replace")
