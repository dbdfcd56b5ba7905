"""The rules that come with the package load, their cases hold, and a fault in a rule is told with its line."""

import re
import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from skewscope.engine.casetest.case_runner import run_cases
from skewscope.engine.casetest.mutants import generate_mutants
from skewscope.engine.casetest.mutation import select_survivors
from skewscope.engine.engine import build_rule_info
from skewscope.kb import yamlfile
from skewscope.kb.loader import catalogue
from skewscope.kb.problems import InputError
from skewscope.rules import case_file
from skewscope.rules.lint import lint_folder
from skewscope.rules.loader import RULES_FOLDER, load, load_strict, parse
from skewscope.rules.rules_page import format_page

known = cache(catalogue)
FILES = sorted(path.stem for path in case_file.CASES_FOLDER.glob("*.yaml"))
RULE = "tp-straggler-on-the-wire"
BESIDE = ("pp-bubble-on-the-wire", "fabric-loss-on-the-wire")


@cache
def cases(rule):
    """The cases of a rule."""
    found, problems = case_file.load(known(), of=(rule,))
    assert not problems
    return found[rule]


def test_every_rule_has_cases_and_nothing_is_wrong_with_any():
    assert set(FILES) == set(load_strict(known()))
    assert lint_folder(known()) == []


# All cases of all rules are run by `skewscope rules test`.
@pytest.mark.parametrize("rule", [RULE, *FILES[::8]])
def test_a_rule_says_what_its_cases_expect(rule):
    told = run_cases(rules_by_id(), [cases(rule)], known())
    assert [(each.case, each.faults) for each in told if not each.is_ok] == []


@cache
def rules_by_id():
    return load_strict(known())


SLOWLY = [pytest.param(rule, marks=pytest.mark.slow) for rule in ("burst-admission-backlog-in-the-engine", RULE)]


@pytest.mark.parametrize("rule", ["ingress-loss-on-the-wire", *SLOWLY])
def test_a_case_goes_the_same_alone_and_beside_the_others(rule):
    # Also where it goes wrong: a changed rule fails some of them.
    changed = next(m.rule for m in generate_mutants(rules_by_id()[rule]) if "left out" in m.change)
    for tried in (rules_by_id()[rule], replace(changed, id=rule)):
        beside = run_cases({rule: tried}, [cases(rule)], known())
        alone = [run_cases({rule: tried}, [replace(cases(rule), cases=(each,))], known()) for each in cases(rule).cases]
        assert beside == [result for results in alone for result in results]


# `skewscope rules mutate` tries the changes of all rules.
@pytest.mark.parametrize("rule", ["ingress-loss-on-the-wire", pytest.param(RULE, marks=pytest.mark.slow)])
def test_most_changes_to_a_rule_make_a_case_fail(rule):
    every = list(generate_mutants(rules_by_id()[rule]))
    kept = [m.change for m in select_survivors(every, cases(rule).cases, known())]
    assert len(kept) <= len(every) / 10, kept


@pytest.mark.parametrize(
    "rule",
    ["collective-hang-on-the-wire", pytest.param("decode-early-stop-skew-in-the-engine", marks=pytest.mark.slow)],
)
def test_changes_are_noticed_as_if_each_went_through_all_cases_alone(rule):
    every = list(generate_mutants(rules_by_id()[rule]))
    told = [run_cases({rule: m.rule}, [cases(rule)], known()) for m in every]
    alone = [m.change for m, results in zip(every, told, strict=True) if all(each.is_ok for each in results)]
    together = [m.change for m in select_survivors(every, cases(rule).cases, known())]
    assert together == alone
    assert 0 < len(together) < len(every)


def test_a_change_that_matters_is_noticed_and_one_that_does_not_is_not():
    (late,) = [m for m in generate_mutants(rules_by_id()[RULE]) if m.change == "rank_is_late: left out"]
    assert select_survivors([late], cases(RULE).cases, known()) == []
    assert select_survivors([late], [], known()) == [late]


def changed(tmp_path: Path, old: str, new: str, rule: str = RULE) -> tuple[Path, int]:
    """A copy of a few rules with one of them changed, and the line of the change."""
    folder = tmp_path / "rules"
    (folder / "cases").mkdir(parents=True)
    (folder / "policies").mkdir()
    for name in {RULE, *BESIDE, rule}:
        for file in (f"{name}.yaml", f"cases/{name}.yaml"):
            shutil.copy(RULES_FOLDER / file, folder / file)
    path = folder / f"{rule}.yaml"
    text = path.read_text()
    assert text.count(old) >= 1
    path.write_text(text.replace(old, new, 1))
    return folder, text[: text.index(old)].count("\n") + 1


WRONG = {
    "an unknown signal": ("wire.last_sender_share, 4*s", "wire.last_sender_shar, 4*s", "wire.last_sender_share"),
    "a unit error": ("> 0.6", "> 0.6*packets", ""),
    "a time compared with bytes": ("> 10*percent", "> 10*MB", ""),
    "an unknown function": ("mean(wire.last_sender_share", "meen(wire.last_sender_share", "mean"),
    "an unknown unit": ("> 10*percent", "> 10*precent", "percent"),
    "a misspelt field": ("maturity:", "maturty:", "maturity"),
    "an unknown condition": ("condition: tp-straggler", "condition: tp-stragler", "tp-straggler"),
    "another id than the file's": (f"id: {RULE}", "id: other-rule", ""),
    "an unknown vantage": ("vantage: dpu", "vantage: moon", ""),
    "a score that cannot be reached": ("fire: {score: 5", "fire: {score: 50", ""),
    "a call of Python": ("> 0.6", "> __import__('os').getpid()", ""),
    "a weight below zero": ("for: 3", "for: -3", ""),
    "no YAML": ("evidence:", "evidence: [", ""),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_fault_in_a_rule_is_told_with_file_and_line_and_gives_no_rule(tmp_path, what):
    old, new, meant = WRONG[what]
    folder, line = changed(tmp_path, old, new)
    found, _ = load(known(), folder)
    told = [fault for fault in lint_folder(known(), folder) if fault.file == f"rules/{RULE}.yaml"]
    assert told
    assert any(abs(fault.line - line) <= (40 if what == "no YAML" else 2) for fault in told), told
    assert meant in " ".join(map(str, told))
    if what != "a score that cannot be reached":
        assert RULE not in found
        with pytest.raises(InputError):
            load_strict(known(), folder)


@pytest.mark.parametrize(
    ("rule", "old", "new", "said"),
    [
        ("head-of-line-blocking-at-a-port", "    required: by_score\n", "", "reach 4 of the score 6"),
        (
            RULE,
            "name: rounds_take_longer\n",
            "name: rounds_take_longer\n    required: by_score\n",
            "no mark, since the other",
        ),
    ],
)
def test_an_item_is_marked_where_the_score_demands_it(tmp_path, rule, old, new, said):
    folder, _ = changed(tmp_path, old, new, rule)
    found = [str(fault) for fault in lint_folder(known(), folder) if fault.file == f"rules/{rule}.yaml"]
    assert any(said in fault for fault in found), found


def test_an_item_that_the_score_demands_is_needed_but_does_not_exclude():
    items = rules_by_id()["head-of-line-blocking-at-a-port"].evidence
    assert [(item.required, item.required_by_score, item.is_needed) for item in items[:2]] == [
        (True, False, True),
        (False, True, True),
    ]


def test_a_rule_with_lets_is_the_same_rule():
    before = rules_by_id()[RULE]
    path = RULES_FOLDER / f"{RULE}.yaml"
    text = re.sub(r"^let:\n(?:  .*\n)+", "", path.read_text(), flags=re.MULTILINE)
    for let in reversed(before.lets):
        text = re.sub(rf"(?<![\w.]){let.name}\b", f"({let.text})", text)
    rule, problems = parse(yamlfile.parse(text, path.name), known(), RULE)
    assert not problems
    assert before.lets
    assert not rule.lets
    assert [item.when for item in rule.evidence] == [item.when for item in before.evidence]
    assert (rule.applies_when, rule.impact, rule.peers) == (before.applies_when, before.impact, before.peers)
    assert rule.hash == before.hash
    assert before.evidence[0].full_text.endswith(" where onset_lag = mean(wire.onset_lag, 2*s)")


@pytest.mark.parametrize(
    ("let", "said"),
    [
        ("late: wire.onset_lagg", "wire.onset_lag'"),
        ("late: wire.onset_lag + 1", "s beside a number without unit"),
        ("mean: wire.onset_lag", "a function"),
        ("late: 1*s\n  later: wire.onset_lag > late", "nothing uses"),
        ("late: 2 * early\n  early: wire.onset_lag", "an unknown name 'early'"),
    ],
)
def test_a_fault_in_a_let_has_its_line(tmp_path, let, said):
    folder, line = changed(tmp_path, "let:\n", f"let:\n  {let}\n")
    found = [p for p in lint_folder(known(), folder) if said in str(p)]
    assert found
    assert all(line < problem.line <= line + 2 for problem in found)


def test_all_faults_of_all_files_are_told_at_once(tmp_path):
    folder, _ = changed(tmp_path, "> 0.6", "> 0.6*packets")
    for name in BESIDE:
        path = folder / f"{name}.yaml"
        path.write_text(path.read_text().replace("mean(", "meen("))
    assert len({fault.file for fault in lint_folder(known(), folder)}) >= 3


def test_the_example_of_the_reference_is_a_rule():
    text = (RULES_FOLDER / "schema" / "rule.md").read_text(encoding="utf-8")
    example = text.partition("```yaml\n")[2].partition("```")[0]
    rule, problems = parse(yamlfile.parse(example, "example.yaml"), known())
    assert not problems
    assert rule.id in rules_by_id()


def test_the_page_of_rules_is_up_to_date():
    page = (Path(__file__).parents[2] / "docs" / "rules.md").read_text(encoding="utf-8")
    assert page == format_page(rules_by_id().values())


def test_evidence_carries_the_definitions_of_its_lets():
    text = build_rule_info(rules_by_id()["fabric-loss-on-the-wire"]).items[0].expr
    assert text == "loss > 0.4*percent where loss = mean(wire.member_retransmit_ratio, 4*s)"
