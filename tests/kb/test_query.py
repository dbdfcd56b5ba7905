"""Asking the catalogue: one entry, entries by field."""

import json

import pytest

from skewscope.kb.entry_kinds import KINDS
from skewscope.kb.loader import catalogue
from skewscope.kb.problems import InputError
from skewscope.kb.query import describe, entries, find, referencing_entries, select

# One entry.


@pytest.mark.parametrize(
    ("id_", "kind"),
    [("tp-straggler", 0), ("wire.onset_lag", 1), ("isolate-link", 2), ("wang2019gbn", 3)],
)
def test_an_entry_is_found_by_its_id_whatever_its_kind(id_, kind):
    found, value = find(catalogue(), id_)
    assert (found, value.id) == (KINDS[kind], id_)


@pytest.mark.parametrize(
    ("id_", "kind", "hint"),
    [
        ("tp-stragglr", "", "'tp-straggler'"),
        ("wire.onset_lagg", "signals", "'wire.onset_lag'"),
        ("isolate-lnk", "", "'isolate-link'"),
        ("tp-straggler", "signals", ""),
        ("", "", ""),
    ],
)
def test_an_id_that_nothing_has_is_a_problem_with_the_nearest_that_exists(id_, kind, hint):
    with pytest.raises(InputError) as caught:
        find(catalogue(), id_, kind)
    (problem,) = caught.value.problems
    assert hint in problem.hint
    assert problem.found == repr(id_)


def test_a_kind_that_there_is_not_is_a_problem():
    with pytest.raises(InputError, match="Did you mean 'conditions'"):
        entries(catalogue(), "condition")


@pytest.mark.parametrize("kind", KINDS)
def test_every_entry_can_be_shown_as_json(kind):
    for id_ in entries(catalogue(), kind):
        shown = describe(catalogue(), id_, kind)
        assert json.loads(json.dumps(shown)) == shown
        assert shown["entry"] == kind
        assert "file" not in shown


def test_an_entry_shows_what_names_it():
    assert "fabric-loss" in referencing_entries(catalogue(), "mitigations", "isolate-link")["conditions"]
    assert "tp-straggler" in referencing_entries(catalogue(), "signals", "gpu.sm_clock")["conditions"]
    assert "fabric-loss" in referencing_entries(catalogue(), "conditions", "tp-straggler")["conditions"]
    assert referencing_entries(catalogue(), "sources", "wan2025byterobust")["mitigations"]


def test_a_source_of_nothing_but_a_basis_is_used_too():
    assert referencing_entries(catalogue(), "sources", "jiang2025llmprism")["conditions"] == [
        "gpu-fail-slow",
        "pp-bubble",
    ]
    assert referencing_entries(catalogue(), "sources", "ts1355") == {"conditions": ["burst-admission-backlog"]}


# By field.


@pytest.mark.parametrize(
    ("kind", "where"),
    [
        ("conditions", {"group": "east-west"}),
        ("conditions", {"group": "north-south", "grade": "B"}),
        ("conditions", {"scope": "training"}),
        ("conditions", {"mitigations": "isolate-link"}),
        ("conditions", {"observability": "relayed"}),
        ("signals", {"vantage": "gpu", "type": "counter"}),
        ("signals", {"sources": "node_network_receive_drop_total"}),
        ("mitigations", {"actor": "dpu"}),
        ("sources", {"year": "2025", "kind": "paper"}),
    ],
)
def test_entries_are_selected_by_what_their_fields_are_or_hold(kind, where):
    found = select(catalogue(), kind, where)
    assert found
    assert len(found) < len(entries(catalogue(), kind))
    for name, text in where.items():
        assert all(
            f'"{text}"' in json.dumps(describe(catalogue(), one.id, kind)[name]) or text == "2025" for one in found
        )
    assert [one.id for one in found] == sorted(one.id for one in found)


def test_without_a_wish_all_are_selected():
    assert len(select(catalogue(), "sources")) == len(catalogue().sources)


def test_a_field_that_there_is_not_is_a_problem_with_the_nearest_that_exists():
    with pytest.raises(InputError, match="Did you mean 'group'"):
        select(catalogue(), "conditions", {"gruop": "x"})
