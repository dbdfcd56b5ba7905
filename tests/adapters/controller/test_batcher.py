"""Batches become blocks: of what rules read, by the best name, in their tick."""

import numpy as np

from skewscope.adapters.controller.agent_receiver import AgentTable
from skewscope.adapters.controller.batcher import Batcher
from skewscope.adapters.sources.common.base import SourceBatch, SourceSeriesRegistry
from skewscope.engine.ingest.feed import SeriesKey
from skewscope.engine.model.topology import Group, Node, Topology

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


def announced(owner, keys):
    found = AgentTable(f"{owner}/0", owner)
    found.keys += keys
    return found


def test_series_are_bounded_by_node_under_ever_new_boots_and_others_have_theirs(monkeypatch):
    monkeypatch.setattr("skewscope.adapters.controller.batcher.MAX_OWNER_SERIES", 50)
    gathering = Batcher({"gpu.util"})
    for boot in range(20):
        table = announced("n0", [SeriesKey("gpu.util", "gpu", "n0/gpu0", f"{boot}-{n}") for n in range(20)])
        gathering.build_block([SourceBatch(table, None, float(boot), np.ones(20))], float(boot))
    assert len(gathering.table.keys) == 50
    assert "new series of n0 are ignored" in gathering.describe_overflow()
    again = announced("n0", [SeriesKey("gpu.util", "gpu", "n0/gpu0", "0-1")])
    assert len(gathering.build_block([SourceBatch(again, None, 20.0, np.ones(1))], 20.0)) == 1, "it is known"
    other = announced("n1", [SeriesKey("gpu.util", "gpu", "n1/gpu0")])
    assert len(gathering.build_block([SourceBatch(other, None, 21.0, np.ones(1))], 21.0)) == 1


def many(count, node="n0"):
    return [SeriesKey("gpu.util", "gpu", f"{node}/gpu0", f"{n}") for n in range(count)]


def test_new_series_of_one_owner_are_taken_in_over_several_ticks(monkeypatch):
    monkeypatch.setattr("skewscope.adapters.controller.batcher.MAX_NEW_COLUMNS", 4)
    gathering = Batcher({"gpu.util"})
    greedy, other = announced("n0", many(10)), announced("n1", many(3, "n1"))
    whole = lambda t: SourceBatch(greedy, None, t, np.full(10, t))  # noqa: E731
    part = SourceBatch(greedy, np.array([9, 1, 5], np.int32), np.array([2.0, 2.0, 2.0]), np.array([9.0, 1.0, 5.0]))
    rows = SourceBatch(other, None, 1.0, np.zeros(3))
    assert len(gathering.build_block([whole(1.0), whole(1.0), rows], 1.0)) == 2 * 4 + 3
    assert [value for _, value in seen(gathering, gathering.build_block([part], 2.0))] == [1.0, 5.0]
    assert len(gathering.build_block([whole(3.0)], 3.0)) == 10
    assert len(gathering.table.keys) == 13


def test_series_that_have_a_number_already_are_taken_in_at_once(monkeypatch):
    monkeypatch.setattr("skewscope.adapters.controller.batcher.MAX_NEW_COLUMNS", 4)
    gathering, keys = Batcher({"gpu.util"}), many(10)
    for key in keys[:7]:
        gathering.table.number(key)
    rows = SourceBatch(announced("n0", keys), None, 1.0, np.zeros(10))
    assert len(gathering.build_block([rows], 1.0)) == 10
    more = SourceBatch(announced("n1", many(7, "n1")), None, 2.0, np.zeros(7))
    assert len(gathering.build_block([more], 2.0)) == 4


def test_selectors_that_one_owner_uses_first_are_bounded_and_others_have_theirs(monkeypatch):
    monkeypatch.setattr("skewscope.adapters.controller.batcher.MAX_OWNER_SELECTORS", 4)
    gathering = Batcher({"gpu.util", "gpu.power"})
    greedy, other = announced("n0", many(10)), announced("n1", many(6, "n1"))
    rows = [SourceBatch(greedy, None, 1.0, np.zeros(10)), SourceBatch(other, None, 1.0, np.zeros(6))]
    found = [key for key, _ in seen(gathering, gathering.build_block(rows, 1.0))]
    assert [sum(key.entity == f"{node}/gpu0" for key in found) for node in ("n0", "n1")] == [4, 6]
    assert "n0" in gathering.describe_overflow()
    assert "n1" not in gathering.describe_overflow()


def test_selectors_of_one_owner_are_bounded_by_the_memory_that_they_take(monkeypatch):
    monkeypatch.setattr("skewscope.adapters.controller.batcher.MAX_OWNER_CELLS", 12)
    monkeypatch.setattr("skewscope.adapters.controller.batcher.MIN_OWNER_SELECTORS", 2)
    two = Topology((Node("n0"), Node("n1")))
    gathering, keys = Batcher({"gpu.util", "gpu.power"}, two), many(4)
    keys += [SeriesKey("gpu.power", key.kind, key.entity, key.selector) for key in keys]
    assert len(gathering.build_block([SourceBatch(announced("n0", keys), None, 1.0, np.zeros(8))], 1.0)) == 6
    following = Batcher({"gpu.util", "gpu.power"}, two)
    following.table.number(gathering.table.keys[0])
    following.take_over(gathering, np.array([0]), 1.0)
    more = [SeriesKey("gpu.util", "gpu", "n0/gpu0", f"x{n}") for n in range(9)]
    assert len(following.build_block([SourceBatch(announced("n0", more), None, 2.0, np.zeros(9))], 2.0)) == 5


def test_entities_are_bounded_by_node_before_they_take_memory(monkeypatch):
    monkeypatch.setattr("skewscope.adapters.controller.batcher.MAX_OWNER_ENTITIES", 30)
    gathering = Batcher({"gpu.util"})
    for boot in range(10):
        table = announced("n0", [SeriesKey("gpu.util", "gpu", f"n0/gpu{boot}-{n}") for n in range(20)])
        gathering.build_block([SourceBatch(table, None, float(boot), np.ones(20))], float(boot))
    assert len(gathering._entities) == 30
    assert len(gathering.table.keys) <= 30


def test_what_waits_and_who_is_claimed_goes_on_with_the_next_engine():
    topology = Topology((Node("n0"),), (Group("g", "tensor-parallel", ("n0",)),))
    before, after = (Batcher({"serve.running", "gpu.util"}, topology, frozenset({"serve.running"})) for _ in range(2))
    rivals = [SeriesKey("serve.running", "replica", "g", f"instance=h:{port}") for port in (80, 81)]
    columns = listing(*((key, 0) for key in rivals), (KEY, 0))
    for t in (1.0, 2.0, 3.0):
        before.build_block([SourceBatch(columns, None, t, np.ones(3))], t)
    before.build_block([SourceBatch(columns, None, 4.5, np.array([1.0, 1.0, 7.0]))], 4.0)
    assert "g" in before.claimed_replicas
    after.table.number(KEY)
    after.take_over(before, np.array([before.table.number(KEY)]), 4.0)
    assert seen(after, after.build_block([], 5.0)) == [(KEY, 7.0)]
    assert after.count_claims(columns)
