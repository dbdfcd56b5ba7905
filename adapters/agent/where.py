"""Which port is which: the ports of this node, its groups and its peers, from a file or from a controller."""

import http.client
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from pathlib import Path
from urllib.parse import quote

from skewscope.adapters.agent.config import Config
from skewscope.adapters.channel import Channel
from skewscope.engine.topology import Node, Port, Topology
from skewscope.engine.topology_file import sound
from skewscope.kb.problems import InputError
from skewscope.kb.yamlfile import parse, read

log = logging.getLogger("skewscope.agent")

PATH = "/api/v1/topology"
MOST_BYTES = 8 << 20


@dataclass(frozen=True)
class Where:
    """What an agent knows of its place."""

    node: str
    topology: Topology
    ports: Mapping[str, str]
    """`node/port` by device."""


def where(config: Config, topology: Topology | None) -> Where:
    """The place of an agent; without a topology that has its node, what its own configuration says."""
    named = topology.node.get(config.node) if topology else None
    node = named or Node(config.node, ports=tuple(_port(config, name) for name in dict.fromkeys(config.ports.values())))
    ports = {device: port.id for port in node.ports for device in port.devices}
    for device, name in config.ports.items():
        if any(port.name == name for port in node.ports):
            ports[device] = f"{node.name}/{name}"
        else:
            log.warning("%s is port %s, which the topology does not have: it is left out", device, name)
    node = replace(node, ports=tuple(_with(port, ports) for port in node.ports))
    others = tuple(one for one in topology.nodes if one.name != node.name) if topology and named else ()
    groups, pools = (topology.groups, topology.pools) if topology and named else ((), ())
    return Where(node.name, Topology((*others, node), groups, pools), ports)


def _port(config: Config, name: str) -> Port:
    return Port(config.node, name, "")


def _with(port: Port, ports: Mapping[str, str]) -> Port:
    """A port with all devices that are its."""
    return replace(port, devices=tuple(device for device, name in ports.items() if name == port.id))


def from_file(path: Path) -> Topology:
    """The topology in a file.

    Raises:
        InputError: it is none.
    """
    return sound(read(path))


class Asked:
    """The topology as controllers tell it."""

    def __init__(self, channels: Iterable[tuple[str, Channel]], node: str) -> None:
        self._channels = tuple(channels)
        # A controller may leave out what is of no concern to this node: a fleet is large and a DPU small.
        self._path = f"{PATH}?node={quote(node, safe='')}"
        self._etag: dict[str, str] = {}
        self._told = ""
        self.answered = False
        """Whether a controller ever told one."""

    def news(self) -> Topology | None:
        """The topology of the first controller that answers, if it changed."""
        for url, channel in self._channels:
            try:
                answer = channel.get(self._path, self._etag.get(url, ""), MOST_BYTES)
                if answer.status == HTTPStatus.NOT_MODIFIED:
                    return None
                if answer.status != HTTPStatus.OK:
                    raise ValueError(f"it answers {answer.status}")
                found = sound(parse(answer.text.decode("utf-8"), f"{url}{PATH}"))
            except (OSError, http.client.HTTPException, ValueError, InputError) as error:
                self._say(f"{url} tells no topology: {error}")
                continue
            self._etag = {url: answer.etag} if answer.etag else {}
            self._told, self.answered = "", True
            return found
        return None

    def _say(self, what: str) -> None:
        """Says what went wrong, once."""
        if what != self._told:
            log.warning("%s", what)
        self._told = what
