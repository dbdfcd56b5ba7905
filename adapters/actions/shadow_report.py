"""A shadow run as JSON values: what is printed, sent by the API, and stored as evidence."""

from statistics import median
from typing import Any

from skewscope.adapters.actions.shadow import (
    ACTED,
    ASKED,
    BLOCKED,
    IN_TIME,
    NEEDLESS,
    TOO_LATE,
    UNFINISHED,
    ShadowAct,
    ShadowResult,
)
from skewscope.engine.model.incident import rfc3339

DAY = 86400.0


def report_json(found: ShadowResult) -> dict[str, Any]:
    """Returns a summary and every change that would have been planned."""
    return {**summary_json(found), "acts": [act_json(one) for one in found.acts]}


def summary_json(found: ShadowResult) -> dict[str, Any]:
    """Returns the numbers of a shadow run."""
    begun = [one for one in found.acts if one.action.started_at is not None]
    alone = [one for one in found.acts if one.fault_ended is not None and one.verdict != ACTED]
    lasted = [(one.fault_ended or 0.0) - one.action.reason.opened_at for one in alone]
    targets = sorted({one.action.change.target for one in found.acts})
    return {
        "since": found.since,
        "until": found.until,
        "since_at": rfc3339(found.since),
        "until_at": rfc3339(found.until),
        "days": round((found.until - found.since) / DAY, 3),
        "incidents": found.incidents,
        "admitted": found.admitted,
        "planned": len(found.acts),
        "begun": len(begun),
        "in_time": found.count(IN_TIME),
        "needless": found.count(NEEDLESS),
        "too_late": found.count(TOO_LATE),
        "asked": found.count(ASKED),
        "blocked": found.count(BLOCKED),
        "acted_upon": found.count(ACTED),
        "unfinished": found.count(UNFINISHED),
        "blocks": dict(found.blocks),
        "ended_by_itself": len(lasted),
        "median_fault_s": round(median(lasted), 1) if lasted else None,
        "most_in_place": max((one.in_place_then + 1 for one in begun), default=0),
        "begun_by_target": {name: sum(one.action.change.target == name for one in begun) for name in targets},
    }


def act_json(one: ShadowAct) -> dict[str, Any]:
    """Returns one change: when it would have been planned, begun and taken back, and what became of its fault."""
    action = one.action
    times = {
        "planned_at": action.created,
        "approved_at": action.approved_at,
        "begun_at": action.started_at,
        "undo_at": action.undo_at,
        "ended_at": action.ended_at,
        "fault_ended_at": one.fault_ended,
    }
    return {
        "title": action.title,
        "target": action.change.target,
        "member": action.change.member,
        "kind": action.change.kind,
        "incident": action.reason.incident,
        "condition": action.reason.condition,
        "at": action.reason.name,
        "confidence": action.reason.confidence,
        "state": action.state,
        "verdict": one.verdict,
        "opened_at": rfc3339(action.reason.opened_at),
        **{name: None if t is None else rfc3339(t) for name, t in times.items()},
        "out_s": _span(action.started_at, action.ended_at),
        "fault_s": _span(action.reason.opened_at, one.fault_ended),
        "fault_after_begin_s": _span(action.started_at, one.fault_ended),
        "waits": list(one.waits),
        "waits_for": action.waiting,
        "ending": action.ending,
        "in_place_then": one.in_place_then,
        "begun_within_hour": one.begun_within_hour,
    }


def _span(begin: float | None, end: float | None) -> float | None:
    return None if begin is None or end is None else round(end - begin, 1)
