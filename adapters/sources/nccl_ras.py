"""Sources of kind `nccl-ras`: queries NCCL's RAS port (28028 on each host of a job) for the state of its ranks.

Requests JSON, which NCCL supports since 2.28.7; of the text of older versions only ranks that do not respond are used.
Without a running job nothing listens on the port; this is not an error.
"""

import asyncio
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from skewscope.adapters.config.fields import read_number
from skewscope.adapters.runtime.blocking_calls import WORK
from skewscope.adapters.runtime.name_lookup import names
from skewscope.adapters.sources import SourceContext
from skewscope.adapters.sources.common.base import BatchSink, SourceSeriesRegistry, redact_message
from skewscope.adapters.sources.common.communicators import CommunicatorMatcher, CommunicatorRank, rank_labels
from skewscope.adapters.sources.common.senders import build_job_lookup
from skewscope.adapters.sources.common.series_mapper import SeriesMapper, SourceBatchBuilder
from skewscope.kb.field_reader import FieldReader
from skewscope.kb.problems import join_names
from skewscope.kb.yamlfile import FieldPath

PORT = 28028
PROTOCOL = 2
MAX_TARGETS = 1000
MAX_LINE = 1 << 12
CHUNK = 1 << 16
TARGET = re.compile(r"(?P<host>[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::(?P<port>\d{1,5}))?")
PROCESS = re.compile(r"^ *Process \d{1,20} on node (?P<host>\S{1,253}) managing GPUs? (?P<gpu>\d{1,4})", re.MULTILINE)
MISSING = re.compile(r"^(?:INCOMPLETE|DEAD)\n(?P<lines>(?:  .*\n?)*)", re.MULTILINE)
TIMEOUTS = re.compile(r"Encountered (?P<count>\d{1,9}) communication timeouts?")

RANK_MISSING, COLLECTIVE_SEQUENCE, RAS_TIMEOUTS = (
    f"skewscope_nccl_{word}" for word in ("rank_missing", "coll_seq", "ras_timeouts")
)


class RasError(Exception):
    """The other side is not NCCL's RAS."""


class RankValue(NamedTuple):
    """One value of one rank."""

    metric: str
    labels: tuple[tuple[str, str], ...]
    value: float


@dataclass(frozen=True, slots=True)
class NcclRasSettings:
    """Hosts to query."""

    name: str
    targets: tuple[tuple[str, int], ...]
    period: float
    timeout: float
    """Seconds that NCCL may take to query its ranks."""
    max_bytes: int = 64 << 20


def read(fields: FieldReader, at: FieldPath, name: str) -> NcclRasSettings:
    """Parses the settings of one source; problems are added to `fields`."""
    fields.check_keys(at, ("kind",), ("name", "targets", "period", "timeout", "most_mib", "note"))
    items = list(fields.item_paths((*at, "targets"), MAX_TARGETS))
    targets = tuple(_parse_target(fields, item) for item in items) if items else (("localhost", PORT),)
    period = read_number(fields, (*at, "period"), 10.0, (1.0, 3600.0))
    timeout = read_number(fields, (*at, "timeout"), 5.0, (1.0, 60.0))
    most = int(read_number(fields, (*at, "most_mib"), 64.0, (0.001, 1024.0)) * (1 << 20))
    return NcclRasSettings(name, targets, period, timeout, most)


def _parse_target(fields: FieldReader, at: FieldPath) -> tuple[str, int]:
    text = fields.required_text(at)
    match = TARGET.fullmatch(text)
    if not match or int(match["port"] or PORT) > 65535:
        fields.add_problem(at, f"{text!r:.80}", "HOST or HOST:PORT")
        return "", 0
    return match["host"].strip("[]"), int(match["port"] or PORT)


def build(settings: NcclRasSettings, context: SourceContext) -> "NcclRasSource":
    """Creates the source."""
    return NcclRasSource(settings, context)


@dataclass
class NcclRasSource:
    """Queries some hosts."""

    settings: NcclRasSettings
    context: SourceContext
    registry: SourceSeriesRegistry = field(default_factory=SourceSeriesRegistry)
    period: float = 0.0
    """Zero: without a running job there is no answer."""
    _once_missing: set[tuple[str, str]] = field(default_factory=set)
    """Groups and members reported missing in text, which does not list those present."""

    def __post_init__(self) -> None:
        self._mappers = {target: self._build_mapper(target[0]) for target in self.settings.targets}
        self.communicators = CommunicatorMatcher(self.context.topology, self.context.names)

    def _build_mapper(self, host: str) -> SeriesMapper:
        """Returns the mapper of a host: it reports the ranks of the jobs that it takes part in."""
        senders = build_job_lookup(f"{self.settings.name} {host}", self.context.topology, host)
        return SeriesMapper(self.context.names, {}, registry=self.registry, senders=senders)

    @property
    def name(self) -> str:
        """Name in the config."""
        return self.settings.name

    async def run(self, sink: BatchSink) -> None:
        """Queries until cancelled."""
        sink.follow(self.registry)
        while True:
            begun = self.context.clock.uptime()
            reported = await asyncio.gather(*(self._query_target(target, sink) for target in self.settings.targets))
            down = [trouble for trouble in reported if trouble]
            sink.trouble = (
                redact_message(f"{len(down)} of {len(reported)} hosts do not respond: {join_names(down, 2)}")
                if down
                else ""
            )
            await self.context.clock.sleep(self.settings.period - (self.context.clock.uptime() - begun))

    async def _query_target(self, target: tuple[str, int], sink: BatchSink) -> str:
        """Queries one host; returns its error, '' for none."""
        try:
            answer = await query_status(target, self.settings)
            values = await WORK.run(lambda: list(self.parse_answer(answer)))
        except (OSError, RasError, ValueError, asyncio.LimitOverrunError) as error:
            return f"{target[0]}:{target[1]}: {error or type(error).__name__}"
        rows, now = SourceBatchBuilder(), self.context.clock.now()
        for metric, of, value in values:
            rows.add(self._mappers[target].map_series(metric, of), now, value)
        if batch := rows.build(self.registry):
            sink.put(batch)
        return ""

    def parse_answer(self, answer: str) -> Iterator[RankValue]:
        """Yields the values of ranks in an answer.

        Raises:
            RasError: the answer is invalid.
        """
        if not answer.lstrip().startswith("{"):
            yield from self._parse_text(answer)
            return
        try:
            yield from self._parse_json(json.loads(answer))
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError):
            raise RasError("an answer in an unknown shape") from None

    def _parse_json(self, reported: dict[str, Any]) -> Iterator[RankValue]:
        timeouts = float(reported["ras"]["timeouts_count"])
        for communicator in reported["communicators"]:
            there = [(_parse_rank(communicator, rank), rank) for rank in communicator.get("ranks", ())]
            missing = [(_parse_rank(communicator, rank), rank) for rank in communicator.get("missing_ranks", ())]
            # The group is identified by all ranks together.
            for named, _ in there + missing:
                self.communicators.find_member(named)
            for absent, (named, rank) in [(0.0, one) for one in there] + [(1.0, one) for one in missing]:
                group, member = self.communicators.find_member(named)
                if not group:
                    continue
                yield RankValue(RANK_MISSING, rank_labels(group, member), absent)
                yield RankValue(RAS_TIMEOUTS, rank_labels(group, member), timeouts)
                for kind, count in rank.get("collective_counts", {}).items():
                    yield RankValue(COLLECTIVE_SEQUENCE, rank_labels(group, member, collective=str(kind)), float(count))

    def _parse_text(self, answer: str) -> Iterator[RankValue]:
        processes = [one for found in MISSING.finditer(answer) for one in PROCESS.finditer(found["lines"])]
        missing = {
            place for one in processes for place in self.communicators.find_memberships(one["host"], int(one["gpu"]))
        }
        reported = TIMEOUTS.search(answer)
        self._once_missing |= missing
        for group, member in sorted(self._once_missing):
            yield RankValue(RANK_MISSING, rank_labels(group, member), float((group, member) in missing))
            yield RankValue(RAS_TIMEOUTS, rank_labels(group, member), float(reported["count"]) if reported else 0.0)


def _parse_rank(communicator: dict[str, Any], rank: dict[str, Any]) -> CommunicatorRank:
    # CUDA numbers only the GPUs visible to a process; NVML's numbers are the node's.
    gpu = int(rank["nvml_dev"])
    return CommunicatorRank(
        str(communicator["hash"]), int(communicator["size"]), int(rank["rank"]), str(rank["host"]), gpu
    )


async def query_status(target: tuple[str, int], settings: NcclRasSettings) -> str:
    """Returns the status of all ranks as JSON, or as text from older versions.

    Raises:
        OSError: nothing listens, or there is no answer in time.
        RasError: the other side is not RAS.
    """
    # NCCL may use its whole timeout, and needs time to compose the answer.
    async with asyncio.timeout(2 * settings.timeout + 5.0):
        return await _query_format(target, settings, "json") or await _query_format(target, settings, "")


async def _connect(target: tuple[str, int]) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Returns the streams of a connection to the first address of a host that accepts one.

    Raises:
        OSError: none does.
    """
    host, port = target
    *others, last = await names.find(host)
    for address in others:
        with suppress(OSError):
            return await asyncio.open_connection(address, port, limit=MAX_LINE)
    return await asyncio.open_connection(last, port, limit=MAX_LINE)


async def _query_format(target: tuple[str, int], settings: NcclRasSettings, form: str) -> str:
    """Returns the answer in a format; '' if the format is not supported."""
    reader, writer = await _connect(target)
    try:
        greeting = await _send_command(reader, writer, f"CLIENT PROTOCOL {PROTOCOL}")
        if not greeting.upper().startswith("SERVER PROTOCOL "):
            raise RasError(f"it says {greeting:.40}")
        if await _send_command(reader, writer, f"TIMEOUT {round(settings.timeout)}") != "OK":
            raise RasError("it knows no time-out")
        if form and await _send_command(reader, writer, f"SET FORMAT {form}") != "OK":
            return ""
        writer.write(b"VERBOSE STATUS\n")
        return await _read_to_end(reader, settings.max_bytes)
    finally:
        writer.transport.abort()


async def _send_command(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, line: str) -> str:
    writer.write(line.encode() + b"\n")
    try:
        return (await reader.readuntil(b"\n")).decode("ascii", "replace").strip()
    except asyncio.IncompleteReadError:
        raise RasError("it hung up") from None


async def _read_to_end(reader: asyncio.StreamReader, most: int) -> str:
    parts, size = [], 0
    while part := await reader.read(CHUNK):
        parts.append(part)
        size += len(part)
        if size > most:
            raise RasError(f"an answer of more than {most} bytes")
    return b"".join(parts).decode("utf-8", "replace")
