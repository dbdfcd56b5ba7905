"""Who is compared with whom: GPUs that do the same work, and ports whose traffic changed alike."""

import numpy as np
import pytest

from skewscope.engine.model.entities import EntityIndex
from skewscope.engine.model.topology import Group, Node, Pool, Port, Topology
from skewscope.rules.expression import Peers
from tests.support.symptom_world import SymptomWorld

GPUS = 8
CLOCK, UTIL, MEMORY, HEAT = "gpu.sm_clock", "gpu.util", "gpu.fb_used", "gpu.temperature"


def gpu_node(*groups, pools=()):
    """A node of eight GPUs, with groups of some of them: (kind, numbers of the GPUs)."""
    found = [Group(f"g{n}", kind, tuple(f"n0/gpu{k}" for k in gpus)) for n, (kind, gpus) in enumerate(groups)]
    return Topology(
        (Node("n0", gpus=GPUS),), tuple(found), tuple(Pool(f"p{n}", names) for n, names in enumerate(pools))
    )


SPLIT = gpu_node(("tensor-parallel", range(4)), ("data-parallel", range(4, 8)))
WHOLE = gpu_node(("tensor-parallel", range(8)))
FREE = gpu_node()


def played(fleet, usual, rows):
    """Returns (condition, entity) of symptoms of GPUs: for two minutes they have usual values, then those of rows."""
    world = SymptomWorld(fleet=fleet)
    random = np.random.default_rng(1)
    for n in range(240):
        noise = 1 + 0.002 * random.standard_normal(GPUS)
        now = {name: np.full(GPUS, value) if n < 120 else rows[name] for name, value in usual.items()}
        world.tick({(name, "gpu", f"n0/gpu{k}"): row[k] * noise[k] for name, row in now.items() for k in range(GPUS)})
    return {(one.condition, one.name) for one in world.incidents()}


def beside(usual, other, numbers):
    """Returns [GPU] the usual value, the other one at some numbers."""
    return np.where(np.isin(np.arange(GPUS), numbers), other, usual)


def test_gpus_of_another_kind_of_group_are_no_peers():
    usual = {HEAT: 34.0, MEMORY: 16e3}
    work = {HEAT: beside(34.0, 68.0, [4, 5, 6, 7]), MEMORY: beside(16e3, 68e3, [4, 5, 6, 7])}
    assert played(SPLIT, usual, work) == set()
    hot = work | {HEAT: beside(34.0, 68.0, [5])}
    assert ("out-of-range", "n0/gpu5") in played(SPLIT, usual, hot)


@pytest.mark.parametrize(("used", "is_told"), [(95.0, True), (55.0, False)])
def test_a_gpu_with_little_to_do_may_lower_its_clock(used, is_told):
    low = {CLOCK: np.full(GPUS, 225.0), UTIL: np.full(GPUS, used)}
    assert bool(played(FREE, {CLOCK: 2800.0, UTIL: 95.0}, low)) is is_told


@pytest.mark.parametrize(
    ("fleet", "others", "hot", "is_told"),
    [(FREE, 34.0, 60.0, False), (FREE, 60.0, 80.0, True), (WHOLE, 34.0, 60.0, True)],
)
def test_without_a_group_only_heat_near_the_limit_is_compared(fleet, others, hot, is_told):
    found = played(fleet, {HEAT: others}, {HEAT: beside(others, hot, [2])})
    assert found == ({("out-of-range", "n0/gpu2")} if is_told else set())


def test_load_of_gpus_without_a_group_is_not_compared():
    usual = {UTIL: 95.0, MEMORY: 60e3}
    load = {UTIL: beside(95.0, 10.0, [3]), MEMORY: beside(60e3, 3.0, [3])}
    assert played(FREE, usual, load) == set()
    assert ("uneven-load", "n0/gpu3") in played(WHOLE, usual, load)


@pytest.mark.parametrize("fleet", [FREE, WHOLE])
def test_the_clock_of_a_gpu_is_compared_on_its_node_also_without_a_group(fleet):
    slow = {CLOCK: beside(1980.0, 990.0, [2]), UTIL: np.full(GPUS, 95.0)}
    assert played(fleet, {CLOCK: 1980.0, UTIL: 95.0}, slow) == {("lost-clock", "n0/gpu2")}


def peers(fleet):
    """Returns the sets of GPUs that rules compare."""
    sets = EntityIndex(fleet).peer_sets(Peers("gpu", "node"))
    return sorted(sorted(k for k in row if k >= 0) for bucket in sets.buckets for row in bucket.members.tolist())


def test_rules_compare_gpus_of_a_node_that_do_the_same():
    assert peers(FREE) == peers(WHOLE) == [list(range(GPUS))]
    assert peers(SPLIT) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert peers(gpu_node(("tensor-parallel", range(4)))) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    halves = (("tensor-parallel", range(4)), ("tensor-parallel", range(4, 8)))
    assert peers(gpu_node(*halves)) == [list(range(GPUS))]
    assert peers(gpu_node(*halves, pools=(("g0",), ("g1",)))) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert peers(gpu_node(*halves, pools=(("g0", "g1"),))) == [list(range(GPUS))]


def begun(after):
    """Returns the symptoms of ports that carry uneven traffic in a set-up, and then so many GB/s each."""
    world = SymptomWorld(
        fleet=Topology((Node("h", ports=tuple(Port("h", f"p{k}", "east-west", 50e9) for k in range(4))),))
    )
    totals = np.zeros(4)
    for n in range(150):
        totals += np.array([60e6, 80e6, 426e6, 70e6]) if n < 60 else np.array(after) * 1e9
        world.tick({("port.tx_bytes", "port", f"h/p{k}"): totals[k] for k in range(4)})
    return {(one.condition, one.name) for one in world.incidents()}


def test_a_port_that_carries_more_than_before_is_not_idle():
    assert begun([6.4, 6.3, 6.4, 6.2]) == set()
    assert ("idle-path", "h/p2") in begun([6.4, 6.3, 0.0, 6.2])
