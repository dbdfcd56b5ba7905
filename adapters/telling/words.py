"""An incident in a few words, for people who read them somewhere else."""

from skewscope.adapters import places
from skewscope.engine.incident import Incident
from skewscope.engine.topology import FLEET, Topology

MOST_ITEMS = 8
MOST_TEXT = 1000
"""Characters of any text."""


def title(one: Incident) -> str:
    """What it is and where: `tp-straggler on rank n3`."""
    return _cut(f"{one.condition} on {one.kind} {one.name}")


def because(one: Incident) -> str:
    """What speaks for it, loudest first; '' where nothing is told."""
    spoken = sorted((e for e in one.evidence if e.verdict == "yes"), key=lambda e: -e.weight)
    return _cut("; ".join(f"{e.name} ({e.expr})" for e in spoken[:MOST_ITEMS]))


def advice(one: Incident) -> str:
    """What could be done, the best first."""
    return _cut("; ".join(f"{each.id} ({each.actor}): {each.why}" for each in one.mitigations[:MOST_ITEMS]))


def impact(one: Incident) -> str:
    """What it costs, where that could be measured."""
    change = one.impact.change
    if change is None:
        return ""
    size = f"{100.0 * change:+.0f} %" if one.impact.unit == "1" else f"{change:+.3g} {one.impact.unit}"
    return f"{size} of {one.impact.metric}"


def names(found: tuple[str, ...]) -> str:
    """Some names, and how many more."""
    more = len(found) - MOST_ITEMS
    return _cut(", ".join(found[:MOST_ITEMS]) + (f" and {more} more" if more > 0 else ""))


def candidates(one: Incident) -> str:
    """What it may be instead, and where that is not only here."""
    return names(tuple(f"{name}{one.whereabouts(name)}" for name in one.candidates))


def nodes_of(one: Incident, topology: Topology) -> set[str]:
    """The nodes that it is on."""
    return {node for name in places.names_of(one) for node in places.nodes_of(name, topology)}


def node_of(one: Incident, topology: Topology) -> str:
    """The node whose part it is on; '' where it is on a group or between two."""
    found = places.nodes_of(one.name, topology) if one.name not in topology.group else set()
    return found.pop() if len(found) == 1 else ""


def fleet_of(one: Incident, topology: Topology) -> str:
    """The fleet that it is in."""
    fleets = {topology.node[node].fleet for node in nodes_of(one, topology)}
    if not fleets:
        fleets = {node.fleet for node in topology.nodes}
    return fleets.pop() if len(fleets) == 1 else FLEET


def _cut(text: str) -> str:
    text = "".join(c if c.isprintable() else "?" for c in text)
    return text if len(text) <= MOST_TEXT else text[: MOST_TEXT - 3] + "..."
