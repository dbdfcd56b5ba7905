"""Parses ports of a node from a page of its node_exporter.

The page has devices and speeds, but not their networks: the device with the address that the scheduler knows is
north-south; an RDMA device is assumed to be east-west and marked as a guess.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import BinaryIO, NamedTuple

from skewscope.adapters.discovery.draft import NodeDraft, PortDraft
from skewscope.adapters.formats.log_lines import read_whole_lines
from skewscope.adapters.formats.openmetrics_grammar import REST, SERIES, parse_series
from skewscope.kb.problems import InputError, Problem

METRIC_LINE = re.compile(
    r"node_(?:uname_info|network_(?:address_info|speed_bytes)|infiniband_(?:info|rate_bytes_per_second))\b"
)
VIRTUAL_DEVICE = re.compile(
    r"(?:lo|docker|veth|br-|virbr|cni|flannel|cali|tunl|bond|tap|dummy|cilium|lxc|ovs|pf\d+(?:hpf|vf))"
)
EAST_WEST_GUESS = "an RDMA device is assumed to be one of the rails"
NORTH_SOUTH_GUESS = "its network is unknown"


class NodePage(NamedTuple):
    """What a page of node_exporter says of a node."""

    name: str
    speeds: dict[str, float]
    """Bytes per second, by device of a port."""
    rdma: dict[str, float]
    """Bytes per second, by RDMA device, with the number of its port where that is not 1."""
    addresses: dict[str, list[str]]
    """By device."""


def parse_page(stream: BinaryIO, name: str) -> NodePage:
    """Returns what a page says.

    Args:
        stream: a page of node_exporter.
        name: name of the node if the page lacks it.

    Raises:
        InputError: the page is invalid, or has too many lines.
    """
    speeds: dict[str, float] = {}
    rdma: dict[str, float] = {}
    addresses: defaultdict[str, list[str]] = defaultdict(list)
    found = 0
    for found, (metric, labels, value) in enumerate(_parse_samples(stream, name), 1):  # noqa: B007 - counted
        device, port = labels.get("device", ""), labels.get("port", "1")
        if metric == "node_uname_info":
            name = labels.get("nodename") or name
        elif metric == "node_network_speed_bytes" and not VIRTUAL_DEVICE.match(device) and value > 0:
            speeds[device] = value
        elif metric == "node_infiniband_rate_bytes_per_second":
            rdma[device if port == "1" else f"{device}:{port}"] = value
        elif metric == "node_network_address_info" and labels.get("scope", "global") == "global":
            addresses[device].append(labels.get("address", "").partition("/")[0])
    if not found:
        raise InputError([Problem(name, 0, "", "no port", "a page of node_exporter, with node_network_speed_bytes")])
    return NodePage(name, speeds, rdma, addresses)


def draft_node(page: NodePage, known: NodeDraft | None = None) -> NodeDraft:
    """Returns a node with its ports; `known` is a draft of it from other sources."""
    own = set(known.addresses) if known else set()
    ports = [
        _build_port(device, speed, page.addresses.get(device, ()), own) for device, speed in sorted(page.speeds.items())
    ]
    ports += [
        PortDraft(d.replace(":", "-"), "east-west", EAST_WEST_GUESS, speed, (), (d,))
        for d, speed in sorted(page.rdma.items())
    ]
    return NodeDraft(page.name, ports=tuple(ports))


def _build_port(device: str, speed: float, addresses: Iterable[str], own: set[str]) -> PortDraft:
    reported = tuple(dict.fromkeys(address for address in addresses if address))
    guess = "" if own & set(reported) else NORTH_SOUTH_GUESS
    return PortDraft(device, "north-south", guess, speed, reported, (device,))


def _parse_samples(stream: BinaryIO, file: str) -> Iterator[tuple[str, dict[str, str], float]]:
    for number, line in read_whole_lines(stream, file):
        if not METRIC_LINE.match(line):
            continue
        data = line.encode()
        match = SERIES.match(data)
        rest = REST.fullmatch(data, match.end()) if match else None
        try:
            if match is None or rest is None:
                raise ValueError(f"no sample in {line!r:.60}")
            metric, labels = parse_series(match)
            value = float(rest["value"])
        except ValueError as error:
            raise InputError([Problem(file, number, "", str(error), "a page of node_exporter")]) from None
        yield metric, dict(labels), value
