"""What the README says in figures is what the catalogue and the rules hold."""

from pathlib import Path

from skewscope.kb.loader import catalogue
from skewscope.kb.matrix import build_matrix, count_verdicts
from skewscope.rules.loader import load

README = " ".join((Path(__file__).parent.parent / "README.md").read_text().split())


def test_how_many_entries_there_are():
    known = catalogue()
    sizes = (
        f"{len(known.conditions)} conditions of training and inference, {len(known.mitigations)} mitigations,"
        f" {len(known.signals)} signals with their names in each exporter, {len(known.findings)} findings"
    )
    assert sizes in README
    assert f"the {len(known.sources)} sources behind every number" in README
    rows = sum(c.paper_row == "unverified" for c in known.conditions.values())
    assert f"{rows} conditions are named after the rows of the paper's tables" in README


def test_what_a_dpu_sees_and_could_do():
    by = count_verdicts(build_matrix(catalogue()))
    front, rails, relayed = (by[name] for name in ("dpu-front-end", "dpu-every-rail", "dpu-relayed"))
    assert f"front-end NIC {front['visible']} of the conditions are visible and {front['partial']} in part" in README
    assert f"on every rail {rails['visible']} and {rails['partial']}" in README
    told = f"relayed {relayed['visible']} and {relayed['partial']}, and {relayed['relayed']} by that telemetry alone"
    assert told in README
    assert f"mitigate {by['dpu']['itself']} by itself and help with {by['dpu']['part']}" in README


def test_how_many_conditions_rules_judge():
    judged = {rule.condition for rule in load(catalogue())[0].values()}
    assert f"Rules judge {len(judged)} of the {len(catalogue().conditions)} conditions" in README
