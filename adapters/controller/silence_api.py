"""Silences over HTTP: list, preview, create, end."""

import secrets
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from skewscope.adapters.config.fields import read_bool, read_number
from skewscope.adapters.controller.controller import Controller
from skewscope.adapters.controller.http_helpers import (
    BadBodyError,
    body_error_response,
    caller_of,
    error_response,
    read_json_text,
)
from skewscope.adapters.controller.silences import (
    DAY,
    MATCHERS,
    Match,
    Silence,
    breadth_problems,
    build_matcher,
    covered_nodes,
    end_silence,
)
from skewscope.adapters.runtime.blocking_calls import STORE
from skewscope.engine.model.incident import Incident, rfc3339
from skewscope.engine.model.topology import Topology
from skewscope.kb import yamlfile
from skewscope.kb.field_reader import FieldReader
from skewscope.kb.problems import InputError
from skewscope.kb.yamlfile import FieldPath

if TYPE_CHECKING:
    from skewscope.adapters.controller.api import ApiContext

PREVIEW_SECONDS = 7.0 * DAY
"""Seconds that a preview looks back."""
MAX_NAMES = 1000
MAX_SHOWN = 100
MAX_SILENCES = 1000
"""Maximum number of active and future silences."""
YEAR = 366.0 * DAY


async def list_silences(_request: Request, context: "ApiContext") -> Response:
    """Returns silences, latest first."""
    now = context.controller.clock.now()
    found = await STORE.run(context.reader.silences)
    return JSONResponse({"silences": [one.as_json(now) for one in found]})


async def preview_silence(request: Request, context: "ApiContext") -> Response:
    """Returns what a silence would suppress now and would have in the last week; creates none."""
    try:
        silence, _ = _parse_silence(await read_json_text(request), context.controller, caller_of(request).name)
    except (BadBodyError, InputError) as error:
        return body_error_response(error)
    return JSONResponse(await _run_preview(silence, context, request))


async def create_silence(request: Request, context: "ApiContext") -> Response:
    """Creates a silence; one that is too broad needs `force` by an admin."""
    who, controller = caller_of(request), context.controller
    try:
        silence, force = _parse_silence(await read_json_text(request), controller, who.name)
    except (BadBodyError, InputError) as error:
        return body_error_response(error)
    payload = await _run_preview(silence, context, request)
    if payload["too_broad"] and not force:
        return JSONResponse({"error": f"too broad: {'; '.join(payload['too_broad'])}", "preview": payload}, 409)
    if payload["too_broad"] and not who.has_role("admin"):
        return error_response(403, "to force a silence needs the role 'admin'")
    if sum(not one.is_over(silence.starts) for one in await STORE.run(context.reader.silences)) >= MAX_SILENCES:
        return error_response(409, f"{MAX_SILENCES} silences already; end some")
    what = "silence was forced" if payload["too_broad"] else "silence was made"
    await controller.change_silence(who.name, what, silence)
    return JSONResponse(silence.as_json(controller.clock.now()) | {"preview": payload}, 201)


async def delete_silence(request: Request, context: "ApiContext") -> Response:
    """Ends a silence."""
    controller, id_, who = context.controller, request.path_params["id"], caller_of(request).name
    now = controller.clock.now()
    found = next((one for one in await STORE.run(context.reader.silences) if one.id == id_), None)
    if found is None:
        return error_response(404, "no such silence")
    if found.is_over(now):
        return error_response(409, "the silence has already ended")
    silence = end_silence(found, who, now)
    await controller.change_silence(who, "silence was ended", silence)
    return JSONResponse(silence.as_json(now))


# --- request bodies


def _parse_silence(body: str, controller: Controller, owner: str) -> tuple[Silence, bool]:
    """Parses a silence and whether it is forced.

    Raises:
        InputError: all problems of the body.
    """
    fields = FieldReader(yamlfile.parse(body, "silence"))
    if not fields.check_keys((), ("match", "comment"), ("starts", "ends", "hours", "endless", "force")):
        raise InputError(fields.problems)
    now = controller.clock.now()
    match = _parse_match(fields, controller)
    comment = fields.text(("comment",))
    starts = _parse_time(fields, ("starts",), now)
    ends = _parse_end(fields, now if starts is None else starts, now)
    force = read_bool(fields, ("force",))
    if fields.problems:
        raise InputError(set(fields.problems))
    begins = now if starts is None else max(starts, now)
    return Silence(f"s-{secrets.token_hex(6)}", match, begins, ends, owner, comment), force


def _parse_match(fields: FieldReader, controller: Controller) -> Match:
    at = ("match",)
    fields.check_keys(at, (), MATCHERS)
    known = _known_names(controller)
    found = []
    for field in MATCHERS:
        names = []
        for item in fields.item_paths((*at, field), MAX_NAMES):
            name = fields.required_text(item)
            if name and field in known and name not in known[field]:
                fields.add_problem(
                    item,
                    f"an unknown {field} {name!r:.80}",
                    "one that there is",
                    fields.suggest_name(name, known[field]),
                )
            names.append(name)
        if names:
            found.append((field, tuple(dict.fromkeys(names))))
    if not found and not fields.problems:
        fields.add_problem(at, "nothing", f"at least one of {', '.join(MATCHERS)}")
    return tuple(found)


def _known_names(controller: Controller) -> dict[str, Iterable[str]]:
    """Returns the names allowed for each matcher; entities are not checked."""
    cluster: Topology = controller.config.topology
    return {
        "condition": {*controller.catalogue.conditions, *controller.catalogue.symptoms},
        "node": set(cluster.node),
        "group": set(cluster.group),
        "rack": {node.rack for node in cluster.nodes if node.rack},
    }


def _parse_end(fields: FieldReader, starts: float, now: float) -> float | None:
    ways = [name for name in ("ends", "hours", "endless") if fields.value_at((name,)) is not None]
    if len(ways) != 1:
        hint = "A silence without an end, `endless: true`, has to be forced."
        fields.add_problem((), " and ".join(ways) or "no end", "one of 'ends', 'hours' and 'endless'", hint)
        return None
    if ways == ["endless"]:
        if not read_bool(fields, ("endless",)):
            fields.add_problem(("endless",), "false", "true, or another way to tell the end")
        return None
    if ways == ["hours"]:
        return starts + 3600.0 * read_number(fields, ("hours",), 1.0, (0.01, YEAR / 3600.0))
    ends = _parse_time(fields, ("ends",), now)
    if ends is not None and ends <= max(starts, now):
        fields.add_problem(("ends",), rfc3339(ends), "a time after now and after the start")
    return ends


def _parse_time(fields: FieldReader, at: FieldPath, now: float) -> float | None:
    """The time at a path, not years away; None where there is none."""
    payload = fields.text(at)
    if not payload:
        return None
    try:
        when = datetime.fromisoformat(payload)
        seconds = (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        fields.add_problem(at, f"{payload!r:.60}", "a time such as 2026-11-21T17:30:00Z")
        return None
    if abs(seconds - now) > YEAR:
        fields.add_problem(at, f"{payload!r:.60}", "a time within a year")
        return None
    return seconds


# --- preview


async def _run_preview(silence: Silence, context: "ApiContext", request: Request) -> dict[str, Any]:
    return await context.previews.run(silence.id, lambda: _build_preview(silence, context), request)


def _build_preview(silence: Silence, context: "ApiContext") -> dict[str, Any]:
    """Returns the diagnoses and symptoms that a silence would suppress."""
    controller, cluster = context.controller, context.controller.config.topology
    now = controller.clock.now()
    past = [
        one
        for one in context.reader.outlines_since(now - PREVIEW_SECONDS)
        if one.is_counted and one.explained_by is None
    ]
    over = build_matcher(silence, cluster)
    hidden = [one for one in past if over.matches(one)]
    firing = [one for one in hidden if one.state == "firing"]
    others = [one for one in context.reader.silences() if not one.is_over(now)]
    return {
        "match": {field: list(names) for field, names in silence.match},
        "nodes": len(covered_nodes(silence, cluster)),
        "of_nodes": len(cluster.nodes),
        "now": _incidents_to_json(firing),
        "now_count": len(firing),
        "week": _incidents_to_json(hidden),
        "week_count": len(hidden),
        "week_of": len(past),
        "too_broad": list(breadth_problems(silence, others, cluster, controller.config.silences)),
        "most_days": controller.config.silences.max_days,
    }


def _incidents_to_json(found: list[Incident]) -> list[dict[str, Any]]:
    return [
        {
            "incident": one.id,
            "condition": one.condition,
            "entity": {"kind": one.kind, "name": one.name},
            "severity": one.severity,
            "opened_at": rfc3339(one.opened_at),
            "resolved_at": None if one.resolved_at is None else rfc3339(one.resolved_at),
        }
        for one in found[:MAX_SHOWN]
    ]
