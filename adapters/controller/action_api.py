"""Actions over HTTP: list, show, approve, refuse, undo, done by hand; targets with their state."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from skewscope.adapters.actions.choosing import approve_choice, propose_choice
from skewscope.adapters.actions.coordinator import ActionRequestError, Coordinator
from skewscope.adapters.actions.dry_run import list_obstacles, plan_changes
from skewscope.adapters.actions.readings import TargetReadings
from skewscope.adapters.controller.http_helpers import (
    BadBodyError,
    body_error_response,
    caller_of,
    error_response,
    read_json_text,
)
from skewscope.adapters.runtime.blocking_calls import STORE
from skewscope.adapters.targets.common.base import Target, TargetError
from skewscope.engine.actions.action import Action, action_to_json
from skewscope.engine.actions.freeze import freeze_to_json
from skewscope.engine.actions.places import list_groups
from skewscope.kb import yamlfile
from skewscope.kb.field_reader import FieldReader
from skewscope.kb.problems import InputError
from skewscope.kb.yamlfile import type_label

if TYPE_CHECKING:
    from skewscope.adapters.controller.api import ApiContext

MAX_LISTED = 1000
DRY_RUN_TIMEOUT = 30.0
"""Seconds in which the targets of a dry run have to answer."""

PersonRequest = Callable[[str, str, str], Awaitable[Action]]
Choice = Callable[[str, str, str, str], Awaitable[Action]]
"""Called with an id, the person, the reason, and the option that was chosen; '' for none."""


async def list_actions(request: Request, context: "ApiContext") -> Response:
    """Returns actions, latest first, and the mode of this controller."""
    coordinator = _coordinator(context)
    try:
        most = min(max(int(request.query_params.get("limit", str(MAX_LISTED))[:9]), 1), MAX_LISTED)
    except ValueError:
        return error_response(400, "limit is no number")
    incident = request.query_params.get("incident", "")
    found = await STORE.run(context.reader.actions, MAX_LISTED if incident else most)
    newest = {one.id: action_to_json(one) for one in coordinator.actions.values()}
    known = {one["id"]: one for one in found} | newest
    live = request.query_params.get("live", "") == "1"
    is_live = {id_: one.is_live for id_, one in coordinator.actions.items()}
    shown = [
        one
        for id_, one in known.items()
        if (not live or is_live.get(id_, False)) and incident in ("", one["reason"]["incident"])
    ]
    # What may still change something is never cut off.
    shown.sort(key=lambda one: (is_live.get(one["id"], False), one["created"], one["id"]), reverse=True)
    ordered = sorted(shown[:most], key=lambda one: (one["created"], one["id"]), reverse=True)
    mode = "observe" if coordinator.settings.is_observing else coordinator.settings.mode
    answer = {"mode": mode, "leader": context.controller.is_leader, "freeze": show_freeze(coordinator)}
    idle = {id_: why for id_, why in coordinator.list_idle().items() if incident in ("", id_)}
    return JSONResponse(answer | {"actions": ordered, "nothing_planned": idle})


def show_freeze(coordinator: Coordinator) -> dict[str, Any] | None:
    """Returns the freeze that holds now as JSON values; None for none."""
    freeze = coordinator.book.find_freeze(coordinator.view.t)
    return None if freeze is None else freeze_to_json(freeze) | {"text": freeze.describe()}


async def get_action(request: Request, context: "ApiContext") -> Response:
    """Returns one action with its history."""
    id_ = request.path_params["id"]
    running = _coordinator(context).actions.get(id_)
    found = action_to_json(running) if running else await STORE.run(context.reader.action, id_)
    return error_response(404, "no such action") if found is None else JSONResponse(found)


async def plan_incident(request: Request, context: "ApiContext") -> Response:
    """Returns what could be done for an incident now, with the very calls; changes nothing."""
    id_, known = request.path_params["id"], context.controller.last_result
    incident = next((one for one in known.snapshot.incidents if one.id == id_), None) if known else None
    if incident is None:
        return error_response(404, "no such incident at present")
    coordinator = _coordinator(context)
    try:
        async with asyncio.timeout(DRY_RUN_TIMEOUT):
            changes = await plan_changes(coordinator, incident, context.readings)
    except TimeoutError:
        return error_response(504, f"the targets did not answer within {DRY_RUN_TIMEOUT:g} s")
    listed = [{"number": number, **one.as_json()} for number, one in enumerate(changes, 1)]
    obstacles = list_obstacles(coordinator, incident, changes)
    doubt = coordinator.steps.find_doubt(incident)
    return JSONResponse({"incident": incident.as_json(), "obstacles": obstacles, "doubt": doubt, "changes": listed})


async def list_outcomes(_request: Request, context: "ApiContext") -> Response:
    """Returns for each mitigation how often it was carried out and helped here."""
    return JSONResponse({"outcomes": await STORE.run(context.reader.action_outcomes)})


async def list_targets(_request: Request, context: "ApiContext") -> Response:
    """Returns the targets with what they can do and the state of their members."""
    targets = _coordinator(context).planner.targets.values()
    return JSONResponse(
        {"targets": await asyncio.gather(*(_describe_target(target, context.readings) for target in targets))}
    )


async def _describe_target(target: Target, readings: TargetReadings) -> dict[str, Any]:
    described: dict[str, Any] = {
        "name": target.name,
        "changes": {kind: asdict(support) for kind, support in target.support.items()},
        "trouble": "",
        "members": [],
    }
    try:
        state = await readings.read(target)
    except TargetError as error:
        return described | {"trouble": str(error)}
    names = sorted(target.members.items())[:MAX_LISTED]
    members = [(entity, member, state.member(member)) for entity, member in names]
    return described | {
        "members": [
            {
                "entity": entity,
                "member": member,
                "serving": found.serving if found else None,
                "weight": found.weight if found else None,
                "owner": found.owner if found else "",
            }
            for entity, member, found in members
        ]
    }


async def approve_action(request: Request, context: "ApiContext") -> Response:
    """Approves a proposal, or another option in its place."""
    coordinator, caller = _coordinator(context), caller_of(request)
    action = coordinator.actions.get(request.path_params["id"])
    teams = coordinator.planner.topology.find_teams(() if action is None else list_groups(action))
    if caller.teams and teams and not teams & set(caller.teams):
        return error_response(403, f"this needs a token of the team {' or '.join(sorted(teams))}")

    async def approve(id_: str, who: str, why: str, option: str) -> Action:
        return await (
            approve_choice(coordinator, id_, option, who, why) if option else coordinator.approve(id_, who, why)
        )

    return await _answer_choice(request, context, approve)


async def propose_action(request: Request, context: "ApiContext") -> Response:
    """Plans the option of a person's choice for an incident."""

    async def propose(id_: str, who: str, why: str, option: str) -> Action:
        return await propose_choice(_coordinator(context), id_, option or "1", who, why)

    return await _answer_choice(request, context, propose)


async def refuse_action(request: Request, context: "ApiContext") -> Response:
    """Refuses an action that has not begun."""
    return await _answer_request(request, context, _coordinator(context).refuse)


async def undo_action(request: Request, context: "ApiContext") -> Response:
    """Has a change in place taken back."""
    return await _answer_request(request, context, _coordinator(context).undo)


async def confirm_action(request: Request, context: "ApiContext") -> Response:
    """Takes a person's word that the calls of an action were run by hand."""
    return await _answer_request(request, context, _coordinator(context).confirm)


async def _answer_request(request: Request, context: "ApiContext", do: PersonRequest) -> Response:
    """Returns the action after a person's request for one that is known."""
    if request.path_params["id"] not in _coordinator(context).actions:
        return error_response(404, "no such action, or it ended long ago")
    return await _answer_choice(request, context, lambda id_, who, why, _option: do(id_, who, why), ())


async def _answer_choice(
    request: Request, context: "ApiContext", do: Choice, optional: tuple[str, ...] = ("option",)
) -> Response:
    try:
        why, option = _parse_request(await read_json_text(request), optional)
    except (BadBodyError, InputError) as error:
        return body_error_response(error)
    if not context.controller.is_leader:
        return error_response(409, "another controller leads: ask that one")
    try:
        return JSONResponse(action_to_json(await do(request.path_params["id"], caller_of(request).name, why, option)))
    except ActionRequestError as error:
        return error_response(409, str(error))


def _parse_request(body: str, optional: tuple[str, ...]) -> tuple[str, str]:
    """Returns the reason in a body, and the option that it names; '' for none.

    Raises:
        InputError: there is no reason, or there is something else.
    """
    fields = FieldReader(yamlfile.parse(body, "request"))
    fields.check_keys((), ("why",), optional)
    why, option = fields.text(("why",)), fields.value_at(("option",))
    if option is not None and (isinstance(option, bool) or not isinstance(option, int | str)):
        fields.add_problem(("option",), type_label(option), "the number of a change in the plan, or its title")
    if fields.problems:
        raise InputError(fields.problems)
    return why, "" if option is None else str(option)


def _coordinator(context: "ApiContext") -> Coordinator:
    return context.controller.actions.coordinator
