"""Policies as files: read, told what is wrong, compiled inside the profile, checked against the catalogue."""

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewscope.engine.advice.advice import build_fact, encode_value, fnv1a32
from skewscope.engine.advice.policy import MAX_CONSTANTS, MAX_HITS, MAX_RULES, RESERVED, compile_policies
from skewscope.kb import loader as house
from skewscope.kb import yamlfile
from skewscope.kb.problems import InputError
from skewscope.rules.policy import FACTS, PACKAGE_FOLDER, FactProperty, check_references, load, parse
from tests.support.incidents import catalogue
from tests.support.policies import diagnosis, policy, written

GOOD = """\
id: move-work
when:
  - {fact: diagnosis, condition: late, severity: [warning, critical]}
  - {fact: topology, entity: same, members: {at_least: 3}}
unless: {fact: maintenance, entity: same}
advise: {mitigation: rest, why: "{entity} is late and others wait for it."}
priority: 10
"""

LATE = {"fact": "diagnosis", "condition": "late"}


def problems(text):
    with pytest.raises(InputError) as caught:
        compile_policies([written(text)])
    return [str(problem) for problem in caught.value.problems]


def test_a_policy_compiles_to_one_rule_for_each_choice():
    made = compile_policies([written(GOOD)])
    assert [rule.when[0].tests[0].value for rule in made.rules] == [1, 2]
    assert {rule.when[0].kind for rule in made.rules} == {"diagnosis:late"}
    assert made.rules[0].unless is not None
    assert (made.rules[0].conclusion.mitigation, made.rules[0].conclusion.priority, made.depth) == ("rest", 10, 1)
    assert made.by_kind == {"diagnosis:late": (0, 1), "maintenance": (0, 1), "topology": (0, 1)}


def test_patterns_on_one_kind_become_one_pattern_since_they_are_about_one_fact():
    twice = {"fact": "diagnosis", "entity": "same", "condition": ["late", "full"], "confidence": {"above": 0.5}}
    made = compile_policies([policy(id="p", when=[{**LATE, "severity": "info"}, twice])])
    kinds = [[(shape.kind, len(shape.tests)) for shape in rule.when] for rule in made.rules]
    assert kinds == [[("diagnosis:late", 2)], [("diagnosis:late", 1), ("diagnosis:full", 1)]]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param("when:", "wenn:", "p.yaml:2: wenn: found an unknown field 'wenn'", id="misspelt field"),
        pytest.param("when:", "wenn:", "Did you mean 'when'?", id="and what was meant"),
        pytest.param(
            "severity:", "severty:", "p.yaml:3: when[0].severty: found an unknown field", id="no such property"
        ),
        pytest.param("[warning, critical]", "[warnin]", "found 'warnin', expected one of info, warning", id="choice"),
        pytest.param("condition: late, ", "", "p.yaml:3: when[0].condition: found no field 'condition'", id="no kind"),
        pytest.param("condition: late", "condition: {not: late}", "expected an id or a list of ids", id="open kind"),
        pytest.param("{at_least: 3}", "{at_least: 2.5}", "found 2.5, expected a whole number", id="count"),
        pytest.param("{at_least: 3}", "{at_least: .nan}", "found .nan, expected a finite number", id="not a number"),
        pytest.param(
            "{at_least: 3}", "{like: 3}", "expected a value, a list of values, or comparisons", id="no such op"
        ),
        pytest.param("members: {at_least: 3}", "parallelism: {above: a}", "Text has no order.", id="text has no order"),
        pytest.param("members: {at_least: 3}", "front_end: yes", "Quote yes and no.", id="yes and no"),
        pytest.param(
            "severity: [warning, critical]", "confidence: .inf", "found .inf, expected a finite number", id="infinite"
        ),
        pytest.param("entity: same, members", "entity: other, members", "expected 'same'", id="another join"),
        pytest.param(", entity: same, members", ", members", "found a pattern joined to nothing", id="no join"),
        pytest.param("late, ", "late, entity: same, ", "expected no `entity` in the first pattern", id="joined first"),
        pytest.param(
            "fact: topology", "fact: topolgy", "members: found an unknown field", id="properties of a stranger"
        ),
        pytest.param("fact: maintenance", "fact: maintenace", "Did you mean 'maintenance'?", id="no such fact"),
        pytest.param("priority: 10", "priority: ten", "p.yaml:7: priority: found text, expected integer", id="type"),
        pytest.param("advise:", "derive: {fact: x}\nadvise:", "expected exactly one of them", id="two outcomes"),
        pytest.param(
            "is late", "is\\elate", "p.yaml:6: advise.why: found a character that does not print", id="escapes"
        ),
        pytest.param("id: move-work", "id: Move Work", "expected lower-case words joined by hyphens", id="id"),
        pytest.param("mitigation: rest, ", "", "advise: found no field 'mitigation', expected it", id="missing field"),
        pytest.param("{fact: maintenance, entity: same}", "[]", "unless: found a list", id="unless is one pattern"),
        pytest.param(
            "unless: {fact: maintenance", "unless: {fact: diagnosis, condition: [a, b]", "expected one value", id="or"
        ),
        pytest.param(
            "{fact: maintenance, entity: same}",
            "{fact: topology, entity: same, nodes: 9}",
            "p.yaml:5: unless: found a kind of fact that `when` asks for, too",
            id="one fact for and against",
        ),
        pytest.param(
            "  - {fact: topology",
            "  - {fact: maintenance, entity: same}\n  - {fact: maintenance, entity: same}\n  - {fact: topology",
            "p.yaml:2: when: found 5 patterns, expected at most 4",
            id="too many patterns",
        ),
        pytest.param(
            "{fact: diagnosis, condition: late, severity: [warning, critical]}",
            "{fact: maintenance}",
            "found 'maintenance', expected a diagnosis",
            id="advice about nothing",
        ),
        pytest.param(
            "condition: late",
            f"condition: [{', '.join(f'c{n}' for n in range(40))}]",
            "found lists that make 80 rules",
            id="too many choices",
        ),
        pytest.param(
            "condition: late",
            f"condition: [{', '.join(f'c{n}' for n in range(5000))}]",
            f"found lists that make more than {MAX_RULES} rules",
            id="far too many choices",
        ),
    ],
)
def test_what_is_wrong_is_told_with_its_line_and_what_was_expected(old, new, expected):
    assert old in GOOD
    found = problems(GOOD.replace(old, new, 1))
    assert any(expected in one for one in found), found
    assert all(one.startswith("p.yaml:") for one in found)


def test_all_faults_are_told_at_once():
    assert len(problems(GOOD.replace("[warning, critical]", "grave").replace("{at_least: 3}", "many"))) == 2


def deriving(name, asked, **derive):
    return policy(id=name, when=[asked], derive=derive)


def refused(*policies):
    with pytest.raises(InputError) as caught:
        compile_policies(policies)
    return str(caught.value)


def test_deriving_in_a_circle_is_refused():
    told = refused(deriving("a", {"fact": "y"}, fact="x"), deriving("b", {"fact": "x"}, fact="y"))
    assert "'x', which depends on itself" in told
    assert "'y', which depends on itself" in told
    assert "depends on itself" in refused(deriving("a", LATE, diagnosis="late"))


def test_layers_of_derived_facts_are_counted():
    made = compile_policies([deriving("a", LATE, fact="x"), deriving("b", {"fact": "x"}, fact="y")])
    assert made.depth == 3


def test_a_derived_fact_takes_no_name_of_the_engine():
    assert "a name that the engine does not use itself" in refused(deriving("a", LATE, fact="topology"))


def test_one_id_for_two_policies_is_refused():
    assert "'a' 2 times" in refused(deriving("a", LATE, fact="x"), deriving("a", LATE, fact="y"))


def test_names_with_the_same_hash_are_refused():
    assert fnv1a32("costarring") == fnv1a32("liquid")
    makers = [deriving("m1", LATE, fact="costarring"), deriving("m2", LATE, fact="liquid")]
    users = [deriving("u1", {"fact": "costarring"}, fact="x"), deriving("u2", {"fact": "liquid"}, fact="y")]
    assert "whose 32-bit hash is that of" in refused(*makers, *users)


def test_the_properties_of_all_facts_have_hashes_of_their_own():
    names = {*RESERVED, *(p for kind in FACTS.values() for p in kind.properties)}
    assert len({fnv1a32(name) for name in names}) == len(names)


def test_many_policies_are_split_into_rulesets_that_keep_every_limit():
    shared = {"fact": "topology", "entity": "same"}
    made = compile_policies(
        policy(id=f"p{n}", when=[{"fact": "diagnosis", "condition": f"c{n}"}, *([shared] if n % 2 else [])])
        for n in range(700)
    )
    assert sorted(n for numbers in made.rulesets for n in numbers) == list(range(700))
    for numbers in made.rulesets:
        shapes = [shape for n in numbers for shape in made.rules[n].patterns()]
        assert len(numbers) <= MAX_RULES
        assert len({shape.kind for shape in shapes}) <= MAX_CONSTANTS
        assert sum(shape.kind == "topology" for shape in shapes) <= MAX_HITS


def test_a_negation_counts_twice_since_it_has_a_twin():
    blocked = {"fact": "maintenance", "entity": "same"}
    made = compile_policies(
        policy(id=f"p{n}", when=[{"fact": "diagnosis", "condition": f"c{n}"}], unless=blocked) for n in range(100)
    )
    assert max(len(numbers) for numbers in made.rulesets) == MAX_HITS // 2


def test_a_fact_has_exactly_the_properties_of_its_kind_as_whole_numbers_or_text():
    one = diagnosis("late", "rank A:n1", "critical", 0.8)
    assert one.kind == "diagnosis:late"
    assert one.values == (
        *(("confidence", 800), ("coverage", 1000), ("error", 0), ("moves", 0)),
        *(("scope", "rank"), ("severity", 2)),
    )
    with pytest.raises(ValueError, match="a maintenance has"):
        build_fact("maintenance", "node n1", values={"until": 5})


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e300])
def test_numbers_that_cannot_be_compared_are_refused(value):
    with pytest.raises(ValueError, match="cannot be compared"):
        encode_value(FactProperty("number"), value)


@given(st.floats(0, 1))
def test_numbers_become_thousandths(value):
    assert abs(encode_value(FactProperty("number"), value) - value * 1000) <= 0.5


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda x: (
            st.lists(x, max_size=3)
            | st.dictionaries(
                st.sampled_from(["id", "when", "unless", "advise", "derive", "fact", "entity", "condition"]), x
            )
        ),
    )
)
def test_nothing_that_yaml_can_hold_makes_the_reader_fail_otherwise_than_by_problems(data):
    document = yamlfile.Document("p.yaml", data)
    found = None
    with contextlib.suppress(InputError):
        found = parse(document)
    assert found is None or found.when


def test_policies_are_found_in_a_folder_and_faults_do_not_hide_the_rest(tmp_path: Path):
    (tmp_path / "move-work.yaml").write_text(GOOD)
    (tmp_path / "other.yaml").write_text(GOOD)
    (tmp_path / "broken.yaml").write_text("when: [")
    found, faults = load(tmp_path)
    assert [p.id for p in found] == ["move-work"]
    assert [Path(fault.file).name for fault in faults] == ["broken.yaml", "other.yaml"]
    assert "The id is the name of the file." in str(faults[1])


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("rest", "rst", "advise.mitigation: found 'rst', expected the id of a mitigation. Did you mean 'rest'?"),
        ("late,", "lte,", "when[0].condition: found 'lte', expected the id of a condition. Did you mean 'late'?"),
        (
            'advise: {mitigation: rest, why: "{entity} is late and others wait for it."}',
            "derive: {diagnosis: bubbl}",
            "derive.diagnosis: found 'bubbl', expected the id of a condition. Did you mean 'bubble'?",
        ),
        (
            "{fact: maintenance, ",
            "{fact: tried, mitigation: rust, ",
            "unless.mitigation: found 'rust', expected the id of a mitigation. Did you mean 'rest'?",
        ),
    ],
)
def test_what_the_catalogue_does_not_have_is_told(old, new, expected):
    assert check_references([written(GOOD)], catalogue()) == []
    (found,) = check_references([written(GOOD.replace(old, new, 1))], catalogue())
    assert expected in str(found)


def test_advice_that_a_condition_does_not_list_is_told():
    known = catalogue()
    swap = known.mitigations["rest"]
    known.mitigations["swap"] = swap
    (found,) = check_references([written(GOOD.replace("mitigation: rest", "mitigation: swap"))], known)
    assert "expected one of the mitigations of late (rest)" in str(found)


def test_the_policies_of_the_house_are_sound_and_fit_the_profile():
    found, faults = load()
    assert faults == []
    made = compile_policies(found)
    assert made.rules
    assert {p.document.file for p in found} == {f"policies/{p.id}.yaml" for p in found}


def test_the_policies_of_the_house_name_only_what_the_catalogue_has():
    known, faults = house.load()
    found, _ = load()
    assert faults == ()
    assert [str(problem) for problem in check_references(found, known)] == []


def test_every_condition_that_a_rule_recognises_has_advice():
    advised = {topic for p in load()[0] if p.mitigation for topic in p.when[0].topics}
    recognised = {yamlfile.read(path).data["condition"] for path in PACKAGE_FOLDER.glob("*.yaml")}
    assert recognised
    assert recognised <= advised
