"""Searching the catalogue by words."""

import json
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skewscope.kb.entry_kinds import KINDS
from skewscope.kb.loader import catalogue
from skewscope.kb.query import describe
from skewscope.kb.search import SearchIndex, search


@cache
def index():
    return SearchIndex(catalogue())


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
    assert index().search(words)[0].id == first


def test_a_word_of_the_name_counts_more_than_one_in_passing():
    hits = [hit.id for hit in index().search("straggler", "conditions")]
    assert hits[0] == "tp-straggler"
    assert {"pp-bubble", "egress-jitter"} <= set(hits[1:])


def test_more_words_that_fit_make_a_better_hit():
    one, two = (index().search(words)[0] for words in ("congestion", "congestion oversubscription"))
    assert one.id == two.id == "fabric-congestion"
    assert two.score > one.score


def test_a_known_word_is_never_taken_for_a_misspelling_of_another():
    hits = {hit.id for hit in index().search("optics", most=200)}
    texts = {hit.id: json.dumps(describe(catalogue(), hit.id)).lower() for hit in index().search("optics", most=200)}
    assert hits
    assert all("optics" in text for text in texts.values())


@pytest.mark.parametrize("kind", KINDS)
def test_a_search_can_be_kept_to_one_kind(kind):
    hits = index().search("link", kind)
    assert hits
    assert {hit.kind for hit in hits} == {kind}


def test_hits_carry_name_and_falling_scores_and_no_more_than_asked_for():
    hits = index().search("retransmission", most=5)
    assert len(hits) == 5
    assert all(hit.name == describe(catalogue(), hit.id, hit.kind).get("name", hit.name) for hit in hits)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


@pytest.mark.parametrize("words", ["", "   ", "qqqqqq", "!?*", "x" * 100_000])
def test_words_that_are_nowhere_find_nothing(words):
    assert search(catalogue(), words) == ()


@settings(max_examples=25, deadline=None)
@given(st.text(max_size=60))
def test_any_text_can_be_searched_and_gives_the_same_each_time(text):
    assert index().search(text) == index().search(text)


def test_a_new_index_ranks_alike():
    assert search(catalogue(), "slow link") == index().search("slow link")


class Patient(SearchIndex):
    """Looks every word up anew and compares a misspelt one with all there are."""

    def _score_word(self, word):
        return self._compute_scores(word)

    def _candidate_words(self, word):
        return self._words


@cache
def patient():
    return Patient(catalogue())


@st.composite
def typed(draw):
    """Words of the catalogue, some of them misspelt or cut short."""

    def word():
        known = draw(st.sampled_from(patient()._words))
        at = draw(st.integers(0, len(known)))
        letter = draw(st.sampled_from("abcdefgilmnoprstu2"))
        changed = [known, known[:at], known[:at] + known[at + 1 :], known[:at] + letter + known[at:]]
        changed += [known[:at] + known[at : at + 2][::-1] + known[at + 2 :], known[:at] + letter + known[at + 1 :]]
        return draw(st.sampled_from(changed))

    return " ".join(word() for _ in range(draw(st.integers(1, 3))))


@settings(max_examples=25, deadline=None)
@given(typed())
def test_what_is_quickly_found_is_what_patience_finds(text):
    assert index().search(text) == patient().search(text)
