"""An engine for another topology goes on with all that the one before it knew, as if there had been no change."""

from dataclasses import replace

import numpy as np
import pytest

from skewscope.adapters.assessment.scenarios import START_TIME
from skewscope.adapters.simulator.emitter import SampleEmitter
from skewscope.adapters.simulator.exporters import PROFILE_PERIODS
from skewscope.adapters.simulator.faults.registry import TARGET_BUILDERS, fault_models
from skewscope.adapters.simulator.fleet import FleetPlan, build_fleet
from skewscope.adapters.simulator.load import synthetic_load
from skewscope.adapters.simulator.simulation import FleetSimulation
from skewscope.engine.advice.advice import PolicyEvaluator
from skewscope.engine.advice.policy import compile_policies
from skewscope.engine.engine import Engine
from skewscope.engine.features.operators.protocol import OPERATORS, Operator
from skewscope.engine.ingest.feed import Block, SeriesTable
from skewscope.engine.judge.transfer import end_tick
from skewscope.engine.model.sparse_columns import SparseColumns
from skewscope.engine.model.topology import Node
from skewscope.kb.loader import catalogue
from skewscope.rules.loader import load_strict
from skewscope.rules.policy import load as load_policies

CHANGE, END = 40, 50
COMPUTED_ANEW = (
    *("._has_derived", "._judged_step", "._plan", "._plan[]", ".is_busy", ".suspicion_version", ".wake_time"),
    *(".watched", "._masks[]", "._changed_at[]", "._checked_at[]", "._dirty_mask", "._is_planned_anew", "._step"),
    *("._class_sizes[]", "._operators[]._first_samples", "._input_key[]", "._known_selectors", ".selector._series"),
    *(".selectors[]._series", ".selector._version[]", ".selectors[]._version[]", "._ripening._t"),
    *("._stale_mask", ".fitted_version", ".next_stale_time", ".version"),
    *("._start_version", "._fresh_values", ".changed_signals", ".first_samples", "._forwarded", ".seen_series"),
    *("._cells_seen", "._is_prepared", ".deliveries._is_complete", ".deliveries._time[]", ".cells._versions[]"),
    *(".cells._next_growth", "._witnessed_revision", "._lone", "._required_parts[][]"),
    *("._by_findings.judged._seen", "._symptom_explainer._revision"),
)
"""Numbers that follow from the others, count changes, or say how far something has been looked through."""
FAULTS = (("tp-straggler", 0, 20.0), ("gpu-thermal-throttle", 1, 20.0))
"""Fault, job, and second at which it begins."""


def engine_of(topology):
    """An engine with a part of the rules: all of them take long."""
    policies, rules = PolicyEvaluator(compile_policies(load_policies()[0])), load_strict(catalogue())
    faults = {name for name, *_ in FAULTS}
    some = [rule for n, rule in enumerate(rules.values()) if n % 5 == 0 or rule.condition in faults]
    return Engine(some, catalogue(), topology, policies, symptoms=True)


class Fleet:
    """The samples of a simulated fleet with faults, tick by tick."""

    def __init__(self):
        self.fleet = build_fleet(FleetPlan(8, seed=5))
        self.topology = self.fleet.topology
        random = np.random.default_rng(5)
        self.inside, self.table = FleetSimulation(self.fleet, synthetic_load(self.fleet, random), random), SeriesTable()
        self.emitter = SampleEmitter(self.fleet, catalogue(), self.table, PROFILE_PERIODS["fine"])
        self.second = 0
        models = [(fault_models()[name], job, begin) for name, job, begin in FAULTS]
        self.faults = [(one, self._target(one, job), begin) for one, job, begin in models]

    def _target(self, fault, job):
        return TARGET_BUILDERS[fault.target](self.fleet, job, 1, self.fleet.jobs[job].nodes[1], 3, 1)

    def _touch(self, push, world):
        for fault, at, begin in self.faults:
            if begin <= world.t:
                fault.apply(push, world, at, 0.6, world.t - begin)

    def samples(self):
        self.inside.step(self._touch)
        self.second += 1
        return START_TIME + self.second, self.emitter.block(self.inside, START_TIME)


class Fed:
    """An engine with a table of its own."""

    def __init__(self, topology, before=None):
        self.engine, self.table, self.numbers = engine_of(topology), SeriesTable(), []
        if before is not None:
            self._take_over(before)

    def _take_over(self, before):
        known = list(range(len(before.table.keys)))
        for n in known:
            self.table.number(before.table.keys[n])
        self.engine.expect_series(self.table)
        self.engine.take_over(before.engine, self.table, np.array(known))

    def step(self, fleet, t, block):
        self.numbers += [self.table.number(key) for key in fleet.table.keys[len(self.numbers) :]]
        series = np.array(self.numbers, np.int32)[block.series]
        return sorted(self.engine.step(t, Block(block.time, series, block.value), self.table), key=repr)


def turned(topology):
    """The same fleet in another order, with one node more."""
    parts = {name: tuple(reversed(getattr(topology, name))) for name in ("groups", "pools")}
    return replace(topology, nodes=(Node("spare"), *reversed(topology.nodes)), **parts)


def without(topology, node):
    """The fleet without a node and its groups."""
    groups = tuple(one for one in topology.groups if node not in one.members)
    names = {one.name for one in groups}
    pools = [replace(one, replicas=tuple(name for name in one.replicas if name in names)) for one in topology.pools]
    nodes = tuple(one for one in topology.nodes if one.name != node)
    return replace(topology, nodes=nodes, groups=groups, pools=tuple(one for one in pools if one.replicas))


def verdicts(engine):
    for one in engine.verdicts:
        names = np.array(one.names)
        yes, unknown = (set(names[one.state == value]) - {"spare"} for value in (1, 0))
        yield one.rule, set(names[one.firing]), yes, unknown


def is_same(one, other):
    """Whether two numbers or arrays are the same, as far as both go: longer arrays have room for more."""
    if not isinstance(one, np.ndarray):
        return one == other or (one != one and other != other)
    size = min(one.shape[-1:], other.shape[-1:])
    first, second = (each[..., : size[0]] if size else each for each in (one, other))
    return one.dtype.kind not in "fiub" or np.array_equal(first, second, equal_nan=one.dtype.kind == "f")


def parts_of(one, other):
    """Yields what two objects of a type consist of: name, and the part of each."""
    if isinstance(one, SparseColumns):
        yield ("", *(columns.get(np.arange(len(columns))) for columns in (one, other)))
    elif isinstance(one, list | tuple):
        yield from (("[]", *pair) for pair in zip(one, other, strict=False))
    elif isinstance(one, dict):
        yield from (("[]", one[key], other[key]) for key in one.keys() & other.keys())
    elif type(one).__module__.startswith("skewscope.engine"):
        names = getattr(one, "__slots__", None) or vars(one)
        there = (name for name in names if hasattr(one, name) and hasattr(other, name))
        yield from ((f".{name}", getattr(one, name), getattr(other, name)) for name in there)


def numbers_that_differ(one, other, path="", seen=None):
    """Yields the paths of numbers and arrays in which two engines differ."""
    seen = set() if seen is None else seen
    if isinstance(one, np.ndarray | bool | int | float):
        if type(one) is type(other) and not is_same(one, other):
            yield path
        return
    if id(one) in seen or type(one) is not type(other):
        return
    seen.add(id(one))
    for name, first, second in parts_of(one, other):
        yield from numbers_that_differ(first, second, path + name, seen)


@pytest.fixture(scope="module")
def lived():
    """A fleet, an engine that has seen it for a while, and one that went on from another with the same topology."""
    fleet = Fleet()
    kept, donor = Fed(fleet.topology), Fed(fleet.topology)
    for _ in range(CHANGE):
        t, block = fleet.samples()
        assert kept.step(fleet, t, block) == donor.step(fleet, t, block)
    return fleet, kept, Fed(fleet.topology, donor)


def test_every_number_that_is_not_computed_anew_is_taken_over(lived):
    _, kept, other = lived
    # What an engine does when the next tick begins.
    end_tick(kept.engine._rules)
    kept.engine._rules._learned = True
    for windows in kept.engine._rules.evaluator._counters._windows.values():
        windows.history.total_ring.initialise_slot()
        windows.history.time_ring.initialise_slot()
    assert not [path for path in numbers_that_differ(kept.engine, other.engine) if not path.endswith(COMPUTED_ANEW)]


def test_verdicts_incidents_and_symptoms_are_those_without_a_change(lived):
    fleet, kept, before = lived
    other, seen = Fed(turned(fleet.topology), before), set()
    for _ in range(CHANGE, END):
        t, block = fleet.samples()
        changes = kept.step(fleet, t, block)
        assert other.step(fleet, t, block) == changes
        assert list(verdicts(other.engine)) == list(verdicts(kept.engine))
        assert other.engine.list_incidents() == kept.engine.list_incidents()
        seen |= {(one.category, one.condition) for one in kept.engine.list_incidents() if one.state == "firing"}
    assert {category for category, _ in seen} == {"diagnosis", "symptom"}
    assert {condition for _, condition in seen} >= {name for name, *_ in FAULTS}


def test_incidents_on_what_is_gone_are_left_out_and_others_stay(lived):
    fleet, kept, _ = lived
    before = {one.id: one for one in kept.engine.list_incidents()}
    gone = {one.name.partition("/")[0] for one in before.values() if one.condition == "gpu-thermal-throttle"}
    other = Fed(without(fleet.topology, *gone), kept)
    left = {one.id for one in other.engine.list_incidents()}
    assert {before[id_].name.partition("/")[0] for id_ in before.keys() - left} == gone
    assert any(before[id_].state == "firing" for id_ in left)
    other.step(fleet, *fleet.samples())


def test_an_operator_that_remembers_names_what_it_remembers():
    assert not [name for name, one in OPERATORS.items() if one.update is not Operator.update and not one.memory]
