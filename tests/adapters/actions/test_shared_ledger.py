"""The folder in which controllers share their actions."""

import json
import os
from dataclasses import replace

import pytest

from skewscope.adapters.actions.shared_ledger import SharedLedger
from tests.support.action_samples import build_proposal, build_refused, build_verified

ACTIONS = (build_proposal(), build_verified(), build_refused())


def ledger(folder) -> SharedLedger:
    return SharedLedger(folder / "lock.actions")


def test_what_is_saved_is_loaded_by_another_and_replaced_as_a_whole(tmp_path):
    assert ledger(tmp_path).load() is None
    for action in ACTIONS:
        ledger(tmp_path).save(action)
    assert ledger(tmp_path).load() == {one.id: one for one in ACTIONS}
    changed = replace(ACTIONS[0], waiting="its limits")
    ledger(tmp_path).save(changed)
    assert ledger(tmp_path).load()[changed.id] == changed
    assert len(list((tmp_path / "lock.actions").iterdir())) == 3
    assert (tmp_path / "lock.actions").stat().st_mode & 0o077 == 0


def test_who_has_claimed_an_earlier_term_cannot_write_any_more(tmp_path):
    old, new = ledger(tmp_path), ledger(tmp_path)
    assert [old.claim(), old.term] == [False, 1]
    old.save(ACTIONS[0])
    assert [new.claim(), new.term] == [True, 2]
    for write in (lambda: old.save(replace(ACTIONS[0], waiting="x")), lambda: old.prune(9e9, ())):
        with pytest.raises(OSError, match="another controller leads: its term is 2, and this one's 1"):
            write()
    new.save(ACTIONS[1])
    assert new.load() == {one.id: one for one in ACTIONS[:2]}
    old.claim()
    old.save(ACTIONS[2])
    assert old.term == 3


def test_two_that_claim_at_once_have_different_terms(tmp_path, monkeypatch):
    one, two = ledger(tmp_path), ledger(tmp_path)
    one.claim()
    newest = SharedLedger._newest_term

    def late(self):
        found = newest(self)
        if self is two:
            one.claim()
        return found

    monkeypatch.setattr(SharedLedger, "_newest_term", late)
    two.claim()
    assert (one.term, two.term) == (2, 3)


def test_a_file_that_is_no_action_is_told_and_left_out(tmp_path, caplog):
    ledger(tmp_path).save(ACTIONS[1])
    folder = tmp_path / "lock.actions"
    good = (folder / f"{ACTIONS[1].id}.json").read_text()
    (folder / "a-1.json").write_text(good)  # under the name of another one
    (folder / "a-2.json").write_text("[" * 100_000)
    (folder / "a-3.json").write_text(good[:-30])
    (folder / "a-4.json").write_bytes(b"\xff" * 10)
    (folder / "a-5.json").write_text(json.dumps({"version": 1}))
    (folder / "a-6.json").write_text(" " * (2 << 20))
    (folder / ".a-7.draft").write_text("half")
    shared = ledger(tmp_path)
    assert shared.load() == shared.load() == {ACTIONS[1].id: ACTIONS[1]}
    assert list(shared.unreadable) == [f"a-{n}.json" for n in range(1, 7)]
    assert len([one for one in caplog.records if "not taken back" in one.getMessage()]) == 6
    (folder / "a-1.json").unlink()
    shared.load()
    assert len(shared.unreadable) == 5


def test_an_id_is_never_a_path(tmp_path):
    for id_ in ("../a", "a/b", "", ".a", "a" * 65):
        with pytest.raises(OSError, match="no name of a file"):
            ledger(tmp_path).save(replace(ACTIONS[0], id=id_))


def test_a_write_that_fails_leaves_the_former_one(tmp_path, monkeypatch):
    ledger(tmp_path).save(ACTIONS[0])

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space"):
        ledger(tmp_path).save(replace(ACTIONS[0], waiting="its limits"))
    monkeypatch.undo()
    assert ledger(tmp_path).load() == {ACTIONS[0].id: ACTIONS[0]}
    assert len(list((tmp_path / "lock.actions").iterdir())) == 1


def test_what_counts_no_more_is_removed(tmp_path):
    for action in ACTIONS:
        ledger(tmp_path).save(action)
    refused = ACTIONS[2]
    ledger(tmp_path).prune(refused.ended_at, ())
    ledger(tmp_path).prune(refused.ended_at + 1, [refused.reason.incident])
    assert len(ledger(tmp_path).load()) == 3
    ledger(tmp_path).prune(refused.ended_at + 1, ())
    assert ledger(tmp_path).load() == {one.id: one for one in ACTIONS[:2]}
