"""Evidence is told in words; whatever text it is, nothing raises."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewscope.kb.loader import catalogue
from skewscope.rules.loader import load_builtin
from skewscope.tui.render.evidence_sentence import evidence_sentence

NAMES = {"wire.onset_lag": "Lateness of a member", "gpu.clock": "SM clock", "wire.rate": "Rounds per second"}


def said(text):
    return evidence_sentence(text, lambda id_: NAMES.get(id_, ""))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "peer_z(wire.onset_lag) > 4 and wire.onset_lag > 2*ms",
            "Lateness of a member, against the spread of its peers, is above 4 and lateness of a member is above 2 ms",
        ),
        ("change(wire.rate, 20*s) < -15*percent", "The change of rounds per second within 20 s is below −15 %"),
        ("not gpu.clock >= 80*percent", "Not: SM clock is at least 80 %"),
        ("own.thing > 3", "own.thing is above 3"),
        ("lag > 0.5 * limit where lag = wire.onset_lag; limit = 8*s", "Lag is above 0.5 limit"),
        ("quantile(gpu.clock, 0.5, 9*s) > 1", "Quantile of SM clock, 0.5, 9 s is above 1"),
    ],
)
def test_expressions_in_words(text, expected):
    assert said(text) == expected


@given(st.text(max_size=60))
def test_any_text_is_told_somehow(text):
    assert isinstance(said(text), str)


def test_no_rule_shows_an_operator_to_its_reader():
    known = catalogue()
    names = {id_: signal.name for id_, signal in known.signals.items()}
    told = [
        evidence_sentence(item.text, lambda id_: names.get(id_, ""))
        for rule in load_builtin(known)[0].values()
        for item in rule.evidence
    ]
    plain = [text for text in told if not any(sign in text for sign in ("(", ">", "<", "=", "*"))]
    assert len(plain) > 0.9 * len(told)
