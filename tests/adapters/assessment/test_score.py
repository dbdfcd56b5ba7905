"""The diagnosis held against labels: what counts as found, wrong, misplaced, and what a score says of it."""

import json
import math
from dataclasses import replace

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from skewscope.adapters.assessment import assessment, report, runner, scenarios
from skewscope.adapters.assessment.runner import AssessmentRun, FaultLabel, ReportedIncident
from skewscope.adapters.assessment.score import SUSPECTED, calibration_samples, poisson_upper_limit, score_runs, to_json
from skewscope.adapters.simulator.benign import BENIGN_EVENTS
from skewscope.adapters.simulator.faults.registry import fault_models
from skewscope.engine.attribution.cause_graph import CauseGraph
from skewscope.engine.ingest.feed import SeriesTable
from skewscope.kb.loader import catalogue
from skewscope.kb.problems import InputError
from skewscope.tui.cli.main import cli
from skewscope.tui.cli.simulate import SEVERITIES, _score_lines
from skewscope.tui.render.text import to_plain_text

TRUTH = FaultLabel("tp-straggler", "mild", ("n2", "n2/ew"), 60.0, 100.0)


def told(condition="tp-straggler", name="n2", opened=65.0, confidence=0.9, root=""):
    return ReportedIncident(condition, name, opened, confidence, root, "a rule")


def score(*found, truths=(TRUTH,)):
    return score_runs([AssessmentRun("run", 8, 8640.0, found, truths)])


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ((), (0, 1, 0, 0)),
        ((told(),), (1, 0, 0, 1)),
        ((told(name="n2/ew"),), (1, 0, 0, 1)),
        ((told(name="n5"),), (1, 0, 0, 0)),
        ((told(name="n5"), told(opened=70.0)), (1, 0, 1, 1)),
        ((told(), told(opened=90.0)), (1, 0, 0, 1)),
        ((told(opened=20.0),), (0, 1, 1, 0)),
        ((told(opened=140.0),), (0, 1, 1, 0)),
        ((told(root="fabric-loss"),), (0, 1, 0, 0)),
    ],
    ids=["nothing", "right", "on what it lies on", "elsewhere", "twice", "again", "too soon", "too late", "folded"],
)
def test_what_is_found_missed_wrong_and_placed(found, expected):
    tally = score(*found).tally("tp-straggler")
    assert (tally.true_positives, tally.false_negatives, tally.false_positives, tally.located) == expected


def test_a_label_of_the_whole_recording_is_right_anywhere():
    tally = score(told(name="n7"), truths=(FaultLabel("tp-straggler", "", ("*",), 60.0, 100.0),)).tally("tp-straggler")
    assert (tally.true_positives, tally.located) == (1, 1)


def test_another_condition_is_wrong_and_is_told_as_confusion():
    found = score(told("fabric-loss"))
    assert found.tally("fabric-loss").false_positives == 1
    assert found.confusion["tp-straggler", "fabric-loss"] == 2  # missed for it, and it told instead


def test_the_delay_is_from_the_beginning_of_the_fault():
    assert score(told()).delay == 5.0


def test_what_is_only_suspected_is_neither_found_nor_a_false_alarm():
    suspected = told(confidence=0.3)
    found = score(suspected)
    assert (found.tally("tp-straggler").true_positives, found.tally("tp-straggler").false_positives) == (0, 0)
    assert found.confusion == {("tp-straggler", SUSPECTED): 1}
    assert not score(suspected, truths=()).false_alarms


def test_a_symptom_is_no_diagnosis_and_is_counted_apart():
    symptom = replace(told("slow-steps"), is_symptom=True, candidates=("tp-straggler",))
    found = score(symptom)
    assert found.confusion == {("tp-straggler", ""): 1}
    assert (found.root_outcomes, found.ambiguous) == ([], [])
    assert found.tally("slow-steps").false_positives == 0
    quiet = score(symptom, replace(symptom, root="tp-straggler"), truths=())
    assert [one for _, one in quiet.quiet_symptoms] == [symptom]
    assert not quiet.false_alarms
    assert to_json(quiet)["quiet_symptoms"][0]["condition"] == "slow-steps"


def test_a_symptom_is_right_while_a_fault_is_there_and_so_is_a_candidate_that_names_it():
    first = replace(told("slow-steps"), is_symptom=True, posterior=(("tp-straggler", 0.6), ("pp-bubble", 0.2)))
    other = replace(first, posterior=(("pp-bubble", 0.3),), confidence=0.7)
    found = score(first, other)
    assert found.symptom_outcomes == [(0.9, True), (0.7, True)]
    assert found.candidate_outcomes == [(0.6, True), (0.3, False)]
    assert score(first, truths=()).symptom_outcomes == [(0.9, False)]
    assert score(first, truths=()).candidate_outcomes == []
    assert to_json(found)["symptom_reliability"][-1] == {"told": 1, "said": 0.9, "right": 1.0}


def test_one_of_several_that_cannot_be_told_apart_is_no_error_and_finds_nothing():
    unsure = replace(told("pp-bubble"), candidates=("fabric-loss", "tp-straggler"))
    found = score(unsure)
    assert (found.tally("tp-straggler").false_negatives, found.tally("pp-bubble").false_positives) == (1, 0)
    assert found.ambiguous == [("tp-straggler", unsure)]
    group = replace(unsure, name="A", members=("n1", "n2"))
    assert score(group).ambiguous == [("tp-straggler", group)]
    assert not score(replace(group, members=("n1", "n3"))).ambiguous
    sibling = replace(unsure, name="n9", candidate_locations=(("fabric-loss", ("n3",)), ("tp-straggler", ("n2",))))
    assert score(sibling).ambiguous == [("tp-straggler", sibling)]
    assert not score(replace(sibling, candidate_locations=sibling.candidate_locations[:1])).ambiguous
    assert found.confusion == {("tp-straggler", "pp-bubble, or it"): 1}
    assert found.root_outcomes == [(0.9, True)]
    assert to_json(found)["left_open"][0]["was"] == "tp-straggler"


@pytest.mark.parametrize(
    "unsure",
    [
        replace(told("pp-bubble"), candidates=("fabric-loss",)),
        replace(told("pp-bubble", name="n7"), candidates=("tp-straggler",)),
        replace(told("pp-bubble", opened=20.0), candidates=("tp-straggler",)),
    ],
    ids=["another", "elsewhere", "before"],
)
def test_one_of_several_is_an_error_where_it_was_none_of_them_there_and_then(unsure):
    found = score(unsure)
    assert found.tally("pp-bubble").false_positives == 1
    assert not found.ambiguous


def test_one_of_several_without_a_fault_is_a_false_alarm():
    assert score(replace(told("pp-bubble"), candidates=("tp-straggler",)), truths=()).false_alarms


@pytest.mark.parametrize(("nodes", "at_once"), [(64, 1), (256, 4)])
def test_a_large_quiet_fleet_has_as_many_benign_events_to_a_node_as_a_small_one(nodes, at_once):
    episodes = scenarios.quiet_scenario(1, nodes=nodes, seconds=1000.0).episodes
    counts = {name: sum(e.event == name and e.begin < 900 for e in episodes) for name in BENIGN_EVENTS}
    assert counts["maintenance"] == at_once
    assert counts["traffic surge"] == 1


@pytest.mark.parametrize(("days", "nodes"), [(0.5, 64), (1.0, 64), (100.0, 2048), (0.0, 0)])
def test_as_many_quiet_node_days_as_are_asked_for(monkeypatch, days, nodes):
    ran = []

    def run_all(found, *_):
        ran.extend(found)
        return []

    monkeypatch.setattr(assessment, "run_all", run_all)
    assessment.assess(assessment.AssessmentOptions(("tp-straggler",), quiet_node_days=days, with_pairs=False))
    still = [one for one in ran if one.name.startswith("quiet")]
    assert {one.plan.nodes for one in still} == ({nodes} if nodes else set())
    assert sum(one.lasts * one.plan.nodes for one in still) / 86400 == pytest.approx(days, rel=0.02)


def test_runs_without_a_fault_count_false_alarms_by_node_days():
    found = score(told(), truths=())
    assert found.quiet_node_days == pytest.approx(0.8)
    assert len(found.false_alarms) == 1
    assert found.false_alarm_rate_limit == pytest.approx(poisson_upper_limit(1) / 0.8)


def test_what_is_said_with_the_same_confidence_is_one_bin():
    right = [
        told(confidence=0.93),
        told("fabric-loss", "n3", confidence=0.97),
        told("pfc-storm", "n4", confidence=0.12),
    ]
    truths = (TRUTH, FaultLabel("fabric-loss", "mild", ("n3",), 60.0, 100.0))
    low, high = score(*right, truths=truths).reliability
    assert (low.count, low.mean_confidence, low.accuracy) == (1, pytest.approx(0.12), 0.0)
    assert (high.count, high.mean_confidence, high.accuracy) == (2, pytest.approx(0.95), 1.0)
    assert score(*right, truths=truths).calibration_error == pytest.approx((0.12 + 2 * 0.05) / 3)


def test_a_calibration_learns_from_errors_and_not_from_effects_rightly_told():
    causes = CauseGraph(catalogue())
    effect = next(iter(sorted(causes.effects("gpu-thermal-throttle"))))
    truth = FaultLabel("gpu-thermal-throttle", "mild", ("n2",), 60.0, 100.0)
    run = AssessmentRun(
        "run",
        8,
        100.0,
        (told("gpu-thermal-throttle"), told(effect, root="gpu-thermal-throttle"), told("pfc-storm")),
        (truth,),
    )
    assert [one.correct for one in calibration_samples([run], causes)] == [True, False]
    assert len(calibration_samples([AssessmentRun("run", 8, 100.0, run.incidents, ())], causes)) == 3


def test_pairs_begin_together_in_different_jobs():
    for scenario in scenarios.fault_pair_scenarios(["tp-straggler", "pfc-storm", "egress-loss"], 3, count=6, nodes=32):
        assert len(scenario.episodes) % 2 == 0
        for one, other in zip(scenario.episodes[::2], scenario.episodes[1::2], strict=True):
            assert one.condition != other.condition
            assert abs(one.begin - other.begin) < 10
            assert one.at.job != other.at.job


def test_the_page_tells_every_figure_or_that_it_is_unknown():
    fine = score(told(), truths=(TRUTH,))
    order = assessment.AssessmentOptions(("tp-straggler",), seed=4)
    page = report.render_markdown(
        assessment.Assessment(order, fine, score_runs([]), {"everything": fine}, fine), catalogue()
    )
    assert "| macro F1 | 1.00 | unknown | >= 0.90 |" in page
    assert "| tp-straggler | 1/1 |  |  | 1.00 | 1.00 | 5 |" in page
    assert "| **everything** | 1.00 | 1.00 | 1.00 | 0 | 0 |  | 1 of 1 |" in page
    assert "--seed 4" in page


@pytest.mark.parametrize(
    ("metric", "impact", "stated"),
    [
        ("time of a round spent waiting for this rank", 0.3, 0.3),
        ("time of a round", 1.0, 0.5),
        ("rounds of the group", -0.25, 0.25),
    ],
)
def test_a_stated_cost_is_held_against_the_rounds_that_were_lost(metric, impact, stated):
    one = replace(told(), impact=impact, metric=metric)
    found = score(one, truths=(replace(TRUTH, lost_round_share=0.4),))
    assert found.cost_pairs == [(pytest.approx(stated), 0.4)]
    other_metric = score(replace(one, metric="use of the port"), truths=(replace(TRUTH, lost_round_share=0.4),))
    assert other_metric.cost_pairs == []
    assert score(one).cost_pairs == []


def test_what_a_fault_costs_is_the_share_of_rounds_lost_to_it():
    (scenario,) = scenarios.single_fault_scenarios(["gpu-thermal-throttle"], 3, nodes=16, strengths=("heavy",))
    paces = []
    _, blocks = scenarios.run_scenario(scenario, catalogue(), SeriesTable(), paces)
    assert sum(1 for _ in blocks) == len(paces)
    assert 0.05 < scenarios.lost_round_share(scenario.episodes[0], paces) < 0.95


def test_a_score_of_nothing_is_unknown_not_perfect():
    found = score_runs([])
    assert math.isnan(found.macro_mean("f1"))
    assert to_json(found)["macro_f1"] is None
    json.dumps(to_json(found), allow_nan=False)


@pytest.mark.parametrize(("events", "bound"), [(0, 2.996), (1, 4.744), (3, 7.754), (10, 16.962)])
def test_the_bound_of_a_count_is_that_of_the_tables(events, bound):
    assert poisson_upper_limit(events) == pytest.approx(bound, abs=2e-3)


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), max_size=60))
def test_the_calibration_error_is_between_zero_and_one(sure):
    found = score_runs([])
    found.root_outcomes = sure
    assert not sure or 0 <= found.calibration_error <= 1


def test_confidence_that_is_kept_has_no_error():
    found = score_runs([])
    found.root_outcomes = [(0.75, n % 4 > 0) for n in range(400)]
    assert found.calibration_error == pytest.approx(0.0)


def test_the_corpus_has_every_condition_at_every_severity_and_the_same_for_the_same_seed():
    conditions = sorted(fault_models())[:7]
    made = scenarios.single_fault_scenarios(conditions, 3, nodes=16 * 4)
    episodes = [(e.condition, e.severity) for s in made for e in s.episodes]
    assert sorted(episodes) == sorted((c, s) for c in conditions for s in scenarios.STRENGTHS)
    assert made == scenarios.single_fault_scenarios(conditions, 3, nodes=64)
    assert made != scenarios.single_fault_scenarios(conditions, 4, nodes=64)
    for scenario in made:
        ends = [e.end for e in scenario.episodes]
        assert all(e.begin > end for e, end in zip(scenario.episodes[1:], ends, strict=False))


@pytest.mark.slow
def test_fleets_side_by_side_are_told_apart():
    wanted = scenarios.single_fault_scenarios(["ingress-loss", "egress-loss"], 3, each=1, strengths=["heavy"])
    runs = runner.run_all([*wanted, scenarios.quiet_scenario(5, nodes=16, seconds=100)], 1)
    found = score_runs(runs)
    assert found.tally("ingress-loss").true_positives == found.tally("egress-loss").true_positives == 1
    assert found.located_share == 1.0
    assert not runs[-1].incidents


@pytest.mark.slow
def test_what_is_seen_several_ways_at_once_is_seen_as_each_way_alone():
    wanted = scenarios.single_fault_scenarios(["ingress-loss", "tp-straggler"], 3, nodes=16, strengths=["heavy"])
    hows = [runner.RunOptions(name) for name in ("without packets", "everything", "every other sample")]
    assert runner.run_variants(wanted, 1, hows) == [runner.run_all(wanted, 1, how) for how in hows]


@pytest.mark.slow
def test_one_command_measures_what_another_made(tmp_path):
    folder = tmp_path / "run"
    said = run("simulate", folder, "--condition", "ingress-loss", "--nodes", 16, "--seconds", 120)
    labels = json.loads((folder / "labels.json").read_text())["labels"]
    assert [one["condition"] for one in labels] == ["ingress-loss"]
    assert labels[0]["entity"] in said
    data = json.loads(run("assess", folder, "--json"))
    found = data["conditions"]["ingress-loss"]
    assert (found["found"], found["placed"]) == (1, 1)


def test_the_severities_of_the_command_are_those_of_the_corpus():
    assert tuple(scenarios.STRENGTHS) == SEVERITIES


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"start": 1, "labels": [{}]}',
        '{"start": "x", "labels": []}',
        '{"start": 1, "labels": 5}',
        "[" * 9999,
    ],
)
def test_labels_that_cannot_be_read_are_told(tmp_path, text):
    (tmp_path / "labels.json").write_text(text)
    assert "no readable labels" in run("assess", tmp_path, code=2)


def test_a_recording_without_labels_is_told(tmp_path):
    assert "labels.json: found no readable labels" in run("assess", tmp_path, code=2)


def test_what_cannot_be_simulated_is_told(tmp_path):
    (tmp_path / "full").write_text("x")
    assert "Did you mean 'tp-straggler'?" in run("simulate", tmp_path / "new", "--condition", "tp-stragler", code=2)
    assert "found an existing path" in run("simulate", tmp_path, "--condition", "tp-straggler", code=2)
    two = ("--condition", "credit-starvation", "--condition", "pfc-storm")
    assert "found faults of different fabrics" in run("simulate", tmp_path / "new", *two, code=2)
    assert not (tmp_path / "new").exists()
    assert "traffic surge  benign" in run("simulate", "--list")
    assert {"name": "tp-straggler", "befalls": "node", "benign": False} in json.loads(
        run("simulate", "--list", "--json")
    )


def run(*words, code=0):
    done = CliRunner().invoke(cli, [str(word) for word in words], catch_exceptions=False)
    assert done.exit_code == code, done.output
    return done.output


EITHER = replace(TRUTH, or_else=("gpu-fail-slow",))


@pytest.mark.parametrize("condition", ["tp-straggler", "gpu-fail-slow"])
def test_a_label_may_accept_several_conditions(condition):
    found = score(told(condition), truths=(EITHER,))
    tally = found.tally("tp-straggler")
    assert (tally.true_positives, tally.false_negatives, tally.located) == (1, 0, 1)
    assert found.tally(condition).false_positives == 0
    assert found.root_outcomes == [(0.9, True)]


def test_a_condition_that_the_label_does_not_accept_is_wrong():
    found = score(told("fabric-loss"), truths=(EITHER,))
    assert found.tally("tp-straggler").false_negatives == 1
    assert (found.seen, found.among_first) == (1, 0)


@pytest.mark.parametrize(
    ("change", "seen", "among_first"),
    [
        ({}, 1, 1),
        ({"candidates": ("a", "b", "c", "gpu-fail-slow")}, 1, 0),
        ({"name": "n7"}, 0, 0),
        ({"name": "n7", "also": ("n2",)}, 1, 1),
        ({"opened_s": 10.0}, 1, 1),
        ({"opened_s": 10.0, "resolved_s": 40.0}, 0, 0),
        ({"opened_s": 120.0}, 0, 0),
    ],
    ids=["there", "fourth", "elsewhere", "also there", "since before", "over before", "too late"],
)
def test_a_symptom_shows_a_fault_and_names_its_cause(change, seen, among_first):
    symptom = replace(told("slow-steps"), is_symptom=True, candidates=("host-cpu", "x", "gpu-fail-slow"))
    found = score(replace(symptom, **change), truths=(EITHER,))
    assert (found.seen, found.among_first) == (seen, among_first)
    assert found.tally("tp-straggler").false_negatives == 1


@pytest.mark.parametrize(
    ("condition", "expected"),
    [("a", ("a", ())), (["a", "b"], ("a", ("b",)))],
)
def test_labels_name_one_condition_or_several(tmp_path, condition, expected):
    label = {"condition": condition, "entity": ["n1", "n2"], "start": 105, "end": 110}
    (tmp_path / "labels.json").write_text(json.dumps({"start": 100, "labels": [label]}))
    _start, (found,) = runner.read_labels(tmp_path / "labels.json")
    assert (found.condition, found.or_else) == expected
    assert (found.names, found.begin, found.end) == (("n1", "n2"), 5.0, 10.0)


@pytest.mark.parametrize("condition", [[], [1], {"a": 1}, None])
def test_labels_without_a_condition_are_refused(tmp_path, condition):
    label = {"condition": condition, "entity": "n1", "start": 105, "end": 110}
    (tmp_path / "labels.json").write_text(json.dumps({"start": 100, "labels": [label]}))
    with pytest.raises(InputError, match=r"labels\.json"):
        runner.read_labels(tmp_path / "labels.json")


def test_the_command_says_what_symptoms_add():
    symptom = replace(
        told("slow-steps"), is_symptom=True, candidates=("gpu-fail-slow",), posterior=(("gpu-fail-slow", 0.4),)
    )
    text = to_plain_text(_score_lines(score(symptom, truths=(EITHER,))))
    assert "1 of 1 faults are reported where they are, symptoms included; of 1 the cause is named or" in text
    assert "First candidates of 1 unexplained symptoms: probability 0.40 on average, 1.00 right." in text
    assert "candidates" not in to_plain_text(_score_lines(score(truths=())))
    explained = replace(symptom, root="gpu-fail-slow")
    assert "First candidates" not in to_plain_text(_score_lines(score(explained, truths=(EITHER,))))
