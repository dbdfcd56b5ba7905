"""Asking the catalogue: one entry, entries by field, entries by words."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skewscope.kb.kinds import KINDS
from skewscope.kb.load import catalogue
from skewscope.kb.problems import InputError
from skewscope.kb.query import Index, entries, find, search, select, show, users

INDEX = Index(catalogue())

# By words.

ASKED = [
    ("tp-straggler", "tp-straggler"),
    ("straggler tensor", "tp-straggler"),
    ("late rank", "tp-straggler"),
    ("slow worker", "tp-straggler"),
    ("packet loss", "fabric-loss"),
    ("RDMA retransmission", "fabric-loss"),
    ("ECMP collision", "ecmp-hash-collision"),
    ("stage imbalance", "pp-bubble"),
    ("arrival burst", "burst-admission-backlog"),
    ("hot node", "cross-node-load-skew"),
    ("garbage collection", "python-gc-pause"),
    ("silent exporter", "telemetry-blackout"),
    ("cold replica", "ingress-starvation"),
    ("recompute storm", "kv-capacity-preemption-thrash"),
    ("fan-in", "incast-all-to-all"),
    ("wire.onset_lag", "wire.onset_lag"),
    ("WIRE.ONSET_LAG", "wire.onset_lag"),
    ("DCGM_FI_DEV_SM_CLOCK", "gpu.sm_clock"),
    ("lin2025whatif", "lin2025whatif"),
    ("isolate-link", "isolate-link"),
]
MISSPELT = [
    ("stragler", "tp-straggler"),
    ("retransmision fabric", "fabric-loss"),
    ("congestoin", "fabric-congestion"),
    ("preemtion", "kv-capacity-preemption-thrash"),
    ("pipline buble", "pp-bubble"),
    ("jiter", "egress-jitter"),
    ("slow reciever", "nic-slow-receiver"),
    ("garbage colection", "python-gc-pause"),
]
BEGUN = [("strag", "tp-straggler"), ("retrans fabric", "fabric-loss"), ("flapp", "link-flap")]


@pytest.mark.parametrize(("words", "first"), [*ASKED, *MISSPELT, *BEGUN])
def test_what_was_meant_is_found_first(words, first):
    assert INDEX.search(words)[0].id == first


def test_a_word_of_the_name_counts_more_than_one_in_passing():
    hits = [hit.id for hit in INDEX.search("straggler", "conditions")]
    assert hits[0] == "tp-straggler"
    assert {"pp-bubble", "egress-jitter"} <= set(hits[1:])


def test_more_words_that_fit_make_a_better_hit():
    one, two = (INDEX.search(words)[0] for words in ("congestion", "congestion oversubscription"))
    assert one.id == two.id == "fabric-congestion"
    assert two.score > one.score


def test_a_known_word_is_never_taken_for_a_misspelling_of_another():
    hits = {hit.id for hit in INDEX.search("optics", most=200)}
    texts = {hit.id: json.dumps(show(catalogue(), hit.id)).lower() for hit in INDEX.search("optics", most=200)}
    assert hits
    assert all("optics" in text for text in texts.values())


@pytest.mark.parametrize("kind", KINDS)
def test_a_search_can_be_kept_to_one_kind(kind):
    hits = INDEX.search("link", kind)
    assert hits
    assert {hit.kind for hit in hits} == {kind}


def test_hits_carry_name_and_falling_scores_and_no_more_than_asked_for():
    hits = INDEX.search("retransmission", most=5)
    assert len(hits) == 5
    assert all(hit.name == show(catalogue(), hit.id, hit.kind).get("name", hit.name) for hit in hits)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


@pytest.mark.parametrize("words", ["", "   ", "qqqqqq", "!?*", "x" * 100_000])
def test_words_that_are_nowhere_find_nothing(words):
    assert search(catalogue(), words) == ()


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=60))
def test_any_text_can_be_searched_and_gives_the_same_each_time(text):
    assert INDEX.search(text) == INDEX.search(text)


def test_a_new_index_ranks_alike():
    assert search(catalogue(), "slow link") == INDEX.search("slow link")


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
        shown = show(catalogue(), id_, kind)
        assert json.loads(json.dumps(shown)) == shown
        assert shown["entry"] == kind
        assert "file" not in shown


def test_an_entry_shows_what_names_it():
    assert "fabric-loss" in users(catalogue(), "mitigations", "isolate-link")["conditions"]
    assert "tp-straggler" in users(catalogue(), "signals", "gpu.sm_clock")["conditions"]
    assert "fabric-loss" in users(catalogue(), "conditions", "tp-straggler")["conditions"]
    assert users(catalogue(), "sources", "wan2025byterobust")["mitigations"]


def test_a_source_of_nothing_but_a_basis_is_used_too():
    assert users(catalogue(), "sources", "jiang2025llmprism")["conditions"] == ["gpu-fail-slow", "pp-bubble"]
    assert users(catalogue(), "sources", "ts1355") == {"conditions": ["burst-admission-backlog"]}


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
        assert all(f'"{text}"' in json.dumps(show(catalogue(), one.id, kind)[name]) or text == "2025" for one in found)
    assert [one.id for one in found] == sorted(one.id for one in found)


def test_without_a_wish_all_are_selected():
    assert len(select(catalogue(), "sources")) == len(catalogue().sources)


def test_a_field_that_there_is_not_is_a_problem_with_the_nearest_that_exists():
    with pytest.raises(InputError, match="Did you mean 'group'"):
        select(catalogue(), "conditions", {"gruop": "x"})
