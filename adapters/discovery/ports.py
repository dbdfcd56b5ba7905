"""Parses ports of a node from a page of its node_exporter.

The page has devices and speeds, but not their networks: the device with the address that the scheduler knows is
north-south; an RDMA device is assumed to be east-west and marked as a guess.
"""

import re
from collections import defaultdict
from collections.abc import Iterable

from skewscope.adapters.discovery.draft import NodeDraft, PortDraft
from skewscope.adapters.formats.openmetrics_grammar import REST, SERIES, parse_series
from skewscope.kb.problems import InputError, Problem

MAX_LINES = 1_000_000
METRIC_LINE = re.compile(
    r"node_(?:uname_info|network_(?:address_info|speed_bytes)|infiniband_(?:info|rate_bytes_per_second))\b"
)
VIRTUAL_DEVICE = re.compile(
    r"(?:lo|docker|veth|br-|virbr|cni|flannel|cali|tunl|bond|tap|dummy|cilium|lxc|ovs|pf\d+(?:hpf|vf))"
)
EAST_WEST_GUESS = "an RDMA device is assumed to be one of the rails"
NORTH_SOUTH_GUESS = "its network is unknown"


def parse_node(text: str, name: str, known: NodeDraft | None = None) -> NodeDraft:
    """Returns a node with its ports.

    Args:
        text: a page of node_exporter.
        name: name of the node if the page lacks it.
        known: a draft of the node from other sources.

    Raises:
        InputError: the page is invalid.
    """
    speeds: dict[str, float] = {}
    rdma: dict[str, float] = {}
    addresses: defaultdict[str, list[str]] = defaultdict(list)
    for metric, labels, value in _parse_samples(text, name):
        device, port = labels.get("device", ""), labels.get("port", "1")
        if metric == "node_uname_info":
            name = labels.get("nodename") or name
        elif metric == "node_network_speed_bytes" and not VIRTUAL_DEVICE.match(device) and value > 0:
            speeds[device] = value
        elif metric == "node_infiniband_rate_bytes_per_second":
            rdma[device if port == "1" else f"{device}:{port}"] = value
        elif metric == "node_network_address_info" and labels.get("scope", "global") == "global":
            addresses[device].append(labels.get("address", "").partition("/")[0])
    own = set(known.addresses) if known else set()
    ports = [_build_port(device, speed, addresses[device], own) for device, speed in sorted(speeds.items())]
    ports += [
        PortDraft(d.replace(":", "-"), "east-west", EAST_WEST_GUESS, speed, (), (d,))
        for d, speed in sorted(rdma.items())
    ]
    return NodeDraft(name, ports=tuple(ports))


def _build_port(device: str, speed: float, addresses: Iterable[str], own: set[str]) -> PortDraft:
    reported = tuple(dict.fromkeys(address for address in addresses if address))
    guess = "" if own & set(reported) else NORTH_SOUTH_GUESS
    return PortDraft(device, "north-south", guess, speed, reported, (device,))


def _parse_samples(text: str, file: str) -> Iterable[tuple[str, dict[str, str], float]]:
    found = []
    for number, line in enumerate(text.splitlines()[:MAX_LINES], 1):
        if not METRIC_LINE.match(line):
            continue
        data = line.encode()
        match = SERIES.match(data)
        rest = REST.fullmatch(data, match.end()) if match else None
        try:
            if match is None or rest is None:
                raise ValueError(f"no sample in {line!r:.60}")
            metric, labels = parse_series(match)
            found.append((metric, dict(labels), float(rest["value"])))
        except ValueError as error:
            raise InputError([Problem(file, number, "", str(error), "a page of node_exporter")]) from None
    if not found:
        raise InputError([Problem(file, 0, "", "no port", "a page of node_exporter, with node_network_speed_bytes")])
    return found
