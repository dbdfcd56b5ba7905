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


def report_json(result: ShadowResult) -> dict[str, Any]:
    """Returns a summary and every change that would have been planned."""
    return {**summary_json(result), "acts": [act_json(act) for act in result.acts]}


def summary_json(result: ShadowResult) -> dict[str, Any]:
    """Returns the numbers of a shadow run."""
    begun = [each for each in result.acts if each.action.started_at is not None]
    lasted = [each.fault_ended - each.action.reason.opened_at for each in result.acts if each.fault_ended is not None]
    targets = sorted({each.action.change.target for each in result.acts})
    return {
        "since": result.since,
        "until": result.until,
        "since_at": rfc3339(result.since),
        "until_at": rfc3339(result.until),
        "days": round((result.until - result.since) / DAY, 3),
        "incidents": result.incidents,
        "admitted": result.admitted,
        "planned": len(result.acts),
        "begun": len(begun),
        "in_time": result.count(IN_TIME),
        "needless": result.count(NEEDLESS),
        "too_late": result.count(TOO_LATE),
        "asked": result.count(ASKED),
        "blocked": result.count(BLOCKED),
        "acted_upon": result.count(ACTED),
        "unfinished": result.count(UNFINISHED),
        "blocks": dict(result.blocks),
        "ended_by_itself": len(lasted),
        "median_fault_s": round(median(lasted), 1) if lasted else None,
        "most_in_place": max((each.in_place_then + 1 for each in begun), default=0),
        "begun_by_target": {name: sum(each.action.change.target == name for each in begun) for name in targets},
    }


def act_json(act: ShadowAct) -> dict[str, Any]:
    """Returns one change: when it would have been planned, begun and taken back, and what became of its fault."""
    action = act.action
    times = {
        "planned_at": action.created,
        "approved_at": action.approved_at,
        "begun_at": action.started_at,
        "undo_at": action.undo_at,
        "ended_at": action.ended_at,
        "fault_ended_at": act.fault_ended,
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
        "verdict": act.verdict,
        "opened_at": rfc3339(action.reason.opened_at),
        **{name: None if t is None else rfc3339(t) for name, t in times.items()},
        "out_s": _span(action.started_at, action.ended_at),
        "fault_s": _span(action.reason.opened_at, act.fault_ended),
        "fault_after_begin_s": _span(action.started_at, act.fault_ended),
        "waits": list(act.waits),
        "waits_for": action.waiting,
        "ending": action.ending,
        "in_place_then": act.in_place_then,
        "begun_within_hour": act.begun_within_hour,
    }


def _span(begin: float | None, end: float | None) -> float | None:
    return None if begin is None or end is None else round(end - begin, 1)
