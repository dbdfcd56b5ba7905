"""The sentence and the cost of an incident."""

import math
from dataclasses import replace

import pytest

from skewscope.engine.advice.cost_words import describe_cost, describe_normal, find_user_cost
from skewscope.engine.advice.incident_words import describe_cause, describe_incident
from skewscope.engine.model.incident import SYMPTOM, Impact
from skewscope.kb.loader import catalogue
from skewscope.kb.quantities import format_change
from tests.adapters.notify.incidents import fleet
from tests.tui.samples import ROOT

PERIOD = Impact("time of a round", 1.48, "1", 0.0087, 0.0216, "s")
CONDITIONS = sorted(catalogue().conditions)


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize(("kind", "name"), [("rank", "n2"), ("replica", "A"), ("port", "n2/rail0"), ("fleet", "fleet")])
def test_each_condition_has_a_sentence_that_names_the_place(condition, kind, name):
    text = describe_incident(replace(ROOT, condition=condition, kind=kind, name=name, also=()), catalogue())
    assert name in text.lower() or name in text
    assert "{" not in text
    assert text[0].isupper() or text.startswith(name)
    assert text != f"{catalogue().conditions[condition].name} on {name}"


def test_the_group_that_waits_is_named_where_it_is_known():
    ill = replace(ROOT, name="n2", also=())
    assert describe_incident(ill, catalogue()) == "n2 holds up its group: every rank waits for it"
    assert describe_incident(ill, catalogue(), fleet()) == "n2 holds up group A: every rank waits for it"


def test_a_symptom_and_an_unknown_condition_have_name_and_place():
    assert describe_incident(replace(ROOT, condition="slow-steps", also=("n3",)), catalogue()) == (
        "Work takes longer on n2 +n3"
    )
    assert describe_incident(replace(ROOT, condition="of-a-site", kind="node"), catalogue()) == "of-a-site on n2"


@pytest.mark.parametrize(
    ("impact", "text"),
    [
        (PERIOD, "time of a round 8.7→21.6 ms (2.5×)"),
        (replace(PERIOD, change=-0.25, before=0.02, now=0.015), "time of a round 20→15 ms (−25 %)"),
        (replace(PERIOD, change=120.0, before=0.064, now=7.74), "time of a round 64 ms→7.74 s (121×)"),
        (Impact("share of the requests that wait", 0.42, "1"), "42 % of the requests wait"),
        (
            Impact("time of a round spent waiting for this rank", 0.6, "1"),
            "60 % of the time of a round is spent waiting for n2",
        ),
        (Impact("work of this group", 1.0, "1"), "100 % of the work of its group is lost"),
        (
            Impact("segments retransmitted on the link of this rank", 0.048, "1"),
            "4.8 % of segments are retransmitted on the link of n2",
        ),
        (Impact("clock below that of its siblings", 0.5, "1"), "clock 50 % below that of its siblings"),
        (Impact("use of the port", 0.9, "1"), "use of the port 90 %"),
        (Impact("rounds", None, "1"), ""),
    ],
)
def test_a_cost_has_the_level_before_and_now(impact, text):
    assert describe_cost(replace(ROOT, impact=impact), catalogue()) == text


@pytest.mark.parametrize(
    ("impact", "share"),
    [
        (PERIOD, 1 - 1 / 2.48),
        (Impact("wire.first_byte_delay", 120.0, "1"), 1 - 1 / 121),
        (Impact("bytes sent by this port", -0.4, "1", 10.0, 6.0), 0.4),
        (Impact("share of the requests that wait", 0.42, "1"), 0.42),
        (Impact("ttft_p99", 0.4, "s"), None),
        (Impact("rounds", None, "1"), None),
        (Impact("rounds", math.inf, "1"), None),
    ],
)
def test_the_share_that_is_lost_follows_from_a_factor_or_a_share(impact, share):
    assert impact.lost_share == (None if share is None else pytest.approx(share))


def test_users_wait_by_the_latency_of_requests_in_which_they_lose_most():
    def effect(metric, change):
        return replace(ROOT, category=SYMPTOM, condition="slow-responses", impact=Impact(metric, change, "1"))

    slow, slower = effect("wire.first_byte_delay", 2.0), effect("serve.ttft", 5.0)
    inside = effect("wire.rtt", 99.0)
    assert find_user_cost([slow, inside, slower, ROOT], catalogue()) is slower
    assert find_user_cost([inside, ROOT], catalogue()) is None


def test_the_level_to_come_back_to_is_named_where_it_was_measured():
    assert describe_normal(replace(ROOT, impact=PERIOD), catalogue()) == "Normal: time of a round 8.7 ms."
    assert not describe_normal(replace(ROOT, impact=Impact("rounds", -0.2, "1")), catalogue())


def test_a_unit_that_both_levels_have_is_written_once():
    assert format_change(0.0087, 0.0216, "s") == "8.7→21.6 ms"
    assert format_change(3.0, 53.0, "{request}") == "3→53"
    assert format_change(3475.0, 368.0, "{token}/s") == "3,475→368/s"
    assert format_change(0.01, 0.2, "1", share=True) == "1→20 %"


@pytest.mark.parametrize(
    ("probabilities", "text"),
    [
        ((0.84, 0.1), "likely GPU throttled by heat (84 %)"),
        ((0.5, 0.4), "cause unknown"),
        ((), "cause unknown"),
    ],
)
def test_a_cause_that_is_likelier_than_all_else_is_named(probabilities, text):
    causes = ("gpu-thermal-throttle", "power-cap")[: len(probabilities)]
    symptom = replace(ROOT, category=SYMPTOM, condition="lost-clock", candidates=causes, probabilities=probabilities)
    assert describe_cause(symptom, catalogue()) == text
