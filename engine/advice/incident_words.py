"""Where an incident is, what goes wrong there and how far its cause is known, in few words. Pure."""

from skewscope.engine.advice.command_values import placeholder_values
from skewscope.engine.model.incident import Incident
from skewscope.engine.model.topology import Topology
from skewscope.kb.model import Catalogue
from skewscope.kb.quantities import format_probability

_NAMED_KINDS = ("node", "rank")
"""Kinds of entities that people know by their names alone."""
_KINDS_WITH_PARTS = ("port", "link", "gpu", "peer")
"""Kinds of entities whose names have the node before a slash, which shows the kind."""


MAX_OTHERS = 20
"""Columns up to which further members are named; their number names nothing."""


def format_place(kind: str, name: str) -> str:
    """Returns `rank n2` or `n7/ew`: kind and name, or the name alone where it shows the kind."""
    is_plain = name.lower().startswith(kind) or (kind in _KINDS_WITH_PARTS and "/" in name)
    return name if is_plain else f"{kind} {name}"


def format_others(incident: Incident, most: int = MAX_OTHERS) -> str:
    """Returns the further members by name, `+n1 n3`, or their number `+12` beyond `most` columns; '' without any."""
    names = " ".join(incident.also)
    return "" if not names else f"+{names}" if len(names) <= most else f"+{len(incident.also)}"


def format_location(incident: Incident, most: int = MAX_OTHERS) -> str:
    """Returns `rank n2`, or `n2/ew +n3/ew` with further members; the kind where the name does not show it."""
    more = f" {format_others(incident, most)}" if incident.also else ""
    return f"{format_place(incident.kind, incident.name)}{more}"


def format_where(incident: Incident, most: int = MAX_OTHERS) -> str:
    """Returns the location where a node or rank needs no kind: `n2 +3`."""
    location = format_location(incident, most)
    is_named = incident.kind in _NAMED_KINDS and not incident.name.isdecimal()
    return location.removeprefix(f"{incident.kind} ") if is_named else location


def describe_incident(incident: Incident, catalogue: Catalogue, topology: Topology | None = None) -> str:
    """Returns what goes wrong as a sentence: `n2 holds up group A: every rank waits for it`.

    Where the catalogue has no sentence: the name of the condition or symptom, and the location.
    """
    condition = catalogue.conditions.get(incident.condition)
    where = format_where(incident)
    if condition is None or not condition.sentence:
        known = condition or catalogue.symptoms.get(incident.condition)
        return f"{known.name if known else incident.condition} on {where}"
    group = placeholder_values(incident, topology or Topology()).get("group", "")
    text = condition.sentence.replace("{group}", f"group {group}" if group else "its group").replace("{where}", where)
    return text[0].upper() + text[1:] if text.startswith(f"{incident.kind} ") else text


def describe_cause(incident: Incident, catalogue: Catalogue) -> str:
    """Returns how far the cause of a symptom is known: `likely GPU throttled by heat (84 %)`, else `cause unknown`."""
    if incident.leading_cause is None:
        return "cause unknown"
    condition, probability = incident.leading_cause
    return f"likely {catalogue.conditions[condition].name} ({format_probability(probability)})"
