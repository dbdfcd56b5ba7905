"""From capture files with VLAN tags, IPv6 and RoCEv2 to who is late: what no recording has."""

from pathlib import Path

import numpy as np
import pytest

from skewscope.adapters.inputs.capture import build_port_view, reduce_capture
from skewscope.engine.ingest.feed import SeriesTable, merge_blocks
from skewscope.engine.model.topology import Group, Node, Port, Topology
from skewscope.engine.wire.join import WireJoin
from tests.support import packet_bytes as p
from tests.support.traffic import Shape, mesh, ring

pytestmark = pytest.mark.slow


def addresses(family: int) -> list[str]:
    return [f"10.9.0.{i + 1}" if family == 4 else f"fd00:9::{i + 1:x}" for i in range(4)]


def topology(family: int) -> Topology:
    nodes = tuple(
        Node(f"n{i}", ports=(Port(f"n{i}", "rail/0", "east-west", addresses=(a,)),))
        for i, a in enumerate(addresses(family))
    )
    return Topology(nodes, (Group("G", "tensor-parallel", tuple(n.name for n in nodes)),))


def frame(family: int, transport: str, vlans: tuple[int, ...], ends: tuple[int, int], number: int) -> bytes:
    src, dst = addresses(family)[ends[0]], addresses(family)[ends[1]]
    if transport == "tcp":
        segment = p.tcp(4000 + ends[0], 4000 + ends[1], seq=number * 512, flags=p.ACK | p.PSH, payload=bytes(512))
        kind = p.TCP
    else:
        segment, kind = p.roce(p.SEND_ONLY, 100 + ends[0] * 10 + ends[1], number, bytes(512)), p.UDP
    packet = p.ipv4(src, dst, kind, segment) if family == 4 else p.ipv6(src, dst, kind, segment)
    return p.ethernet(packet, p.IPV4 if family == 4 else p.IPV6, vlans)


def capture(folder: Path, port: int, sends: list, how: tuple[int, str, tuple[int, ...]]) -> Path:
    counts: dict[tuple[int, int], int] = {}
    records = []
    for send in sorted(sends, key=lambda s: s.time):
        if port not in (send.sender, send.receiver):
            continue
        ends = (send.sender, send.receiver)
        for i in range(send.segments):
            number = counts.get(ends, 0)
            counts[ends] = number + 1
            when = send.time + i * 5e-6 + (50e-6 if send.receiver == port else 0)
            records.append(p.Record(frame(*how, ends, number), time_ns=int(when * 1e9)))
    path = folder / f"n{port}.pcap.zst"
    path.write_bytes(p.packed(p.pcap(sorted(records, key=lambda r: r.time_ns), nano=True, snaplen=96), ".zst"))
    return path


@pytest.mark.parametrize("make", [mesh, ring])
@pytest.mark.parametrize(
    ("family", "transport", "vlans"),
    [(4, "roce", ()), (6, "roce", (40,)), (6, "tcp", (7, 40)), (4, "tcp", (40,))],
)
def test_the_late_member_is_told_whatever_the_headers(
    tmp_path: Path, make, family: int, transport: str, vlans: tuple[int, ...]
) -> None:
    cluster = topology(family)
    sends = list(make(Shape(late={2: 11e-3}, segments=2), 150))
    table = SeriesTable()
    blocks = []
    for port, name in enumerate(cluster.port.values()):
        block, warnings = reduce_capture(
            capture(tmp_path, port, sends, (family, transport, vlans)), build_port_view(cluster, name), table
        )
        assert warnings == []
        blocks.append(block)
    whole = merge_blocks(blocks)
    latest, times = np.full(len(table.keys), np.nan), np.full(len(table.keys), -np.inf)
    end = np.unique(whole.time)[1]
    now = whole.time == end
    latest[whole.series[now]], times[whole.series[now]] = whole.value[now], end
    out = WireJoin(cluster)(end, table, latest, times)
    lag = {
        table.keys[s].entity: v
        for s, v in zip(out.series, out.value, strict=True)
        if table.keys[s].signal == "wire.onset_lag"
    }
    assert max(lag, key=lag.__getitem__) == "G:n2"
    assert lag["G:n2"] == pytest.approx(11e-3, rel=0.2)
    loss = [whole.value[whole.series == i] for i, k in enumerate(table.keys) if k.signal == "wire.own_retransmit_ratio"]
    assert all((v == 0).all() for v in loss)
