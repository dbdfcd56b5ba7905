"""What was found, missed and wrong by labels, and what two versions tell differently."""

from dataclasses import replace

import pytest

from skewscope.adapters.assessment.runner import FaultLabel
from skewscope.adapters.backtest.backtest import BacktestOutcome
from skewscope.adapters.backtest.difference import compare_versions
from skewscope.adapters.backtest.rule_set import RuleSet, load_rule_set
from skewscope.adapters.backtest.run import RecordingOutcome
from skewscope.adapters.backtest.verdicts import score_versions
from skewscope.engine.model.incident import SYMPTOM, BlastRadius, Explanation, Impact, Incident
from skewscope.engine.model.topology import Node, Topology
from skewscope.kb.loader import catalogue

START, DAY = 1.7e9, 86400.0
FLEET = Topology(tuple(Node(f"n{n}") for n in range(4)))


def incident(id_="i1", at=10.0, **change):
    whole = Incident(
        id_, "tp-straggler", "node", "n1", "resolved", START + at, START + at + 60, "warning", 0.9, 1.0,
        Impact("rounds", None, "1"), BlastRadius(), "tp-straggler-on-the-wire", "",
    )  # fmt: skip
    return replace(whole, **change)


def label(begin=5.0, end=60.0, condition="tp-straggler", name="n1"):
    return FaultLabel(condition, "", (name,), begin, end)


def outcome(*versions, labels=None, rules: RuleSet | None = None):
    rule_set = rules or load_rule_set("tp-straggler-on-the-wire", catalogue())
    recording = RecordingOutcome("r", FLEET, START, START + DAY, 1, labels, [tuple(one) for one in versions])
    return BacktestOutcome((rule_set,) * len(versions), (recording,))


def score(incidents, labels):
    return score_versions(outcome(incidents, labels=labels))[0]


def test_a_fault_is_found_with_its_delay():
    found = score([incident()], (label(),))
    assert [(one.incident.id, one.delay_s) for one in found.found] == [("i1", 5.0)]
    assert (found.missed, found.wrong, found.false_alarms_a_node_day) == ([], [], 0.0)
    assert found.calibration_error == pytest.approx(0.1)


def test_a_fault_without_an_incident_is_missed():
    assert [one.condition for _, one in score([], (label(),)).missed] == ["tp-straggler"]


def test_a_fault_that_the_rules_cannot_tell_is_not_missed():
    assert not score([], (label(condition="pfc-storm"),)).missed


@pytest.mark.parametrize(
    "change", [{"opened_at": START + 90}, {"condition": "fabric-loss"}], ids=["after it", "another condition"]
)
def test_an_incident_without_a_fault_is_wrong(change):
    found = score([incident(**change)], (label(),))
    assert len(found.wrong) == 1
    assert found.false_alarms_a_node_day == pytest.approx(1 / 4)
    assert found.false_alarm_limit > found.false_alarms_a_node_day


def test_a_second_incident_of_a_fault_is_not_wrong():
    found = score([incident(), incident("i2", 40.0)], (label(),))
    assert (len(found.found), found.wrong) == (1, [])


def test_one_of_the_candidates_is_neither_right_nor_wrong():
    found = score([incident(condition="fabric-loss", candidates=("tp-straggler",))], (label(),))
    assert (found.wrong, found.verdicts) == ([], {("r", "i1"): ""})


def test_suspicions_effects_and_symptoms_are_no_diagnoses():
    doubt, effect = incident(confidence=0.2), incident("i2", explained_by=Explanation("i1", "caused"))
    symptom = incident("i3", category=SYMPTOM, condition="slow-steps")
    found = score([doubt, effect, symptom], ())
    assert [len(each) for each in (found.diagnoses, found.suspicions, found.symptoms, found.wrong)] == [0, 2, 1, 0]


def test_without_labels_nothing_is_missed_or_wrong():
    found = score([incident()], None)
    assert (found.missed, found.wrong, found.labelled_node_days, found.node_days) == ([], [], 0.0, 4.0)


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        ([incident()], [incident()], "same"),
        ([], [incident()], "new"),
        ([incident()], [], "gone"),
        ([incident()], [incident(at=4.0)], "sooner"),
        ([incident()], [incident(at=30.0)], "later"),
        ([incident()], [incident(severity="critical")], "changed"),
        ([incident()], [incident(name="n2", also=("n1",))], "changed"),
    ],
)
def test_an_incident_differs_in_one_way(before, after, kind):
    whole = outcome(before, after, labels=(label(),))
    (found,) = compare_versions([("r", before, after)], *score_versions(whole))
    assert found.kind == kind
    assert found.verdict == "right"
    assert found.seconds == (after[0].opened_at - before[0].opened_at if before and after else 0)


def test_incidents_far_apart_are_two():
    before, after = [incident()], [incident(at=5000.0)]
    found = compare_versions([("r", before, after)], *score_versions(outcome(before, after)))
    assert [one.kind for one in found] == ["gone", "new"]


def test_each_incident_has_one_partner_the_nearest():
    before = [incident("a", 0.0), incident("b", 100.0)]
    after = [incident("c", 90.0)]
    found = compare_versions([("r", before, after)], *score_versions(outcome(before, after)))
    assert [(one.kind, one.seconds) for one in found] == [("gone", 0.0), ("sooner", -10.0)]
