"""Counts the series of sources that reach no entity, by source and reason."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from skewscope.adapters.controller.batcher import Batcher
from skewscope.adapters.sources.common.base import SeriesColumns, SourceBatch

SeriesCounts = Mapping[str, Mapping[str, int]]
"""Number of series by source and reason."""


@dataclass
class ClaimedSeries:
    """The series of each source that are not used since several engines claim their replica."""

    counts: SeriesCounts = field(default_factory=dict)
    """Replaced by each update, so that any thread may read it; sources without such series are left out."""
    _by_columns: dict[str, WeakKeyDictionary[SeriesColumns, Mapping[str, int]]] = field(default_factory=dict)

    def update(self, batches: Mapping[str, Sequence[SourceBatch]], batcher: Batcher) -> None:
        """Takes in the batches of a tick, of which a block was built. Sources without a batch keep their counts."""
        if not batcher.claimed_replicas:
            self.counts = {}
            self._by_columns.clear()
            return
        for source, some in batches.items():
            by_columns = self._by_columns.setdefault(source, WeakKeyDictionary())
            for batch in some:
                by_columns[batch.columns] = batcher.count_claims(batch.columns)
        found = {source: sum_counts(by_columns.values()) for source, by_columns in self._by_columns.items()}
        self.counts = {source: reasons for source, reasons in found.items() if reasons}


def sum_counts(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Returns the sums by reason, the most first."""
    total: Counter[str] = Counter()
    for part in parts:
        total.update(part)
    return dict(sorted(total.items(), key=lambda item: (-item[1], item[0])))


def merge_counts(one: SeriesCounts, other: SeriesCounts) -> SeriesCounts:
    """Returns the sums of two counts, the most frequent reason first; sources without series are left out."""
    found = {source: sum_counts((one.get(source, {}), other.get(source, {}))) for source in sorted({*one, *other})}
    return {source: reasons for source, reasons in found.items() if reasons}
