"""Maps series given by name and labels to series of the engine, with a cache.

Sources that read pages use `adapters.formats.openmetrics` for this; all others use this module.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from skewscope.adapters.formats.openmetrics import BLANK_VALUES, SeriesTarget
from skewscope.adapters.formats.openmetrics_grammar import Labels
from skewscope.adapters.mapping.names import MetricResolver
from skewscope.adapters.mapping.senders import SenderLookup
from skewscope.adapters.sources.common.base import SourceBatch, SourceSeriesRegistry
from skewscope.engine.ingest.feed import SeriesKey
from skewscope.engine.model.senders import natural_sender

MAX_SERIES = 2_000_000
"""Maximum series of a source; further series are refused."""
MAX_REMEMBERED = 4_000_000
"""Maximum cached names of series, mapped or not; beyond it the cache is cleared."""
MAX_REMEMBERED_TEXT = 1 << 29
"""Maximum characters of all cached names."""
MAX_TEXT = 1 << 16
"""Maximum characters of the name and labels of one series, as for a line of a page."""
MAX_SECONDS = 1e11
REFUSED = "its sender may not report series"
"""The begin of a reason for which a series is not used."""
MAX_METRIC_SHOWN = 80
"""Maximum characters of a metric name in a problem."""

T = TypeVar("T")


def _identity(reported: tuple[str, Labels]) -> tuple[str, Labels]:
    return reported


@dataclass
class SeriesMapper:
    """The series of one source."""

    names: MetricResolver
    labels: Mapping[str, str]
    """Labels added to all series."""
    honor_labels: bool = False
    """Whether labels of a series take precedence over those."""
    registry: SourceSeriesRegistry = field(default_factory=SourceSeriesRegistry)
    refused: int = 0
    """Series refused at the limit."""
    senders: SenderLookup | None = None
    """Who delivers a series, and may report it; None: all series are taken."""
    _targets: dict[Hashable, Sequence[SeriesTarget]] = field(default_factory=dict)
    _text: int = 0
    """Characters of the cached names and labels."""

    def __post_init__(self) -> None:
        admit = self._admit if self.senders is not None else None
        self._resolve = self.names.target_lookup(self.labels, self.registry, yielding=self.honor_labels, admit=admit)

    def map_series(self, metric: str, labels: Labels) -> Sequence[SeriesTarget]:
        """Returns the targets of a series with this name and these labels."""
        reported = metric, labels
        return self.lookup(reported, _identity, reported)

    def lookup(self, key: Hashable, named: Callable[[T], tuple[str, Labels]], reported: T) -> Sequence[SeriesTarget]:
        """Returns the targets of a series by its cache key.

        For a new key, `named` converts `reported` to name and labels.
        """
        found = self._targets.get(key)
        if found is None:
            name, labels = named(reported)
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

    def _admit(self, key: SeriesKey, labels: Mapping[str, str]) -> bool:
        """Returns whether a series may be delivered by who delivers it; what must not is counted."""
        assert self.senders is not None
        sender, rule = self.senders.find(labels), self.senders.rule
        if reason := rule.find_objection(sender, key):
            self.registry.refuse(sender.name, reason)
            self.registry.ignore(key.signal, f"{REFUSED} {reason}")
            return False
        if sender.origin != natural_sender(key.kind, key.entity, rule.topology):
            self.registry.senders[key] = sender.origin
        return True

    def lookup_cache(self, key: Hashable) -> Sequence[SeriesTarget] | None:
        """Returns the cached targets of a series; None if it is not cached."""
        return self._targets.get(key)

    def map_without_cache(self, metric: str, labels: Labels) -> Sequence[SeriesTarget]:
        """Returns the targets of a series without caching them."""
        if len(self.registry.keys) >= MAX_SERIES:
            self.refused += 1
            return ()
        return self._resolve(metric, labels)

    @property
    def trouble(self) -> str:
        """A problem in words; '' for none."""
        if self.refused:
            return f"{self.refused} series too many: does a label hold an id or a time?"
        if self.registry.keys or not self.registry.unmapped:
            return ""
        (metric, reason), _ = self.registry.unmapped.most_common(1)[0]
        return f"none of its {self.registry.unmapped.total()} series is used; {metric[:MAX_METRIC_SHOWN]}: {reason}"


@dataclass
class SourceBatchBuilder:
    """Collects samples of a batch."""

    numbers: list[int] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    _scales: list[float] = field(default_factory=list)
    _blanks: list[bool] = field(default_factory=list)

    def add(self, targets: Sequence[SeriesTarget], time: float, value: float) -> None:
        """Adds a sample to each target; `time` in seconds since 1970."""
        for target in targets:
            self.numbers.append(target.number)
            self.times.append(time)
            self.values.append(value)
            self._scales.append(target.scale)
            self._blanks.append(target.has_blanks)

    def build(self, registry: SourceSeriesRegistry) -> SourceBatch | None:
        """Returns the batch, each series at most once per time; None if empty.

        Of several values of a series at one time the first counts: some senders repeat themselves.
        """
        numbers, times = np.array(self.numbers, np.int32), np.array(self.times, np.float64)
        values = np.array(self.values, np.float64)
        if any(self._blanks):
            values = np.where(np.array(self._blanks) & np.isin(values, BLANK_VALUES), np.nan, values)
        values *= np.array(self._scales, np.float64)
        sound = np.flatnonzero(np.isfinite(times) & (np.abs(times) < MAX_SECONDS))
        _, first = np.unique(np.stack((numbers[sound], times[sound])), axis=1, return_index=True)
        usable = sound[np.sort(first)]
        return SourceBatch(registry, numbers[usable], times[usable], values[usable]) if len(usable) else None
