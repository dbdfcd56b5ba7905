"""What a controller that follows saw and the leader did not report, as a text beside the file of the lease.

A leader that has just started sees less than one whose windows are full, and one that an agent cannot reach sees
nothing of its node. The follower may not notify, and need not lead as long as an incident is of use.
"""

import json
from collections.abc import Mapping

from skewscope.adapters.notify.base import OPENED, IncidentUpdate, Notification
from skewscope.engine.model.incident import parse_incident
from skewscope.kb.field_reader import is_finite_number

MAX_TEXT = 1 << 18
"""Characters of the text; a longer one says nothing."""


def format_omissions(found: Mapping[str, Notification]) -> str:
    """Returns openings by notifier as a text; '' without any. `parse_omissions` reads it."""
    if not found:
        return ""
    said = {name: [one.t, one.update.why, one.update.incident.as_json()] for name, one in sorted(found.items())}
    text = json.dumps(said, separators=(",", ":"))
    return text if len(text) <= MAX_TEXT else ""


def parse_omissions(text: str) -> dict[str, Notification]:
    """Returns what `format_omissions` was given, as openings; what is damaged is left out."""
    try:
        said = json.loads(text) if len(text) <= MAX_TEXT else {}
    except (ValueError, RecursionError):
        return {}
    items = said.items() if isinstance(said, dict) else ()
    return {name: one for name, data in items if (one := _parse_opening(data)) is not None}


def _parse_opening(data: object) -> Notification | None:
    if not isinstance(data, list) or len(data) != 3:
        return None
    t, why, fields = data
    if not is_finite_number(t) or not isinstance(why, str) or not isinstance(fields, dict):
        return None
    try:
        incident = parse_incident(fields)
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
    texts = incident.id, incident.condition, incident.kind, incident.name
    is_whole = all(isinstance(one, str) for one in texts) and is_finite_number(incident.opened_at)
    return Notification(0, float(t), IncidentUpdate(OPENED, why, incident)) if is_whole else None
