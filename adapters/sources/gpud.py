"""Sources of kind `gpud`: what gpud says of the hosts on which it runs, asked for each period.

Each state that is not healthy counts as a message at its node, once in each answer: it goes on while it is given.
"""

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from urllib.parse import urlsplit

from skewscope.adapters.mapping.senders import FLEET
from skewscope.adapters.runtime.blocking_calls import WORK
from skewscope.adapters.sources import SourceContext
from skewscope.adapters.sources.common.base import BatchSink, SourceBatch, SourceSeriesRegistry, redact_message
from skewscope.adapters.sources.common.http_client import FetchError, fetch
from skewscope.adapters.sources.common.live_messages import LiveMessages
from skewscope.adapters.sources.common.scrape_settings import ScrapeSettings, parse_settings
from skewscope.adapters.sources.common.senders import build_lookup
from skewscope.adapters.sources.common.series_mapper import SeriesMapper, SourceBatchBuilder
from skewscope.adapters.sources.common.targets import ScrapeTarget, TargetDiscovery, discover_targets, scrape_labels
from skewscope.kb.document_lines import list_document_lines
from skewscope.kb.field_reader import FieldReader
from skewscope.kb.loader import catalogue
from skewscope.kb.problems import join_names
from skewscope.kb.yamlfile import FieldPath

FORMAT = "gpud-json"
STATES = TargetDiscovery(scheme="https", path="/v1/states")
PERIOD = 60.0
"""Seconds in which gpud itself checks most parts of a host again."""
MAX_CONCURRENT = 64


def read(fields: FieldReader, at: FieldPath, name: str) -> ScrapeSettings:
    """Parses the settings of one source; problems are added to `fields`."""
    return parse_settings(fields, at, name, STATES, PERIOD)


def build(settings: ScrapeSettings, context: SourceContext) -> "GpudSource":
    """Creates the source."""
    return GpudSource(settings, context)


@dataclass
class GpudTarget:
    """One gpud, and what it has said so far."""

    messages: LiveMessages
    mapper: SeriesMapper
    trouble: str = ""


@dataclass
class GpudSource:
    """Asks all gpuds of one source for their states."""

    settings: ScrapeSettings
    context: SourceContext
    registry: SourceSeriesRegistry = field(default_factory=SourceSeriesRegistry)
    targets: dict[ScrapeTarget, GpudTarget] = field(default_factory=dict)
    period: float = 0.0
    """Zero: hosts that are healthy say nothing."""
    _version: int = 0
    """That of the topology for which the registry is."""

    @property
    def name(self) -> str:
        """Name in the config."""
        return self.settings.name

    @cached_property
    def _semaphore(self) -> asyncio.Semaphore:
        return asyncio.Semaphore(MAX_CONCURRENT)

    async def run(self, sink: BatchSink) -> None:
        """Asks until cancelled."""
        sink.follow(self.registry)
        while True:
            begun = self.context.clock.uptime()
            await self.ask_all(sink)
            await self.context.clock.sleep(self.settings.period - (self.context.clock.uptime() - begun))

    async def ask_all(self, sink: BatchSink) -> None:
        """Asks each target once, and delivers its verdicts."""
        found, troubles = await discover_targets(self.settings.discovery)
        self._follow(found, sink)
        answers = await asyncio.gather(*map(self._ask, found))
        read_all = partial(self._read, dict(zip(found, answers, strict=True)), self.context.clock.now())
        if batch := await WORK.run(read_all):
            sink.put(batch)
        sink.trouble = redact_message("; ".join([*troubles, *self._troubles()]))

    def _follow(self, found: list[ScrapeTarget], sink: BatchSink) -> None:
        """Keeps the targets that are there, and maps all anew where the topology is another one."""
        if self._version != self.context.version:
            self._version, self.registry = self.context.version, SourceSeriesRegistry()
            sink.follow(self.registry)
            for target, one in self.targets.items():
                one.mapper = self._build_mapper(target)
        self.targets = {target: self.targets.get(target) or self._build_target(target) for target in found}

    def _build_target(self, target: ScrapeTarget) -> GpudTarget:
        return GpudTarget(LiveMessages(_labels_of(target)), self._build_mapper(target))

    def _build_mapper(self, target: ScrapeTarget) -> SeriesMapper:
        named = self.settings.reports_for or ((FLEET,) if self.context.trusts_sources else ())
        senders = build_lookup(f"{self.name} {target.url}", self.context.topology, named, _labels_of(target))
        return SeriesMapper(self.context.names, {}, registry=self.registry, senders=senders)

    async def _ask(self, target: ScrapeTarget) -> bytes:
        """Returns the answer of one target; b"" for none."""
        one = self.targets[target]
        try:
            async with self._semaphore:
                answer = await fetch(target.url, self.settings.fetch_options)
        except FetchError as error:
            one.trouble = str(error) or "no answer"
            return b""
        one.trouble = ""
        return answer

    def _read(self, answers: Mapping[ScrapeTarget, bytes], now: float) -> SourceBatch | None:
        """Returns the verdicts in the answers."""
        rows, records = SourceBatchBuilder(), catalogue().formats[FORMAT].records
        for target, answer in answers.items():
            one = self.targets[target]
            lines = list_document_lines(answer.decode(errors="replace"), records)
            for metric, labels, count in one.messages.read(lines):
                rows.add(one.mapper.map_series(metric, labels), now, count)
        return rows.build(self.registry)

    def _troubles(self) -> Iterator[str]:
        down = [f"{target.url}: {one.trouble}" for target, one in self.targets.items() if one.trouble]
        if down:
            yield f"{len(down)} of {len(self.targets)} do not answer: {join_names(down, 2)}"


def _labels_of(target: ScrapeTarget) -> dict[str, str]:
    """Returns the labels of one target: its node is the host of its address, unless it is given."""
    given = scrape_labels(target)
    return {"node": urlsplit(target.url).hostname or "", **given}
