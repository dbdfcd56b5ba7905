"""Expressions of evidence as text for people, and the signals that decide them."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewscope.kb.loader import catalogue
from skewscope.rules.loader import load
from skewscope.tui.render.evidence_series import find_series
from skewscope.tui.render.expression_text import decisive_signals, format_expression, split_definitions
from skewscope.tui.render.node_lookup import NodeLookup


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("mean(x, 2*s) > 12*percent * mean(y, 2*s)", "mean(x, 2s) > 12% * mean(y, 2s)"),
        ("x > 0.3 * wire.burst_bytes and y > 10*packets/s", "x > 0.3 * wire.burst_bytes and y > 10 packets/s"),
        ("0.67 * mean(x, 8*s) > 0.3*ms", "0.67 * mean(x, 8s) > 0.3ms"),
        ("p3*x > 4*bucket[a]", "p3*x > 4*bucket[a]"),
        ("x > 0.67 * lag where lag = 2*s", "x > 0.67 * lag where lag = 2s"),
        ("x > 5*lag where lag = mean(y, 3*s); b = 4*lag/s", "x > 5*lag where lag = mean(y, 3s); b = 4*lag/s"),
    ],
)
def test_quantities_of_an_expression_are_shown_as_people_write_them(written, shown):
    assert format_expression(written) == shown


@pytest.mark.parametrize(
    ("written", "signals"),
    [
        ("a.b > 0.5 * c.d", ["a.b"]),
        ("2*s < a.b[tx] < 3*s", ["a.b"]),
        ("peers() >= 3 and peer_z(rate(a.b, 5*s)) > c.d", ["a.b"]),
        ("lag > 0.1 * c.d where lag = mean(a.b, 2*s)", ["a.b"]),
        ("late and c.d > 1 where lag = mean(a.b, 2*s); late = lag > 3*ms", ["a.b"]),
        ("a.b / c.d > 1 and e.f > 1", ["a.b", "c.d"]),
        ("known(a.b)", ["a.b"]),
        ("a > 1 where a = b; b = a", []),
        ("no (expression", []),
    ],
)
def test_the_decisive_signals_are_those_that_the_first_comparison_measures(written, signals):
    assert list(decisive_signals(written)) == signals


def test_every_item_of_every_rule_has_a_decisive_signal():
    for rule in load(catalogue())[0].values():
        for item in rule.evidence:
            assert decisive_signals(item.full_text) or not item.when.signals
            text, lets = split_definitions(item.full_text)
            assert text == item.text
            assert tuple(lets.items()) == item.definitions
            assert all(f"{name} = " in format_expression(item.full_text) for name in lets)


@given(
    st.text(max_size=200)
    | st.lists(st.sampled_from(["a", "b.c", " where ", "; ", " = ", ">", "(", ")", "*2"])).map("".join)
)
def test_any_text_is_taken(text):
    assert isinstance(format_expression(text), str)
    assert isinstance(decisive_signals(text), tuple)


def test_an_unknown_item_has_no_chart(demo):
    history, result = demo
    snapshot = history.snapshot(-1)
    lookup = NodeLookup(snapshot.topology)
    items = [(incident, item) for incident in result.incidents for item in incident.evidence]
    drawn = [(incident, item) for incident, item in items if find_series(item, incident, snapshot, lookup)]
    charts = {item.name: find_series(item, incident, snapshot, lookup).signal for incident, item in drawn}
    assert charts["rank_is_late"] == "wire.onset_lag"
    for incident, item in drawn:
        assert item.verdict != "unknown"
        assert find_series(replace(item, verdict="unknown"), incident, snapshot, lookup) is None
