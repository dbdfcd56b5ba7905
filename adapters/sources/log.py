"""Sources of kind `log`: messages in logs that grow, of engines, jobs, schedulers or hosts, as events of the catalogue.

Files are followed when they are rotated; records of journald (`journalctl -f -o json`) and of containers are unwrapped.
"""

from dataclasses import dataclass, field
from pathlib import Path

from skewscope.adapters.config.fields import read_bool, read_number
from skewscope.adapters.mapping.senders import FLEET
from skewscope.adapters.sources import SourceContext
from skewscope.adapters.sources.common.base import BatchSink, SourceBatch
from skewscope.adapters.sources.common.file_tail import FileTail
from skewscope.adapters.sources.common.live_messages import LiveMessages
from skewscope.adapters.sources.common.log_file import LogFileReader
from skewscope.adapters.sources.common.polling import poll_files
from skewscope.adapters.sources.common.senders import build_lookup, read_reports_for
from skewscope.adapters.sources.common.series_mapper import SeriesMapper, SourceBatchBuilder
from skewscope.adapters.sources.common.targets import Labels, parse_labels
from skewscope.kb.field_reader import FieldReader
from skewscope.kb.problems import join_names
from skewscope.kb.yamlfile import FieldPath

FIELDS = ("labels", "period", "from_start", "reports_for")
MAX_UNPLACED = 1000


@dataclass(frozen=True, slots=True)
class LogSettings:
    """One log, or those of a pattern."""

    name: str
    path: str
    """The file; its last part may have `*`."""
    period: float
    labels: Labels = ()
    """What the log is of: node, instance, group; () where its lines name their hosts."""
    from_start: bool = False
    reports_for: tuple[str, ...] = ()


def read(fields: FieldReader, at: FieldPath, name: str) -> LogSettings:
    """Parses the settings of one source; problems are added to `fields`."""
    fields.check_keys(at, ("kind", "path"), ("name", *FIELDS, "note"))
    path = str(Path(fields.document.file).parent / (fields.text((*at, "path")) or "."))
    period = read_number(fields, (*at, "period"), 1.0, (0.1, 3600.0))
    labels = parse_labels(fields, (*at, "labels"))
    reports_for = read_reports_for(fields, (*at, "reports_for"))
    return LogSettings(name, path, period, labels, read_bool(fields, (*at, "from_start")), reports_for)


def build(settings: LogSettings, context: SourceContext) -> "LogSource":
    """Creates the source."""
    return LogSource(settings, context)


@dataclass
class LogSource:
    """Reads the messages of one log, or of several."""

    settings: LogSettings
    context: SourceContext
    mapper: SeriesMapper = field(init=False)
    period: float = 0.0
    """Zero: a log without messages says nothing."""
    unplaced: dict[str, None] = field(default_factory=dict)
    """Messages of which no place of the topology is known."""

    def __post_init__(self) -> None:
        settings, labels = self.settings, dict(self.settings.labels)
        named = settings.reports_for or (() if labels else (FLEET,))
        senders = build_lookup(settings.name, self.context.topology, named, labels)
        self.mapper = SeriesMapper(self.context.names, {}, senders=senders)
        self._log = LogFileReader(FileTail(Path(settings.path), settings.from_start))
        self._messages = LiveMessages(labels)

    @property
    def name(self) -> str:
        """Name in the config."""
        return self.settings.name

    async def run(self, sink: BatchSink) -> None:
        """Reads until cancelled."""
        sink.follow(self.mapper.registry)
        await poll_files(sink, self.context, self.settings.period, self.read, self._trouble)

    def read(self, now: float) -> SourceBatch | None:
        """Returns the messages since the last call.

        Raises:
            OSError: there is no such file.
        """
        rows = SourceBatchBuilder()
        for metric, labels, count in self._messages.read(self._log.lines()):
            targets = self.mapper.map_series(metric, labels)
            rows.add(targets, now, count)
            if not targets and len(self.unplaced) < MAX_UNPLACED:
                shown = ", ".join(f"{name}={value}" for name, value in labels if name != "message")
                self.unplaced[f"{metric.removeprefix('skewscope_event_')} of {shown or 'nobody'}"] = None
        return rows.build(self.mapper.registry)

    def _trouble(self) -> str:
        text = [f"messages without a place in the topology: {join_names([*self.unplaced], 2)}"] if self.unplaced else []
        skipped = self._log.skipped_count
        return ", ".join([*text, f"{skipped} bytes skipped"] if skipped else text)
