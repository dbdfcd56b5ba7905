"""Measures a second of the simulated fleet, without and with its telemetry.

`pytest bench/test_bench_simulator.py` prints milliseconds a second; below 1000 is faster than real time.
"""

import numpy as np
import pytest

from skewscope.adapters.simulator.emitter import SampleEmitter
from skewscope.adapters.simulator.exporters import PROFILE_PERIODS
from skewscope.adapters.simulator.fleet import FleetPlan, build_fleet
from skewscope.adapters.simulator.load import synthetic_load
from skewscope.adapters.simulator.simulation import FleetSimulation
from skewscope.engine.ingest.feed import SeriesTable
from skewscope.kb.loader import catalogue


@pytest.mark.parametrize("nodes", [64, 1000])
def test_second(benchmark, nodes):
    fleet, random = build_fleet(FleetPlan(nodes)), np.random.default_rng(1)
    world = FleetSimulation(fleet, synthetic_load(fleet, random), random)
    emitter = SampleEmitter(fleet, catalogue(), SeriesTable(), PROFILE_PERIODS["fine"])

    def second():
        world.step()
        return emitter.block(world, 1.7e9)

    assert len(benchmark(second)) > 100 * nodes
