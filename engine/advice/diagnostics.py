"""The commands that show the next evidence at the place of an incident, with its names. Pure."""

import re
from collections.abc import Iterator, Mapping

from skewscope.engine.advice.command_values import is_for_other_engine, named_engines, place_of_node, placeholder_values
from skewscope.engine.model.incident import Incident
from skewscope.engine.model.topology import Topology
from skewscope.kb.command_template import GIVEN_PLACEHOLDERS, PLACES, is_safe_value, name_place, placeholders
from skewscope.kb.diagnostic_commands import DiagnosticCommand, load_diagnostic_commands
from skewscope.kb.model import Catalogue

_signal_id = re.compile(r"\b[a-z]+\.[a-z0-9_]+\b")


def choose_diagnostics(
    incident: Incident, catalogue: Catalogue, values: Mapping[str, str]
) -> tuple[DiagnosticCommand, ...]:
    """Returns the commands for the likely cause, else for the most decisive signal, of which one is complete here.

    That one comes first; others may lack what only the operator knows. Without any: the first one for the place.

    Args:
        incident: the incident.
        catalogue: its signals and conditions.
        values: of `reading_values`.
    """
    named = named_engines(incident)
    known = (one for one in load_diagnostic_commands() if not is_for_other_engine(one.engine, named))
    here = [one for one in known if _fits(one, incident.kind, values)]
    of_cause = [one for one in here if likely_cause(incident) in one.conditions]
    signals = _decisive_signals(incident, catalogue)
    for fitting in (of_cause, *([one for one in here if one.covers(signal)] for signal in signals)):
        if any(is_complete(one, values) for one in fitting):
            return tuple(sorted(fitting, key=lambda one: not is_complete(one, values)))
    return tuple([one for one in here if one.is_default and is_complete(one, values)][:1])


def likely_cause(incident: Incident) -> str:
    """Returns the condition of a diagnosis, and that of a symptom which is likelier than all else together; or ''."""
    return incident.leading_cause[0] if incident.leading_cause else "" if incident.is_symptom else incident.condition


def _decisive_signals(incident: Incident, catalogue: Catalogue) -> Iterator[str]:
    """Yields the signal that tells the causes apart where none is likely, those of the evidence, and of the cause."""
    condition = catalogue.conditions.get(likely_cause(incident))
    if incident.decides and condition is None:
        yield incident.decides
    for item in incident.evidence:
        yield from (name for name in _signal_id.findall(item.expr) if name in catalogue.signals)
    yield from condition.signature_signals if condition else ()


def reading_values(incident: Incident, topology: Topology) -> dict[str, str]:
    """Returns the values of placeholders for a command that only reads: with the first machine of a group or a pool."""
    values = placeholder_values(incident, topology)
    if "node" in values or "switch" in values:
        return values
    known = (place_of_node({"node": node}, topology) for node in _nodes(incident, topology))
    return values | next((one for one in known if "node" in one), {})


def _nodes(incident: Incident, topology: Topology) -> Iterator[str]:
    """Yields the nodes of the members of a group, a replica or a pool, and of the ends of a link."""
    pools = {pool.name: pool.replicas for pool in topology.pools}
    for name in pools.get(incident.name, incident.name.split(">")):
        group = topology.group.get(name)
        yield from (topology.node_of[member] for member in group.members) if group else (name.partition("/")[0],)


def is_complete(one: DiagnosticCommand, values: Mapping[str, str]) -> bool:
    """Returns whether a command can be run as it stands."""
    return not _open_names(one, values)


def _fits(one: DiagnosticCommand, kind: str, values: Mapping[str, str]) -> bool:
    """Returns whether a command is for a place, and all that it lacks is what the operator knows."""
    if one.places and kind not in one.places:
        return False
    return _has_machine(one.command.where, values) and _open_names(one, values) <= GIVEN_PLACEHOLDERS.keys()


def _has_machine(where: str, values: Mapping[str, str]) -> bool:
    """Returns whether it is known where a command is run; one for a switch only where that is the place itself."""
    is_switch = "switch" in values and "node" not in values
    return all(name_place(name, values) for name in placeholders(PLACES[where])) and (where != "switch" or is_switch)


def _open_names(one: DiagnosticCommand, values: Mapping[str, str]) -> set[str]:
    names = placeholders(one.command.do)
    return {name for name in names if not is_safe_value(values.get(name, ""), one.command.tool)}
