"""Sources of kind `nccl-inspector`: JSON records of collectives that NCCL's inspector writes to files.

A record is one collective of one rank. Its group is found from the ranks of its communicator; records of an ambiguous
communicator are counted and omitted. A record timed by the CPU instead of the GPU says nothing about the network; only
its sequence number is used.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from skewscope.adapters.config.fields import read_bool, read_number
from skewscope.adapters.formats.json_records import JsonRecordParser
from skewscope.adapters.mapping.senders import FLEET
from skewscope.adapters.sources import SourceContext
from skewscope.adapters.sources.common.base import BatchSink, SourceBatch
from skewscope.adapters.sources.common.communicators import CommunicatorMatcher, CommunicatorRank, rank_labels
from skewscope.adapters.sources.common.file_tail import MAX_FILES, FileTail
from skewscope.adapters.sources.common.polling import poll_files
from skewscope.adapters.sources.common.senders import build_lookup, read_reports_for
from skewscope.adapters.sources.common.series_mapper import SeriesMapper, SourceBatchBuilder
from skewscope.kb.field_reader import FieldReader
from skewscope.kb.yamlfile import FieldPath

TIMED_METRICS = {
    "coll_busbw_gbs": "nccl_bus_bandwidth_gbs",
    "coll_exec_time_us": "nccl_collective_exec_time_microseconds",
    "coll_msg_size_bytes": "skewscope_nccl_coll_size",
}
SEQUENCE_METRIC = "skewscope_nccl_coll_seq"


@dataclass(frozen=True, slots=True)
class NcclInspectorSettings:
    """Settings of one source."""

    name: str
    path: str
    period: float
    from_start: bool = False
    reports_for: tuple[str, ...] = (FLEET,)
    """What its files report for: by default everything, so that who can write them is trusted."""


def read(fields: FieldReader, at: FieldPath, name: str) -> NcclInspectorSettings:
    """Parses the settings of one source; problems are added to `fields`."""
    fields.check_keys(at, ("kind", "path"), ("name", "period", "from_start", "reports_for", "note"))
    folder = Path(fields.document.file).parent
    path = str(folder / (fields.text((*at, "path")) or "."))
    period = read_number(fields, (*at, "period"), 1.0, (0.1, 3600.0))
    from_start = read_bool(fields, (*at, "from_start"))
    reports_for = read_reports_for(fields, (*at, "reports_for"), (FLEET,))
    return NcclInspectorSettings(name, path, period, from_start, reports_for)


def build(settings: NcclInspectorSettings, context: SourceContext) -> "NcclInspectorSource":
    """Creates the source."""
    return NcclInspectorSource(settings, context)


@dataclass
class NcclInspectorSource:
    """Reads the files of some inspectors."""

    settings: NcclInspectorSettings
    context: SourceContext
    mapper: SeriesMapper = field(init=False)
    unmapped: int = 0
    """Records of unmatched communicators."""
    period: float = 0.0
    """Zero: an idle job writes nothing."""
    _tail: FileTail = field(init=False)
    _parsers: dict[Path, JsonRecordParser] = field(default_factory=dict)

    def __post_init__(self) -> None:
        senders = build_lookup(self.settings.name, self.context.topology, self.settings.reports_for)
        self.mapper = SeriesMapper(self.context.names, {}, senders=senders)
        self.communicators = CommunicatorMatcher(self.context.topology, self.context.names)
        self._tail = FileTail(Path(self.settings.path), self.settings.from_start)

    @property
    def name(self) -> str:
        """Name in the config."""
        return self.settings.name

    async def run(self, sink: BatchSink) -> None:
        """Reads until cancelled."""
        sink.follow(self.mapper.registry)
        await poll_files(sink, self.context, self.settings.period, lambda _: self.read(), self._trouble)

    def read(self) -> SourceBatch | None:
        """Returns the values since the last call.

        Raises:
            OSError: there is no such file.
        """
        rows = SourceBatchBuilder()
        for path, data in self._tail.read():
            if path not in self._parsers and len(self._parsers) >= MAX_FILES:
                self._parsers.clear()
            for record in self._parsers.setdefault(path, JsonRecordParser()).feed(data):
                self._add_record(record, rows)
        return rows.build(self.mapper.registry)

    def _add_record(self, record: dict[str, Any], rows: SourceBatchBuilder) -> None:
        try:
            head, about, perf = record["header"], record["metadata"], record["coll_perf"]
            rank = CommunicatorRank(str(head["id"]), int(head["n_ranks"]), int(head["rank"]), str(about["hostname"]))
            time, sequence = float(about["dump_timestamp_us"]) / 1e6, float(perf["coll_sn"])
            timed = {name: float(perf[name]) for name in TIMED_METRICS if name in perf}
            kind = str(perf["coll"])
            by_cpu = "cpu" in str(perf.get("coll_timing_source", "")).lower()
        except (KeyError, TypeError, ValueError, OverflowError):
            self.unmapped += 1
            return
        group, member = self.communicators.find_member(rank)
        if not group:
            self.unmapped += 1
            return
        self._add_sample(rows, SEQUENCE_METRIC, rank_labels(group, member), (time, sequence))
        for name, value in () if by_cpu else timed.items():
            self._add_sample(rows, TIMED_METRICS[name], rank_labels(group, member, collective=kind), (time, value))

    def _add_sample(
        self, rows: SourceBatchBuilder, metric: str, of: tuple[tuple[str, str], ...], sample: tuple[float, float]
    ) -> None:
        rows.add(self.mapper.map_series(metric, of), *sample)

    def _trouble(self) -> str:
        broken = sum(records.broken for records in self._parsers.values())
        counts = {
            f"{broken} broken records": broken,
            f"{self.unmapped} records of unmatched communicators": self.unmapped,
            f"{self._tail.skipped_bytes} bytes skipped": self._tail.skipped_bytes,
        }
        return ", ".join(text for text, count in counts.items() if count)
