"""The matrix says of every condition what each deployment sees and who can help: what the entries say, no more."""

import pytest

from skewscope.kb.loader import catalogue
from skewscope.kb.matrix import ACTORS, DEPLOYMENTS, DPU_CAPABILITIES, build_matrix, count_verdicts
from skewscope.kb.schema_validation import schema

CATALOGUE = catalogue()
ROWS = build_matrix(CATALOGUE)


def test_every_condition_has_its_row():
    assert sorted(row.condition.id for row in ROWS) == list(CATALOGUE.conditions)


def test_groups_stand_together_those_of_the_paper_first():
    groups = list(dict.fromkeys(row.condition.group for row in ROWS))
    assert groups[:3] == ["north-south", "pcie", "east-west"]
    assert len(groups) == len({row.condition.group for row in ROWS})


def test_columns_are_those_of_the_schemas():
    observability = schema("condition")["$defs"]["observability"]["properties"]
    assert list(DEPLOYMENTS) == observability["deployment"]["enum"]
    assert list(ACTORS) == schema("mitigation")["properties"]["actor"]["enum"]
    assert set(DPU_CAPABILITIES) == set(schema("mitigation")["properties"]["dpu"]["properties"]["can"]["enum"])


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.condition.id)
def test_a_row_says_what_its_condition_and_its_mitigations_say(row):
    assert row.verdicts == {o.deployment: o.verdict for o in row.condition.observability}
    named = [id_ for ids in row.actors.values() for id_ in ids]
    assert sorted(named) == sorted(row.condition.mitigations)
    ways = [CATALOGUE.mitigations[id_] for id_ in row.condition.mitigations]
    assert all(CATALOGUE.mitigations[id_].actor == actor for actor, ids in row.actors.items() for id_ in ids)
    assert row.dpu == max((way.dpu.can for way in ways), key=DPU_CAPABILITIES.index)


def test_counts_add_up():
    for counts in count_verdicts(ROWS).values():
        assert sum(counts.values()) == len(ROWS)
