"""A topology out of its YAML document: all faults with their lines, or a topology in which every name is known."""

import ipaddress
import re
from collections.abc import Iterable, Iterator

from skewscope.engine.model.topology import FLEET, Group, Node, Pool, Port, Topology, canonical_gpu_id
from skewscope.kb.field_reader import FieldReader
from skewscope.kb.problems import InputError, Problem, join_names
from skewscope.kb.yamlfile import Document, FieldPath, type_label

NETWORKS = ("north-south", "east-west")
GROUP_KINDS = ("tensor-parallel", "pipeline-parallel", "data-parallel", "expert-parallel", "prefill-decode")
MAX_GPUS = 1024
LABEL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
MAX_ENGINE_LABELS = 16

# Entity names are built as node/port, group:member and a>b; a selector's parts are told apart by commas.
NODE_WITHOUT = "/>:,"
NAME_WITHOUT = ">,"
GROUP_WITHOUT = ":>,"

SPEED = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<prefix>[kKMGT]?)(?P<unit>bits?|b|bytes?|Bytes?|B)(?:/s|ps)")
PREFIX = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
GPU_MEMBER = re.compile(r"(?P<node>.+)/gpu(?P<index>0|[1-9]\d{0,3})")


def parse_topology(document: Document) -> tuple[Topology, tuple[Problem, ...]]:
    """The topology in a document and what is wrong with it; with any fault the topology is empty."""
    fields = FieldReader(document)
    if fields.check_keys((), ("version", "nodes"), ("groups", "pools", "note")):
        fields.check_version()
    read = Topology(
        tuple(_node(fields, path) for path in fields.item_paths(("nodes",))),
        tuple(_group(fields, path) for path in fields.item_paths(("groups",))),
        tuple(_pool(fields, path) for path in fields.item_paths(("pools",))),
    )
    _check_nodes(fields, read)
    _check_peers(fields, read)
    _check_groups(fields, read)
    _check_pools(fields, read)
    _check_needs(fields, read)
    problems = tuple(sorted(set(fields.problems)))
    return (Topology() if problems else read), problems


def parse_valid_topology(document: Document) -> Topology:
    """The topology in a document.

    Raises:
        InputError: all that is wrong with it.
    """
    found, problems = parse_topology(document)
    if problems:
        raise InputError(problems)
    return found


def parse_speed(text: str) -> float | None:
    """Bytes per second of `200 Mbit/s`, `400Gb/s`, `25 GB/s`, `100 Gbps`; None when it is none of them."""
    match = SPEED.fullmatch(text.strip())
    if not match or not float(match["number"]):
        return None
    bits = match["unit"] in ("b", "bit", "bits")
    return float(match["number"]) * PREFIX[match["prefix"]] / (8 if bits else 1)


def _node(fields: FieldReader, path: FieldPath) -> Node:
    more = ("aliases", "rack", "fleet", "hardware", "needed_by", "gpus", "dpu", "ports", "note")
    fields.check_keys(path, ("name",), more)
    name = fields.text((*path, "name"), without=NODE_WITHOUT)
    return Node(
        name,
        fields.text((*path, "rack")),
        _gpus(fields, (*path, "gpus")),
        _visible_networks(fields, (*path, "dpu")),
        tuple(_port(fields, item, name) for item in fields.item_paths((*path, "ports"))),
        fields.text((*path, "fleet"), without=NODE_WITHOUT) or FLEET,
        aliases=fields.texts((*path, "aliases")),
        gpu_ids=tuple(_gpu_ids(fields, (*path, "gpus"))),
        hardware=fields.text((*path, "hardware")),
        needed_by=fields.texts((*path, "needed_by")),
    )


def _gpu_ids(fields: FieldReader, path: FieldPath) -> Iterator[tuple[str, int]]:
    """UUID and PCI address of each GPU of a list that says them, with its index."""
    if not isinstance(fields.value_at(path), list):
        return
    for index, item in enumerate(fields.item_paths(path, MAX_GPUS)):
        if isinstance(fields.value_at(item), dict):
            fields.check_keys(item, (), ("uuid", "pci", "model", "note"))
            for name in ("uuid", "pci"):
                if text := fields.text((*item, name)):
                    yield canonical_gpu_id(text), index


def _gpus(fields: FieldReader, path: FieldPath) -> int:
    """A count, or a list with one item per GPU."""
    if isinstance(fields.value_at(path), list):
        return sum(1 for _ in fields.item_paths(path, MAX_GPUS))
    return fields.count(path, MAX_GPUS)


def _visible_networks(fields: FieldReader, path: FieldPath) -> tuple[str, ...]:
    if fields.value_at(path) is None or not fields.check_keys(path, (), ("sees",)):
        return ()
    return tuple(dict.fromkeys(fields.texts((*path, "sees"), choice=NETWORKS)))


def _port(fields: FieldReader, path: FieldPath, node: str) -> Port:
    fields.check_keys(path, ("name", "network"), ("speed", "addresses", "devices", "switch", "peer", "note"))
    return Port(
        node,
        fields.text((*path, "name"), without=NAME_WITHOUT),
        fields.text((*path, "network"), choice=NETWORKS),
        _speed(fields, (*path, "speed")),
        tuple(_address(fields, item) for item in fields.item_paths((*path, "addresses"))),
        fields.texts((*path, "devices")),
        fields.text((*path, "switch")),
        fields.text((*path, "peer")),
    )


def _speed(fields: FieldReader, path: FieldPath) -> float | None:
    value = fields.value_at(path)
    if value is None:
        return None
    found = parse_speed(value) if isinstance(value, str) else None
    if found is None:
        hint = "Write the unit: b or bit for bits, B for bytes."
        fields.add_problem(path, f"{value!r:.40}", "a speed such as '400 Gbit/s' or '50 GB/s'", hint)
    return found


def _address(fields: FieldReader, path: FieldPath) -> str:
    """The canonical form of an address, as packets give it."""
    text = fields.required_text(path)
    try:
        return str(ipaddress.ip_address(text)) if text else ""
    except ValueError:
        hint = "Leave out the prefix length." if "/" in text else ""
        fields.add_problem(path, f"{text!r}", "an IPv4 or IPv6 address", hint)
        return ""


def _group(fields: FieldReader, path: FieldPath) -> Group:
    fields.check_keys(path, ("name", "kind", "members"), ("front_end", "engine", "team", "note"))
    return Group(
        fields.text((*path, "name"), without=GROUP_WITHOUT),
        fields.text((*path, "kind"), choice=GROUP_KINDS),
        tuple(fields.required_text(item) for item in fields.item_paths((*path, "members"))),
        fields.text((*path, "front_end")),
        _engine_labels(fields, (*path, "engine")),
        fields.text((*path, "team")),
    )


def _engine_labels(fields: FieldReader, path: FieldPath) -> tuple[tuple[str, str], ...]:
    """Labels that series of a group's engine have, sorted."""
    value = fields.value_at(path)
    if value is None:
        return ()
    if not isinstance(value, dict) or not 0 < len(value) <= MAX_ENGINE_LABELS:
        fields.add_problem(path, type_label(value), f"1 to {MAX_ENGINE_LABELS} labels such as {{instance: 'n0:8000'}}")
        return ()
    found = []
    for name in sorted(map(str, value)):
        if LABEL_NAME.fullmatch(name):
            found.append((name, fields.required_text((*path, name))))
        else:
            fields.add_problem(path, f"{name!r:.40}", "a label's name")
    return tuple(found)


def _pool(fields: FieldReader, path: FieldPath) -> Pool:
    fields.check_keys(path, ("name", "replicas"), ("team", "note"))
    replicas = tuple(fields.required_text(item) for item in fields.item_paths((*path, "replicas")))
    return Pool(fields.text((*path, "name"), without=NAME_WITHOUT), replicas, fields.text((*path, "team")))


def _check_nodes(fields: FieldReader, read: Topology) -> None:
    for i, node in enumerate(read.nodes):
        names = ((("nodes", i, "ports", j, "name"), port.name) for j, port in enumerate(node.ports))
        _check_unique(fields, names, "a name of its own on this node")
        devices = (
            (("nodes", i, "ports", j, "devices", k), device)
            for j, port in enumerate(node.ports)
            for k, device in enumerate(port.devices)
        )
        _check_unique(fields, devices, "a device that no other port of this node has")
    hosts: list[tuple[FieldPath, str]] = [(("nodes", i, "name"), node.name) for i, node in enumerate(read.nodes)]
    hosts += [(("nodes", i, "aliases", j), a) for i, node in enumerate(read.nodes) for j, a in enumerate(node.aliases)]
    _check_unique(fields, hosts, "a name that no other node has")
    _check_unique(fields, _addresses(read), "an address that no other port has")


def _addresses(read: Topology) -> Iterator[tuple[FieldPath, str]]:
    for i, node in enumerate(read.nodes):
        for j, port in enumerate(node.ports):
            for k, address in enumerate(port.addresses):
                yield ("nodes", i, "ports", j, "addresses", k), address


def _check_unique(fields: FieldReader, values: Iterable[tuple[FieldPath, str]], expected: str) -> None:
    first: dict[str, FieldPath] = {}
    for path, value in values:
        if not value:
            continue
        if value in first:
            line = fields.document.line(*first[value])
            fields.add_problem(path, f"{value!r} for the second time", expected, f"Line {line} has it first.")
        first.setdefault(value, path)


def _check_peers(fields: FieldReader, read: Topology) -> None:
    for i, node in enumerate(read.nodes):
        for j, port in enumerate(node.ports):
            if port.peer:
                _check_peer(fields, read, port, ("nodes", i, "ports", j, "peer"))


def _check_peer(fields: FieldReader, read: Topology, port: Port, path: FieldPath) -> None:
    other = read.port.get(port.peer)
    if other is None:
        hint = fields.suggest_name(port.peer, read.port)
        fields.add_problem(path, f"an unknown port {port.peer!r}", "node/port of a port in this file", hint)
    elif other.id == port.id:
        fields.add_problem(path, "the port itself", "the port at the other end of the link")
    elif other.peer not in ("", port.id):
        fields.add_problem(
            path, f"{port.peer!r}", "a port that names this one as its peer", f"Its peer is {other.peer!r}."
        )


def _check_groups(fields: FieldReader, read: Topology) -> None:
    _check_unique(fields, ((("groups", i, "name"), g.name) for i, g in enumerate(read.groups)), "a name of its own")
    for i, group in enumerate(read.groups):
        members = [(("groups", i, "members", j), member) for j, member in enumerate(group.members)]
        if not members and fields.value_at(("groups", i, "members")) == []:
            fields.add_problem(("groups", i, "members"), "an empty list", "at least one member")
        _check_unique(fields, members, "each member once")
        for path, member in members:
            _check_member(fields, read, member, path)
        if group.front_end and group.front_end not in read.node:
            _unknown_node(fields, read, group.front_end, ("groups", i, "front_end"))
    engines = ((("groups", i, "engine"), str(dict(g.engine))) for i, g in enumerate(read.groups) if g.engine)
    _check_unique(fields, engines, "labels that no other group's engine has")


def _check_member(fields: FieldReader, read: Topology, member: str, path: FieldPath) -> None:
    if not member or member in read.node:
        return
    match = GPU_MEMBER.fullmatch(member)
    node = read.node.get(match["node"]) if match else None
    if match and node:
        if node.gpus and int(match["index"]) >= node.gpus:
            fields.add_problem(path, f"{member!r}", f"a GPU from gpu0 to gpu{node.gpus - 1}", "GPUs count from 0.")
    elif match or "/" not in member:
        _unknown_node(fields, read, match["node"] if match else member, path)
    else:
        fields.add_problem(path, f"{member!r}", "a node, or node/gpuN")


def _unknown_node(fields: FieldReader, read: Topology, name: str, path: FieldPath) -> None:
    hint = fields.suggest_name(name, read.node) or "Add it to nodes, or take it out here."
    fields.add_problem(path, f"an unknown node {name!r}", f"a node of this file ({join_names([*read.node])})", hint)


def _check_needs(fields: FieldReader, read: Topology) -> None:
    known = {*read.group, *(pool.name for pool in read.pools)}
    for i, node in enumerate(read.nodes):
        for j, name in enumerate(node.needed_by):
            if name not in known:
                hint = fields.suggest_name(name, known)
                expected = "a group or a pool of this file"
                fields.add_problem(("nodes", i, "needed_by", j), f"an unknown name {name!r}", expected, hint)


def _check_pools(fields: FieldReader, read: Topology) -> None:
    _check_unique(fields, ((("pools", i, "name"), pool.name) for i, pool in enumerate(read.pools)), "a name of its own")
    for i, pool in enumerate(read.pools):
        replicas = [(("pools", i, "replicas", j), name) for j, name in enumerate(pool.replicas)]
        _check_unique(fields, replicas, "each replica once")
        for path, name in replicas:
            if name and name not in read.group:
                hint = fields.suggest_name(name, read.group)
                fields.add_problem(path, f"an unknown group {name!r}", "a group of this file", hint)
