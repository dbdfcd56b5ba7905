"""The field `reports_for` of a source, and who delivers its series."""

from collections.abc import Mapping

from skewscope.adapters.mapping.entities import EntityResolver
from skewscope.adapters.mapping.senders import FLEET, Sender, SenderLookup, SenderRule, declare_sender
from skewscope.engine.model.topology import Topology
from skewscope.kb.field_reader import FieldReader
from skewscope.kb.yamlfile import FieldPath

MAX_NAMES = 10_000


def read_reports_for(fields: FieldReader, at: FieldPath, default: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Parses `reports_for`: `fleet`, or names of nodes, groups and pools; `default` where it is missing."""
    value = fields.value_at(at)
    if value is None:
        return default
    if isinstance(value, str):
        if value != FLEET:
            fields.add_problem(at, f"{value!r:.80}", f"{FLEET}, or a list of nodes, groups and pools")
        return (FLEET,)
    return tuple(fields.required_text(item) for item in fields.item_paths(at, MAX_NAMES))


def check_reports_for(fields: FieldReader, topology: Topology) -> None:
    """Reports names in the `reports_for` of sources that the topology does not have."""
    known = {*topology.node, *topology.group, *(pool.name for pool in topology.pools)}
    for source in fields.item_paths(("sources",), MAX_NAMES) if topology.nodes else ():
        at = (*source, "reports_for")
        names = fields.value_at(at)
        for name in names if isinstance(names, list) else ():
            if name not in known:
                hint = fields.suggest_name(str(name), known)
                fields.add_problem(at, f"an unknown name {name!r:.80}", "a node, group or pool of the topology", hint)


def build_lookup(
    name: str,
    topology: Topology,
    reports_for: tuple[str, ...],
    labels: Mapping[str, str] | None = None,
    *,
    collects: bool = False,
) -> SenderLookup:
    """Returns the lookup of a source, or of one target of it.

    Args:
        name: of the source or target.
        topology: the fleet.
        reports_for: what the configuration names.
        labels: those that the configuration gives the target, and its address as `instance`.
        collects: whether it collects pages of others, and names each by the label `instance`.
    """
    sender = declare_sender(name, topology, labels or {}, reports_for)
    return SenderLookup(SenderRule(topology), EntityResolver(topology), sender, collects and sender.is_fleet)


def build_job_lookup(name: str, topology: Topology, host: str) -> SenderLookup:
    """Returns the lookup of a host that reports all ranks of its jobs; of one that is no node: of all jobs."""
    found = build_lookup(name, topology, (), {"host": host})
    groups = {group.name for node in found.sender.nodes for group in topology.groups_on.get(node, ())}
    sender = Sender(name, found.sender.nodes, frozenset(groups), is_fleet=not found.sender.nodes)
    return SenderLookup(found.rule, found.resolver, sender)
