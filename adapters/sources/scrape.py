"""Sources of kind `scrape`: pages of Prometheus text or OpenMetrics, fetched each period from many targets.

Each target has a fixed offset within the period, derived from its URL: scrapes are spread over time and keep their
offset after a restart. The mapping of a series' text is computed once and cached for later pages.
"""

import asyncio
import hashlib
import io
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np

from skewscope.adapters.formats.openmetrics import ExpositionReader, TargetLookup
from skewscope.adapters.formats.openmetrics import SeriesTarget as Wanted
from skewscope.adapters.formats.openmetrics_grammar import Labels as Pairs
from skewscope.adapters.mapping.entities import UnmappedError
from skewscope.adapters.mapping.names import UP_METRIC
from skewscope.adapters.mapping.senders import FLEET
from skewscope.adapters.runtime.tasks import start_service
from skewscope.adapters.sources import SourceContext
from skewscope.adapters.sources.common.base import BatchSink, SourceBatch, SourceSeriesRegistry, redact_message
from skewscope.adapters.sources.common.http_client import FetchError, fetch
from skewscope.adapters.sources.common.scrape_settings import ScrapeSettings, parse_settings
from skewscope.adapters.sources.common.senders import build_lookup
from skewscope.adapters.sources.common.series_mapper import SeriesMapper
from skewscope.adapters.sources.common.targets import ScrapeTarget, discover_targets, scrape_labels
from skewscope.engine.model.arrays import F64
from skewscope.kb.field_reader import FieldReader
from skewscope.kb.problems import InputError, join_names
from skewscope.kb.yamlfile import FieldPath

MAX_CONCURRENT = 128
"""Maximum concurrent fetches."""
MAX_REMEMBERED = 32 << 20
"""Maximum cached bytes of series texts per target; beyond it the cache is cleared."""
MAX_AGE, MAX_CLOCK_LEAD = 300.0, 5.0
"""Maximum age of the newest value of a page, and maximum lead of a target's clock, seconds."""
TARGET_REFRESH_PERIOD = 10.0
"""Seconds between two refreshes of target files and DNS names."""


def read(fields: FieldReader, at: FieldPath, name: str) -> ScrapeSettings:
    """Parses the settings of one source; problems are added to `fields`."""
    return parse_settings(fields, at, name)


def build(settings: ScrapeSettings, context: SourceContext) -> "ScrapeSource":
    """Creates the source."""
    return ScrapeSource(settings, context)


@dataclass
class ScrapeTargetState:
    """State of one target."""

    target: ScrapeTarget
    reader: ExpositionReader
    registry: SourceSeriesRegistry
    """Of its series, for one topology."""
    find_up: Callable[[], Sequence[Wanted]] = tuple
    """Returns the series that say whether a page answers; none where nobody wants to know."""
    trouble: str = "not scraped yet"
    warning: str = ""
    """A warning about its page; '' for none."""
    task: "asyncio.Task[None] | None" = None


@dataclass
class ScrapeSource:
    """Scrapes the targets of one source."""

    settings: ScrapeSettings
    context: SourceContext
    normalise_labels: Callable[[Pairs], Pairs] = tuple
    """Converts the labels of a page to common names."""
    registry: SourceSeriesRegistry = field(default_factory=SourceSeriesRegistry)
    target_states: dict[ScrapeTarget, ScrapeTargetState] = field(default_factory=dict)
    series_refused: int = 0
    """Series refused at the limit of series."""
    _version: int = 0
    """That of the topology for which the registry is."""

    @property
    def name(self) -> str:
        """Name in the config."""
        return self.settings.name

    @property
    def period(self) -> float:
        """Seconds between two scrapes of a target; 0 without targets, or if none responds."""
        return self.settings.period if any(not page.trouble for page in self.target_states.values()) else 0.0

    @cached_property
    def _semaphore(self) -> asyncio.Semaphore:
        return asyncio.Semaphore(MAX_CONCURRENT)

    @cached_property
    def _executor(self) -> ThreadPoolExecutor:
        """Parses all pages of a source in one thread: the series cache is shared between pages.

        It survives a restart of the source, so that a page still being parsed delays only this source, and ends with
        it.
        """
        return ThreadPoolExecutor(1, f"scrape {self.name}")

    async def run(self, sink: BatchSink) -> None:
        """Scrapes until cancelled."""
        readers = self._executor
        sink.follow(self.registry)
        try:
            while True:
                self._follow_topology(sink)
                targets, troubles = await discover_targets(self.settings.discovery)
                self._sync_targets(targets, sink, readers)
                await self.context.clock.sleep(min(TARGET_REFRESH_PERIOD, self.settings.period))
                sink.trouble = redact_message("; ".join([*troubles, *self._troubles()]))
        finally:
            self._sync_targets([], sink, readers)

    def _follow_topology(self, sink: BatchSink) -> None:
        """Begins to map all series anew where the topology is another one."""
        if self._version != self.context.version:
            self._version, self.registry = self.context.version, SourceSeriesRegistry()
            sink.follow(self.registry)

    def _sync_targets(self, targets: Sequence[ScrapeTarget], sink: BatchSink, readers: ThreadPoolExecutor) -> None:
        """Starts new targets and stops removed ones."""
        for target in set(self.target_states) - set(targets):
            page = self.target_states.pop(target)
            if page.task is not None:
                page.task.cancel()
        for target in targets:
            if target not in self.target_states:
                lookup = self._label_resolver(target)
                page = self.target_states[target] = ScrapeTargetState(
                    *(target, ExpositionReader(lookup), self.registry, partial(self._find_up, target, lookup))
                )
                scrape = partial(self._scrape_forever, page, sink, readers)
                page.task = start_service(f"scrape {self.name}", scrape, self.context.clock.sleep)

    def _label_resolver(self, target: ScrapeTarget) -> TargetLookup:
        """Returns the lookup of series for one target."""
        static, honors, named = scrape_labels(target), self.settings.honor_labels, self.settings.reports_for
        if self.context.trusts_sources and not named:
            named = (FLEET,)
        # The pages of a whole fleet are one sender: whichever came last has delivered a series.
        name = self.name if FLEET in named else f"{self.name} {static['instance']}"
        senders = build_lookup(name, self.context.topology, named, static, collects=honors)
        series = SeriesMapper(self.context.names, static, honors, self.registry, senders=senders)

        def known(metric: str, labels: Pairs) -> Sequence[Wanted]:
            found = series.map_without_cache(metric, self.normalise_labels(labels))
            self.series_refused += series.refused
            series.refused = 0
            return found

        return known

    async def _scrape_forever(self, page: ScrapeTargetState, sink: BatchSink, readers: ThreadPoolExecutor) -> None:
        """Scrapes one target for ever."""
        clock, period = self.context.clock, self.settings.period
        moment = _scrape_offset(page.target, period)
        while True:
            now = clock.now()
            await clock.sleep((moment - now) % period or period)
            self._follow_topology(sink)
            if page.registry is not self.registry or page.reader.cached_bytes > MAX_REMEMBERED:
                self._renew_reader(page)
            try:
                async with self._semaphore:
                    await self._scrape_once(page, sink, readers)
                page.trouble = ""
            except (FetchError, InputError) as error:
                page.trouble = redact_message(error) or "it failed"
            except Exception as error:  # noqa: BLE001 - a target that nobody thought of must not end its own scraping
                page.trouble = redact_message(f"{type(error).__name__}: {error}")
            await self._report_up(page, sink, readers)

    async def _scrape_once(self, page: ScrapeTargetState, sink: BatchSink, readers: ThreadPoolExecutor) -> None:
        at = self.context.clock.now()
        text = await fetch(page.target.url, self.settings.fetch_options)
        loop = asyncio.get_running_loop()
        block = await loop.run_in_executor(readers, page.reader.read, io.BytesIO(text), page.target.url, at)
        page.warning = _clock_warning(block.time, at)
        sink.put(SourceBatch(page.registry, block.series, block.time, block.value))

    def _renew_reader(self, page: ScrapeTargetState) -> None:
        lookup = self._label_resolver(page.target)
        page.reader, page.registry = ExpositionReader(lookup), self.registry
        page.find_up = partial(self._find_up, page.target, lookup)

    def _find_up(self, target: ScrapeTarget, lookup: TargetLookup) -> Sequence[Wanted]:
        if UP_METRIC in self.context.names.witness_metrics:
            return lookup(UP_METRIC, ())
        try:
            self.context.names.resolve(UP_METRIC, {}, scrape_labels(target))
        except UnmappedError:
            return ()  # not the page of an engine
        return lookup(UP_METRIC, ())

    async def _report_up(self, page: ScrapeTargetState, sink: BatchSink, readers: ThreadPoolExecutor) -> None:
        """Reports whether a page has answered, as Prometheus does for each target."""
        at, loop = self.context.clock.now(), asyncio.get_running_loop()
        numbers = [one.number for one in await loop.run_in_executor(readers, page.find_up)]
        if numbers:
            values = np.full(len(numbers), float(not page.trouble))
            batch = SourceBatch(page.registry, np.array(numbers, np.int32), at, values)
            sink.put(batch, is_answer=not page.trouble)

    def _troubles(self) -> list[str]:
        down = [f"{page.target.url}: {page.trouble}" for page in self.target_states.values() if page.trouble]
        odd = [
            f"{page.target.url}: {page.warning}"
            for page in self.target_states.values()
            if page.warning and not page.trouble
        ]
        text = [f"{len(down)} of {len(self.target_states)} targets are down: {join_names(down, 2)}"] if down else []
        text += [f"{len(odd)} of {len(self.target_states)} are odd: {join_names(odd, 2)}"] if odd else []
        return [*text, f"{self.series_refused} series too many"] if self.series_refused else text


def _clock_warning(times: F64, now: float) -> str:
    """Returns a warning about the times of a page; '' for none.

    Raises:
        FetchError: the newest value is too old.
    """
    if not len(times):
        return ""
    newest = float(times.max())
    if now - newest > MAX_AGE:
        raise FetchError(f"its newest value is {now - newest:.0f} s old; is its clock right?")
    return f"its clock is {newest - now:.0f} s ahead" if newest - now > MAX_CLOCK_LEAD else ""


def _scrape_offset(target: ScrapeTarget, period: float) -> float:
    """Returns the offset of a target within the period, in seconds."""
    digest = hashlib.sha256(target.url.encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64 * period
