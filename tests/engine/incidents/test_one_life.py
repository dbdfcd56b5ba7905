"""Diagnoses and symptoms have one life: the same timing, room, history and memory."""

from dataclasses import replace

import numpy as np
import pytest

from bench.incident_storm import build_fleet
from skewscope.engine.engine import Engine
from skewscope.engine.incidents import lifecycle
from skewscope.engine.incidents.lifecycle import SampleTimes
from skewscope.engine.ingest.feed import Block
from skewscope.engine.model.finding import PAST, Finding
from skewscope.engine.model.locality import Entity
from tests.support.incidents import Says, info, verdict
from tests.support.rule_world import Lab
from tests.support.symptom_world import KNOWN, START, SymptomWorld

PORTS = ("n0/ew", "n1/ew", "n2/ew")
RULES = {"late-rule": info("late")}
DIAGNOSIS, SYMPTOM = "diagnosis", "symptom"
LIFE = {"opened", "resolved", "fired again"}


def play(script, until=200, tracker=None):
    """Returns a tracker after (category, port, from, to) of what holds, one tick a second."""
    tracker = tracker or SymptomWorld(fleet=build_fleet(len(PORTS), 0), rules=RULES).tracker
    for n in range(until):
        holds = {(what, port) for what, port, begin, end in script if begin <= n < end}
        firing = {port: Says() for what, port in holds if what == DIAGNOSIS}
        signal = KNOWN.signals["port.carrier_down_changes"]
        abnormal = (Finding(signal, Entity("port", p), PAST, "up", START, 9.0, 1.0) for w, p in holds if w == SYMPTOM)
        found = verdict("late", firing, kind="port", names=PORTS)
        tracker.step(START + n, [found, tuple(abnormal)])
    return tracker


def texts(incident):
    return [what for _, what in incident.history if what in LIFE]


@pytest.mark.parametrize("what", [DIAGNOSIS, SYMPTOM])
def test_an_incident_that_fires_again_within_the_cool_down_is_the_same(what):
    (one,) = play([(what, PORTS[0], 10, 20), (what, PORTS[0], 45, 60)]).list_incidents()
    assert texts(one) == ["opened", "resolved", "fired again", "resolved"]
    assert (one.category, one.flaps) == (what, 1)


@pytest.mark.parametrize("what", [DIAGNOSIS, SYMPTOM])
def test_an_incident_much_later_is_another_one(what):
    found = play([(what, PORTS[0], 10, 20), (what, PORTS[0], 90, 95)]).list_incidents()
    assert [one.category for one in found] == [what, what]


@pytest.mark.parametrize(("begin", "is_explained"), [(25, True), (50, True), (51, False)])
def test_a_diagnosis_explains_symptoms_while_it_may_fire_again(begin, is_explained):
    script = [(DIAGNOSIS, PORTS[0], 5, 20), (SYMPTOM, PORTS[0], begin, 80)]
    diagnosis, symptom = play(script).list_incidents()
    assert symptom.root_id == (diagnosis.id if is_explained else "")
    assert bool(symptom.mitigations) <= (not is_explained)


def test_a_diagnosis_that_explains_a_symptom_is_kept_with_it():
    tracker = play([(DIAGNOSIS, PORTS[0], 5, 20), (SYMPTOM, PORTS[0], 5, 150), (DIAGNOSIS, PORTS[1], 5, 20)])
    tracker.forget(START + 100)
    diagnosis, symptom = sorted(tracker.list_incidents(), key=lambda one: one.category)
    assert (diagnosis.name, symptom.root_id) == (PORTS[0], diagnosis.id)


def test_what_may_open_in_a_tick_is_shared(monkeypatch):
    monkeypatch.setattr(lifecycle, "MAX_OPENED", 4)
    script = [(what, port, 10, 100) for what in (SYMPTOM, DIAGNOSIS) for port in PORTS]
    found = play(script, until=30).list_incidents()
    assert [(one.category, one.opened_at - START) for one in sorted(found, key=lambda one: one.category)] == [
        *[(DIAGNOSIS, 10.0)] * 3,
        (SYMPTOM, 10.0),
        *[(SYMPTOM, 11.0)] * 2,
    ]


def test_incidents_of_both_kinds_are_taken_over_with_their_memory():
    before = play([(what, PORTS[0], 5, 20) for what in (DIAGNOSIS, SYMPTOM)], until=35)
    after = SymptomWorld(fleet=build_fleet(1, 0), rules=RULES).tracker
    after.take_over(before, lambda entity: entity.name == PORTS[0])
    assert after.list_incidents() == before.list_incidents()
    gone = SymptomWorld(fleet=build_fleet(1, 0), rules=RULES).tracker
    gone.take_over(before, lambda entity: entity.name != PORTS[0])
    assert gone.list_incidents() == ()


@pytest.mark.parametrize(
    ("period", "delay", "expected"), [(15.0, 0.0, 18), (15.0, 5.0, 23), (15.0, 90.0, 33), (1.0, 9.0, 0)]
)
def test_a_diagnosis_settles_once_another_place_has_been_sampled_and_that_has_come(period, delay, expected):
    tracker = SymptomWorld(fleet=build_fleet(len(PORTS), 0), rules=RULES).tracker
    for n in range(60):
        tracker.follow_samples(START + n, SampleTimes(period, delay))
        tracker.step(START + n, [verdict("late", {PORTS[0]: Says()}, kind="port", names=PORTS)])
        (one,) = tracker.list_incidents()
        assert one.is_settled == (n >= expected)


@pytest.mark.parametrize(("all_sampled", "expected"), [(9, 18), (25, 25), (99, 33)])
def test_samples_that_come_late_are_waited_for_until_they_have_come(all_sampled, expected):
    tracker = SymptomWorld(fleet=build_fleet(len(PORTS), 0), rules=RULES).tracker
    for n in range(60):
        since = START if n >= all_sampled else START - 1.0
        tracker.follow_samples(START + n, SampleTimes(15.0, 90.0, since, START))
        tracker.step(START + n, [verdict("late", {PORTS[0]: Says()}, kind="port", names=PORTS)])
        (one,) = tracker.list_incidents()
        assert one.is_settled == (n >= expected)


@pytest.mark.parametrize(("persistence", "expected"), [(0.0, 18), (15.0, 18), (25.0, 8), (60.0, 0)])
def test_what_has_held_for_long_settles_as_much_sooner(persistence, expected):
    rules = {"late-rule": replace(info("late"), persistence=persistence)}
    tracker = SymptomWorld(fleet=build_fleet(len(PORTS), 0), rules=rules).tracker
    for n in range(30):
        tracker.follow_samples(START + n, SampleTimes(15.0, 0.0))
        tracker.step(START + n, [verdict("late", {PORTS[0]: Says()}, kind="port", names=PORTS)])
        (one,) = tracker.list_incidents()
        assert one.is_settled == (n >= expected)


@pytest.mark.parametrize(("pending", "expected"), [(18, ["opened"]), (30, ["opened", "resolved", "fired again"])])
def test_a_diagnosis_is_not_over_while_the_evidence_of_another_of_its_rules_holds(pending, expected):
    rules = {**RULES, "late-again": info("late", "late-again")}
    tracker = SymptomWorld(fleet=build_fleet(len(PORTS), 0), rules=rules).tracker
    for n in range(60):
        first = {PORTS[0]: Says()} if 5 <= n < 20 else {}
        later = {PORTS[0]: Says(fires=n >= 48)} if n >= pending else {}
        found = [verdict("late", some, "port", PORTS, rule) for rule, some in (("", first), ("late-again", later))]
        tracker.step(START + n, found)
    (one,) = tracker.list_incidents()
    assert texts(one) == expected


def test_nine_of_ten_series_say_since_when_all_are_sampled():
    lab = Lab(["wire.onset_lag > 1*s"], wants="truth")
    for n in range(40):
        lab.tick({("wire.onset_lag", "A:n0"): 1.0} if n % 4 == 0 else {("wire.onset_lag", "A:n1"): 1.0})
    assert lab.panel.sampled_since() == lab.t - 3.0


def test_samples_of_a_server_that_is_polled_come_late():
    engine = Engine((), KNOWN, build_fleet(1, 0))
    numbers = np.zeros(5, np.int32)
    in_time, polled = (Block(100.0 - np.arange(5) * step, numbers, np.ones(5)) for step in (0.1, 1.5))
    assert engine._follow_delay(100.0, in_time) == 0.0
    late = engine._follow_delay(100.0, polled)
    assert 4.0 < late < 6.0
    assert 0.9 * late < engine._follow_delay(100.0, in_time) < late
