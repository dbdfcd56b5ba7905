"""A fault that goes round a group is one incident that moves; one that stays is none, in the same fleet."""

import numpy as np

from skewscope.adapters.assessment.corpus import START
from skewscope.adapters.simulator.emit import Emitter
from skewscope.adapters.simulator.exporters import PERIODS
from skewscope.adapters.simulator.faults.registry import TARGETS, faults, moving
from skewscope.adapters.simulator.fleet import Plan, build
from skewscope.adapters.simulator.load import made_up
from skewscope.adapters.simulator.world import World
from skewscope.engine.diagnosis import Diagnosis
from skewscope.engine.feed import SeriesTable
from skewscope.kb.load import catalogue
from skewscope.rules.load import rules

BEGIN, END = 40.0, 130.0


def test_what_moves_is_told_from_what_stays():
    known = catalogue()
    fleet = build(Plan(64, seed=5))
    random = np.random.default_rng(5)
    inside, table = World(fleet, made_up(fleet, random), random), SeriesTable()
    emitter = Emitter(fleet, known, table, PERIODS["fine"])
    stays, moves = fleet.of("tp")[:2]
    fault = faults()["tp-straggler"]
    there = TARGETS[fault.target](fleet, stays, 1, fleet.jobs[stays].nodes[1], 3, 1)
    around = TARGETS["job"](fleet, moves, 0, fleet.jobs[moves].nodes[0], 3, 1)

    def touch(push, world):
        if BEGIN <= world.t < END:
            fault.act(push, world, there, 0.6, world.t - BEGIN)
            moving(fault).act(push, world, around, 0.6, world.t - BEGIN)

    own = [rule for rule in rules(known).values() if rule.condition == "tp-straggler"]
    diagnosis = Diagnosis(own, known, fleet.topology)
    for n in range(int(END)):
        inside.step(touch)
        diagnosis.step(START + n, emitter.block(inside, START), table)

    def told(job):
        nodes = {fleet.topology.nodes[n].name for n in fleet.jobs[job].nodes}
        return [one for one in diagnosis.incidents.all() if one.name in nodes and one.explained_by is None]

    (staying,), (going,) = told(stays), told(moves)
    assert (staying.name, staying.moves) == (there.name, 0)
    assert going.moves >= 2
