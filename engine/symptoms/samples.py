"""What the judgement of single series reads: the state of all series, new samples, and means of histograms.

A histogram is judged by the mean of its newest observations. A mean of few observations says little, since single
requests differ by orders of magnitude: one is taken once at least `MANY` are new, and never of those before
the first sample.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from skewscope.engine.model.arrays import F64, Fills, Index, widen_items
from skewscope.engine.model.parameters import MANY
from skewscope.engine.model.tick import NewSamples
from skewscope.kb.model import Signal

HISTOGRAM = "histogram"
SUM, COUNT = "sum", "count"
"""Parts of a histogram, as selectors name them."""
MEANS: Fills = {"sum_before": np.nan, "count_before": np.nan}


class EntityNames(Protocol):
    """The names and numbers of entities by kind."""

    @property
    def names(self) -> Mapping[str, Sequence[str]]:
        """By kind, then number."""

    @property
    def numbers(self) -> Mapping[str, Mapping[str, int]]:
        """By kind, then name."""


class SignalRows(Protocol):
    """The series of one signal."""

    @property
    def version(self) -> int:
        """Grows when a series is added."""

    @property
    def selectors(self) -> Sequence[str]:
        """[row] labels that tell series of one entity apart."""

    @property
    def series(self) -> Index:
        """[row, entity] numbers of series; -1 for none."""


class SampleSource(Protocol):
    """The state of all series, as far as cells read it."""

    @property
    def signals(self) -> Mapping[str, Signal]:
        """Signals by id."""

    @property
    def entities(self) -> EntityNames:
        """Entities by kind."""

    @property
    def kinds(self) -> Mapping[str, str]:
        """The kind of entity of each signal in `rows`."""

    @property
    def rows(self) -> Mapping[str, SignalRows]:
        """The series of each signal that is read."""

    @property
    def latest(self) -> F64:
        """[series] newest value; NaN after a gap."""

    @property
    def times(self) -> F64:
        """[series] time of the newest sample, seconds since 1970."""

    @property
    def earlier_steps(self) -> Sequence[tuple[Index, F64, F64]]:
        """(series, times, values) of this tick, ordered by series and time, that a later one of the tick replaced."""

    def rows_of(self, name: str) -> SignalRows:
        """Returns the rows of a signal, as wide as its kind is now."""

    def fresh_values(self, series: Index | slice) -> F64:
        """Returns [series] values, NaN for stale ones."""

    def counter_totals(self, series: Index | slice) -> tuple[F64, F64]:
        """Returns ([series] totals, [series] times in seconds)."""

    def counter_starts(self, series: Index | slice) -> F64:
        """Returns [series] when counters last began, in seconds: with their first sample, or anew."""


def split_rounds(earlier: Sequence[tuple[Index, F64, F64]], cells: Index, series: Index) -> Iterator[NewSamples]:
    """Yields the samples of one tick, at most one of each cell at a time, the oldest ones first.

    Args:
        earlier: (series, times, values), ordered by series and time.
        cells: [k] the cells that are judged.
        series: [k] theirs.
    """
    order = np.argsort(series)
    cells, series = cells[order], series[order]
    for numbers, times, values in earlier:
        place = np.minimum(np.searchsorted(series, numbers), len(series) - 1)
        turn = np.arange(len(numbers)) - np.searchsorted(numbers, numbers)
        is_judged = series[place] == numbers
        for n in range(int(turn.max(initial=-1)) + 1):
            some = is_judged & (turn == n)
            yield NewSamples(cells[place[some]], values[some], times[some])


@dataclass
class HistogramMeans:
    """The histograms among judged series. Arrays are [histogram] but for `place`."""

    state: SampleSource
    at: Index = field(default_factory=lambda: np.empty(0, np.intp))
    """The cells of their sums."""
    place: Index = field(default_factory=lambda: np.empty(0, np.intp))
    """[cell] number of its histogram, or -1."""
    sum_before: F64 = field(init=False)
    """Sum and count at the last mean; NaN before the first sample."""
    count_before: F64 = field(init=False)
    _sums: Index = field(default_factory=lambda: np.empty(0, np.intp))
    """Their series."""
    _counts: Index = field(default_factory=lambda: np.empty(0, np.intp))
    """-1 where there is none yet."""
    _names: list[tuple[str, str, str]] = field(default_factory=list)
    """Signal, selector of the count, and entity."""

    def __post_init__(self) -> None:
        widen_items(self, MEANS, 0)

    def grow(self, signals: Sequence[Signal], selectors: Sequence[str], entities: Sequence[str]) -> None:
        """Makes room for new cells: [cell] signals, selectors and names of entities."""
        new = range(len(self.place), len(signals))
        added = [cell for cell in new if signals[cell].type == HISTOGRAM]
        self.place = np.concatenate((self.place, np.full(len(new), -1, np.intp)))
        self.place[added] = np.arange(len(added)) + len(self.at)
        self.at = np.concatenate((self.at, np.array(added, np.intp)))
        for cell in added:
            counted = selectors[cell].removesuffix(SUM) + COUNT
            self._names.append((signals[cell].id, counted, entities[cell]))
        sums = [self._find(signals[cell].id, selectors[cell], entities[cell]) for cell in added]
        self._sums = np.concatenate((self._sums, np.array(sums, np.intp)))
        counts = [self._find(*self._names[self.place[cell]]) for cell in added]
        self._counts = np.concatenate((self._counts, np.array(counts, np.intp)))
        widen_items(self, MEANS, len(self.at))

    def _find(self, signal: str, selector: str, entity: str) -> int:
        """Returns a series; -1 for none."""
        rows = self.state.rows_of(signal)
        number = self.state.entities.numbers.get(self.state.kinds[signal], {}).get(entity, -1)
        if number < 0 or selector not in rows.selectors:
            return -1
        return int(rows.series[list(rows.selectors).index(selector), number])

    def overall(self, least: float) -> F64:
        """Returns [histogram] the mean of all that was observed since it began, NaN of fewer than `least`."""
        sums, counts = (
            np.where(some >= 0, self.state.latest[some], np.nan) if len(some) else np.empty(0)
            for some in (self._sums, self._counts)
        )
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(counts >= least, sums / counts, np.nan)

    def read(self, cells: Index) -> tuple[Index, F64, F64]:
        """Returns the cells of which enough observations are new, with their means and times in seconds since 1970.

        Args:
            cells: those of histograms that have a new sample.
        """
        some = self.place[cells]
        for number in some[self._counts[some] < 0].tolist():
            self._counts[number] = self._find(*self._names[number])
        some = some[self._counts[some] >= 0]
        (sums, times), (counts, _) = (self.state.counter_totals(series[some]) for series in (self._sums, self._counts))
        first = np.isnan(self.count_before[some])
        self.sum_before[some[first]], self.count_before[some[first]] = sums[first], counts[first]
        observed = counts - self.count_before[some]
        enough = observed >= MANY
        means = (sums - self.sum_before[some])[enough] / observed[enough]
        some, sums, counts, times = some[enough], sums[enough], counts[enough], times[enough]
        self.sum_before[some], self.count_before[some] = sums, counts
        return self.at[some], means, times


def last_part(selector: str) -> str:
    """Returns the part of a histogram that a selector names."""
    return selector.rpartition(",")[2].strip()
