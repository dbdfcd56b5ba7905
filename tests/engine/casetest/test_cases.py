"""Cases as data: what their files may say, the telemetry they stand for, and how a rule's answer is compared."""

import numpy as np
import pytest

from skewscope.engine.casetest.case_data import CaseData, build_topology, iter_blocks
from skewscope.engine.casetest.case_runner import run_cases
from skewscope.engine.ingest.feed import SeriesTable
from skewscope.kb.yamlfile import parse as yaml
from skewscope.rules import case_file
from tests.support.rule_world import CATALOGUE, rule

HEAD = """\
rule: late-rank
topology: {groups: {A: tensor-parallel 4}}
"""


def read(text, name=""):
    """(file, all problems in one text)."""
    found, problems = case_file.parse(yaml(text, "rules/cases/late-rank.yaml"), CATALOGUE, name)
    return found, "\n".join(map(str, problems))


def one(body, head=HEAD):
    """The only case of a file, given without its name and kind."""
    found, problems = read(f"{head}cases:\n  - {{name: a case, kind: fires, {body}}}\n")
    assert found is not None, problems
    return found.cases[0]


def run(body):
    """How the only case of a file went."""
    file = case_file.CaseFile("late-rank", (one(body),), "late-rank.yaml")
    (result,) = run_cases({"late-rank": rule()}, [file], CATALOGUE)
    return result


def script(given, head=HEAD):
    """The series that a case's `given` stands for, each with its values over time, and what is wrong with it."""
    case_ = one(f"given: {{{given}}}, expect: []", head)
    made = CaseData(case_, CATALOGUE, SeriesTable())
    values = {key: [] for key in made.table.keys}
    for block in iter_blocks([made], case_.tick):
        found = dict(zip(block.series.tolist(), block.value.tolist(), strict=True))
        for number, key in enumerate(made.table.keys):
            values[key].append(found.get(number, np.nan))
    return {(key.signal, key.entity, key.selector): np.array(told) for key, told in values.items()}, made.problems


# --- files

WRONG = {
    "a kind that is none": ("kind: fires", "kind: fire", "Did you mean 'fires'?"),
    "a field that is none": ("expect: []", "expects: []", "Did you mean 'expect'?"),
    "an unknown signal": ("wire.onset_lag", "wire.onset_lagg", "Did you mean 'wire.onset_lag'?"),
    "a value in the wrong unit": ("1*ms", "1*packets", "a constant in the unit"),
    "an unknown unit": ("1*ms", "1*msec", "Did you mean"),
    "a value and none": ("1*ms", "{value: 1*ms, missing: true}", "either a value or"),
    "neither": ("1*ms", "{from: 1*s}", "either a value or"),
    "a look-alike of nothing": ("kind: fires", "kind: look-alike", "no 'like'"),
    "a like for what is none": ("kind: fires", "kind: fires, like: fabric-loss", "'like'"),
    "a tick longer than the case": ("expect", "tick: 50*s, expect", "at least one tick"),
    "too many ticks": ("expect", "tick: 1*ms, lasts: 3000*s, expect", "at most 20000"),
    "a tick without a unit": ("expect", "tick: 5, expect", "a constant in the unit"),
    "a group of no kind": ("tensor-parallel", "tensor-paralel", "Did you mean 'tensor-parallel'?"),
    "a group of nobody": ("tensor-parallel 4", "tensor-parallel 0", "1 to 1000"),
    "an unknown group in a pool": ("{A: tensor-parallel 4}", "{A: tensor-parallel 4}, pools: {p: [B]}", "one of the"),
    "the wrong rule": ("rule: late-rank", "rule: early-rank", "The rule is the name of the file."),
    "a time in bytes": ("expect: []", 'expect: [{at: "A:n1", by: 5*MB}]', "a constant in the unit"),
}
GOOD = HEAD + 'cases:\n  - {name: a case, kind: fires, given: {wire.onset_lag: {"*": 1*ms}}, expect: []}\n'


def test_the_text_that_the_faults_are_made_in_is_good():
    assert read(GOOD, "late-rank")[1] == ""


@pytest.mark.parametrize("what", WRONG)
def test_a_fault_in_a_file_of_cases_is_told_with_its_line_and_gives_no_cases(what):
    old, new, told = WRONG[what]
    assert old in GOOD
    found, problems = read(GOOD.replace(old, new), "late-rank")
    assert found is None
    assert told in problems
    assert f"late-rank.yaml:{GOOD[: GOOD.index(old)].count(chr(10)) + 1}:" in problems


def test_two_cases_of_one_name_are_a_fault():
    assert "for the second time" in read(GOOD + GOOD.splitlines()[-1] + "\n")[1]


def test_all_faults_of_all_files_are_told_at_once(tmp_path):
    folder = tmp_path / "rules" / "cases"
    folder.mkdir(parents=True)
    (folder / "late-rank.yaml").write_text(GOOD.replace("onset_lag", "lag").replace("expect: []", "expect: [{at: x}]"))
    (folder / "other.yaml").write_text("cases: [")
    found, problems = case_file.load(CATALOGUE, folder)
    assert not found
    assert {problem.file for problem in problems} == {"rules/cases/late-rank.yaml", "rules/cases/other.yaml"}


# --- telemetry


def test_a_value_stands_from_when_to_when_it_is_said_and_later_ones_lie_over_it():
    values, _ = script('wire.onset_lag: {"A:*": 1*ms, "A:n2": {value: 5*ms, from: 10*s, to: 12*s}}')
    assert set(values) == {("wire.onset_lag", f"A:n{n}", "") for n in range(4)}
    late = values["wire.onset_lag", "A:n2", ""]
    assert late[8:14].tolist() == pytest.approx([1e-3, 1e-3, 5e-3, 5e-3, 1e-3, 1e-3])


def test_a_ramp_is_even_and_an_end_is_where_it_says():
    values, _ = script('wire.onset_lag: {"A:n0": {value: 0*s, to_value: 10*s, from: 10*s, to: 20*s}}')
    ramp = values["wire.onset_lag", "A:n0", ""]
    assert np.isnan(ramp[:10]).all()
    assert np.isnan(ramp[20:]).all()
    assert ramp[10:20].tolist() == pytest.approx(list(range(10)))


def test_missing_is_no_sample_and_every_is_fewer():
    values, _ = script('wire.onset_lag: {"A:n0": missing, "A:n1": {value: 1*ms, every: 5*s}}')
    assert np.isnan(values["wire.onset_lag", "A:n0", ""]).all()
    assert np.flatnonzero(~np.isnan(values["wire.onset_lag", "A:n1", ""])).tolist() == [0, 5, 10, 15, 20, 25, 30]


def test_noise_is_the_same_in_every_run_and_another_for_each_series():
    text = 'wire.onset_lag: {"A:*": {value: 1*ms, noise: 10*percent}}'
    (once, _), (again, _) = script(text), script(text)
    rows = [once[key] for key in once]
    assert all(np.array_equal(once[key], again[key]) for key in once)
    assert not np.array_equal(rows[0], rows[1])
    assert all(np.abs(row / 1e-3 - 1).max() <= 0.3 + 1e-9 for row in rows)


def test_a_counter_grows_by_its_value_and_begins_anew_where_it_says():
    values, _ = script("wire.requests: {n0: [{value: 2*requests/s}, {value: 4*requests/s, from: 10*s, restart: 20*s}]}")
    (told,) = values.values()
    grown = np.diff(told)
    assert grown[:9].tolist() == pytest.approx([2] * 9)
    assert grown[10:19].tolist() == pytest.approx([4] * 9)
    assert told[20] == 0


def test_a_value_is_told_in_the_unit_of_its_signal():
    values, _ = script("gpu.util: {n0/gpu0: 70*percent}", "rule: x\ntopology: {nodes: 2, gpus: 1}\n")
    assert values["gpu.util", "n0/gpu0", ""][0] == pytest.approx(70)


def test_subscripts_choose_ports_by_network_and_name_the_rest():
    values, _ = script('"wire.rtt[east_west, tx]": {"*": 1*ms}')
    assert set(values) == {("wire.rtt", f"n{n}/ew", "tx") for n in range(4)}


def test_peers_are_pairs_of_ports_of_one_network():
    values, _ = script('wire.peer_rtt: {"n0/ew>*": 1*ms}')
    assert {entity for _, entity, _ in values} == {f"n0/ew>n{n}/ew" for n in (1, 2, 3)}


def test_a_histogram_holds_its_observations_in_the_right_buckets():
    values, _ = script("serve.ttft: {A: 300*ms}")
    parts = {selector: told[-1] - told[0] for (_, _, selector), told in values.items()}
    assert parts["count"] == parts["bucket:+Inf"] == parts["bucket:0.5"] == pytest.approx(300)
    assert parts["bucket:0.2"] == 0
    assert parts["sum"] == pytest.approx(90)


def test_who_is_no_entity_of_the_case_is_told():
    _, faults = script('wire.onset_lag: {"A:n9": 1*ms}')
    assert faults == ["gives wire.onset_lag for 'A:n9', which is no rank of the case"]


def test_a_cluster_in_short():
    head = "rule: x\ntopology: {groups: {A: tensor-parallel 2x2, B: tensor-parallel 1}, nodes: 1}\n"
    made = build_topology(one("expect: []", head).topology)
    assert [node.name for node in made.nodes] == ["n0", "n1", "n2", "n3"]
    assert made.groups[0].members == ("n0/gpu0", "n0/gpu1", "n1/gpu0", "n1/gpu1")
    assert (made.groups[1].members, made.groups[1].front_end) == (("n2",), "n2")
    assert made.pools[0].replicas == ("A", "B")


# --- verdicts

LATE = 'wire.onset_lag: {"A:*": 1*ms, "A:n2": {value: 20*ms, from: 10*s, to: 20*s}}'
EXPECTED = [
    ('[{at: "A:n2", by: 13*s, after: 10*s, clears_by: 26*s}]', []),
    ("[]", ["A:n2 fires after 12 s, and should not"]),
    ('[{at: "A:n2", by: 11*s}]', ["A:n2 fires after 12 s, later than 11 s"]),
    ('[{at: "A:n2", by: 20*s, after: 15*s}]', ["A:n2 fires after 12 s, sooner than 15 s"]),
    ('[{at: "A:n2", by: 20*s, clears_by: 21*s}]', ["A:n2 does not clear by 21 s"]),
    ('[{at: "A:n2", by: 20*s, severity: critical}]', ["A:n2 is info, not critical"]),
    ('[{at: "A:n2", by: 20*s}, {at: "A:n1", by: 20*s}]', ["A:n1 does not fire"]),
    ('[{at: "A:n7", by: 20*s}]', ["expects something of 'A:n7', which is no rank of the case"]),
    ('{unknown: ["A:n9"]}', ["expects something of 'A:n9', which is no rank of the case"]),
]


@pytest.mark.parametrize(("expect", "faults"), EXPECTED)
def test_what_differs_from_what_a_case_expects_is_told(expect, faults):
    result = run(f"given: {{{LATE}}}, expect: {expect}")
    assert list(result.faults) == faults
    assert result.is_ok == (not faults)
    assert (result.rule, result.case, result.line) == ("late-rank", "a case", 4)


def test_who_should_be_unknown_and_is_judged_is_told():
    seen = run(f"given: {{{LATE}}}, expect: unknown")
    assert any("is judged in the end" in fault for fault in seen.faults)
    blind = run('given: {wire.onset_lag: {"*": missing}}, expect: unknown')
    assert blind.is_ok


def test_a_case_without_any_telemetry_leaves_everything_unknown():
    assert run("expect: unknown").is_ok


def test_telemetry_of_nobody_is_a_fault_of_the_case():
    result = run('given: {wire.onset_lag: {"A:n9": 1*ms}}, expect: []')
    assert not result.is_ok
