"""What load brings about on the replicas of a pool is explained by the first of it; that costs no look at all pairs."""

import pytest

from skewscope.engine.attribution.cause_graph import CauseGraph
from skewscope.engine.attribution.explanation import Explainer
from skewscope.engine.attribution.shared_load import LoadDiagnosis, find_shared_load
from skewscope.engine.incidents.diagnosis import DiagnosisState
from skewscope.engine.incidents.state import IncidentTiming
from skewscope.engine.model.locality import Entity, LocalityIndex
from skewscope.engine.model.parameters import EPISODE_S
from skewscope.engine.model.topology import Group, Node, Pool, Topology
from skewscope.kb.loader import catalogue
from tests.support.call_counts import count_calls
from tests.support.incidents import places, track

BACKLOG, THRASH = "burst-admission-backlog", "kv-capacity-preemption-thrash"
SLOW, LATE = "gpu-thermal-throttle", "tp-straggler"
CAUSES = CauseGraph(catalogue())


def sign(condition, name, t=0.0, *, is_root=True, lingers=False):
    return LoadDiagnosis(t, f"{condition}@{name}", condition, Entity("replica", name), is_root, lingers)


@pytest.mark.parametrize(
    ("first", "second", "is_explained"),
    [
        pytest.param((BACKLOG, "A", 0), (BACKLOG, "B", 1e6), True, id="the same condition, as long as it is there"),
        pytest.param((BACKLOG, "A", 0), (THRASH, "B", EPISODE_S), True, id="another condition soon after"),
        pytest.param((BACKLOG, "A", 0), (THRASH, "B", EPISODE_S + 1), False, id="another condition much later"),
        pytest.param((BACKLOG, "A", 0), (THRASH, "A", 1e6), True, id="another condition at the same replica"),
        pytest.param((BACKLOG, "A", 0), (BACKLOG, "C", 1), False, id="a replica of no pool"),
    ],
)
def test_the_first_that_load_brings_about_explains_what_follows_in_its_pool(first, second, is_explained):
    one, other = sign(*first), sign(*second)
    assert find_shared_load([other, one], places()) == ({other.id: one.id} if is_explained else {})


def test_a_root_stays_one_among_those_of_its_condition():
    first, root = sign(BACKLOG, "A", 0, is_root=False), sign(BACKLOG, "B", 5)
    assert find_shared_load([first, root], places()) == {first.id: root.id}


def test_the_first_of_its_own_condition_comes_before_that_of_others():
    other, own, last = sign(THRASH, "A", 0), sign(BACKLOG, "A", 1), sign(BACKLOG, "B", 2)
    assert find_shared_load([other, own, last], places()) == {own.id: other.id, last.id: own.id}


@pytest.mark.parametrize(
    ("condition", "name", "is_explained"), [(THRASH, "A", True), (THRASH, "B", False), (BACKLOG, "B", False)]
)
def test_what_an_ended_fault_left_explains_others_at_its_own_replica_only(condition, name, is_explained):
    left, other = sign(BACKLOG, "A", 0, is_root=False, lingers=True), sign(condition, name, 5)
    assert find_shared_load([left, other], places()) == ({other.id: left.id} if is_explained else {})


def diagnosis(condition, name, t, kind):
    evidence = track(condition, kind, name).peak_evidence
    return DiagnosisState(condition, Entity(kind, name), t, t, peak_evidence=evidence)


def pool_of(replicas):
    """A pool of replicas of one node each."""
    nodes = tuple(Node(f"n{n}", gpus=1) for n in range(replicas))
    groups = tuple(Group(f"r{n}", "tensor-parallel", (f"n{n}",), f"n{n}") for n in range(replicas))
    return LocalityIndex(Topology(nodes, groups, (Pool("pool", tuple(group.name for group in groups)),)))


@pytest.mark.parametrize(
    ("conditions", "kind", "apart"),
    [
        pytest.param((BACKLOG,), "replica", 1.0, id="one load"),
        pytest.param((BACKLOG, THRASH), "replica", 1.0, id="two loads"),
        pytest.param((BACKLOG, THRASH), "replica", 2 * EPISODE_S, id="loads that are far apart"),
        pytest.param((SLOW, "power-cap"), "node", 1.0, id="faults of other replicas"),
        pytest.param((SLOW, LATE), "node", 1.0, id="causes and effects of other replicas"),
    ],
)
def test_the_cost_of_explanations_grows_with_the_diagnoses_of_a_pool_and_not_with_its_square(conditions, kind, apart):
    def calls(count):
        explainer = Explainer(CAUSES, pool_of(count), IncidentTiming())
        prefix = "n" if kind == "node" else "r"
        diagnoses = [diagnosis(conditions[n % len(conditions)], f"{prefix}{n}", n * apart, kind) for n in range(count)]
        states = {one.id: one for one in diagnoses}
        explainer.explain(count * apart, diagnoses, states)  # what is known of places is kept
        return count_calls(lambda: explainer.explain(count * apart, diagnoses, states))

    # The square would be 64 times as many.
    assert calls(400) < 10 * calls(50)
