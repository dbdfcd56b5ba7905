"""What one controller has begun, the next leader finishes or takes back; a reload leaves no change without target."""

import asyncio
import json
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from skewscope.adapters.actions.action_book import ActionRequestError, AuditNote
from skewscope.adapters.actions.freezing import set_freeze
from skewscope.adapters.actions.settings import ActionSettings
from skewscope.adapters.actions.shared_ledger import SharedLedger
from skewscope.adapters.actions.view import NOTHING_KNOWN
from skewscope.adapters.controller.action_failover import SharedActions, match_incident, merge_actions
from skewscope.adapters.controller.action_service import ActionService, StoreAdapter
from skewscope.adapters.controller.config import ComponentConfig, ControllerConfig
from skewscope.adapters.controller.controller import Controller
from skewscope.adapters.controller.persistence import StoreWriter
from skewscope.adapters.controller.store import Store, StoreError
from skewscope.adapters.targets.common.external import ExternalSettings
from skewscope.adapters.targets.common.fingerprint import fingerprint
from skewscope.adapters.targets.common.settings import TargetSettings
from skewscope.adapters.targets.exec import ExecSettings
from skewscope.engine.actions.action import ActionScope
from skewscope.engine.actions.change import Change, MemberState
from skewscope.engine.actions.freeze import Freeze
from skewscope.kb.loader import catalogue
from skewscope.kb.problems import InputError
from tests.adapters.controller.processes import AUTH, TOKENS, running
from tests.support import acting_hook
from tests.support.acting_world import ActingWorld, SimulatedFault
from tests.support.actions import build_action

T0 = ActingWorld.t
ILL = SimulatedFault("r2", T0 + 60, T0 + 400, 0.2)
ACT, PROPOSE = ActionSettings(mode="act"), ActionSettings(mode="propose")


@dataclass
class Peer:
    """A controller with a store of its own, which leads or follows as the test says."""

    folder: Path
    name: str
    world: ActingWorld
    settings: ActionSettings = ACT
    term: int | None = None
    numbers: int = 0
    """Added to the numbers of its incidents: controllers number them differently."""

    def __post_init__(self) -> None:
        path = self.folder / f"{self.name}.db"
        self.store = Store(path)
        self.writer = StoreWriter(self.store)
        config = ControllerConfig(path, path, self.world.topology, actions=self.settings)
        shared = SharedActions(SharedLedger(self.folder / "lock.actions"), lambda: self.term is not None)
        self.service = ActionService(config, catalogue(), StoreAdapter(self.write, shared), lambda: self.term)
        self.service.coordinator.planner.targets["router"] = self.world.router
        self.service.load(self.store, self.world.t)

    def write(self, do):
        async def run():
            await asyncio.sleep(0)
            do(self.writer)

        return asyncio.ensure_future(run())

    async def step(self, seconds=1):
        """Ticks, and waits for what they start."""
        coordinator = self.service.coordinator
        for _ in range(seconds):
            self.world.t += 1.0
            self.world.share_work()
            found = [replace(one, id=f"{one.id}#{self.numbers}") for one in self.world.incidents()]
            snapshot = SimpleNamespace(time=self.world.t, incidents=found)
            coordinator.steps.measure = self.world.measure
            self.service.step(SimpleNamespace(snapshot=snapshot, judgement=NOTHING_KNOWN))
            await asyncio.gather(*coordinator._tasks, *filter(None, [self.service.failover._task]))

    @property
    def actions(self):
        return list(self.service.coordinator.actions.values())


def pair(folder, settings=ACT, **fields) -> tuple[ActingWorld, Peer, Peer]:
    world = ActingWorld(faults=(replace(ILL, **fields),))
    return world, Peer(folder, "a", world, settings, 1), Peer(folder, "b", world, settings, numbers=5)


def test_an_action_of_a_newer_version_is_no_longer_forgotten_by_an_older_one(tmp_path):
    _, first, second = pair(tmp_path)

    async def scenario():
        await first.step(120)
        (path,) = (tmp_path / "lock.actions").glob("*.json")
        fields = json.loads(path.read_text())
        path.write_text(json.dumps(fields | {"change": fields["change"] | {"lanes": 3}}))
        await second.step(12)
        return path

    path = asyncio.run(scenario())
    (trouble,) = second.service.troubles()
    assert str(path) in trouble
    assert "lanes" in trouble
    assert first.service.troubles() == ()


def test_the_next_leader_takes_back_what_the_one_before_has_done(tmp_path):
    world, first, second = pair(tmp_path)

    async def scenario():
        await first.step(120)
        assert [one.state for one in first.actions] == ["verified"]
        first.term, second.term = None, 1
        await second.step(60)
        (action,) = second.actions
        assert (action.state, action.reason.incident) == ("verified", f"i-r2-{ILL.start:.0f}#5")
        await second.step(300)
        assert [one.state for one in second.actions] == ["undone"]
        await first.step(12)
        assert [one.state for one in first.actions] == ["undone"]

    asyncio.run(scenario())
    assert world.is_restored()
    assert world.router.lines == ["drain r2", "ready r2"]
    assert [one.state for one in second.store.actions(0.0)] == ["undone"]


def test_a_freeze_holds_for_the_next_leader(tmp_path):
    world, first, second = pair(tmp_path)

    async def scenario():
        await first.step(30)
        coordinator = first.service.coordinator
        note = AuditNote(world.t, "ann", "actions frozen")
        await set_freeze(coordinator, Freeze(world.t, "ann", "release night"), note)
        with pytest.raises(ActionRequestError, match="another controller leads"):
            await set_freeze(second.service.coordinator, None, note)
        first.term, second.term = None, 1
        await second.step(120)
        assert not second.actions
        await set_freeze(second.service.coordinator, None, note)
        await second.step(30)
        assert [one.state for one in second.actions] == ["verified"]
        await first.step(12)
        assert first.service.coordinator.book.freeze is None

    asyncio.run(scenario())
    assert first.store.freeze() is not None
    assert second.store.freeze() is None


def test_an_unexpected_error_while_taking_the_lead_is_logged_once_and_tried_again(tmp_path, monkeypatch, caplog):
    world, first, _ = pair(tmp_path)
    claim, calls = SharedLedger.claim, []

    def fail(self):
        calls.append(1)
        if len(calls) < 4:
            raise RuntimeError("a bug")
        return claim(self)

    monkeypatch.setattr(SharedLedger, "claim", fail)
    asyncio.run(first.step(120))
    assert [one.state for one in first.actions] == ["verified"]
    assert len([one for one in caplog.records if one.exc_info]) == 1
    assert world.router.lines == ["drain r2"]


def test_a_leader_whose_machine_stood_still_begins_nothing(tmp_path):
    """It still believes to lead, and another one has taken over meanwhile."""
    world, first, second = pair(tmp_path)

    async def scenario():
        await first.step(2)
        second.term = 1
        await second.step(2)
        await first.step(70)
        assert world.router.lines == []
        await second.step(2)
        assert world.router.lines == ["drain r2"]

    asyncio.run(scenario())


def test_an_intent_of_a_leader_that_was_killed_is_finished_by_the_next(tmp_path):
    world, first, second = pair(tmp_path)

    async def scenario():
        await first.step(65)
        world.router.trouble = lambda line: "refuse" if line.startswith("drain") else ""
        await first.step(2)
        assert [one.state for one in first.actions] == ["applying"]
        world.router.trouble = lambda _line: ""
        first.term, second.term = None, 1
        await second.step(40)

    asyncio.run(scenario())
    assert [one.state for one in second.actions] == ["verified"]
    assert world.router.lines == ["drain r2"]


def test_a_leader_that_has_lost_the_lead_neither_calls_nor_writes(tmp_path):
    world, first, second = pair(tmp_path)

    async def scenario():
        await first.step(65)
        read, shared = world.router.read_state, SharedLedger(tmp_path / "lock.actions")

        async def lose_lead():
            state = await read()
            first.term = None
            return state

        world.router.read_state = lose_lead
        await first.step(2)
        world.router.read_state = read
        assert world.router.lines == []
        before = shared.load()
        with pytest.raises(Exception, match="another controller leads"):
            await first.service.coordinator.approve(first.actions[0].id, "ann", "go")
        second.term = 1
        await second.step(5)
        assert before == {} or set(before) == set(shared.load())

    asyncio.run(scenario())
    assert world.router.lines == ["drain r2"]


def test_a_leader_that_leads_again_reads_what_happened_meanwhile(tmp_path):
    world, first, second = pair(tmp_path, end=T0 + 200)

    async def scenario():
        await first.step(120)
        first.term, second.term = None, 1
        await second.step(200)
        second.term, first.term = None, 2
        await first.step(10)

    asyncio.run(scenario())
    assert [one.state for one in first.actions] == ["undone"]
    assert world.router.lines == ["drain r2", "ready r2"]


def test_what_a_person_refused_is_not_proposed_by_the_next_leader(tmp_path):
    _, first, second = pair(tmp_path, PROPOSE)

    async def scenario():
        await first.step(100)
        await first.service.coordinator.refuse(first.actions[0].id, "ann", "no")
        first.term, second.term = None, 1
        await second.step(100)

    asyncio.run(scenario())
    assert [one.state for one in second.actions] == ["refused"]


def test_limits_count_what_the_leader_before_has_begun(tmp_path):
    world, first, second = pair(tmp_path, replace(ACT, limits=replace(ACT.limits, per_hour=1, cool_down=0.0)))

    async def scenario():
        await first.step(120)
        first.term, second.term = None, 1
        await second.step(350)
        world.faults = (SimulatedFault("r1", world.t, world.t + 300, 0.2),)
        await second.step(60)

    asyncio.run(scenario())
    assert world.router.lines == ["drain r2", "ready r2"]
    assert "1 changes within an hour, 1 are allowed" in second.actions[-1].waiting


def test_the_first_leader_shares_what_its_own_store_has(tmp_path):
    alone = build_action(state="verified", started_at=T0, called_at=T0, applied_at=T0, seen_in_state=True)
    world, first, second = pair(tmp_path)
    first.service.failover.own = {alone.id: replace(alone, change=replace(alone.change, member="r2"))}
    world.router.carry_out("drain r2")

    async def scenario():
        await first.step(2)
        first.term, second.term = None, 1
        await second.step(1)

    asyncio.run(scenario())
    assert [one.id for one in second.actions] == [alone.id]


def test_an_action_that_is_not_shared_goes_on_unless_it_is_old_or_has_a_successor():
    young = build_action(id="a-1", state="verified", started_at=T0)
    old, taken = replace(young, id="a-2", started_at=T0 - 100), replace(young, id="a-3")
    other = replace(young, id="a-4", change=replace(young.change, member="w1"))
    own = {one.id: one for one in (young, old, other)}
    assert [one.id for one in merge_actions(None, own, T0)] == ["a-1", "a-2", "a-4"]
    assert [one.id for one in merge_actions({}, own, T0 - 50)] == ["a-1", "a-4"]
    assert [one.id for one in merge_actions({"a-3": taken}, own, T0 - 50)] == ["a-3", "a-4"]
    proposal = {"a-5": replace(young, id="a-5", state="proposed")}
    assert merge_actions({}, proposal, 0.0) == []


def test_an_incident_is_matched_by_its_place_and_time():
    world = ActingWorld(faults=(ILL,))
    world.t += 100
    (incident,) = world.incidents()
    live = build_action(created=T0)
    assert match_incident(live, [incident]).reason.incident == incident.id
    ended = replace(live, state="refused", created=incident.opened_at + 1)
    assert match_incident(ended, [incident]).reason.incident == incident.id
    assert match_incident(replace(ended, created=T0), [incident]).reason.incident == "i-1"
    elsewhere = replace(live, reason=replace(live.reason, name="r1"))
    assert match_incident(elsewhere, [incident]) is elsewhere
    assert match_incident(live, [replace(incident, state="resolved")]) is live


def test_a_folder_that_cannot_be_read_stops_acting_and_is_told_once(tmp_path, caplog):
    world, first, _ = pair(tmp_path)
    (tmp_path / "lock.actions").mkdir()

    def fail():
        raise OSError(116, "Stale file handle")

    failover = first.service.failover
    failover.shared = replace(failover.shared, ledger=SimpleNamespace(load=fail, folder="f"))
    asyncio.run(first.step(100))
    assert world.router.lines == []
    assert len([one for one in caplog.records if "nothing is acted upon meanwhile" in one.getMessage()]) == 1


def test_a_store_of_its_own_that_is_full_keeps_no_change_in_place(tmp_path):
    world, first, second = pair(tmp_path)

    def fail(*_):
        raise StoreError("the disk is full")

    async def scenario():
        await first.step(120)
        first.store.write_action = fail
        await first.step(310)
        assert [one.state for one in first.actions] == ["undone"]
        first.term, second.term = None, 1
        await second.step(1)

    asyncio.run(scenario())
    assert world.is_restored()
    assert [one.state for one in second.actions] == ["undone"]


# --- reload


def exec_target(folder, name="front", file="members.json") -> ComponentConfig:
    file = folder / file
    file.write_text(json.dumps({"w0": {"serving": True, "weight": 100}}))
    external = ExternalSettings(TargetSettings(name, (("r0", "w0"),)), ("drain",), ())
    return ComponentConfig("exec", name, ExecSettings(external, (sys.executable, acting_hook.__file__, str(file))))


def test_a_reload_that_drops_a_target_in_use_is_refused(tmp_path):
    target = exec_target(tmp_path)
    world = ActingWorld()
    before = ControllerConfig(tmp_path / "c.yaml", tmp_path / "t.yaml", world.topology, targets=(target,))
    before = replace(before, store=tmp_path / "s.db")
    system = fingerprint(target.kind, target.settings)
    alone = build_action(state="verified", change=Change("drain", "front", "w0", "a-1"), fingerprint=system)

    async def scenario():
        controller = Controller(before)
        await controller.start()
        controller.actions.coordinator.resume([alone], T0)
        renamed = replace(target, name="back")
        for after in ((), (replace(target, kind="webhook"),)):
            with pytest.raises(InputError) as told:
                await controller.reload(replace(before, targets=after))
            (problem,) = told.value.problems
            assert "no exec 'front', where a-1 is in place: drain w0 at front" in problem.found
            assert controller.config.targets == (target,)
        elsewhere = exec_target(tmp_path, file="other-system.json")
        with pytest.raises(InputError, match=r"another system for 'front' \(its command changed\), where a-1"):
            await controller.reload(replace(before, targets=(elsewhere,)))
        assert controller.actions.coordinator.actions["a-1"].state == "verified"
        await controller.reload(replace(before, targets=(target, renamed), actions=PROPOSE))
        assert "a-1" in controller.actions.coordinator.actions
        await controller.reload(replace(before, targets=(renamed,)))
        assert controller.actions.coordinator.actions["a-1"].change.target == "back", "the same system by another name"
        done = replace(alone, state="undone")
        controller.actions.coordinator.resume([done], T0)
        assert await controller.reload(replace(before, targets=())) == ()
        await controller._close()

    asyncio.run(scenario())


def test_a_reload_waits_for_what_is_under_way_and_starts_nothing_twice(tmp_path):
    world, first, _ = pair(tmp_path)

    async def scenario():
        await first.step(65)
        service = first.service
        closing = asyncio.create_task(service.close())
        await asyncio.sleep(0)
        await first.step(3)
        await closing
        assert world.router.lines == []

    asyncio.run(scenario())


def test_actions_of_incidents_that_live_are_loaded_however_old(tmp_path):
    world, first, _ = pair(tmp_path, PROPOSE)

    async def scenario():
        await first.step(100)
        await first.service.coordinator.refuse(first.actions[0].id, "ann", "no")
        (incident,) = [replace(one, id=f"{one.id}#0") for one in world.incidents()]
        first.store.write_tick(world.t, [incident], ())

    asyncio.run(scenario())
    world.t += 5 * 86400
    first.store.close()
    again = Peer(tmp_path, "a", world, PROPOSE)
    assert [one.state for one in again.actions] == ["refused"]


# --- two processes


@pytest.mark.slow
def test_of_two_processes_the_other_takes_back_what_the_killed_one_did(tmp_path):
    """The first has drained a member in an earlier life; it leads, is killed, and the second puts the member back."""
    file = tmp_path / "members.json"
    owners = {"owners": {"drain": "a-1"}}
    file.write_text(json.dumps({"w0": {"serving": False, "weight": 100} | owners}))
    more = f"""
leader: {{lock: {tmp_path / "lock"}, lease: 3}}
targets:
- kind: exec
  name: front
  changes: [drain]
  members: {{n0: w0}}
  command: [{sys.executable}, {acting_hook.__file__}, {file}]
actions: {{mode: propose, timing: {{hold: 25}}}}
"""
    now = time.time()
    action = build_action(
        state="verified",
        change=Change("drain", "front", "w0", "a-1", "", now + 3600),
        scope=ActionScope("n0", "node", ("n0",)),
        before=MemberState("w0", True, 100, details=()),
        **dict.fromkeys(("created", "started_at", "called_at", "applied_at", "verified_at"), now - 10),
        seen_in_state=True,
    )
    with ExitStack() as stack:
        (tmp_path / "a").mkdir()
        store = Store(tmp_path / "a" / "skewscope.db")
        StoreWriter(store).write_action(now, "controller", "action verified", action)
        store.close()
        first = stack.enter_context(running(tmp_path / "a", AUTH + more))

        def shown(found):
            listed = found.json("/api/v1/actions", TOKENS["READ"])["actions"]
            return [(one["id"], one["state"]) for one in listed]

        first.until((tmp_path / "lock.actions" / "a-1.json").exists)
        (tmp_path / "b").mkdir()
        second = stack.enter_context(running(tmp_path / "b", AUTH + more))
        second.until(lambda: shown(second) == [("a-1", "verified")], 30)
        first.process.kill()
        # The program writes the file while it is read.
        second.until(lambda: '"serving": true' in file.read_text(), 60)
        second.until(lambda: shown(second) == [("a-1", "undone")])


def test_the_mode_act_needs_a_shadow_run_at_the_start_and_at_a_reload(tmp_path):
    world = ActingWorld()
    path = tmp_path / "store.db"
    target = ComponentConfig(
        "exec", "front", ExecSettings(ExternalSettings(TargetSettings("front", (("r0", "w0"),))), ("true",))
    )
    config = ControllerConfig(path, path, world.topology, targets=(target,), actions=ACT)

    def build(config):
        return ActionService(config, catalogue(), StoreAdapter(lambda _do: asyncio.sleep(0)))

    store = Store(path)
    with pytest.raises(InputError, match="act at front without a shadow run over 7 days"):
        build(config).load(store, T0)
    reasoned = replace(config, actions=replace(ACT, no_shadow_evidence="a test"))
    build(reasoned).load(store, T0)
    observing = build(replace(config, actions=ActionSettings()))
    observing.load(store, T0)
    with pytest.raises(InputError, match="no_shadow_evidence: REASON"):
        observing.check_change(config)
    store.write_acting_value(T0, "ann", "shadow run", ("shadow", [{"days": 7.5, "targets": ["front"]}]))
    acting = build(config)
    acting.load(store, T0)
    acting.check_change(config)


def test_what_comes_after_the_end_of_a_controller_is_neither_done_nor_an_error(tmp_path, caplog):
    _, first, _ = pair(tmp_path)
    failover = first.service.failover
    failover.shared.close()
    asyncio.run(first.step(100))
    assert not [one for one in caplog.records if one.levelname in ("ERROR", "CRITICAL")]
