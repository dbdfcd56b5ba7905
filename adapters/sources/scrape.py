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

from skewscope.adapters.grammar import Labels as Pairs
from skewscope.adapters.openmetrics import Exposition, Known
from skewscope.adapters.openmetrics import Target as Wanted
from skewscope.adapters.sources import World
from skewscope.adapters.sources.base import Batch, Listing, Sink, scrubbed
from skewscope.adapters.sources.fetch import FetchError, fetch
from skewscope.adapters.sources.samples import Series
from skewscope.adapters.sources.settings import Settings, settings
from skewscope.adapters.sources.targets import Target, as_mapping, found
from skewscope.engine.feed import F64
from skewscope.kb.fields import Fields
from skewscope.kb.problems import InputError, listed
from skewscope.kb.yamlfile import Path_

AT_ONCE = 128
"""Pages that are fetched at a time."""
MOST_REMEMBERED = 32 << 20
"""Bytes of the texts of series that are remembered of a target; beyond it all are forgotten and learned anew."""
OLD, AHEAD = 300.0, 5.0
"""Seconds beyond which the newest value of a page is of no use to anybody, and by which a clock may be ahead."""
AGAIN = 10.0
"""Seconds between two looks at files and names of targets."""


def read(fields: Fields, at: Path_, name: str) -> Settings:
    """The settings of one source; faults are noted."""
    return settings(fields, at, name)


def build(wanted: Settings, world: World) -> "Scrape":
    """The source."""
    return Scrape(wanted, world)


@dataclass
class Page:
    """One target while it is scraped."""

    target: Target
    reader: Exposition
    trouble: str = "not scraped yet"
    odd: str = ""
    """What is strange about what it says."""
    task: "asyncio.Task[None] | None" = None


@dataclass
class Scrape:
    """Scrapes the targets of one source."""

    settings: Settings
    world: World
    spoken: Callable[[Pairs], Pairs] = tuple
    """Turns the labels of a page into those that we know."""
    listing: Listing = field(default_factory=Listing)
    pages: dict[Target, Page] = field(default_factory=dict)
    refused: int = 0
    """Series that there was no room for."""

    @property
    def name(self) -> str:
        """What the config calls it."""
        return self.settings.name

    @property
    def period(self) -> float:
        """Seconds between two scrapes of a target; none is expected where there are no targets, or none answers."""
        return self.settings.period if any(not page.trouble for page in self.pages.values()) else 0.0

    @cached_property
    def _turn(self) -> asyncio.Semaphore:
        return asyncio.Semaphore(AT_ONCE)

    @cached_property
    def _readers(self) -> ThreadPoolExecutor:
        """One thread reads all pages of a source: what was learned of one is of use for all.

        It stays when the source is started anew, so that what is still being read then holds up these pages alone, and
        ends with the source.
        """
        return ThreadPoolExecutor(1, f"scrape {self.name}")

    async def run(self, sink: Sink) -> None:
        """Scrapes until it is cancelled."""
        readers = self._readers
        try:
            while True:
                targets, troubles = await found(self.settings.where)
                self._follow(targets, sink, readers)
                await self.world.clock.sleep(min(AGAIN, self.settings.period))
                sink.trouble = scrubbed("; ".join([*troubles, *self._troubles()]))
        finally:
            self._follow([], sink, readers)

    def _follow(self, targets: Sequence[Target], sink: Sink, readers: ThreadPoolExecutor) -> None:
        """Begins with new targets, and ends with those that are gone."""
        for target in set(self.pages) - set(targets):
            page = self.pages.pop(target)
            if page.task is not None:
                page.task.cancel()
        for target in targets:
            if target not in self.pages:
                page = self.pages[target] = Page(target, Exposition(self._known(target)))
                page.task = asyncio.create_task(self._scraped(page, sink, readers))

    def _known(self, target: Target) -> Known:
        """What the series of one target stand for."""
        series = Series(self.world.names, as_mapping(target), self.settings.honor_labels, self.listing)

        def known(metric: str, labels: Pairs) -> Sequence[Wanted]:
            found = series.learned(metric, self.spoken(labels))
            self.refused += series.refused
            series.refused = 0
            return found

        return known

    async def _scraped(self, page: Page, sink: Sink, readers: ThreadPoolExecutor) -> None:
        """Scrapes one target for ever."""
        clock, period = self.world.clock, self.settings.period
        moment = _moment(page.target, period)
        while True:
            now = clock.now()
            await clock.sleep((moment - now) % period or period)
            try:
                async with self._turn:
                    await self._once(page, sink, readers)
                page.trouble = ""
            except (FetchError, InputError) as error:
                page.trouble = scrubbed(error) or "it failed"
            except Exception as error:  # noqa: BLE001 - a target that nobody thought of must not end its own scraping
                page.trouble = scrubbed(f"{type(error).__name__}: {error}")

    async def _once(self, page: Page, sink: Sink, readers: ThreadPoolExecutor) -> None:
        at = self.world.clock.now()
        text = await fetch(page.target.url, self.settings.wish)
        loop = asyncio.get_running_loop()
        block = await loop.run_in_executor(readers, page.reader.read, io.BytesIO(text), page.target.url, at)
        if page.reader.remembered > MOST_REMEMBERED:
            page.reader = Exposition(self._known(page.target))
        page.odd = _odd(block.time, at)
        sink.put(Batch(self.listing, block.series, block.time, block.value))

    def _troubles(self) -> list[str]:
        down = [f"{page.target.url}: {page.trouble}" for page in self.pages.values() if page.trouble]
        odd = [f"{page.target.url}: {page.odd}" for page in self.pages.values() if page.odd and not page.trouble]
        said = [f"{len(down)} of {len(self.pages)} targets are down: {listed(down, 2)}"] if down else []
        said += [f"{len(odd)} of {len(self.pages)} are odd: {listed(odd, 2)}"] if odd else []
        return [*said, f"{self.refused} series too many"] if self.refused else said


def _odd(times: F64, now: float) -> str:
    """What is strange about the times of a page.

    Raises:
        FetchError: all of it is so old that it says nothing of now.
    """
    if not len(times):
        return ""
    newest = float(times.max())
    if now - newest > OLD:
        raise FetchError(f"its newest value is {now - newest:.0f} s old; is its clock right?")
    return f"its clock is {newest - now:.0f} s ahead" if newest - now > AHEAD else ""


def _moment(target: Target, period: float) -> float:
    """When within a period a target is asked."""
    digest = hashlib.sha256(target.url.encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64 * period
