"""Batches become blocks: of what rules read, by the best name, in their tick."""

import numpy as np

from skewscope.adapters.controller.batcher import Batcher
from skewscope.adapters.sources.common.base import SourceBatch, SourceSeriesRegistry
from skewscope.engine.ingest.feed import SeriesKey

KEY = SeriesKey("gpu.util", "gpu", "n0/gpu0")
OTHER = SeriesKey("gpu.util", "gpu", "n0/gpu0", "other")
UNREAD = SeriesKey("gpu.name", "gpu", "n0/gpu0")


def listing(*pairs):
    found = SourceSeriesRegistry()
    for key, rank in pairs:
        found.register(key, rank)
    return found


def seen(gathering, block):
    return [(gathering.table.keys[n], v) for n, v in zip(block.series.tolist(), block.value.tolist(), strict=True)]


def test_the_best_name_counts_from_when_it_comes():
    gathering = Batcher({"gpu.util"})
    worse, better = listing((KEY, 5), (UNREAD, 1)), listing((OTHER, 2))
    rows = SourceBatch(worse, None, 1.0, np.array([1.0, 7.0]))
    assert seen(gathering, gathering.build_block([rows], 1.0)) == [(KEY, 1.0)]
    good = SourceBatch(better, np.array([0], np.int32), np.array([2.0]), np.array([2.0]))
    assert seen(gathering, gathering.build_block([good, rows], 2.0)) == [(OTHER, 2.0)]
    assert seen(gathering, gathering.build_block([rows], 3.0)) == []


def test_what_is_of_a_later_tick_waits_for_it_and_what_is_far_off_does_not():
    gathering, columns = Batcher({"gpu.util"}), listing((KEY, 0), (OTHER, 0))
    both = SourceBatch(columns, np.array([0, 1], np.int32), np.array([10.5, 11.5]), np.array([1.0, 2.0]))
    row = SourceBatch(columns, None, 11.2, np.array([3.0]))
    far = SourceBatch(columns, None, 500.0, np.array([4.0]))
    assert seen(gathering, gathering.build_block([both, row, far], 11.0)) == [(KEY, 1.0), (KEY, 4.0)]
    assert seen(gathering, gathering.build_block([], 12.0)) == [(KEY, 3.0), (OTHER, 2.0)]
    assert len(gathering.build_block([], 13.0)) == 0


def test_columns_grow_and_infinities_are_gaps():
    gathering, columns = Batcher({"gpu.util"}), listing((KEY, 0))
    gathering.build_block([SourceBatch(columns, None, 1.0, np.array([1.0]))], 1.0)
    columns.register(OTHER, 0)
    found = gathering.build_block([SourceBatch(columns, None, 2.0, np.array([2.0, np.inf]))], 2.0)
    assert [key for key, _ in seen(gathering, found)] == [KEY, OTHER]
    assert np.isnan(found.value).tolist() == [False, True]


def test_when_too_much_comes_at_once_the_newest_row_of_each_table_counts(monkeypatch):
    monkeypatch.setattr("skewscope.adapters.controller.batcher.MAX_AT_ONCE", 3)
    gathering = Batcher({"gpu.util"})
    one, two = listing((KEY, 0)), listing((OTHER, 0), (UNREAD, 0))
    rows = [SourceBatch(one, None, t, np.array([t])) for t in (1.0, 2.0, 3.0)]
    found = gathering.build_block([*rows, SourceBatch(two, None, 1.5, np.array([9.0]))], 3.0)
    assert seen(gathering, found) == [(KEY, 3.0), (OTHER, 9.0)]
    assert gathering.superseded_values == 2
    early = [SourceBatch(two, None, t, np.array([t, t])) for t in (3.5, 4.0, 4.5)]
    assert seen(gathering, gathering.build_block(early, 4.0)) == [(OTHER, 4.0)], (
        "what waits for its tick stands for nothing"
    )
