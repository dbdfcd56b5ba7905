"""Measures one tick of the engine over a large healthy fleet, from samples to incidents.

`pytest bench/test_bench_tick.py` prints milliseconds a tick; every rank and port delivers all signals that rules read.
"""

import numpy as np
import pytest

from skewscope.engine.engine import Engine
from skewscope.engine.ingest.feed import Block, SeriesKey, SeriesTable
from skewscope.engine.model.topology import Group, Node, Pool, Port, Topology
from skewscope.kb.loader import catalogue
from skewscope.rules.loader import load_strict

SIZE = 8
"""Members of a group."""
RANK = {"wire.onset_lag": 1e-4, "wire.last_sender_share": 0.125, "wire.member_retransmit_ratio": 1e-4}
PORT = {"wire.rtt": 2e-5, "wire.dup_ack_ratio": 1e-4, "wire.ecn_ce_ratio": 0.0, "wire.out_of_order_ratio": 0.0}
GROUP = {"wire.round_period": 0.03, "wire.exchange_time": 1e-3, "wire.round_period_cv": 0.1}


def fleet(nodes: int) -> Topology:
    """Returns a topology of tensor-parallel groups of eight nodes."""
    names = [f"n{n}" for n in range(nodes)]
    made = tuple(
        Node(name, ports=(Port(name, "ns", "north-south", 2.5e10), Port(name, "ew", "east-west", 5e10)))
        for name in names
    )
    groups = tuple(
        Group(f"g{g}", "tensor-parallel", tuple(names[g * SIZE : (g + 1) * SIZE]), names[g * SIZE])
        for g in range(nodes // SIZE)
    )
    return Topology(made, groups, (Pool("pool", tuple(group.name for group in groups)),))


def series(topology: Topology, table: SeriesTable) -> tuple[np.ndarray, np.ndarray]:
    """Returns the numbers and usual values of all series."""
    ranks = [f"{group.name}:{member}" for group in topology.groups for member in group.members]
    ports = [f"{node.name}/ew" for node in topology.nodes]
    groups = [group.name for group in topology.groups]
    rows = [
        (table.number(SeriesKey(signal, kind, name)), value)
        for kind, names, signals in (("rank", ranks, RANK), ("port", ports, PORT), ("group", groups, GROUP))
        for signal, value in signals.items()
        for name in names
    ]
    numbers, values = zip(*rows, strict=True)
    return np.array(numbers, np.int32), np.array(values)


@pytest.mark.parametrize("nodes", [200, 2000, 10000])
def test_tick(benchmark, nodes):
    topology, table, known = fleet(nodes), SeriesTable(), catalogue()
    diagnosis = Engine(load_strict(known).values(), known, topology)
    numbers, usual = series(topology, table)
    random, now = np.random.default_rng(1), [1000.0]

    def tick():
        now[0] += 1.0
        values = usual * random.uniform(0.9, 1.1, len(usual))
        diagnosis.step(now[0], Block(np.full(len(usual), now[0]), numbers, values), table)

    for _ in range(30):
        tick()
    benchmark.pedantic(tick, rounds=20)
    benchmark.extra_info["series"] = len(numbers)
    benchmark.extra_info["ms a tick"] = round(1000 * benchmark.stats["median"], 1)
    print(f"\n{nodes} nodes, {benchmark.extra_info}")
    assert not diagnosis._tracker.step(now[0], diagnosis.verdicts)  # noqa: SLF001
