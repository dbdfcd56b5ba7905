"""Counts the series of sources that reach no entity, by source and reason."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from skewscope.adapters.controller.batcher import Batcher
from skewscope.adapters.sources.common.base import SeriesColumns, SourceBatch

MANY_SHARE = 0.1
"""Share of series without a place from which the controller says so: fewer may be of what nobody wants to know."""
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


def describe_gaps(counts: SeriesCounts, used: int) -> tuple[str, ...]:
    """Returns a sentence on each source of which many series have no place in the topology.

    Args:
        counts: series without a place by source and reason.
        used: number of series in the engine.
    """
    found = []
    for source, reasons in sorted(counts.items()):
        lost = {reason: count for reason, count in reasons.items() if is_of_topology(reason)}
        if sum(lost.values()) > MANY_SHARE * (used + sum(lost.values())):
            reason, count = max(lost.items(), key=lambda item: item[1])
            found.append(
                f"{sum(lost.values()):,} series of {source} have no place in the topology, {count:,} of them as "
                f"{reason}: what they measure is not judged."
            )
    return tuple(found)


def is_of_topology(reason: str) -> bool:
    """Returns whether a reason for which a series has no place is one of the topology, not of the catalogue."""
    return "topology" in reason or reason.startswith(("no label says", "its node is the front end"))
