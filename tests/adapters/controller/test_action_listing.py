"""What the API lists of actions and plans, without a server around it."""

import asyncio
import json
from dataclasses import replace
from types import SimpleNamespace

from starlette.requests import Request

from skewscope.adapters.actions.coordinator import Coordinator
from skewscope.adapters.actions.planner import Planner
from skewscope.adapters.actions.readings import TargetReadings
from skewscope.adapters.actions.settings import ActionSettings
from skewscope.adapters.controller import action_api, freeze_api, shadow_api
from skewscope.adapters.controller.auth import Caller
from skewscope.adapters.controller.http_helpers import CALLER_KEY
from skewscope.adapters.controller.store import Store, StoreReader
from skewscope.engine.actions.action import action_to_json
from skewscope.kb.loader import catalogue
from tests.adapters.actions.test_dry_run import INCIDENT, TOPOLOGY, NoStore
from tests.support.acting_world import ActingWorld, SimulatedFault, build_incident
from tests.support.action_samples import T0, build_proposal, build_refused, build_verified
from tests.support.memory_target import MemoryTarget

STORED = [build_proposal(), build_verified(), build_refused()]


def ask(handler, query="", **path):
    """Status and JSON of the answer of a handler."""
    target = MemoryTarget(members={f"r{n}": f"w{n}" for n in range(4)})
    coordinator = Coordinator(ActionSettings(), Planner(TOPOLOGY, catalogue(), {"front": target}), NoStore())
    coordinator.resume(STORED[:2], T0 + 1000.0)
    coordinator.view.update(1_000_000.0, [INCIDENT])
    snapshot = SimpleNamespace(incidents=[INCIDENT])
    context = SimpleNamespace(
        controller=SimpleNamespace(
            actions=SimpleNamespace(coordinator=coordinator),
            is_leader=True,
            last_result=SimpleNamespace(snapshot=snapshot),
        ),
        readings=TargetReadings(),
        reader=SimpleNamespace(actions=lambda most: [action_to_json(one) for one in STORED][:most]),
    )
    scope = {"type": "http", "query_string": query.encode(), "path_params": path, "headers": []}
    answer = asyncio.run(handler(Request(scope), context))
    return answer.status_code, json.loads(answer.body)


def listed(query=""):
    return [one["id"] for one in ask(action_api.list_actions, query)[1]["actions"]]


def test_what_may_still_change_something_is_never_cut_off():
    proposal, verified, refused = (one.id for one in STORED)
    assert listed() == [proposal, verified, refused]
    assert listed("limit=2") == [proposal, verified]
    assert listed("limit=1") == [proposal]
    assert listed("live=1") == [proposal, verified]
    assert listed("incident=tp-straggler%40n2%231") == [proposal, verified, refused]
    assert listed("incident=other") == []
    assert ask(action_api.list_actions, "limit=many")[0] == 400


def test_a_plan_is_made_for_an_incident_of_the_present():
    status, found = ask(action_api.plan_incident, id="i-1")
    assert status == 200
    assert [one["plan"]["calls"] for one in found["changes"]] == [["POST http://router/drain/w2"]]
    assert found["obstacles"] == ["the mode is observe: set it to propose in the section actions of the config"]
    assert ask(action_api.plan_incident, id="i-2")[0] == 404


class MemoryStore:
    """Keeps what is saved."""

    def __init__(self) -> None:
        self.lines = []

    async def save(self, action, _t, who, what):
        self.lines.append((action.state, who, what))

    async def save_freeze(self, freeze, _t, who, what):
        self.lines.append((freeze and freeze.why, who, what))


def request_change(handler, body, action=STORED[0], *, is_leader=True):
    """Status and JSON of the answer to a person's request, and what was stored."""
    store = MemoryStore()
    target = MemoryTarget(members={f"r{n}": f"w{n}" for n in range(4)})
    coordinator = Coordinator(ActionSettings("propose"), Planner(TOPOLOGY, catalogue(), {"front": target}), store)
    coordinator.resume([action], T0 + 40)
    incident = replace(INCIDENT, id=action.reason.incident, state="firing")
    coordinator.view.update(T0 + 40, [incident])
    clock = SimpleNamespace(now=lambda: T0 + 40)
    controller = SimpleNamespace(actions=SimpleNamespace(coordinator=coordinator), is_leader=is_leader, clock=clock)

    async def receive():
        return {"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}

    scope = {"type": "http", "method": "POST", "query_string": b"", "path_params": {"id": action.id}}
    scope |= {"headers": [(b"content-type", b"application/json")], CALLER_KEY: Caller("ann", "approve")}
    answer = asyncio.run(handler(Request(scope, receive), SimpleNamespace(controller=controller)))
    return answer.status_code, json.loads(answer.body), store.lines


def test_a_person_approves_refuses_and_undoes_by_name_and_with_a_reason():
    proposal, verified, refused = STORED
    status, found, lines = request_change(action_api.approve_action, {"why": "looked at it"})
    assert (status, found["state"], found["approved_by"]) == (200, "approved", "ann")
    assert lines == [("approved", "ann", "action approved: looked at it")]
    assert request_change(action_api.refuse_action, {"why": "no"})[1]["state"] == "refused"
    assert request_change(action_api.undo_action, {"why": "we need it"}, verified)[1]["state"] == "undoing"
    assert request_change(action_api.undo_action, {"why": "x"}, proposal)[0] == 409
    assert request_change(action_api.approve_action, {"why": "x"}, refused)[0] == 409


def test_a_request_without_a_reason_or_to_a_follower_changes_nothing():
    for body in ({}, {"why": ""}, {"why": "x", "force": True}, ["why"]):
        assert request_change(action_api.approve_action, body)[0] == 400
    status, found, lines = request_change(action_api.approve_action, {"why": "x"}, is_leader=False)
    assert (status, lines) == (409, [])
    assert "another controller leads" in found["error"]


def test_a_shadow_run_over_the_store_is_kept_as_evidence(tmp_path):
    world = ActingWorld()
    fault = SimulatedFault("r2", world.t + 60, world.t + 400, 0.2)
    store = Store(tmp_path / "store.db")
    store.add_audit_entry(world.t, "controller", "started", {})
    store.write_tick(world.t, [build_incident(fault, world.t + 500)], ())
    kept = []

    async def add_evidence(summary, _t, who):
        kept.append((who, summary["days"], summary["targets"]))

    service = SimpleNamespace(
        coordinator=world.coordinator, shadowing=asyncio.Lock(), add_evidence=add_evidence, evidence=kept
    )
    controller = SimpleNamespace(actions=service, clock=SimpleNamespace(now=lambda: world.t + 86400.0))
    context = SimpleNamespace(controller=controller, reader=StoreReader(tmp_path / "store.db"))

    def run(body):
        async def receive():
            return {"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}

        head = [(b"content-type", b"application/json")]
        scope = {"type": "http", "method": "POST", "headers": head, CALLER_KEY: Caller("ann", "approve")}
        answer = asyncio.run(shadow_api.start_run(Request(scope, receive), context))
        return answer.status_code, json.loads(answer.body)

    status, found = run({"seconds": 7 * 86400})
    assert (status, found["days"], found["begun"], found["warning"]) == (200, 1.0, 1, "")
    assert [one["verdict"] for one in found["acts"]] == ["in time"]
    assert kept == [("ann", 1.0, ["router"])]
    assert run({"seconds": 1})[0] == 400
    assert world.router.lines == []


def test_a_person_freezes_thaws_and_takes_everything_back():
    verified = STORED[1]
    status, found, lines = request_change(freeze_api.freeze_actions, {"why": "release night", "seconds": 60})
    assert (status, found["warning"], found["freeze"]["until"]) == (200, "", T0 + 100)
    assert found["freeze"]["text"].startswith("frozen by ann until 2026-")
    assert lines == [("release night", "ann", "actions frozen: release night")]
    assert request_change(freeze_api.thaw_actions, {"why": "done"})[1]["freeze"] is None
    status, found, _ = request_change(freeze_api.undo_actions, {"why": "power"}, verified)
    assert [one["state"] for one in found["actions"]] == ["undoing"]
    assert found["freeze"]["until"] is None
    for body in ({}, {"why": ""}, {"why": "x", "hold_undos": True}, {"why": "x", "seconds": -1}, {"why": "x", "on": 1}):
        assert request_change(freeze_api.freeze_actions, body)[0] == 400, body
