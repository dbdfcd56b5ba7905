"""A fault that goes round a group is one incident that moves; one that stays is none, in the same fleet."""

import numpy as np
import pytest

from skewscope.adapters.assessment.scenarios import START_TIME
from skewscope.adapters.simulator.emitter import SampleEmitter
from skewscope.adapters.simulator.exporters import PROFILE_PERIODS
from skewscope.adapters.simulator.faults.registry import TARGET_BUILDERS, fault_models, move_between_members
from skewscope.adapters.simulator.fleet import FleetPlan, build_fleet
from skewscope.adapters.simulator.load import synthetic_load
from skewscope.adapters.simulator.simulation import FleetSimulation
from skewscope.engine.engine import Engine
from skewscope.engine.ingest.feed import SeriesTable
from skewscope.kb.loader import catalogue
from skewscope.rules.loader import load_strict

BEGIN, END = 40.0, 130.0


@pytest.mark.slow
def test_what_moves_is_told_from_what_stays():
    known = catalogue()
    fleet = build_fleet(FleetPlan(64, seed=5))
    random = np.random.default_rng(5)
    inside, table = FleetSimulation(fleet, synthetic_load(fleet, random), random), SeriesTable()
    emitter = SampleEmitter(fleet, known, table, PROFILE_PERIODS["fine"])
    stays, moves = fleet.jobs_of_kind("tp")[:2]
    fault = fault_models()["tp-straggler"]
    there = TARGET_BUILDERS[fault.target](fleet, stays, 1, fleet.jobs[stays].nodes[1], 3, 1)
    around = TARGET_BUILDERS["job"](fleet, moves, 0, fleet.jobs[moves].nodes[0], 3, 1)

    def touch(push, world):
        if BEGIN <= world.t < END:
            fault.apply(push, world, there, 0.6, world.t - BEGIN)
            move_between_members(fault).apply(push, world, around, 0.6, world.t - BEGIN)

    own = [rule for rule in load_strict(known).values() if rule.condition == "tp-straggler"]
    diagnosis = Engine(own, known, fleet.topology)
    for n in range(int(END)):
        inside.step(touch)
        diagnosis.step(START_TIME + n, emitter.block(inside, START_TIME), table)

    def told(job):
        nodes = {fleet.topology.nodes[n].name for n in fleet.jobs[job].nodes}
        return [one for one in diagnosis.list_incidents() if one.name in nodes and one.explained_by is None]

    (staying,), (going,) = told(stays), told(moves)
    assert (staying.name, staying.moves) == (there.name, 0)
    assert going.moves >= 2
