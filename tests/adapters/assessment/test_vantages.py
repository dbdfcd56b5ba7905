"""What of the telemetry is there from where one stands."""

import itertools

import numpy as np
import pytest

from skewscope.adapters.assessment.vantages import (
    FULL_VANTAGE,
    INCREASING_VANTAGES,
    REDUCED_VANTAGES,
    VANTAGES,
    VantageFilter,
)
from skewscope.adapters.simulator.fleet import FleetPlan, build_fleet
from skewscope.engine.ingest.feed import Block, SeriesKey, SeriesTable
from skewscope.kb.loader import catalogue

TOPOLOGY = build_fleet(FleetPlan(16)).topology
NODE = TOPOLOGY.nodes[0].name
FRONT, RAIL = (next(p.id for p in TOPOLOGY.nodes[0].ports if p.network == n) for n in ("north-south", "east-west"))
GROUP = TOPOLOGY.groups[0].name
KEYS = {
    "requests": SeriesKey("wire.requests", "node", NODE),
    "bytes at the front": SeriesKey("port.tx_bytes", "port", FRONT),
    "bytes on a rail": SeriesKey("port.tx_bytes", "port", RAIL),
    "lag of a rank": SeriesKey("wire.onset_lag", "rank", f"{GROUP}:{NODE}"),
    "clock of a GPU": SeriesKey("gpu.sm_clock", "gpu", f"{NODE}/gpu0"),
    "processor": SeriesKey("host.cpu", "node", NODE),
    "requests in the engine": SeriesKey("serve.running", "replica", GROUP),
}


def seen(name, seconds=1):
    """Which of the series a vantage lets through in each of some seconds."""
    table = SeriesTable()
    numbers = np.array([table.number(key) for key in KEYS.values()], np.int32)
    through = VantageFilter(VANTAGES[name], catalogue(), TOPOLOGY)
    block = Block(np.full(len(numbers), 1.0), numbers, np.ones(len(numbers)))
    names = list(KEYS)
    return [{names[n] for n in through.apply(block, table).series} for _ in range(seconds)]


@pytest.mark.parametrize(
    ("vantage", "there"),
    [
        ("DPU at the front end", {"requests", "bytes at the front"}),
        ("DPUs on the rails too", {"requests", "bytes at the front", "bytes on a rail", "lag of a rank"}),
        ("with GPUs and hosts relayed", set(KEYS) - {"requests in the engine"}),
        ("everything", set(KEYS)),
        ("without packets", set(KEYS) - {"requests", "lag of a rank"}),
        ("without counters", set(KEYS) - {"bytes at the front", "bytes on a rail"}),
        ("without GPU telemetry", set(KEYS) - {"clock of a GPU"}),
        ("without serving metrics", set(KEYS) - {"requests in the engine"}),
    ],
)
def test_what_is_seen_from_where(vantage, there):
    assert seen(vantage) == [there]


def test_each_step_up_sees_all_that_the_one_below_does():
    steps = [seen(vantage.name)[0] for vantage in INCREASING_VANTAGES]
    assert all(less < more for less, more in itertools.pairwise(steps))
    assert INCREASING_VANTAGES[-1] is FULL_VANTAGE


def test_of_every_other_second_nothing_is_left():
    assert [bool(there) for there in seen("every other sample", 4)] == [True, False, True, False]


def test_about_half_of_the_nodes_are_there_with_all_that_lies_on_them():
    table, through = SeriesTable(), VantageFilter(VANTAGES["half of the nodes"], catalogue(), TOPOLOGY)
    names = [node.name for node in TOPOLOGY.nodes]
    keys = [
        key for n in names for key in (SeriesKey("host.cpu", "node", n), SeriesKey("gpu.sm_clock", "gpu", f"{n}/gpu1"))
    ]
    numbers = np.array([table.number(key) for key in keys], np.int32)
    left = through.apply(Block(np.ones(len(keys)), numbers, np.ones(len(keys))), table).series
    nodes = {names[n // 2] for n in left}
    assert len(left) == 2 * len(nodes)
    assert 4 <= len(nodes) <= 12


def test_names_are_told_once():
    assert len(VANTAGES) == len(INCREASING_VANTAGES) + len(REDUCED_VANTAGES)
