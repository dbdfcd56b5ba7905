"""Samples of series that come by name and labels, one at a time: what each stands for is worked out once.

Sources that read pages have `adapters.formats.openmetrics` for this; here it is for all others.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from skewscope.adapters.formats.openmetrics import BLANK_VALUES, SeriesTarget
from skewscope.adapters.formats.openmetrics_grammar import Labels
from skewscope.adapters.mapping.names import MetricResolver
from skewscope.adapters.sources.base import SourceBatch, SourceSeriesRegistry

MAX_SERIES = 2_000_000
"""Series that a source may number; of what comes beyond, nothing is taken."""
MAX_REMEMBERED = 4_000_000
"""Names of series that are remembered, wanted ones or not; beyond it all are forgotten and learned anew."""
MAX_REMEMBERED_TEXT = 1 << 29
"""Characters of all of them together, as above."""
MAX_TEXT = 1 << 16
"""Characters of one series' name and labels, as in a line of a page."""
MAX_SECONDS = 1e11

T = TypeVar("T")


def _identity(told: tuple[str, Labels]) -> tuple[str, Labels]:
    return told


@dataclass
class SeriesMapper:
    """The series of one source."""

    names: MetricResolver
    labels: Mapping[str, str]
    """That all of them get."""
    honor_labels: bool = False
    """Whether a series' own labels win over those."""
    registry: SourceSeriesRegistry = field(default_factory=SourceSeriesRegistry)
    refused: int = 0
    """That there was no room for."""
    _targets: dict[Hashable, Sequence[SeriesTarget]] = field(default_factory=dict)
    _text: int = 0
    """Characters of the names and labels of those."""

    def __post_init__(self) -> None:
        self._resolve = self.names.target_lookup(self.labels, self.registry, yielding=self.honor_labels)

    def map_series(self, metric: str, labels: Labels) -> Sequence[SeriesTarget]:
        """Where the values of a series go that has this name and these labels."""
        told = metric, labels
        return self.lookup(told, _identity, told)

    def lookup(self, key: Hashable, named: Callable[[T], tuple[str, Labels]], told: T) -> Sequence[SeriesTarget]:
        """Where the values of a series go; `key` is whatever says that it is the same one.

        Where it is new, `named` makes name and labels of what was told of it.
        """
        found = self._targets.get(key)
        if found is None:
            name, labels = named(told)
            size = len(name) + sum(len(label) + len(value) for label, value in labels)
            if size > MAX_TEXT:
                self.refused += 1
                return ()
            if len(self._targets) >= MAX_REMEMBERED or self._text > MAX_REMEMBERED_TEXT:
                self._targets.clear()
                self._text = 0
            self._text += size
            found = self._targets[key] = self.map_without_cache(name, labels)
        return found

    def lookup_cache(self, key: Hashable) -> Sequence[SeriesTarget] | None:
        """Where the values of a series go that was asked for before; None for one that was not."""
        return self._targets.get(key)

    def map_without_cache(self, metric: str, labels: Labels) -> Sequence[SeriesTarget]:
        """Where the values of a series go that is not asked for again."""
        if len(self.registry.keys) >= MAX_SERIES:
            self.refused += 1
            return ()
        return self._resolve(metric, labels)

    @property
    def trouble(self) -> str:
        """What is wrong with them; '' when nothing is."""
        return f"{self.refused} series too many: does a label hold an id or a time?" if self.refused else ""


@dataclass
class SourceBatchBuilder:
    """Samples on their way into a batch."""

    numbers: list[int] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    _scales: list[float] = field(default_factory=list)
    _blanks: list[bool] = field(default_factory=list)

    def add(self, targets: Sequence[SeriesTarget], time: float, value: float) -> None:
        """Adds a sample for each target; `time` in seconds since 1970."""
        for target in targets:
            self.numbers.append(target.number)
            self.times.append(time)
            self.values.append(value)
            self._scales.append(target.scale)
            self._blanks.append(target.has_blanks)

    def build(self, listing: SourceSeriesRegistry) -> SourceBatch | None:
        """All of it, each series once at each time; None where there is nothing.

        Of several values of one series at one time the first counts: some senders repeat themselves.
        """
        numbers, times = np.array(self.numbers, np.int32), np.array(self.times, np.float64)
        values = np.array(self.values, np.float64)
        if any(self._blanks):
            values = np.where(np.array(self._blanks) & np.isin(values, BLANK_VALUES), np.nan, values)
        values *= np.array(self._scales, np.float64)
        sound = np.flatnonzero(np.isfinite(times) & (np.abs(times) < MAX_SECONDS))
        _, first = np.unique(np.stack((numbers[sound], times[sound])), axis=1, return_index=True)
        kept = sound[np.sort(first)]
        return SourceBatch(listing, numbers[kept], times[kept], values[kept]) if len(kept) else None
