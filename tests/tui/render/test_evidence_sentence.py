"""Evidence is told in words; whatever text it is, nothing raises."""

import re
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from skewscope.kb.loader import catalogue
from skewscope.rules.loader import load_builtin
from skewscope.tui.render.evidence_sentence import evidence_sentence
from skewscope.tui.render.sentence_terms import SignalWords, words_of_catalogue

WORDS = {
    "wire.onset_lag": SignalWords("How late a member begins to send", "s", "rank"),
    "gpu.clock": SignalWords("SM clock", "MHz", "gpu"),
    "gpu.xid": SignalWords("Last driver error of the GPU", "1", "gpu", is_state=True),
    "wire.rtt": SignalWords("Round-trip time, at worst", "s", "port"),
    "port.tx": SignalWords("Bytes sent by the port", "By", "port"),
    "port.rx": SignalWords("Bytes received by the port", "By", "port"),
    "port.down": SignalWords("Times the link went down", "{event}", "port"),
    "port.carrier": SignalWords("Carrier of the port", "1", "port", is_state=True),
    "host.stall": SignalWords("Time in which some task waited", "us", "node"),
    "serve.waiting": SignalWords("Requests waiting", "{request}", "replica"),
    "serve.running": SignalWords("Requests being computed", "{request}", "replica"),
    "serve.failed": SignalWords("Requests that failed", "{request}", "replica"),
}
SENTENCES = [
    tuple(pair.split("\n"))
    for pair in Path(__file__).with_name("evidence_sentences.txt").read_text().strip().split("\n\n")
]
"""Expressions, each with its sentence."""


def said(text):
    return evidence_sentence(text, WORDS.get)


@pytest.mark.parametrize(("text", "expected"), SENTENCES)
def test_expressions_in_words(text, expected):
    assert said(text) == expected


@given(st.text(max_size=60))
@example("1 > 2")
@example("x / 0 > 1 * y / 0")
@example("- - - a.b ** 2 > 1e400")
@example("mean() > 1")
@example("slope(a.b) * 3*s > 1")
@example("1 < 2 < 3 < 4")
@example("a.b > 1 where a = a.b; b = b")
@example("x where x = x")
@example("rate(a.b) / rate(a.b) > 1 and change(a.b) > 1 and age(a.b) > 1 and jitter(a.b) > 1")
@example("quantile(a.b, 0.5) > 1 or burst(a.b) > 2 or maximum(a.b) > 2")
def test_any_text_is_told_somehow(text):
    assert isinstance(said(text), str)


def builtin_sentences():
    known = catalogue()
    words = words_of_catalogue(known)
    for rule in load_builtin(known)[0].values():
        for item in rule.evidence:
            yield rule.id, item.name, evidence_sentence(item.full_text, words)


def test_every_sentence_of_the_rules_is_plain_english():
    language = re.compile(r"[()<>=*_{}\[\]]|\bper_s\b|\b\w+\.\w+_\w+|percent\b")
    clumsy = re.compile(
        r"\bof of\b|\bthe the\b|\bnot:|\bis are\b|\bthe how\b|, ,|,,|  |\btimes s\b|\bof \d+ \w+ is\b|\b(\w{4,}) \1\b"
        r"|\bof its peers, is\b|(?<![.\d])1 times\b|\bnan\b|\binf\b"
    )
    bad = [one for one in builtin_sentences() if language.search(one[2]) or clumsy.search(one[2])]
    assert not bad
    too_long = [
        one for one in builtin_sentences() if len(one[2]) > 420 or not one[2][0].isupper() or one[2][0] == "Xid"
    ]
    assert not [one for one in too_long if not one[2].startswith("RDMA")]


def test_most_sentences_say_what_holds_and_not_only_what_is_looked_at():
    found = [text for _, _, text in builtin_sentences()]
    summed_up = [text for text in found if text.startswith(("Looks at ", "Compares "))]
    assert len(summed_up) < 0.3 * len(found)
