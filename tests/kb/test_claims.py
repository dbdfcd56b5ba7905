"""Every number can be traced; what was measured about something is found by its words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewscope.kb.claims import iter_claims, search_claims, search_sources
from skewscope.kb.loader import catalogue

CATALOGUE = catalogue()


def test_every_claim_leads_to_a_source_with_a_locator_and_says_how_it_was_seen():
    every = list(iter_claims(CATALOGUE))
    assert len(every) > 100
    for told in every:
        source = CATALOGUE.sources[told.claim.source]
        assert source.locator, told
        assert source.title, told
        assert told.claim.text, told
        assert told.claim.seen, told


def test_every_condition_and_measured_mitigation_is_among_them():
    found = {(told.kind, told.id) for told in iter_claims(CATALOGUE)}
    assert {("conditions", c.id) for c in CATALOGUE.conditions.values() if c.impacts} <= found
    assert {("mitigations", m.id) for m in CATALOGUE.mitigations.values() if m.claims} <= found


@pytest.mark.parametrize(
    ("words", "entry"),
    [("kv transfer", "kv-transfer-bottleneck"), ("PFC", "pfc-storm"), ("straggl", "tp-straggler")],
)
def test_claims_are_found_by_words_of_their_own_or_of_their_entry(words, entry):
    assert entry in {told.id for told in search_claims(CATALOGUE, words)}


@pytest.mark.parametrize("words", ["", "   ", "zzzqqq", "kv zzzqqq", "\x00"])
def test_words_that_nothing_holds_find_no_claim(words):
    assert search_claims(CATALOGUE, words) == ()


def test_sources_about_something_are_those_of_its_claims_and_titles():
    pfc = {source.id for source in search_sources(CATALOGUE, "pfc")}
    assert {told.claim.source for told in search_claims(CATALOGUE, "pfc")} <= pfc
    assert pfc < set(CATALOGUE.sources)
    assert {source.id for source in search_sources(CATALOGUE, "")} == set(CATALOGUE.sources)


@given(st.text(max_size=200))
@pytest.mark.slow
def test_any_text_is_answered_and_another_word_never_finds_more(text):
    assert len(search_claims(CATALOGUE, f"{text} straggler")) <= len(search_claims(CATALOGUE, "straggler"))
