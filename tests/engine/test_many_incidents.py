"""What ticks cost while many incidents are open: it grows with their number, and nothing that stays is made anew."""

from collections import Counter

import pytest

from bench.incident_storm import ENDING, OPEN, OPENING, WARM_UP, PortStorm, build_fleet
from skewscope.engine.advice import advice
from skewscope.engine.attribution.cause_graph import CauseGraph
from skewscope.engine.attribution.symptom_explanation import SymptomExplainer
from skewscope.engine.incidents import alert_incidents, diagnosis, lifecycle
from skewscope.engine.incidents.confidence import load_calibration
from skewscope.engine.incidents.diagnosis import DiagnosisState
from skewscope.engine.incidents.finding_incidents import FindingIncidents
from skewscope.engine.incidents.symptom import SymptomState
from skewscope.engine.model.finding import PAST, Finding
from skewscope.engine.model.incident import MAX_HISTORY, extend_history
from skewscope.engine.model.locality import Entity
from skewscope.engine.symptoms.places import PlaceTokens
from tests.support.call_counts import count_calls
from tests.support.incidents import track
from tests.support.symptom_world import KNOWN, START, SymptomWorld

pytestmark = pytest.mark.slow

FEW, MANY = 24, 192
"""Ports."""


def calls_of_parts(ports, group, share):
    storm = PortStorm(ports, group, share)
    storm.run(WARM_UP, flapping=False)
    parts = {
        "opening": lambda: storm.run(OPENING, flapping=True),
        "open": lambda: storm.run(OPEN, flapping=True),
        "ending": lambda: storm.run(ENDING, flapping=False),
    }
    return {name: count_calls(do) for name, do in parts.items()}


@pytest.mark.parametrize(
    ("group", "share"),
    [
        pytest.param(0, 1, id="no groups"),
        pytest.param(8, 1, id="groups"),
        pytest.param(MANY, 1, id="one group"),
    ],
)
def test_cost_grows_with_the_number_of_incidents_and_not_with_its_square(group, share):
    few, many = calls_of_parts(FEW, group, share), calls_of_parts(MANY, group, share)
    # The square would be 64 times as many.
    growth = {name: many[name] / few[name] for name in few}
    assert max(growth.values()) < 1.2 * MANY / FEW, growth


def test_what_does_not_change_stays_the_same_object():
    storm = PortStorm(FEW)
    storm.run(WARM_UP, flapping=False)
    storm.run(OPENING + FEW, flapping=True)
    before = storm.incidents
    storm.tick()
    assert storm.incidents is before
    storm.tick([3])
    changed = [new for new, old in zip(storm.incidents, before, strict=True) if new is not old]
    assert {one.name for one in changed} == {"n3/ew"}


def test_while_others_wait_to_open_nothing_is_made_anew_of_what_is_open(monkeypatch):
    made = Counter()

    def count(module, name):
        real = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *given, **named: made.update([name]) or real(*given, **named))

    monkeypatch.setattr(lifecycle, "MAX_OPENED", MANY // 16)
    count(advice, "build_fact")
    count(alert_incidents, "group_alerts")
    count(diagnosis, "find_posterior")
    count(FindingIncidents, "_near")
    storm = PortStorm(MANY)
    storm.run(WARM_UP, flapping=False)
    storm.open_all()
    assert storm.open_count == 2 * MANY
    # A fact of each diagnosis, at most two more as its confidence changes, and one of its place; flaps add evidence.
    assert made["build_fact"] <= 4 * MANY
    assert made["group_alerts"] <= 4
    # Of each diagnosis as it opens, and after each of two comparisons.
    assert made["find_posterior"] <= 3 * MANY
    # A symptom looks for others once, when it may open.
    assert made["_near"] <= MANY


def test_what_opens_late_costs_little_more_than_what_opens_first(monkeypatch):
    monkeypatch.setattr(lifecycle, "MAX_OPENED", FEW)

    def calls(ports):
        storm = PortStorm(ports)
        storm.run(WARM_UP, flapping=False)
        made = count_calls(storm.open_all)
        assert storm.open_count == 2 * ports
        return made / ports

    assert calls(MANY) < 1.2 * calls(2 * FEW)


def test_a_quiet_tick_costs_little_for_each_incident():
    storm = PortStorm(MANY)
    storm.run(WARM_UP, flapping=False)
    storm.run(OPENING, flapping=True)
    calls = count_calls(storm.tick)
    assert calls < 100 * storm.open_count, calls / storm.open_count


def port_findings(count):
    signal = KNOWN.signals["port.carrier_down_changes"]
    return tuple(Finding(signal, Entity("port", f"n{n}/ew"), PAST, "up", START, 9.0, 1.0) for n in range(count))


def symptom_tracker(ports=1):
    """Returns a tracker for ports whose findings a test sets."""
    return SymptomWorld(fleet=build_fleet(ports, 0)).tracker


def test_a_symptom_that_opens_does_not_look_at_all_others():
    def calls(ports):
        tracker, findings = symptom_tracker(ports), port_findings(ports)
        return count_calls(lambda: tracker.step(START, [findings]))

    assert calls(960) < 10 * calls(120)


def diagnoses_of(ports):
    alerts = [track("late", "port", f"n{n}/ew") for n in range(ports)]
    return [DiagnosisState("late", one.entity, 0.0, 0.0, peak_evidence=one.peak_evidence) for one in alerts]


def symptom_at(place, tokens):
    (found,) = port_findings(1)
    known = {"primary": found, "tokens": set(tokens.of(place)), "calibration": load_calibration()}
    return SymptomState("lost-capacity", place, 0.0, 0.0, **known)


def test_a_diagnosis_is_found_without_a_look_at_all_of_them():
    def calls(ports):
        tokens = PlaceTokens(symptom_tracker(ports).locality)
        explainer, diagnoses = SymptomExplainer(tokens, CauseGraph(KNOWN)), diagnoses_of(ports)
        symptoms = [symptom_at(one.primary_entity, tokens) for one in diagnoses]
        explainer.update(0, diagnoses, {})
        found = []
        made = count_calls(lambda: found.extend(map(explainer.find, symptoms)))
        assert found == [one.id for one in diagnoses]
        return made

    assert calls(960) < 10 * calls(120)


def test_what_a_diagnosis_explains_is_forgotten_with_it():
    explainer = SymptomExplainer(PlaceTokens(symptom_tracker(3).locality), CauseGraph(KNOWN))
    for n, one in enumerate(diagnoses_of(3)):
        explainer.update(n, [one], {})
    assert len(explainer._explainable) == 1


def test_a_history_keeps_what_came_first_and_last():
    past = ()
    for n in range(1000):
        past = extend_history(past, float(n), "an event")
    times = [t for t, _ in past]
    assert len(times) == MAX_HISTORY
    assert times[: MAX_HISTORY // 2] == [*range(MAX_HISTORY // 2)]
    assert times[-MAX_HISTORY // 2 :] == [*range(1000 - MAX_HISTORY // 2, 1000)]


def test_the_history_of_a_symptom_that_comes_and_goes_is_bounded():
    tracker, t = symptom_tracker(), START
    for _ in range(MAX_HISTORY):
        for findings in (port_findings(1), ()):
            for pause in (1.0, tracker.timing.grouping_s):
                t += pause
                tracker.step(t, [findings])
    (incident,) = tracker.list_incidents()
    assert [what for _, what in incident.history[:3]] == ["opened", "resolved", "fired again"]
    assert incident.history[-1] == (t, "resolved")
    assert len(incident.history) == MAX_HISTORY
