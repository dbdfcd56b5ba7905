"""The ports, groups and peers of this node, from a topology file or from a controller."""

import http.client
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from pathlib import Path
from urllib.parse import quote

from skewscope.adapters.agent.config import AgentConfig
from skewscope.adapters.runtime.channel import Channel
from skewscope.engine.model.topology import Node, Port, Topology
from skewscope.engine.model.topology_file import parse_valid_topology
from skewscope.kb.problems import InputError
from skewscope.kb.yamlfile import parse, read

log = logging.getLogger("skewscope.agent")

PATH = "/api/v1/topology"
MAX_BYTES = 8 << 20


@dataclass(frozen=True)
class PortMap:
    """What an agent knows of its node."""

    node: str
    topology: Topology
    ports: Mapping[str, str]
    """`node/port` by device."""


def build_port_map(config: AgentConfig, topology: Topology | None) -> PortMap:
    """Returns the map of an agent; without a topology that contains the node, from its own configuration."""
    named = topology.node.get(config.node) if topology else None
    node = named or Node(
        config.node, ports=tuple(_build_port(config, name) for name in dict.fromkeys(config.ports.values()))
    )
    ports = {device: port.id for port in node.ports for device in port.devices}
    for device, name in config.ports.items():
        if any(port.name == name for port in node.ports):
            ports[device] = f"{node.name}/{name}"
        else:
            log.warning("%s is port %s, which the topology does not have: it is omitted", device, name)
    node = replace(node, ports=tuple(_with_devices(port, ports) for port in node.ports))
    others = tuple(one for one in topology.nodes if one.name != node.name) if topology and named else ()
    groups, pools = (topology.groups, topology.pools) if topology and named else ((), ())
    return PortMap(node.name, Topology((*others, node), groups, pools), ports)


def _build_port(config: AgentConfig, name: str) -> Port:
    return Port(config.node, name, "")


def _with_devices(port: Port, ports: Mapping[str, str]) -> Port:
    """Returns a port with all of its devices."""
    return replace(port, devices=tuple(device for device, name in ports.items() if name == port.id))


def read_topology(path: Path) -> Topology:
    """Reads the topology in a file.

    Raises:
        InputError: it is invalid.
    """
    return parse_valid_topology(read(path))


class TopologyClient:
    """Fetches the topology from controllers."""

    def __init__(self, channels: Iterable[tuple[str, Channel]], node: str) -> None:
        self._channels = tuple(channels)
        # A controller may omit what does not concern this node: a fleet is large and a DPU small.
        self._path = f"{PATH}?node={quote(node, safe='')}"
        self._etag: dict[str, str] = {}
        self._last_warning = ""
        self.has_answered = False
        """Whether a controller has ever answered with a topology."""

    def poll(self) -> Topology | None:
        """Returns the topology of the first controller that answers, if it changed."""
        for url, channel in self._channels:
            try:
                answer = channel.get(self._path, self._etag.get(url, ""), MAX_BYTES)
                if answer.status == HTTPStatus.NOT_MODIFIED:
                    return None
                if answer.status != HTTPStatus.OK:
                    raise ValueError(f"it answers {answer.status}")
                found = parse_valid_topology(parse(answer.body.decode("utf-8"), f"{url}{PATH}"))
            except (OSError, http.client.HTTPException, ValueError, InputError) as error:
                self._warn_once(f"no topology from {url}: {error}")
                continue
            self._etag = {url: answer.etag} if answer.etag else {}
            self._last_warning, self.has_answered = "", True
            return found
        return None

    def _warn_once(self, what: str) -> None:
        """Logs a failure, once."""
        if what != self._last_warning:
            log.warning("%s", what)
        self._last_warning = what
