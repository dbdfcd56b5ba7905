"""What the campaign finds of stores that other programs read."""

import os
import random

import pytest

from bench.campaign_stores import StoreVisitor, check_left
from skewscope.adapters.controller.audit_head import head_file, write_head
from skewscope.adapters.controller.persistence import StoreWriter
from skewscope.adapters.controller.store import Store


@pytest.fixture
def store(tmp_path):
    found = Store(tmp_path / "s.db")
    for n in range(3):
        found.add_audit_entry(float(n), "ann", "did", {})
    yield found
    found.close()


def test_a_sound_store_is_visited_in_all_ways_without_a_fault(store, tmp_path):
    visitor = StoreVisitor([store.path], tmp_path / "visits", random.Random(1))
    visitor.folder.mkdir()
    for way in (visitor._export, visitor._show, visitor.verify, visitor._connect):
        way(store.path)
    for way in (visitor._copy_by_sqlite, visitor._copy_by_command):
        way(store.path)
    assert visitor.faults == []
    assert check_left(store.path) == ""
    assert store.restored == 0


def test_lines_that_are_gone_are_a_fault_also_without_a_head(store, tmp_path):
    visitor = StoreVisitor([store.path], tmp_path / "visits", random.Random(1))
    visitor.verify(store.path)
    store._connection.execute("DELETE FROM audit WHERE number = 3")
    assert "audit lines 3 to 3 are missing" in check_left(store.path)
    head_file(store.path).unlink()
    visitor.verify(store.path)
    assert visitor.faults == [f"{store.path}: 2 audit lines, and 3 before"]
    write_head(store.path, store._head)


def test_a_log_that_was_removed_has_to_be_written_anew(store, tmp_path, monkeypatch):
    log = tmp_path / "log"
    log.write_text("")
    visitor = StoreVisitor([store.path], tmp_path / "visits", random.Random(1))

    def heal(_):
        StoreWriter(store).write_tick(9.0, [], [])
        log.write_text(store.notice)

    with monkeypatch.context() as patch:
        patch.setattr("bench.campaign_stores.HEAL_S", 0.0)
        visitor.remove_log(store.path, log, os.getpid())
    assert "was not written anew" in visitor.faults.pop()
    monkeypatch.setattr("bench.campaign_stores.time.sleep", heal)
    visitor.remove_log(store.path, log, os.getpid())
    assert (visitor.faults, visitor.done["logs removed"]) == ([], 1)
