"""Whether an incident rests on enough independent telemetry to be acted upon without a person. Pure."""

from collections.abc import Collection

from skewscope.engine.model.incident import Incident

PROBE, ROUTER = "probe", "router"
"""Names of witnesses that are no senders of telemetry: a request of the controller's own that the accused answered
slowly, and the router's own times."""
OWN_KINDS = ("node", "gpu", "port")
"""Entities that are a node or a part of it: what only the node itself measures, nobody else could contradict."""


def find_doubt(incident: Incident, extra: Collection[str] = ()) -> str:
    """Returns why an incident's witnesses do not suffice for an automatic change; '' where they do.

    Two independent witnesses suffice. One alone does only where a node reports on itself: the worst that false
    telemetry can do is to take out the node that sends it.

    Args:
        incident: its `witnesses` are the senders on whose telemetry it rests.
        extra: further witnesses that confirm it, such as PROBE or ROUTER.
    """
    seen = sorted({*incident.witnesses, *extra})
    if len(seen) > 1:
        return ""
    if not seen:
        return "it is not known whose telemetry the diagnosis rests on; a person has to look"
    if incident.kind in OWN_KINDS and incident.name.partition("/")[0] == seen[0]:
        return ""
    return f"only {seen[0]} reports it, and others could contradict; a second witness or a person has to confirm it"
