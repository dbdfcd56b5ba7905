"""Renders a topology draft as text to be reviewed, with marks at unknown values."""

import ipaddress
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

from skewscope.adapters.discovery.draft import GroupDraft, NodeDraft, PortDraft, TopologyDraft
from skewscope.engine.model.topology_file import GROUP_WITHOUT, NODE_WITHOUT

FILL_IN_MARK = "# FILL IN:"


def render_topology(drawn: TopologyDraft) -> str:
    """Returns the text of a topology.yaml."""
    return "\n".join([*_render_lines(drawn), ""])


def render_draft(drawn: TopologyDraft) -> str:
    """Returns the text of a topology.yaml without marks; what was assumed is in its comments."""
    head = ["# Inferred by `skewscope diagnose`. Edit it, and give it back with --topology."]
    head += [f"# {_to_one_line(str(each))}" for each in drawn.assumptions]
    bare = TopologyDraft(
        {
            name: replace(node, ports=tuple(replace(port, guess="") for port in node.ports))
            for name, node in drawn.nodes.items()
        },
        [replace(group, guess="") for group in drawn.groups],
    )
    lines = [line for line in _render_lines(bare) if not line.lstrip().startswith("#")]
    unknown = f"  {FILL_IN_MARK} how many?"
    return "\n".join([*head, *(line.removesuffix(unknown) for line in lines), ""])


def count_marks(text: str) -> int:
    """Returns the number of marks."""
    return text.count(FILL_IN_MARK)


def _render_lines(drawn: TopologyDraft) -> Iterator[str]:
    yield "# Found by `skewscope topology discover`. Review the marks FILL IN: no scheduler provides these values."
    yield from (f"# {_to_one_line(str(remark))}" for remark in (*drawn.assumptions, *drawn.remarks))
    yield "version: 1"
    yield "nodes:"
    names = {node.name for node in drawn.nodes.values() if not set(node.name) & set(NODE_WITHOUT)}
    for _, node in sorted(drawn.nodes.items()):
        yield from (
            _render_node(node) if node.name in names else [f"# {_to_one_line(node.name)}: not a valid node name"]
        )
    groups = [group for group in drawn.groups if _is_valid_group(group, names)]
    if groups:
        yield "groups:"
        for group in groups:
            yield from _render_group(group)
    else:
        yield f"{FILL_IN_MARK} groups: the nodes that work together, in the order of ranks"
    pools: dict[str, list[str]] = defaultdict(list)
    for group in groups:
        if group.pool:
            pools[group.pool].append(group.name)
    if pools:
        yield "pools:"
        yield from (
            f"  - {{name: {_quote(pool)}, replicas: {_render_list(names)}}}" for pool, names in sorted(pools.items())
        )


def _is_valid_group(group: GroupDraft, names: set[str]) -> bool:
    nodes = {member.rpartition("/gpu")[0] or member for member in group.members}
    return not set(group.name) & set(GROUP_WITHOUT) and nodes <= names


def _render_node(node: NodeDraft) -> Iterator[str]:
    yield f"  - name: {_quote(node.name)}"
    if node.aliases:
        yield f"    aliases: {_render_list(node.aliases)}"
    rack = node.rack or node.switch
    if rack:
        yield f"    rack: {_quote(rack)}" + (
            "" if node.rack else f"  {FILL_IN_MARK} this is the leaf switch; is it the rack?"
        )
    if node.gpu_ids:
        named = (f"{{{'pci' if ':' in text else 'uuid'}: {_quote(text)}}}" for text in node.gpu_ids)
        yield "    gpus: [" + ", ".join(named) + "]"
    else:
        yield f"    gpus: {node.gpus}" + ("" if node.gpus else f"  {FILL_IN_MARK} how many?")
    yield f"    {FILL_IN_MARK} dpu: {{sees: [north-south, east-west]}}, whichever networks it is attached to"
    ports = node.ports or _address_only_port(node)
    if ports:
        yield "    ports:"
    for port in ports:
        yield from _render_port(port, node)
    if not any(port.network == "east-west" for port in ports):
        yield f"    {FILL_IN_MARK} its east-west ports"


def _address_only_port(node: NodeDraft) -> tuple[PortDraft, ...]:
    """Returns the port of the address by which a node is known, if nothing else is known."""
    addresses = tuple(filter(_is_address, node.addresses))
    return (PortDraft("ns", "north-south", "its devices and its speed", 0.0, addresses),) if addresses else ()


def _render_port(port: PortDraft, node: NodeDraft) -> Iterator[str]:
    yield f"      - name: {_quote(port.name)}"
    yield f"        network: {port.network}" + (f"  {FILL_IN_MARK} {port.guess}" if port.guess else "")
    if port.speed:
        yield f"        speed: {port.speed * 8 / 1e9:g} Gbit/s"
    addresses = [address for address in port.addresses if _is_address(address)]
    if addresses:
        yield f"        addresses: {_render_list(addresses)}"
    if port.devices:
        yield f"        devices: {_render_list(port.devices)}"
    switch = port.switch or (node.switch if port.network == "east-west" else "")
    if switch:
        yield f"        switch: {_quote(switch)}"


def _render_group(group: GroupDraft) -> Iterator[str]:
    yield f"  - name: {_quote(group.name)}"
    yield f"    kind: {group.kind}" + (f"  {FILL_IN_MARK} {_to_one_line(group.guess)}" if group.guess else "")
    yield f"    members: {_render_list(group.members)}"
    if group.front_end:
        yield f"    front_end: {_quote(group.front_end)}"
    if group.engine:
        labels = ", ".join(f"{name}: {_quote(value)}" for name, value in group.engine)
        yield f"    engine: {{{labels}}}"


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _render_list(texts: "list[str] | tuple[str, ...]") -> str:
    return "[" + ", ".join(map(_quote, texts)) + "]"


def _quote(text: str) -> str:
    """Quotes a text for YAML where necessary."""
    plain = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isascii() and c.isprintable() else f"\\U{ord(c):08x}" for c in plain) + '"'


def _to_one_line(text: str) -> str:
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())
