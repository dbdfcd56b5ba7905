"""No file that people write may hold a number without meaning: a rule with such a score would never fire."""

import shutil

import pytest

from skewscope.kb.loader import catalogue
from skewscope.kb.problems import InputError
from skewscope.kb.yamlfile import parse
from skewscope.rules.lint import lint_folder
from skewscope.rules.loader import RULES_FOLDER

RULE = "tp-straggler-on-the-wire.yaml"


@pytest.mark.parametrize("number", [".nan", ".NaN", ".inf", "-.inf", "+.Inf", "1.0e+999", "-1.0e+400"])
def test_a_number_that_is_none_or_has_no_end_is_told_at_its_field(number):
    with pytest.raises(InputError) as caught:
        parse(f"version: 1\nlist:\n- {{score: {number}, hold: 1}}\n", "file.yaml")
    assert str(caught.value).startswith(f"file.yaml:3: list[0].score: found {number}, expected a finite number.")


def test_a_text_that_reads_so_may_stand_in_quotes():
    assert parse("name: '.nan'\nother: nan\n").data == {"name": ".nan", "other": "nan"}


def test_the_lint_of_rules_tells_a_score_that_no_evidence_reaches(tmp_path):
    shutil.copy(RULES_FOLDER / RULE, tmp_path)
    text = (tmp_path / RULE).read_text()
    (tmp_path / RULE).write_text(text.replace("fire: {score: ", "fire: {score: .nan, was: "))
    (problem,) = [one for one in lint_folder(catalogue(), tmp_path) if one.field == "fire.score"]
    assert (problem.found, problem.expected) == (".nan", "a finite number")
