"""What tables of bandwidth between nodes show: the node that all slow ones share, a slow path, and wrong values."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from statistics import fmean, median

from skewscope.adapters.results.lasting_fall import find_fall
from skewscope.adapters.results.result import COMPUTING, BandwidthResult, Measure
from skewscope.adapters.results.result_finding import LEAST, ResultFinding, format_number

MIN_TABLES = 2
PEER_ACCESS = re.compile(r"(?P<way>Unidirectional|Bidirectional) P2P=(?P<access>\w+)")
GPU = re.compile(r"(?P<node>.*)/gpu(?P<gpu>\d+)")
"""The place of a GPU; hosts may be called `gpu-n05`."""
DEVICE = re.compile(r"(?:mlx|bnxt_re|irdma|rocep|ibp|efa|hsi|ionic)\w*\d")
"""Names of adapters that move data by RDMA."""
MOST_RESENT = 0.005
"""Share of the segments of a connection from which on sending again slows it, as for counters of hosts."""
LARGE = 128 << 20
"""Bytes of a message from which on its time is that of the transfer."""
PCIE_GBS = (
    (re.compile(r"(?:A[18]00|V100)[- ]SXM|MI2\d\dX?", re.IGNORECASE), 32.0),
    (re.compile(r"H[128]00.*(?:HBM3|SXM)|GH200|G?B[23]00|MI3\d\dX", re.IGNORECASE), 64.0),
)
"""GB/s that the PCIe link of a GPU carries each way (16 lanes of generation 4 and 5), by models of GPUs that have links
between them: NVLink and xGMI of such GPUs carry 150 GB/s and more each way."""


def judge_tables(results: Sequence[BandwidthResult]) -> list[ResultFinding]:
    """Returns what tables of one moment show, each against the others of the same kind."""
    findings = [finding for each in results for finding in _judge_table(each)]
    for _, same in groupby(sorted(_name_whole_nodes(results), key=_kind_of), key=_kind_of):
        findings += find_slow_tables(list(same))
    return [*findings, *find_slow_peer_access(results)]


def _name_whole_nodes(results: Sequence[BandwidthResult]) -> list[BandwidthResult]:
    """Returns the results, with the node alone where no node has results of two devices."""
    places = {place for each in results for place in each.nodes if not GPU.fullmatch(place)}
    nodes = [place.partition("/")[0] for place in places]
    if len(nodes) != len(set(nodes)):
        return list(results)
    return [replace(each, nodes=tuple(map(_node_of, each.nodes))) for each in results]


def _node_of(place: str) -> str:
    return place if GPU.fullmatch(place) else place.partition("/")[0]


def find_slow_peer_access(results: Sequence[BandwidthResult]) -> Iterator[ResultFinding]:
    """Yields that GPUs reach each other faster over the host's memory than directly."""
    speeds: dict[tuple[str, str], list[float]] = {}
    for each in results:
        if match := PEER_ACCESS.match(each.operation):
            speeds.setdefault((match["way"], match["access"]), []).extend(each.bandwidths.values())
    for way in sorted({way for way, _ in speeds}):
        direct, detour = (fmean(speeds.get((way, access), [0.0])) for access in ("Enabled", "Disabled"))
        if 0 < direct < detour * (1 - LEAST):
            reached = f"{format_number(direct)} GB/s directly, {format_number(detour)} GB/s over the host's memory"
            nodes = {node.partition("/")[0] for each in results for node in each.nodes}
            text = f"Direct access between GPUs is slower than the detour ({way.lower()}): {reached}"
            yield ResultFinding("bench-peer-access-slower", text, tuple(sorted(nodes)))
            return


def _kind_of(result: BandwidthResult) -> tuple[str, str, int, int]:
    return result.operation, result.measure.unit, result.ranks, len(result.nodes)


def _judge_table(result: BandwidthResult) -> Iterator[ResultFinding]:
    if result.wrong:
        text = f"Collectives give wrong values: {result.wrong} elements of {result.place}"
        yield ResultFinding("bench-values-wrong", text, result.nodes)
    if result.verdict:
        yield ResultFinding("bench-bandwidth-lower", f"Bus bandwidth of {result.place}: {result.verdict}", result.nodes)
    if result.resent > MOST_RESENT:
        percent = format_number(100 * result.resent)
        text = f"A path loses packets: at least {percent} % of the segments of {result.place} were sent again"
        yield ResultFinding("bench-path-loses", text, result.nodes)
    yield from _find_fall(result)
    yield from _find_unused_links(result)


def _find_fall(result: BandwidthResult) -> Iterator[ResultFinding]:
    """Yields that the speed falls within a test, and stays low to its end."""
    if fall := find_fall(result.rates):
        old, new = (format_number(speed) for speed in (fall.before, fall.after))
        moment = format_number(fall.place * result.period)
        change = f"from {old} to {new} {result.measure.unit} of {result.place} after {moment} s"
        text = f"Bandwidth falls within a test: {change}"
        yield ResultFinding("bench-bandwidth-falls", text, result.nodes)


def _find_unused_links(result: BandwidthResult) -> Iterator[ResultFinding]:
    """Yields that GPUs of one node, which have links between them, exchange no more than PCIe carries."""
    carried = next((limit for model, limit in PCIE_GBS if model.search(result.model)), None)
    size = max(result.bandwidths, default=0)
    if carried is None or len(result.nodes) != 1 or result.ranks < MIN_TABLES or size < LARGE:
        return
    if (speed := result.bandwidths[size]) < carried:
        reached = f"{format_number(speed)} GB/s at {result.place}, no more than PCIe carries"
        text = f"GPUs of a node exchange data past their links: {reached} ({format_number(carried)} GB/s)"
        yield ResultFinding("bench-links-unused", text, result.nodes)


def find_slow_tables(results: Sequence[BandwidthResult]) -> Iterator[ResultFinding]:
    """Yields what the tables that are slower than the others have in common."""
    sizes = set.intersection(*(set(each.bandwidths) for each in results)) if results else set()
    if len(results) < MIN_TABLES or not sizes or not all(each.nodes for each in results):
        return
    size = max(sizes)
    speeds = [each.speeds[size] for each in results]
    # Where most of several tables are slow, their best is what the hardware can do.
    usual = max(median(speeds), max(speeds) * (1 - LEAST)) if len(results) > MIN_TABLES else max(speeds)
    slow = [each for each in results if each.speeds[size] < usual * (1 - _limit_of(results, size))]
    if slow:
        good = [each for each in results if each not in slow]
        reference = median(each.speeds[size] for each in good) if good else usual
        yield from explain_slow(slow, good, [each.speeds[size] / reference for each in slow], reference)


def _limit_of(results: Sequence[BandwidthResult], size: int) -> float:
    """Returns by which share tables of the same nodes differ, at least `LEAST`."""
    spreads = [LEAST]
    for _, same in groupby(sorted(results, key=lambda each: each.nodes), key=lambda each: each.nodes):
        speeds = [each.speeds[size] for each in same]
        spreads.append(1 - min(speeds) / max(speeds))
    return max(spreads)


def explain_slow(
    slow: Sequence[BandwidthResult], good: Sequence[BandwidthResult], ratios: Sequence[float], usual: float
) -> Iterator[ResultFinding]:
    """Yields a finding for each node that explains slow tables, and for those that no node explains.

    Args:
        slow: the tables that are slow.
        good: the tables that are not.
        ratios: the speed of each slow table, as a share of the usual one.
        usual: the usual speed.
    """
    nodes = find_suspects(slow, good)
    reached = sorted(zip(ratios, slow, strict=True), key=lambda pair: pair[0])
    for node in nodes:
        mine = [(ratio, each) for ratio, each in reached if node in each.nodes]
        what, event = _name_member(node, mine[0][1].measure)
        yield ResultFinding(event, f"{what} {node} is slower than its peers: {_describe_worst(mine, usual)}", (node,))
    if rest := [(ratio, each) for ratio, each in reached if not set(nodes) & set(each.nodes)]:
        text = f"A path between nodes is slower than others: {_describe_worst(rest, usual)}"
        yield ResultFinding("bench-path-slower", text, rest[0][1].nodes)


def _name_member(node: str, measure: Measure) -> tuple[str, str]:
    """Returns what a member is, a node, or a GPU or a network device of one, and the event that it is slower."""
    if GPU.fullmatch(node):
        return "GPU", "bench-gpu-slower" if measure.what != COMPUTING else "bench-gpu-computes-slower"
    part = node.rpartition("/")[2]
    return ("Device", "bench-device-slower") if "/" in node or is_device(part) else ("Node", "bench-node-slower")


def is_device(name: str) -> bool:
    """Returns whether a name is that of an adapter that moves data by RDMA."""
    return bool(DEVICE.match(name))


def _describe_worst(slow: Sequence[tuple[float, BandwidthResult]], usual: float) -> str:
    """Returns the worst of some slow tables, (share of the usual speed, table), and how many more there are."""
    ratio, table = slow[0]
    more = f", and {len(slow) - 1} more," if len(slow) > 1 else ""
    measure = table.measure
    now, good = (format_number(measure.speed(speed)) for speed in (ratio * usual, usual))
    if measure.is_time:
        return f"{measure.what} of {table.place}{more} is {now} where others have {good} {measure.unit}"
    return f"{table.place}{more} reach {now} of {good} {measure.unit}"


def find_suspects(slow: Sequence[BandwidthResult], good: Sequence[BandwidthResult]) -> list[str]:
    """Returns the nodes that explain slow tables: the one that all of them share, else those without a good table."""
    fine = {node for each in good for node in each.nodes}
    shared = set.intersection(*(set(each.nodes) for each in slow)) - fine
    if len(shared) == 1:
        return sorted(shared)
    left = [set(each.nodes) - fine for each in slow]
    return sorted({node for nodes in left if len(nodes) == 1 for node in nodes})
