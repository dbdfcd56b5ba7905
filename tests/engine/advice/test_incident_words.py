"""The sentence and the cost of an incident."""

from dataclasses import replace

import pytest

from skewscope.engine.advice.incident_words import describe_cause, describe_cost, describe_incident, describe_normal
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
        (Impact("share of the requests that wait", 0.42, "1"), "share of the requests that wait 42 %"),
        (Impact("rounds", None, "1"), ""),
    ],
)
def test_a_cost_has_the_level_before_and_now(impact, text):
    assert describe_cost(replace(ROOT, impact=impact), catalogue()) == text


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
