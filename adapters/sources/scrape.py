"""Sources of kind `scrape`: pages of Prometheus text or OpenMetrics, fetched each period from many targets.

Each target is asked at a moment of its own, which its address decides: so a fleet is not asked all at once, nor at
other moments after a restart. What a text of a series stands for is worked out once and kept for all later pages.
"""

import asyncio
import hashlib
import io
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property

from skewscope.adapters.formats.openmetrics import ExpositionReader, TargetLookup
from skewscope.adapters.formats.openmetrics import SeriesTarget as Wanted
from skewscope.adapters.formats.openmetrics_grammar import Labels as Pairs
from skewscope.adapters.sources import SourceContext
from skewscope.adapters.sources.base import BatchSink, SourceBatch, SourceSeriesRegistry, redact_address
from skewscope.adapters.sources.http_client import FetchError, fetch
from skewscope.adapters.sources.scrape_settings import ScrapeSettings, parse_settings
from skewscope.adapters.sources.series_mapper import SeriesMapper
from skewscope.adapters.sources.targets import ScrapeTarget, discover_targets, scrape_labels
from skewscope.engine.ingest.feed import F64
from skewscope.kb.field_reader import FieldReader
from skewscope.kb.problems import InputError, join_names
from skewscope.kb.yamlfile import FieldPath

MAX_CONCURRENT = 128
"""Pages that are fetched at a time."""
MAX_REMEMBERED = 32 << 20
"""Bytes of the texts of series that are remembered of a target; beyond it all are forgotten and learned anew."""
MAX_AGE, MAX_CLOCK_LEAD = 300.0, 5.0
"""Seconds beyond which the newest value of a page is of no use to anybody, and by which a clock may be ahead."""
TARGET_REFRESH_PERIOD = 10.0
"""Seconds between two looks at files and names of targets."""


def read(fields: FieldReader, at: FieldPath, name: str) -> ScrapeSettings:
    """The settings of one source; faults are noted."""
    return parse_settings(fields, at, name)


def build(wanted: ScrapeSettings, world: SourceContext) -> "ScrapeSource":
    """The source."""
    return ScrapeSource(wanted, world)


@dataclass
class ScrapeTargetState:
    """One target while it is scraped."""

    target: ScrapeTarget
    reader: ExpositionReader
    trouble: str = "not scraped yet"
    warning: str = ""
    """What is strange about what it says."""
    task: "asyncio.Task[None] | None" = None


@dataclass
class ScrapeSource:
    """Scrapes the targets of one source."""

    settings: ScrapeSettings
    context: SourceContext
    normalise_labels: Callable[[Pairs], Pairs] = tuple
    """Turns the labels of a page into those that we know."""
    registry: SourceSeriesRegistry = field(default_factory=SourceSeriesRegistry)
    target_states: dict[ScrapeTarget, ScrapeTargetState] = field(default_factory=dict)
    series_refused: int = 0
    """Series that there was no room for."""

    @property
    def name(self) -> str:
        """What the config calls it."""
        return self.settings.name

    @property
    def period(self) -> float:
        """Seconds between two scrapes of a target; none is expected where there are no targets, or none answers."""
        return self.settings.period if any(not page.trouble for page in self.target_states.values()) else 0.0

    @cached_property
    def _semaphore(self) -> asyncio.Semaphore:
        return asyncio.Semaphore(MAX_CONCURRENT)

    @cached_property
    def _executor(self) -> ThreadPoolExecutor:
        """One thread reads all pages of a source: what was learned of one is of use for all.

        It stays when the source is started anew, so that what is still being read then holds up these pages alone, and
        ends with the source.
        """
        return ThreadPoolExecutor(1, f"scrape {self.name}")

    async def run(self, sink: BatchSink) -> None:
        """Scrapes until it is cancelled."""
        readers = self._executor
        try:
            while True:
                targets, troubles = await discover_targets(self.settings.discovery)
                self._sync_targets(targets, sink, readers)
                await self.context.clock.sleep(min(TARGET_REFRESH_PERIOD, self.settings.period))
                sink.trouble = redact_address("; ".join([*troubles, *self._troubles()]))
        finally:
            self._sync_targets([], sink, readers)

    def _sync_targets(self, targets: Sequence[ScrapeTarget], sink: BatchSink, readers: ThreadPoolExecutor) -> None:
        """Begins with new targets, and ends with those that are gone."""
        for target in set(self.target_states) - set(targets):
            page = self.target_states.pop(target)
            if page.task is not None:
                page.task.cancel()
        for target in targets:
            if target not in self.target_states:
                page = self.target_states[target] = ScrapeTargetState(
                    target, ExpositionReader(self._label_resolver(target))
                )
                page.task = asyncio.create_task(self._scrape_forever(page, sink, readers))

    def _label_resolver(self, target: ScrapeTarget) -> TargetLookup:
        """What the series of one target stand for."""
        series = SeriesMapper(self.context.names, scrape_labels(target), self.settings.honor_labels, self.registry)

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
            try:
                async with self._semaphore:
                    await self._scrape_once(page, sink, readers)
                page.trouble = ""
            except (FetchError, InputError) as error:
                page.trouble = redact_address(error) or "it failed"
            except Exception as error:  # noqa: BLE001 - a target that nobody thought of must not end its own scraping
                page.trouble = redact_address(f"{type(error).__name__}: {error}")

    async def _scrape_once(self, page: ScrapeTargetState, sink: BatchSink, readers: ThreadPoolExecutor) -> None:
        at = self.context.clock.now()
        text = await fetch(page.target.url, self.settings.fetch_options)
        loop = asyncio.get_running_loop()
        block = await loop.run_in_executor(readers, page.reader.read, io.BytesIO(text), page.target.url, at)
        if page.reader.cached_bytes > MAX_REMEMBERED:
            page.reader = ExpositionReader(self._label_resolver(page.target))
        page.warning = _clock_warning(block.time, at)
        sink.put(SourceBatch(self.registry, block.series, block.time, block.value))

    def _troubles(self) -> list[str]:
        down = [f"{page.target.url}: {page.trouble}" for page in self.target_states.values() if page.trouble]
        odd = [
            f"{page.target.url}: {page.warning}"
            for page in self.target_states.values()
            if page.warning and not page.trouble
        ]
        said = [f"{len(down)} of {len(self.target_states)} targets are down: {join_names(down, 2)}"] if down else []
        said += [f"{len(odd)} of {len(self.target_states)} are odd: {join_names(odd, 2)}"] if odd else []
        return [*said, f"{self.series_refused} series too many"] if self.series_refused else said


def _clock_warning(times: F64, now: float) -> str:
    """What is strange about the times of a page.

    Raises:
        FetchError: all of it is so old that it says nothing of now.
    """
    if not len(times):
        return ""
    newest = float(times.max())
    if now - newest > MAX_AGE:
        raise FetchError(f"its newest value is {now - newest:.0f} s old; is its clock right?")
    return f"its clock is {newest - now:.0f} s ahead" if newest - now > MAX_CLOCK_LEAD else ""


def _scrape_offset(target: ScrapeTarget, period: float) -> float:
    """When within a period a target is asked."""
    digest = hashlib.sha256(target.url.encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64 * period
