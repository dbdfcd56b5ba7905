"""Which diagnosis explains a symptom, by the times of both."""

from dataclasses import replace

import pytest

from skewscope.engine.attribution.cause_graph import CauseGraph
from skewscope.engine.attribution.symptom_explanation import SymptomExplainer
from skewscope.engine.incidents.confidence import load_calibration
from skewscope.engine.incidents.diagnosis import DiagnosisState
from skewscope.engine.incidents.symptom import SymptomState
from skewscope.engine.model.finding import PAST, PEERS, Finding
from skewscope.engine.model.incident import Explanation
from skewscope.engine.model.locality import LocalityIndex
from skewscope.engine.model.topology import Entity, Group, Node, Pool, Topology
from skewscope.engine.symptoms.places import PlaceTokens
from skewscope.kb.loader import catalogue
from tests.support.incidents import track

TOKENS = PlaceTokens(LocalityIndex(Topology((Node("n0"),))))
HERE = Entity("node", "n0")


def diagnosis(condition, since, resolved_at=None, explanation=None):
    found = DiagnosisState(condition, HERE, since, since, peak_evidence=track("late", "node", "n0").peak_evidence)
    return replace(found, resolved_at=resolved_at, explanation=explanation)


def root_of_symptom(since, *diagnoses):
    signal = catalogue().signals["wire.rtt"]
    finding = Finding(signal, HERE, PAST, "up", since, 2.0, 1.0)
    known = {"primary": finding, "tokens": set(TOKENS.of(HERE)), "calibration": load_calibration()}
    explainer = SymptomExplainer(TOKENS, CauseGraph(catalogue()))
    explainer.update(0, diagnoses, {one.id: one for one in diagnoses})
    return explainer.find(SymptomState("slow-responses", HERE, since, since, **known))


@pytest.mark.parametrize("ended", [20.0, None])
def test_the_first_diagnosis_that_lasted_until_then_explains_a_symptom(ended):
    first, second = diagnosis("first", 0.0, ended), diagnosis("second", 9.0)
    assert root_of_symptom(10.0, first, second) == first.id


def test_what_ended_before_a_symptom_began_does_not_explain_it():
    first, second = diagnosis("first", 0.0, 9.0), diagnosis("second", 9.5)
    assert root_of_symptom(10.0, first, second) == second.id
    assert root_of_symptom(10.0, first) == ""


def test_a_diagnosis_that_lasts_longer_than_its_root_explains_what_begins_after_that():
    root = diagnosis("root", 0.0, 9.0)
    effect = diagnosis("effect", 1.0, None, Explanation(root.id, "caused"))
    assert root_of_symptom(10.0, root, effect) == effect.id
    assert root_of_symptom(8.0, root, effect) == root.id


def is_explained_in_pool(replicas, faults, place, pattern=PAST):
    """Returns whether one of some diagnoses, each given by its members, explains a symptom of a pool or a replica."""
    nodes = tuple(Node(f"n{k}") for k, _ in enumerate(replicas))
    groups = tuple(Group(name, "tensor-parallel", (f"n{k}",)) for k, name in enumerate(replicas))
    tokens = PlaceTokens(LocalityIndex(Topology(nodes, groups, (Pool("lab", tuple(replicas)),))))
    places = [[Entity("replica", name) for name in members] for members in faults]
    evidence = track("late", "replica", "A").peak_evidence
    found = [DiagnosisState("backlog", some[0], 0.0, 0.0, peak_evidence=evidence) for some in places]
    diagnoses = {one.id: replace(one, members=frozenset(some)) for one, some in zip(found, places, strict=True)}
    explainer = SymptomExplainer(tokens, CauseGraph(catalogue()))
    explainer.update(0, list(diagnoses.values()), diagnoses)
    finding = Finding(catalogue().signals["wire.rtt"], place, pattern, "up", 10.0, 2.0, 1.0)
    known = {"primary": finding, "tokens": set(tokens.of(place)), "calibration": load_calibration()}
    return explainer.find(SymptomState("slow-responses", place, 10.0, 10.0, **known)) in diagnoses


@pytest.mark.parametrize(("faults", "explained"), [(["AB"], True), (["A"], False)])
def test_a_fault_of_all_replicas_explains_what_their_pool_shows(faults, explained):
    assert is_explained_in_pool("AB", faults, Entity("pool", "lab")) is explained


@pytest.mark.parametrize(("faults", "explained"), [(["A", "B"], True), (["A"], False)])
@pytest.mark.parametrize("place", [Entity("replica", "D"), Entity("pool", "lab")])
def test_faults_of_half_the_replicas_explain_how_the_others_compare_and_what_most_show(place, faults, explained):
    assert is_explained_in_pool("ABCD", faults, place, PEERS) is explained
