"""A second of the simulated fleet, and a second of it with its telemetry.

`pytest bench/test_bench_simulator.py` prints milliseconds a second; below 1000 is faster than real time.
"""

import numpy as np
import pytest

from skewscope.adapters.simulator.emit import Emitter
from skewscope.adapters.simulator.exporters import PERIODS
from skewscope.adapters.simulator.fleet import Plan, build
from skewscope.adapters.simulator.load import made_up
from skewscope.adapters.simulator.world import World
from skewscope.engine.feed import SeriesTable
from skewscope.kb.load import catalogue


@pytest.mark.parametrize("nodes", [64, 1000])
def test_second(benchmark, nodes):
    fleet, random = build(Plan(nodes)), np.random.default_rng(1)
    world = World(fleet, made_up(fleet, random), random)
    emitter = Emitter(fleet, catalogue(), SeriesTable(), PERIODS["fine"])

    def second():
        world.step()
        return emitter.block(world, 1.7e9)

    assert len(benchmark(second)) > 100 * nodes
