"""A freeze lets nothing new begin, outlasts restarts, and ends; break-glass takes back everything at once."""

import asyncio
from dataclasses import replace

import pytest

from skewscope.adapters.actions.action_book import ActionRequestError, AuditNote
from skewscope.adapters.actions.freezing import set_freeze, undo_all
from skewscope.adapters.actions.settings import ActionSettings
from skewscope.adapters.actions.shared_ledger import SharedLedger
from skewscope.adapters.controller.store import Store
from skewscope.engine.actions.action import APPLYING, APPROVED, PROPOSED, REFUSED, UNDOING, UNDONE, VERIFIED
from skewscope.engine.actions.freeze import Freeze, freeze_to_json
from tests.support.acting_world import ActingWorld, SimulatedFault

T0 = ActingWorld.t
ACT, PROPOSE = ActionSettings(mode="act"), ActionSettings(mode="propose")
ILL = SimulatedFault("r2", T0 + 60, T0 + 600, 0.2)


def freeze(world, until=None, holds_undos=False):
    wanted = Freeze(world.t, "ann", "release night", until, holds_undos)
    return asyncio.run(set_freeze(world.coordinator, wanted, AuditNote(world.t, "ann", "actions frozen")))


def thaw(world):
    return asyncio.run(set_freeze(world.coordinator, None, AuditNote(world.t, "ann", "actions thawed")))


def only(world):
    (action,) = world.coordinator.actions.values()
    return action


def test_nothing_is_planned_until_it_is_thawed_and_a_restart_changes_nothing():
    world = ActingWorld(faults=(ILL,), settings=ACT)
    world.run(30)
    assert freeze(world) == ""
    world.run(60)
    world.restart()
    world.run(60)
    assert not world.coordinator.actions
    assert world.store.lines == ["ann: actions frozen"]
    thaw(world)
    world.run(30)
    assert world.router.drained == {"r2"}


def test_what_is_approved_waits_and_tells_who_froze_it_and_nobody_approves_meanwhile():
    world = ActingWorld(faults=(ILL,), settings=PROPOSE)
    world.run(80)
    asyncio.run(world.coordinator.approve(only(world).id, "bob", "go"))
    freeze(world)
    world.run(20)
    assert only(world).state == APPROVED
    assert only(world).waiting == "frozen by ann until it is thawed: release night"
    world = ActingWorld(faults=(ILL,), settings=PROPOSE)
    world.run(80)
    freeze(world)
    with pytest.raises(ActionRequestError, match="cannot be approved now: frozen by ann"):
        asyncio.run(world.coordinator.approve(only(world).id, "bob", "go"))
    assert only(world).state == PROPOSED


def test_an_intent_without_a_call_is_given_up():
    world = ActingWorld(faults=(ILL,), settings=ACT)

    def freeze_now(what):
        if what == f"after save {APPLYING}":
            world.coordinator.book.freeze = Freeze(world.t, "ann", "stop")

    world.store.crossing = freeze_now
    world.run(120)
    assert world.router.lines == []
    assert only(world).state == UNDONE
    assert "no call was made" in only(world).history[-1][1]


def test_undos_go_on_unless_they_are_held_and_its_end_comes_by_itself():
    ends = replace(ILL, end=T0 + 150)
    world = ActingWorld(faults=(ends,), settings=ACT)
    world.run(120)
    assert only(world).state == VERIFIED
    freeze(world)
    world.run(120)
    assert only(world).state == UNDONE
    world = ActingWorld(faults=(ends,), settings=ACT)
    world.run(120)
    freeze(world, until=world.t + 300, holds_undos=True)
    world.run(200)
    assert (only(world).state, world.router.drained) == (UNDOING, {"r2"})
    world.run(130)
    assert (only(world).state, world.router.drained) == (UNDONE, set())


def test_break_glass_takes_back_everything_and_nothing_begins_again():
    world = ActingWorld(faults=(ILL, SimulatedFault("r1", T0 + 90, T0 + 600, 0.3)), settings=ACT)
    world.run(150)
    assert world.router.drained == {"r2"}
    waiting = next(one for one in world.coordinator.actions.values() if one.state == APPROVED)
    freeze(world)
    done, failed = asyncio.run(undo_all(world.coordinator, "ann", "power"))
    assert sorted(one.state for one in done) == [REFUSED, UNDOING]
    assert not failed
    world.run(300)
    assert world.is_restored()
    assert world.coordinator.actions[waiting.id].state == REFUSED
    assert len(world.coordinator.actions) == 2


def test_without_a_store_it_holds_all_the_same_and_the_answer_says_so():
    world = ActingWorld(faults=(ILL,), settings=ACT)
    world.store.broken = True
    assert freeze(world) == "the disk is full"
    world.store.broken = False
    world.run(200)
    assert not world.coordinator.actions


def test_it_is_stored_with_its_audit_line_and_shared_with_the_next_leader(tmp_path):
    one = Freeze(T0, "ann", "release night", T0 + 60.0, True)
    store = Store(tmp_path / "store.db")
    store.write_acting_value(T0, "ann", "actions frozen", ("freeze", freeze_to_json(one)))
    assert store.freeze() == one
    store.write_acting_value(T0, "ann", "actions thawed", ("freeze", None))
    assert store.freeze() is None
    ledger = SharedLedger(tmp_path / "lock.actions")
    ledger.save_freeze(None)
    assert ledger.load_freeze() is None
    ledger.save_freeze(one)
    assert ledger.load_freeze() == one
    assert ledger.load() == {}
    (tmp_path / "lock.actions" / "freeze").write_text("{")
    damaged = ledger.load_freeze()
    assert damaged is not None
    assert damaged.covers(T0)


def test_a_clock_that_is_set_back_makes_a_freeze_no_longer():
    world = ActingWorld(settings=ACT)
    world.run(30)
    freeze(world, until=world.t + 60)
    world.t -= 3600.0
    world.run(30)
    assert world.coordinator.book.find_freeze(world.t) is not None
    world.run(60)
    assert world.coordinator.book.find_freeze(world.t) is None
