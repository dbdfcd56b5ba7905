"""What a finding says: masks by the names of their bits, healthy values by what they are."""

import pytest

from skewscope.engine.model.finding import PAST, PEERS, RULE, SHIFT, STOP, Finding, RuleSubject
from skewscope.engine.model.locality import Entity
from skewscope.engine.symptoms.peer_ratios import PACE_AT_LOAD
from skewscope.engine.symptoms.summaries import summarise
from tests.support.symptom_world import KNOWN

GPU = Entity("gpu", "n0/gpu0")
HELD_DOWN = KNOWN.symptoms["lost-clock"]


def test_a_mask_is_told_by_the_names_of_its_bits_and_never_as_a_share():
    found = Finding(KNOWN.signals["gpu.throttle_reasons"], GPU, PAST, "begins", 0.0, 64.0 + 1.0, 279.0)
    assert summarise(found, HELD_DOWN, "n0/gpu0").endswith("since 00:00:00: hw_thermal.")
    assert found.as_evidence().name.endswith(": hw_thermal")
    assert found.as_evidence().value is None
    assert found.impact().change is None


@pytest.mark.parametrize(
    ("pattern", "against", "end"),
    [
        (PAST, "", "1,980 MHz before."),
        (PEERS, "", "1,980 MHz at its peers."),
        (PEERS, PACE_AT_LOAD, f"1,980 MHz by {PACE_AT_LOAD}."),
    ],
)
def test_a_healthy_value_is_named_as_what_it_is(pattern, against, end):
    found = Finding(KNOWN.signals["gpu.sm_clock"], GPU, pattern, "down", 0.0, 1200.0, 1980.0, against=against)
    assert summarise(found, HELD_DOWN, "n0/gpu0").endswith(end)


def test_the_form_follows_from_pattern_and_direction():
    clock, rule = KNOWN.signals["gpu.sm_clock"], RuleSubject("late", "late")
    assert Finding(clock, GPU, PAST, "down", 0.0, 1.0, 2.0).form == SHIFT
    assert Finding(clock, GPU, PAST, "stops", 0.0, 1.0, 2.0).form == STOP
    assert Finding(rule, GPU, RULE, "begins", 0.0, 1.0, 0.0).form == RULE
