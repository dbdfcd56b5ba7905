"""Silences over HTTP: listed, made, tried out and ended."""

import asyncio
import secrets
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from skewscope.adapters.controller.answers import BadBodyError, caller, fault, text
from skewscope.adapters.controller.controller import Controller
from skewscope.adapters.controller.silences import (
    DAY,
    MATCHERS,
    Match,
    Silence,
    covered,
    ended,
    shade,
    too_broad,
)
from skewscope.adapters.more_fields import number, yes
from skewscope.engine.incident import Incident, rfc3339
from skewscope.engine.topology import Topology
from skewscope.kb import yamlfile
from skewscope.kb.fields import Fields
from skewscope.kb.problems import InputError
from skewscope.kb.yamlfile import Path_

if TYPE_CHECKING:
    from skewscope.adapters.controller.api import Site

PAST = 7.0 * DAY
"""Seconds that a preview looks back."""
MOST_NAMES = 1000
MOST_SHOWN = 100
MOST_SILENCES = 1000
"""That may hold or wait at any time."""
YEAR = 366.0 * DAY


async def listed(_request: Request, site: "Site") -> Response:
    """Silences, those that begin last first."""
    now = site.controller.clock.now()
    found = await asyncio.to_thread(site.reader.silences)
    return JSONResponse({"silences": [one.as_json(now) for one in found]})


async def preview(request: Request, site: "Site") -> Response:
    """What a silence would hide now, and would have hidden in the last week; makes none."""
    try:
        silence, _ = _read(await text(request), site.controller, caller(request).name)
    except (BadBodyError, InputError) as error:
        return _wrong(error)
    return JSONResponse(await _previewed(silence, site))


async def add(request: Request, site: "Site") -> Response:
    """Makes a silence; one that is too broad needs `force` by an admin."""
    who, controller = caller(request), site.controller
    try:
        silence, force = _read(await text(request), controller, who.name)
    except (BadBodyError, InputError) as error:
        return _wrong(error)
    told = await _previewed(silence, site)
    if told["too_broad"] and not force:
        return JSONResponse({"error": f"too broad: {'; '.join(told['too_broad'])}", "preview": told}, 409)
    if told["too_broad"] and not who.may("admin"):
        return fault(403, "to force a silence needs the role 'admin'")
    if sum(not one.over(silence.starts) for one in await asyncio.to_thread(site.reader.silences)) >= MOST_SILENCES:
        return fault(409, f"{MOST_SILENCES} silences already; end some")
    what = "silence was forced" if told["too_broad"] else "silence was made"
    await controller.change_silence(who.name, what, silence)
    return JSONResponse(silence.as_json(controller.clock.now()) | {"preview": told}, 201)


async def end(request: Request, site: "Site") -> Response:
    """Ends a silence."""
    controller, id_, who = site.controller, request.path_params["id"], caller(request).name
    now = controller.clock.now()
    found = next((one for one in await asyncio.to_thread(site.reader.silences) if one.id == id_), None)
    if found is None:
        return fault(404, "no such silence")
    if found.over(now):
        return fault(409, "it is over already")
    silence = ended(found, who, now)
    await controller.change_silence(who, "silence was ended", silence)
    return JSONResponse(silence.as_json(now))


def _wrong(error: BadBodyError | InputError) -> Response:
    if isinstance(error, BadBodyError):
        return fault(error.status, str(error))
    problems = [{"field": p.field, "found": p.found, "expected": p.expected, "hint": p.hint} for p in error.problems]
    return JSONResponse({"error": str(error), "problems": problems}, 400)


# --- what was asked for


def _read(body: str, controller: Controller, owner: str) -> tuple[Silence, bool]:
    """The silence that a body describes, and whether it is to be made even if it is too broad.

    Raises:
        InputError: everything that is wrong with it.
    """
    fields = Fields(yamlfile.parse(body, "silence"))
    if not fields.known((), ("match", "comment"), ("starts", "ends", "hours", "endless", "force")):
        raise InputError(fields.problems)
    now = controller.clock.now()
    match = _match(fields, controller)
    comment = fields.text(("comment",))
    starts = _time(fields, ("starts",), now)
    ends = _end(fields, now if starts is None else starts, now)
    force = yes(fields, ("force",))
    if fields.problems:
        raise InputError(set(fields.problems))
    begins = now if starts is None else max(starts, now)
    return Silence(f"s-{secrets.token_hex(6)}", match, begins, ends, owner, comment), force


def _match(fields: Fields, controller: Controller) -> Match:
    at = ("match",)
    fields.known(at, (), MATCHERS)
    known = _names(controller)
    found = []
    for field in MATCHERS:
        names = []
        for item in fields.items((*at, field), MOST_NAMES):
            name = fields.some_text(item)
            if name and field in known and name not in known[field]:
                fields.fault(
                    item, f"an unknown {field} {name!r:.80}", "one that there is", fields.nearest(name, known[field])
                )
            names.append(name)
        if names:
            found.append((field, tuple(dict.fromkeys(names))))
    if not found and not fields.problems:
        fields.fault(at, "nothing", f"at least one of {', '.join(MATCHERS)}")
    return tuple(found)


def _names(controller: Controller) -> dict[str, Iterable[str]]:
    """What may be named; entities are too many kinds of thing to tell."""
    cluster: Topology = controller.config.topology
    return {
        "condition": set(controller.catalogue.conditions),
        "node": set(cluster.node),
        "group": set(cluster.group),
        "rack": {node.rack for node in cluster.nodes if node.rack},
    }


def _end(fields: Fields, starts: float, now: float) -> float | None:
    ways = [name for name in ("ends", "hours", "endless") if fields.at((name,)) is not None]
    if len(ways) != 1:
        hint = "A silence without an end, `endless: true`, has to be forced."
        fields.fault((), " and ".join(ways) or "no end", "one of 'ends', 'hours' and 'endless'", hint)
        return None
    if ways == ["endless"]:
        if not yes(fields, ("endless",)):
            fields.fault(("endless",), "false", "true, or another way to tell the end")
        return None
    if ways == ["hours"]:
        return starts + 3600.0 * number(fields, ("hours",), 1.0, (0.01, YEAR / 3600.0))
    ends = _time(fields, ("ends",), now)
    if ends is not None and ends <= max(starts, now):
        fields.fault(("ends",), rfc3339(ends), "a time after now and after the start")
    return ends


def _time(fields: Fields, at: Path_, now: float) -> float | None:
    """The time at a path, not years away; None where there is none."""
    told = fields.text(at)
    if not told:
        return None
    try:
        when = datetime.fromisoformat(told)
        seconds = (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        fields.fault(at, f"{told!r:.60}", "a time such as 2026-11-21T17:30:00Z")
        return None
    if abs(seconds - now) > YEAR:
        fields.fault(at, f"{told!r:.60}", "a time within a year")
        return None
    return seconds


# --- what it would hide


async def _previewed(silence: Silence, site: "Site") -> dict[str, Any]:
    return await asyncio.to_thread(_preview, silence, site)


def _preview(silence: Silence, site: "Site") -> dict[str, Any]:
    """What it would hide of what would be told: diagnoses, without what others explain."""
    controller, cluster = site.controller, site.controller.config.topology
    now = controller.clock.now()
    past = [one for one in site.reader.since(now - PAST) if one.likely and one.explained_by is None]
    over = shade(silence, cluster)
    hidden = [one for one in past if over.hides(one)]
    firing = [one for one in hidden if one.state == "firing"]
    others = [one for one in site.reader.silences() if not one.over(now)]
    return {
        "match": {field: list(names) for field, names in silence.match},
        "nodes": len(covered(silence, cluster)),
        "of_nodes": len(cluster.nodes),
        "now": _shown(firing),
        "now_count": len(firing),
        "week": _shown(hidden),
        "week_count": len(hidden),
        "week_of": len(past),
        "too_broad": list(too_broad(silence, others, cluster, controller.config.silences)),
        "most_days": controller.config.silences.days,
    }


def _shown(found: list[Incident]) -> list[dict[str, Any]]:
    return [
        {
            "incident": one.id,
            "condition": one.condition,
            "entity": {"kind": one.kind, "name": one.name},
            "severity": one.severity,
            "opened_at": rfc3339(one.opened_at),
            "resolved_at": None if one.resolved_at is None else rfc3339(one.resolved_at),
        }
        for one in found[:MOST_SHOWN]
    ]
