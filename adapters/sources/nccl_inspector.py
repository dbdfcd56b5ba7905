"""Sources of kind `nccl-inspector`: records of collectives that NCCL's inspector writes to files, as JSON.

One record is one collective of one rank. Its group is found by who the ranks of its communicator are; records of a
communicator that could be several groups are counted and left out. What it times by the processor instead of the GPU
tells nothing of the network, and only its sequence is taken.
"""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from skewscope.adapters.more_fields import number, yes
from skewscope.adapters.sources import World
from skewscope.adapters.sources.base import Batch, Sink
from skewscope.adapters.sources.communicators import Communicators, Rank, labels
from skewscope.adapters.sources.samples import Rows, Series
from skewscope.adapters.sources.tail import MOST_FILES, Tail
from skewscope.kb.fields import Fields
from skewscope.kb.yamlfile import Path_

MOST_RECORD = 1 << 20
"""Characters of a record; verbose ones hold a trace."""
TIMED = {
    "coll_busbw_gbs": "nccl_bus_bandwidth_gbs",
    "coll_exec_time_us": "nccl_collective_exec_time_microseconds",
    "coll_msg_size_bytes": "skewscope_nccl_coll_size",
}
SEQUENCE = "skewscope_nccl_coll_seq"


@dataclass(frozen=True, slots=True)
class Settings:
    """One set of files."""

    name: str
    path: str
    period: float
    from_start: bool = False


def read(fields: Fields, at: Path_, name: str) -> Settings:
    """The settings of one source; faults are noted."""
    fields.known(at, ("kind", "path"), ("name", "period", "from_start", "note"))
    folder = Path(fields.document.file).parent
    path = str(folder / (fields.text((*at, "path")) or "."))
    return Settings(name, path, number(fields, (*at, "period"), 1.0, (0.1, 3600.0)), yes(fields, (*at, "from_start")))


def build(wanted: Settings, world: World) -> "Inspector":
    """The source."""
    return Inspector(wanted, world)


@dataclass
class Records:
    """JSON objects out of text that comes in pieces, one a line or spread over several."""

    broken: int = 0
    _rest: str = ""

    def fed(self, data: bytes) -> Iterator[dict[str, Any]]:
        """The objects that are whole by now."""
        text, at = self._rest + data.decode("utf-8", "replace"), 0
        while (at := text.find("{", at)) >= 0:
            try:
                found, at = DECODER.raw_decode(text, at)
            except (ValueError, RecursionError):
                # Objects begin at the beginning of a line: where another one does, this one is broken.
                after = text.find("\n{", at)
                if after < 0 and len(text) - at <= MOST_RECORD:
                    break
                self.broken += 1
                at = after + 1 if after >= 0 else len(text)
                continue
            yield found
        self._rest = text[at:] if at >= 0 else ""


DECODER = json.JSONDecoder()


@dataclass
class Inspector:
    """Reads what the inspectors of some processes write."""

    settings: Settings
    world: World
    series: Series = field(init=False)
    unplaced: int = 0
    """Records whose group nobody knows."""
    period: float = 0.0
    """A job that does not run writes nothing."""
    _tail: Tail = field(init=False)
    _records: dict[Path, Records] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.series = Series(self.world.names, {})
        self.communicators = Communicators(self.world.topology, self.world.names)
        self._tail = Tail(Path(self.settings.path), self.settings.from_start)

    @property
    def name(self) -> str:
        """What the config calls it."""
        return self.settings.name

    async def run(self, sink: Sink) -> None:
        """Reads until it is cancelled."""
        while True:
            try:
                if batch := await asyncio.to_thread(self.read):
                    sink.put(batch)
                sink.trouble = self._trouble()
            except OSError as error:
                sink.trouble = str(error)
            await self.world.clock.sleep(self.settings.period)

    def read(self) -> Batch | None:
        """What was written since the last time.

        Raises:
            OSError: there is no such file.
        """
        rows = Rows()
        for path, data in self._tail.read():
            if path not in self._records and len(self._records) >= MOST_FILES:
                self._records.clear()
            for record in self._records.setdefault(path, Records()).fed(data):
                self._take(record, rows)
        return rows.batch(self.series.listing)

    def _take(self, record: dict[str, Any], rows: Rows) -> None:
        try:
            head, about, perf = record["header"], record["metadata"], record["coll_perf"]
            rank = Rank(str(head["id"]), int(head["n_ranks"]), int(head["rank"]), str(about["hostname"]))
            time, sequence = float(about["dump_timestamp_us"]) / 1e6, float(perf["coll_sn"])
            timed = {name: float(perf[name]) for name in TIMED if name in perf}
            kind = str(perf["coll"])
            by_cpu = "cpu" in str(perf.get("coll_timing_source", "")).lower()
        except (KeyError, TypeError, ValueError, OverflowError):
            self.unplaced += 1
            return
        group, member = self.communicators.member(rank)
        if not group:
            self.unplaced += 1
            return
        self._put(rows, SEQUENCE, labels(group, member), (time, sequence))
        for name, value in () if by_cpu else timed.items():
            self._put(rows, TIMED[name], labels(group, member, collective=kind), (time, value))

    def _put(self, rows: Rows, metric: str, of: tuple[tuple[str, str], ...], sample: tuple[float, float]) -> None:
        rows.put(self.series.of(metric, of), *sample)

    def _trouble(self) -> str:
        broken = sum(records.broken for records in self._records.values())
        counts = {
            f"{broken} broken records": broken,
            f"{self.unplaced} records of no known group": self.unplaced,
            f"{self._tail.skipped} bytes passed over": self._tail.skipped,
        }
        return ", ".join(text for text, count in counts.items() if count)
