"""The network of the lab: namespaces, links with a rate, and faults on them."""

import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from tests.lab.cluster import NODES, PORTS, RATE, SUBNET, address, device
from tests.lab.namespaces import inside, run

BURST, LATENCY = "256kb", "20ms"


@dataclass(frozen=True)
class Network:
    """One network; several with different names may exist side by side."""

    name: str

    @property
    def switch(self) -> str:
        """Returns the namespace of the switch side of all ports, the place of the DPUs."""
        return f"{self.name}-net"

    def node(self, node: str) -> str:
        """Returns the namespace of a node."""
        return f"{self.name}-{node}"

    def make(self) -> None:
        """Creates the network."""
        spaces = [self.switch, *map(self.node, NODES)]
        self._ip(f"netns add {space}" for space in spaces)
        self._ip(self._bridges(), self.switch)
        for node in NODES:
            up = [f"addr add {address(node, port)}/24 dev {port}0\nlink set {port}0 up" for port in PORTS]
            self._ip(["link set lo up", *up], self.node(node))
            for port in PORTS:
                self.rate(node, port, RATE[port], BURST)

    def _bridges(self) -> Iterator[str]:
        yield "link set lo up"
        for port in PORTS:
            yield f"link add br-{port} type bridge\nlink set br-{port} up"
            yield f"addr add {SUBNET[port]}.1/24 dev br-{port}"
            for node in NODES:
                here = device(node, port)
                yield f"link add {here} type veth peer name {port}0 netns {self.node(node)}"
                yield f"link set {here} master br-{port} up"

    def _ip(self, lines: Iterable[str], space: str = "") -> None:
        run("ip", *(["-n", space] if space else []), "-batch", "-", text="\n".join(lines) + "\n")

    def remove(self) -> None:
        """Removes what exists of the network."""
        for space in (self.switch, *map(self.node, NODES)):
            with suppress(RuntimeError, subprocess.SubprocessError):
                run("ip", "netns", "delete", space)

    def rate(self, node: str, port: str, rate: str, burst: str = "64kb", latency: str = LATENCY) -> None:
        """Sets the rate of a link in both directions."""
        for space, end in ((self.switch, device(node, port)), (self.node(node), f"{port}0")):
            what = f"dev {end} root tbf rate {rate} burst {burst} latency {latency}"
            run("tc", "-n", space, "qdisc", "replace", *what.split())

    def lose(self, node: str, port: str, share: float, way: str = "both") -> None:
        """Drops packets of a link at random, beyond its DPU: `in` before the host, `out` before the network."""
        if way in ("both", "in"):
            self._drop(self.node(node), f"{port}0", node, share)
        if way in ("both", "out"):
            self._drop(self.switch, device(node, port), node, share)

    def _drop(self, space: str, end: str, node: str, share: float) -> None:
        hook = f"type filter hook ingress device {end} priority 0"
        rule = f"numgen random mod 1000 < {round(share * 1000)} drop"
        table = f"table netdev lab-{node} {{\nchain {end} {{\n{hook};\n{rule}\n}}\n}}\n"
        run(*inside(space, "nft", "-f", "-"), text=table)

    def unlose(self, node: str) -> None:
        """Stops dropping packets of a node."""
        for space in (self.node(node), self.switch):
            with suppress(RuntimeError):
                run(*inside(space, "nft", "delete", "table", "netdev", f"lab-{node}"))


@contextmanager
def network(name: str) -> Iterator[Network]:
    """Creates a network for the duration of a context."""
    made = Network(name)
    made.remove()
    try:
        made.make()
        yield made
    finally:
        made.remove()
