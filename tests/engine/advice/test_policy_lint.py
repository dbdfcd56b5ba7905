"""A folder of policies, linted: every fault with file and line, what was expected, and a hint."""

from pathlib import Path

import pytest

from skewscope.engine.advice.policy_lint import lint_policies
from skewscope.kb import loader as house
from skewscope.rules.policy import load
from tests.support.incidents import catalogue
from tests.support.policies import policy

PLAIN = """\
id: plain
when:
  - {fact: diagnosis, condition: late}
advise: {mitigation: rest, why: "{entity} is late, and others wait for it."}
work: both
"""

GOOD = """\
id: good
when:
  - {fact: diagnosis, condition: late, severity: {at_least: warning}, confidence: {at_least: 0.5}}
  - {fact: topology, entity: same, members: {at_least: 3}}
unless: {fact: maintenance, entity: same}
advise: {mitigation: rest, why: "{entity} is late, and others wait for it."}
priority: 10
work: both
"""


def told(folder: Path) -> list[str]:
    found, faults = load(folder)
    return [str(problem) for problem in [*faults, *lint_policies(found, catalogue())]]


def test_good_policies_have_no_faults(tmp_path):
    (tmp_path / "plain.yaml").write_text(PLAIN)
    (tmp_path / "good.yaml").write_text(GOOD)
    assert told(tmp_path) == []


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(
            "condition: late",
            "condition: latte",
            ":3: when[0].condition: found 'latte', expected the id of a condition. Did you mean 'late'?",
            id="unknown condition",
        ),
        pytest.param(
            "mitigation: rest",
            "mitigation: rst",
            ":6: advise.mitigation: found 'rst', expected the id of a mitigation. Did you mean 'rest'?",
            id="unknown mitigation",
        ),
        pytest.param(
            "mitigation: rest",
            "mitigation: swap",
            ":6: advise.mitigation: found 'swap', expected one of the mitigations of late (rest). Add it to",
            id="not a mitigation of it",
        ),
        pytest.param(
            "fact: maintenance",
            "fact: maintainance",
            ":5: unless.fact: found 'maintainance', expected one of budget-spent, diagnosis, maintenance, topology, "
            "tried. Did you mean 'maintenance'?",
            id="unknown kind of fact",
        ),
        pytest.param(
            "fact: maintenance",
            "fact: tried, mitigation: rust",
            ":5: unless.mitigation: found 'rust', expected the id of a mitigation. Did you mean 'rest'?",
            id="unknown mitigation that was tried",
        ),
        pytest.param(
            "members:", "member:", ":4: when[1].member: found an unknown field 'member', expected", id="no property"
        ),
        pytest.param("members:", "member:", "Did you mean 'members'?", id="and which was meant"),
        pytest.param(
            "{at_least: warning}", "grave", ":3: when[0].severity: found 'grave', expected one of info", id="no choice"
        ),
        pytest.param(
            ", entity: same, members",
            ", members",
            ":4: when[1]: found a pattern joined to nothing, expected `entity: same`. Joins are by equality",
            id="a join that is none",
        ),
        pytest.param(
            "{fact: maintenance, entity: same}",
            "{fact: diagnosis, condition: [late, lossy], entity: same}",
            ":5: unless: found a list, expected one value. Derive a fact from the list",
            id="a negation of several",
        ),
        pytest.param(
            "confidence: {at_least: 0.5}",
            "confidence: {at_least: 0.5, below: 0.5}",
            ":3: when[0].confidence: found limits that no value keeps, expected some room",
            id="limits that exclude each other",
        ),
        pytest.param(
            "{at_least: warning}",
            "{above: critical}",
            ":3: when[0].severity: found limits that no value keeps",
            id="above the highest",
        ),
        pytest.param(
            "{at_least: 3}", "{below: 0}", ":4: when[1].members: found limits that no value keeps", id="less than none"
        ),
        pytest.param(
            "{at_least: 3}",
            "{at_most: 0, not: 0}",
            ":4: when[1].members: found limits that no value keeps",
            id="the only value taken out",
        ),
        pytest.param(
            "{entity} is late",
            "{node} is late",
            ":6: advise.why: found '{node}', expected only {entity} and {condition} in braces",
            id="a placeholder that nothing fills",
        ),
        pytest.param("{entity} is late", "{entity is late", "expected only {entity} and {condition}", id="open brace"),
        pytest.param(
            'advise: {mitigation: rest, why: "{entity} is late, and others wait for it."}',
            "derive: {fact: hurt}",
            ":6: derive.fact: found 'hurt', expected a fact that some policy asks for. Delete it",
            id="derived for nobody",
        ),
        pytest.param("id: good", "id: god", ":1: id: found 'god', expected 'good'. The id is the name", id="file name"),
        pytest.param("when:\n", "when: [\n", "good.yaml:", id="no YAML"),
    ],
)
def test_what_is_wrong_in_a_file_is_told_with_its_line_and_a_hint(tmp_path, old, new, expected):
    assert old in GOOD
    (tmp_path / "plain.yaml").write_text(PLAIN)
    (tmp_path / "good.yaml").write_text(GOOD.replace(old, new, 1))
    known = catalogue()
    known.mitigations["swap"] = known.mitigations["rest"]
    found, faults = load(tmp_path)
    lines = [str(problem) for problem in [*faults, *lint_policies(found, known)]]
    assert any(expected in line for line in lines), lines
    assert all("good.yaml" in line for line in lines)


def test_faults_of_the_profile_do_not_hide_unknown_names():
    joined = {"fact": "topology", "members": 3}
    (late, other) = ({"fact": "diagnosis", "condition": name} for name in ("latte", "late"))
    lines = [
        str(p) for p in lint_policies([policy(id="a", when=[late]), policy(id="b", when=[other, joined])], catalogue())
    ]
    assert [line.split(" found ")[1].split(",")[0] for line in lines] == ["'latte'", "a pattern joined to nothing"]


@pytest.mark.parametrize(
    ("asked", "where"),
    [
        ([{"fact": "diagnosis", "condition": "late", "severity": {"at_least": "warning"}}], "severity is info"),
        ([{"fact": "diagnosis", "condition": "late", "confidence": {"at_least": 0.6}}], "severity is critical"),
        (
            [
                {"fact": "diagnosis", "condition": "late"},
                {"fact": "topology", "entity": "same", "siblings": {"above": 0}},
            ],
            "siblings is 0",
        ),
        (
            [
                {"fact": "diagnosis", "condition": "late"},
                {"fact": "topology", "entity": "same", "rails": {"at_most": 1}},
            ],
            "rails is 4",
        ),
    ],
)
def test_a_condition_with_advice_has_some_in_every_case(asked, where):
    (fault,) = lint_policies([policy(id="a", when=asked)], catalogue())
    assert "nothing for late where" in fault.found
    assert where in fault.found
    assert lint_policies([policy(id="a", when=asked), policy(id="b", when=[LATE])], catalogue()) == []


LATE = {"fact": "diagnosis", "condition": "late"}


def test_the_policies_of_the_house_pass_every_lint():
    known, _ = house.load()
    found, faults = load()
    assert faults == []
    assert [str(problem) for problem in lint_policies(found, known)] == []


def test_no_policy_but_one_that_asks_for_two_rails_takes_a_link_away():
    isolating = [p for p in load()[0] if p.mitigation == "isolate-link"]
    assert isolating
    for one in isolating:
        assert any(ask.property == "rails" for pattern in one.when for ask in pattern.comparisons)
