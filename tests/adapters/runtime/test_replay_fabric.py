"""Whole recordings of what no real one has, from capture to diagnosis: RDMA over RoCEv2, VLAN tags and IPv6."""

import random
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
import yaml

from skewscope.adapters.runtime.replay import replay
from tests.support import packet_bytes as p
from tests.support.traffic import START as ORIGIN
from tests.support.traffic import Shape, mesh, pipeline, ring

START, FAULT, HEALED, END = 1_700_000_000, 14.0, 27.0, 40.0
CALM = Shape(size=4, compute=30e-3, segments=2)
NODES = [f"n{i}" for i in range(CALM.size)]


def address(family: int, node: int) -> str:
    return f"10.9.0.{node + 1}" if family == 4 else f"fd00:9::{node + 1:x}"


def topology(family: int, kind: str) -> dict:
    def port(node: int) -> dict:
        return {"name": "rail0", "network": "east-west", "speed": "400 Gbit/s", "addresses": [address(family, node)]}

    nodes = [{"name": name, "dpu": {"sees": ["east-west"]}, "ports": [port(i)]} for i, name in enumerate(NODES)]
    return {"version": 1, "nodes": nodes, "groups": [{"name": "G", "kind": kind, "members": NODES}]}


TURN = {mesh: CALM.size * (CALM.size - 1), ring: 2 * CALM.size * (CALM.size - 1), pipeline: CALM.size}
"""Messages in a round, or in one passage of a pipeline."""


def sends(make, late, **more):
    """(time, sender, receiver) of every message: calm, then late members, then calm again, with a breath between."""
    stretches = ((0.0, FAULT, CALM), (FAULT, HEALED, replace(CALM, late=late)), (HEALED, END, CALM))
    for begin, end, shape in stretches:
        turns = make(shape, 10_000, **more)
        while (turn := list(islice(turns, TURN[make])))[0].time - ORIGIN < end - begin - 1.5:
            yield from ((begin + s.time - ORIGIN, s.sender, s.receiver) for s in turn)


def wrapped(family, vlans, src, dst, payload):
    ends = address(family, src), address(family, dst)
    packet = p.ipv4(*ends, p.UDP, payload) if family == 4 else p.ipv6(*ends, p.UDP, payload)
    return p.ethernet(packet, p.IPV4 if family == 4 else p.IPV6, vlans)


def recorded(folder: Path, family: int, vlans, messages, *, lossy=None, kind="tensor-parallel") -> Path:
    """A recording of these messages; during the fault the link of `lossy` drops one packet in forty."""
    dice, number, seen = random.Random(11), {}, {node: [] for node in range(CALM.size)}

    def put(node, time, src, dst, payload):
        frame = wrapped(family, vlans, src, dst, payload)
        seen[node].append(p.Record(frame, time_ns=int((START + time) * 1e9)))

    for time, src, dst in messages:
        for part in range(CALM.segments):
            psn = number[src, dst] = number.get((src, dst), -1) + 1
            # A queue pair is named by the side that receives on it.
            there, back = 100 + src * 10 + dst, 500 + src * 10 + dst
            when, write = time + part * 5e-6, p.roce(p.SEND_ONLY, there, psn, bytes(512))
            put(src, when, src, dst, write)
            lost = FAULT <= time < HEALED and lossy in (src, dst) and dice.random() < 1 / 40
            if lost:
                refused = p.acknowledge(back, psn, 0x60)
                put(dst, when + 60e-6, dst, src, refused)
                put(src, when + 70e-6, dst, src, refused)
                when += 100e-6
                put(src, when, src, dst, write)
            put(dst, when + 10e-6, src, dst, write)
            put(dst, when + 11e-6, dst, src, p.acknowledge(back, psn))
            put(src, when + 20e-6, dst, src, p.acknowledge(back, psn))
    folder.mkdir()
    (folder / "topology.yaml").write_text(yaml.safe_dump(topology(family, kind)))
    inputs = []
    for node, records in seen.items():
        data = p.pcap(sorted(records, key=lambda r: r.time_ns), nano=True, snaplen=96)
        (folder / f"{NODES[node]}.pcap.zst").write_bytes(p.packed(data, ".zst"))
        labels = {"node": NODES[node], "port": "rail0"}
        inputs.append({"kind": "pcap", "path": f"{NODES[node]}.pcap.zst", "labels": labels})
    described = {"version": 1, "topology": "topology.yaml", "inputs": inputs}
    (folder / "recording.yaml").write_text(yaml.safe_dump(described))
    return folder


SLOW = pytest.mark.slow


@SLOW
@pytest.mark.parametrize(("make", "family", "vlans"), [(mesh, 4, ()), (ring, 6, (40,))])
def test_a_late_rank_is_told_over_rdma(tmp_path, make, family, vlans):
    folder = recorded(tmp_path / "r", family, vlans, sends(make, {2: 25e-3}))
    (found,) = (one for one in replay(folder).incidents if one.explained_by is None)
    assert (found.condition, found.name, found.state) == ("tp-straggler", "n2", "resolved")
    assert FAULT <= found.opened_at - START <= FAULT + 10
    assert found.resolved_at - START <= HEALED + 20


@pytest.mark.parametrize("flight", [1, pytest.param(3, marks=SLOW)])
def test_a_slow_stage_is_told_over_rdma(tmp_path, flight):
    messages = sends(pipeline, {2: 60e-3}, flight=flight)
    folder = recorded(tmp_path / "r", 6, (40,), messages, kind="pipeline-parallel")
    (found,) = (one for one in replay(folder).incidents if one.explained_by is None)
    assert (found.condition, found.name, found.state) == ("pp-bubble", "n2", "resolved")
    assert FAULT <= found.opened_at - START <= FAULT + 10
    assert found.resolved_at - START <= HEALED + 20


@SLOW
@pytest.mark.parametrize(("family", "vlans"), [(6, (40,)), (4, ())])
def test_a_link_that_loses_is_told_over_rdma(tmp_path, family, vlans):
    folder = recorded(tmp_path / "r", family, vlans, sends(mesh, {}), lossy=1)
    found = [one for one in replay(folder).incidents if one.explained_by is None]
    assert [(one.condition, one.name, one.state) for one in found] == [("fabric-loss", "n1", "resolved")]
    assert FAULT <= found[0].opened_at - START <= FAULT + 10
    assert found[0].resolved_at - START <= HEALED + 20


@SLOW
def test_health_gives_nothing_over_rdma(tmp_path):
    assert replay(recorded(tmp_path / "r", 6, (7, 40), sends(mesh, {}))).incidents == ()
