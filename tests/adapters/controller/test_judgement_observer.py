"""Since when places report, and which counter-evidence is unknown now, as those who act need to know it."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np

from skewscope.adapters.controller.judgement_observer import MAX_ROOTS, TOO_MANY, JudgementObserver
from skewscope.adapters.controller.uncertainty import UncertaintyCheck
from tests.support.acting_world import SimulatedFault, build_incident

T0 = 1_790_000_000.0
FIRING = build_incident(SimulatedFault("r1", T0, T0 + 900, 0.2), T0 + 20)


class FakeEngine:
    """Two engines r0 and r1 with a counter each, and one rule with counter-evidence that may be unknown."""

    def __init__(self) -> None:
        item = SimpleNamespace
        self.rules = {
            "a-rule": SimpleNamespace(
                evidence=[
                    item(name="slower", weight=4.0, against=False),
                    item(name="its_prompts_are_longer", weight=6.0, against=True),
                ],
                fire=SimpleNamespace(score=4.0),
            )
        }
        self.reported = [0, 1]
        self.series_version, self.names, self.starts = (1, 1), ["r0", "r1"], np.array([np.nan, np.nan])
        self.truth, self.state = [1, 0], [-1, 1]

    def list_series(self):
        """Yields one signal."""
        numbers = np.array(self.reported)
        yield SimpleNamespace(kind="replica", entity_names=self.names, entity=numbers, position=numbers)

    def display_name(self, kind: str, name: str) -> tuple[str, str]:
        """Returns both as they are."""
        return kind, name

    def counter_starts(self, position):
        """Returns when counters began anew."""
        return self.starts[position]

    @property
    def verdicts(self):
        """The verdict of the rule on r0 and r1."""
        batch = SimpleNamespace(evidence=np.array(self.truth, np.int8)[:, None])
        names = ("r0", "r1")
        state = np.array(self.state)

        def evidence_of(at, numbers):
            return batch

        return [SimpleNamespace(rule="a-rule", kind="replica", names=names, state=state, evidence_of=evidence_of)]


def watch(observer: JudgementObserver, engine: FakeEngine, t: float, inherited=()):
    return observer.observe(T0 + t, engine, [FIRING], inherited, UncertaintyCheck(engine))


def test_how_long_the_controller_judges_and_a_place_reports():
    observer, engine = JudgementObserver(frozenset({"r0", "r1"})), FakeEngine()
    for t in range(31):
        found = watch(observer, engine, t)
    assert (found.running_for, found.member_age) == (30.0, {FIRING.id: 30.0})
    engine.starts[1] = T0 + 25
    assert watch(observer, engine, 31).member_age == {FIRING.id: 6.0}, "its counters began anew"
    assert watch(observer, engine, 9_000).running_for == 41.0, "a clock that is set forward is no time"


def test_a_place_that_came_later_is_younger():
    observer, engine = JudgementObserver(frozenset({"r1"})), FakeEngine()
    engine.reported = [0]
    for t in range(20):
        watch(observer, engine, t)
    engine.reported, engine.series_version = [0, 1], (2, 2)
    watch(observer, engine, 20)
    assert watch(observer, engine, 25).member_age == {FIRING.id: 5.0}


def test_counter_evidence_counts_as_it_is_now():
    observer, engine = JudgementObserver(), FakeEngine()
    assert watch(observer, engine, 0).undecided == {FIRING.id: ("its_prompts_are_longer",)}
    engine.truth = [1, -1]
    assert watch(observer, engine, 1).undecided == {}


def test_what_holds_what_is_unknown_and_what_is_left_from_before():
    observer, engine = JudgementObserver(), FakeEngine()
    engine.state = [-1, 1]
    found = watch(observer, engine, 0, {"earlier"})
    assert (found.unknown, found.quiet, found.inherited) == (frozenset(), frozenset(), {"earlier"})
    engine.state = [-1, 0]
    found = watch(observer, engine, 1)
    assert found.unknown == found.quiet == {FIRING.id}
    engine.state = [-1, -1]
    found = watch(observer, engine, 2)
    assert (found.unknown, found.quiet) == (frozenset(), {FIRING.id})


def test_of_many_diagnoses_the_surest_are_looked_at():
    observer, engine = JudgementObserver(), FakeEngine()
    engine.truth = [1, -1]
    many = [replace(FIRING, id=f"i-{n}", confidence=0.9 - n / 10_000) for n in range(MAX_ROOTS + 2)]
    found = observer.observe(T0, engine, many, (), UncertaintyCheck(engine))
    assert found.undecided == {f"i-{MAX_ROOTS}": TOO_MANY, f"i-{MAX_ROOTS + 1}": TOO_MANY}


def test_counter_evidence_stays_unknown_while_the_rule_does_not_hold():
    observer, engine = JudgementObserver(), FakeEngine()
    for engine.state in ([-1, 0], [-1, -1]):
        engine.truth = [-1, 0]
        assert watch(observer, engine, 0).undecided == {FIRING.id: ("its_prompts_are_longer",)}
