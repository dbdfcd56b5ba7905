"""The nodes of the lab: eight with two ports each, and their replicas."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

NORTH_SOUTH, EAST_WEST = "ns", "ew"
PORTS = (NORTH_SOUTH, EAST_WEST)
NODES = tuple(f"n{number}" for number in range(8))
SUBNET = {NORTH_SOUTH: "10.77.0", EAST_WEST: "10.88.0"}
RATE = {NORTH_SOUTH: "200mbit", EAST_WEST: "1gbit"}
"""Ports have a rate, as real ones do."""
FRONT, PAGE, EXPORTER, MESH = 8080, 8000, 9100, 29500
"""TCP ports: of clients, of the front end's metrics, of node_exporter, of the replica's own traffic."""
KIND = {"tp": "tensor-parallel", "pp": "pipeline-parallel", "pd": "prefill-decode"}
NETWORK = {NORTH_SOUTH: "north-south", EAST_WEST: "east-west"}
SPEED = {NORTH_SOUTH: "200 Mbit/s", EAST_WEST: "1 Gbit/s"}


@dataclass(frozen=True)
class Replica:
    """Nodes that serve together; the first one is the front end."""

    name: str
    mode: str
    """tp, pp or pd."""
    nodes: tuple[str, ...]


def two(mode: str) -> tuple[Replica, Replica]:
    """Returns two replicas of four nodes."""
    return Replica("A", mode, NODES[:4]), Replica("B", mode, NODES[4:])


def address(node: str, port: str) -> str:
    """Returns the address of a node's port."""
    return f"{SUBNET[port]}.{10 + NODES.index(node)}"


def device(node: str, port: str) -> str:
    """Returns the device of a port on the switch side."""
    return f"dpu-{node}-{port}"


def topology(replicas: Sequence[Replica]) -> dict[str, Any]:
    """Returns the lab as a topology file."""
    groups = [
        {"name": one.name, "kind": KIND[one.mode], "members": list(one.nodes), "front_end": one.nodes[0]}
        for one in replicas
    ]
    return {
        "version": 1,
        "nodes": [_node(name) for name in NODES],
        "groups": groups,
        "pools": [{"name": "lab", "replicas": [one.name for one in replicas]}],
    }


def _node(name: str) -> dict[str, Any]:
    ports = [
        {
            "name": port,
            "network": NETWORK[port],
            "speed": SPEED[port],
            "addresses": [address(name, port)],
            "devices": [f"{port}0", device(name, port)],
        }
        for port in PORTS
    ]
    return {"name": name, "dpu": {"sees": list(NETWORK.values())}, "ports": ports}
