"""Short texts of an incident for readers of other systems."""

from skewscope.adapters.mapping import incident_nodes
from skewscope.engine.model.incident import SYMPTOM, Incident, IncidentEvidence
from skewscope.engine.model.topology import FLEET, Topology
from skewscope.kb.quantities import format_value

MAX_ITEMS = 8
MAX_TEXT = 1000
"""Maximum characters of a text."""


def title(one: Incident) -> str:
    """Returns condition and place: `tp-straggler on rank n3`, `symptom slow-steps on group A`."""
    kind = f"{SYMPTOM} " if one.is_symptom else ""
    return shorten(f"{kind}{one.condition} on {one.kind} {one.name}")


def evidence_text(one: Incident) -> str:
    """Returns the supporting evidence with its values, strongest first; '' for none."""
    spoken = sorted((e for e in one.evidence if e.verdict == "yes"), key=lambda e: -e.weight)
    return shorten("; ".join(map(_evidence_item, spoken[:MAX_ITEMS])))


def _evidence_item(one: IncidentEvidence) -> str:
    value = "" if one.value is None else f" ({format_value(one.value, one.unit)})"
    return one.name.replace("_", " ") + value


def seen_text(one: Incident) -> str:
    """Returns what speaks for a diagnosis in words, strongest first; '' for nothing."""
    found = sorted((e for e in one.evidence if e.verdict == "yes"), key=lambda e: -e.weight)
    return join_names(tuple(e.name.replace("_", " ") for e in found))


def otherwise_text(one: Incident) -> str:
    """Returns what a diagnosis may be where it is wrong, likeliest first; '' for nothing."""
    named = join_names(tuple(each.condition for each in one.competing))
    listed = {each.condition for each in one.competing}
    unjudged = sum(name not in listed for name in one.unjudged_conditions)
    noun = "condition" if unjudged == 1 else "conditions"
    return "; ".join(filter(None, (named, f"{unjudged} {noun} without telemetry not judged" if unjudged else "")))


def advice_text(one: Incident) -> str:
    """Returns the advice, best first."""
    return shorten("; ".join(f"{each.id} ({each.actor}): {each.why}" for each in one.mitigations[:MAX_ITEMS]))


def actions_text(actions: tuple[str, ...]) -> str:
    """Returns what was done about an incident, latest first."""
    return shorten("; ".join(actions[:MAX_ITEMS]))


def impact_text(one: Incident) -> str:
    """Returns the measured impact; '' where it is unknown."""
    change = one.impact.change
    if change is None:
        return ""
    return f"{format_value(change, one.impact.unit, share=True, signed=True)} of {one.impact.metric}"


def join_names(found: tuple[str, ...]) -> str:
    """Joins some names and the number of the remaining ones."""
    more = len(found) - MAX_ITEMS
    return shorten(", ".join(found[:MAX_ITEMS]) + (f" and {more} more" if more > 0 else ""))


def causes_text(one: Incident) -> str:
    """Returns the likely causes of a symptom with their probabilities; '' for none."""
    return join_names(
        tuple(name if share is None else f"{name} {100.0 * share:.0f} %" for name, share in one.likely_causes)
    )


def unjudged_text(one: Incident) -> str:
    """Returns what a diagnosis may be instead and lacks telemetry, with other locations; '' for nothing."""
    return join_names(tuple(f"{name}{one.format_location(name)}" for name in one.unjudged_conditions))


def summary_text(one: Incident) -> str:
    """Returns what is abnormal, in one sentence; '' for a diagnosis."""
    return shorten(one.summary)


def nodes_of(one: Incident, topology: Topology) -> set[str]:
    """Returns the nodes of its entity."""
    return {node for name in incident_nodes.entity_names(one) for node in incident_nodes.nodes_of(name, topology)}


def node_of(one: Incident, topology: Topology) -> str:
    """Returns the node of its entity; '' for a group or a link."""
    found = incident_nodes.nodes_of(one.name, topology) if one.name not in topology.group else set()
    return found.pop() if len(found) == 1 else ""


def fleet_of(one: Incident, topology: Topology) -> str:
    """Returns the name of the fleet."""
    fleets = {topology.node[node].fleet for node in nodes_of(one, topology)}
    if not fleets:
        fleets = {node.fleet for node in topology.nodes}
    return fleets.pop() if len(fleets) == 1 else FLEET


def shorten(text: str) -> str:
    """Returns a printable text of at most MAX_TEXT characters."""
    text = "".join(c if c.isprintable() else "?" for c in text)
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 3] + "..."
