"""README and catalogue page state figures that the catalogue, the rules and the demo confirm.

Sizes of the catalogue may lag behind by a few entries, so that adding an entry breaks no test.
"""

import re
from pathlib import Path

import pytest

from skewscope.adapters.runtime.replay import ReplayResult
from skewscope.adapters.view.builder import ViewHistory
from skewscope.kb.loader import catalogue
from skewscope.kb.matrix import build_matrix, count_verdicts
from skewscope.rules.loader import load

ROOT = Path(__file__).resolve().parent.parent
README = " ".join((ROOT / "README.md").read_text().split())
PAGE = " ".join((ROOT / "docs" / "catalogue.md").read_text().split())
TOLERANCE = 0.05
"""Share by which a stated size may differ from the actual one."""


def assert_near(pattern: str, *actual: int) -> None:
    """Checks the numbers of the first match of a pattern on the catalogue page."""
    match = re.search(pattern, PAGE)
    assert match, pattern
    for stated, size in zip(match.groups(), actual, strict=True):
        assert abs(int(stated) - size) <= max(3, TOLERANCE * size), f"{match[0]!r}: the catalogue has {size}"


def test_sizes_of_the_catalogue():
    known = catalogue()
    assert_near(
        r"(\d+) conditions of training and inference, (\d+) mitigations, (\d+) signals .* (\d+) symptoms,"
        r" (\d+) findings .* the (\d+) sources behind every number",
        len(known.conditions),
        len(known.mitigations),
        len(known.signals),
        len(known.symptoms),
        len(known.findings),
        len(known.sources),
    )
    rows = sum(c.paper_row == "unverified" for c in known.conditions.values())
    assert_near(r"(\d+) conditions are named after rows of the paper's tables", rows)


def test_number_of_mitigations_with_commands():
    known = catalogue().mitigations.values()
    assert_near(r"(\d+) of the mitigations say what to type", sum(bool(one.commands) for one in known))


def test_visibility_from_a_dpu_and_its_mitigations():
    by = count_verdicts(build_matrix(catalogue()))
    for row, deployment in (
        ("it is the front-end NIC", "dpu-front-end"),
        ("one on every rail", "dpu-every-rail"),
        ("and telemetry of GPUs and engines is relayed", "dpu-relayed"),
    ):
        counts = by[deployment]
        actual = (counts.get(verdict, 0) for verdict in ("visible", "partial", "relayed"))
        assert_near(rf"\| {row} \| (\d+) \| (\d+) \| (\d+) \|", *actual)
    assert_near(r"mitigate (\d+) conditions by itself and help with (\d+)", by["dpu"]["itself"], by["dpu"]["part"])


def test_number_of_conditions_with_rules():
    judged = {rule.condition for rule in load(catalogue())[0].values()}
    assert_near(r"Rules judge (\d+) of the (\d+) conditions", len(judged), len(catalogue().conditions))


def test_the_table_of_the_readme_is_the_demos_result(demo: tuple[ViewHistory, ReplayResult]):
    known, found = catalogue().conditions, demo[1].incidents
    for incident in (one for one in found if one.explained_by is None and one.is_likely):
        row = f"| {known[incident.condition].name} | {incident.kind} {incident.name}"
        assert row in README
        assert f"{incident.confidence:.0%}".replace("%", " %") in README.split(row)[1][:40]


def test_the_first_result_stands_in_the_first_forty_lines():
    lines = (ROOT / "README.md").read_text().splitlines()
    first = "\n".join(lines[:40])
    assert "docs/pictures/" in first
    assert ".venv/bin/skewscope" in first
    assert max(map(len, lines)) <= 130


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda path: path.name)
def test_every_page_is_listed_in_the_index(page):
    assert page.name == "README.md" or f"({page.name})" in (ROOT / "docs" / "README.md").read_text()


def test_the_readme_states_what_the_measurements_and_the_assessment_state():
    text = (ROOT / "docs" / "measurements.md").read_text()
    rows = re.findall(r"^\| (\d+) \| .*? \| (\d+) \| (\d+) \| [\d;\- ]+\|$", text, re.MULTILINE)
    recordings, labels, reported = (sum(map(int, column)) for column in zip(*rows, strict=True))
    stated = f"Of {labels} faults in {recordings} recordings that others made, it reported {reported} at the first try"
    assert stated in README
    for page in ("measurements.md", "assessment.md"):
        shown = (ROOT / "docs" / page).read_text()
        single, pairs = re.search(r"\| macro F1 \| (0\.\d\d) \| (0\.\d\d) \|", shown).groups()
        assert f"macro F1 is {single} for single faults and {pairs} for pairs" in README, page
        assert "--quiet-days 100 --seed 7" in shown, page
