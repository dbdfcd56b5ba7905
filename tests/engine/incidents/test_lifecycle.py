"""The life of incidents: opening, clearing, flapping, folding, being explained, coming back."""

import json
import math
from dataclasses import replace

import pytest

from skewscope.engine.incidents.state import IncidentTiming
from skewscope.engine.incidents.tracker import IncidentTracker, order_for_contract
from skewscope.engine.model.incident import Explanation
from skewscope.engine.model.verdict import NO, UNKNOWN, YES
from skewscope.kb.model import CausalLink
from tests.support.incidents import (
    CRITICAL,
    LOST,
    LOUD,
    N1,
    N2,
    QUIET,
    RULES,
    Says,
    catalogue,
    cluster,
    incidents,
    lives,
    play,
    ranks,
    verdict,
)


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        pytest.param({}, [], id="nothing fires"),
        pytest.param(
            {("late", N1): [(10, 40, Says())]}, [("late", "n1", "resolved", 10, 40, None)], id="fires and clears"
        ),
        pytest.param(
            {("late", N1): [(150, 999, Says())]},
            [("late", "n1", "firing", 150, None, None)],
            id="still fires at the end",
        ),
        pytest.param(
            {("late", N1): [(10, 20, Says()), (20, 40, LOST), (40, 50, Says())]},
            [("late", "n1", "resolved", 10, 50, None)],
            id="unknown keeps it",
        ),
        pytest.param(
            {("late", N1): [(10, 20, Says()), (45, 60, Says())]},
            [("late", "n1", "resolved", 10, 60, None)],
            id="again within the cool-down is the same",
        ),
        pytest.param(
            {("late", N1): [(10, 20, Says()), (60, 80, Says())]},
            [("late", "n1", "resolved", 10, 20, None), ("late", "n1", "resolved", 60, 80, None)],
            id="again much later is another",
        ),
        pytest.param(
            {("late", N1): [(10, 40, Says())], ("late", "B:n5"): [(12, 30, Says())]},
            [("late", "n1", "resolved", 10, 40, None), ("late", "n5", "resolved", 12, 30, None)],
            id="two at once",
        ),
        pytest.param(
            {("late", N1): [(10, 40, LOUD)], ("late", N2): [(11, 42, QUIET)]},
            [("late", "n1", "resolved", 10, 42, None)],
            id="a quieter member folds, and holds it open while it fades",
        ),
        pytest.param(
            {("late", N2): [(10, 42, QUIET)], ("late", N1): [(12, 40, LOUD)]},
            [("late", "n1", "resolved", 10, 42, None)],
            id="a louder one takes over the incident",
        ),
        pytest.param(
            {("late", N1): [(10, 40, LOUD)], ("late", N2): [(11, 90, QUIET)]},
            [("late", "n1", "resolved", 10, 51, None), ("late", "n2", "resolved", 51, 90, None)],
            id="a follower that goes on speaks for itself",
        ),
        pytest.param(
            {("lossy", N1): [(10, 40, Says())], ("late", N1): [(12, 45, Says())]},
            [("lossy", "n1", "resolved", 10, 40, None), ("late", "n1", "resolved", 12, 45, "lossy")],
            id="an effect outlasts its root a little",
        ),
        pytest.param(
            {("late", N1): [(10, 45, Says())], ("lossy", N1): [(15, 40, Says())]},
            [("late", "n1", "resolved", 10, 45, "lossy"), ("lossy", "n1", "resolved", 15, 40, None)],
            id="an effect noticed before its root",
        ),
        pytest.param(
            {("late", N1): [(10, 14, Says())], ("lossy", N1): [(18, 40, Says())]},
            [("late", "n1", "resolved", 10, 14, "lossy"), ("lossy", "n1", "resolved", 18, 40, None)],
            id="an effect that is over when its root is found",
        ),
        pytest.param(
            {("late", N1): [(10, 80, Says())], ("lossy", N1): [(40, 80, Says())]},
            [("late", "n1", "resolved", 10, 80, None), ("lossy", "n1", "resolved", 40, 80, None)],
            id="what came long before is no effect",
        ),
        pytest.param(
            {("lossy", N1): [(10, 40, Says())], ("late", N1): [(12, 999, Says())]},
            [("lossy", "n1", "resolved", 10, 40, None), ("late", "n1", "firing", 12, None, None)],
            id="what goes on long after its root is a root again",
        ),
        pytest.param(
            {
                ("lossy", N1): [(10, 40, Says())],
                ("late", N2): [(12, 40, Says())],
                ("backlog", "A:n0"): [(14, 40, Says())],
            },
            [
                ("lossy", "n1", "resolved", 10, 40, None),
                ("late", "n2", "resolved", 12, 40, "lossy"),
                ("backlog", "n0", "resolved", 14, 40, "lossy"),
            ],
            id="a chain has one root",
        ),
        pytest.param(
            {("late", N1): [(10, 40, Says())], ("late", N2): [(10, 20, QUIET), (20, 40, Says(value=3.0))]},
            [("late", "n1", "resolved", 10, 40, None), ("late", "n2", "resolved", 10, 40, None)],
            id="two alike in one group stay two",
        ),
        pytest.param(
            {("late", N1): [(10, 40, QUIET)], ("late", N2): [(10, 20, QUIET), (20, 40, Says(value=19.0))]},
            [("late", "n2", "resolved", 10, 40, None), ("late", "n1", "resolved", 10, 40, "late")],
            id="one of two that grows far louder takes the other in",
        ),
        pytest.param(
            {("late", f"{g}:{n}"): [(10 + i % 3, 40, Says())] for i, (g, n) in enumerate(ranks()[:8])},
            [
                ("late", "n0", "resolved", 10, 40, None),
                *(("late", n, "resolved", 10, 40, "late") for n in ("n3", "n6")),
            ],
            id="a whole leaf is one, whoever was told first is part of it",
        ),
    ],
)
def test_the_life_of_incidents(script, expected):
    engine = play(script)
    assert sorted(lives(engine)) == sorted(expected)


def test_a_flap_is_counted_and_told():
    one = play({("late", N1): [(10, 20, Says()), (25, 30, Says()), (40, 50, Says())]}).list_incidents()[0]
    assert one.flaps == 2
    assert [what for _, what in one.history if what != "warning"] == [
        "evidence held",
        "opened",
        "resolved",
        "fired again",
        "resolved",
        "fired again",
        "resolved",
    ]


def test_what_is_over_keeps_its_root_though_it_still_explains_something():
    script = {
        ("lossy", N1): [(10, 40, Says())],
        ("late", N1): [(12, 42, Says())],
        ("backlog", "A:n0"): [(14, 61, Says())],
    }
    told = {one.condition: one for one in play(script).list_incidents()}
    assert told["late"].root_id == told["lossy"].id


ROUND = {
    ("late", N1): [(10, 25, Says())],
    ("late", N2): [(22, 40, Says())],
    ("late", "A:n3"): [(43, 60, Says())],
}


def test_what_goes_round_a_group_is_one_incident_that_moves():
    one, *parts = sorted(play(ROUND).list_incidents(), key=lambda i: (i.explained_by is not None, i.opened_at))
    assert (one.name, one.moves, one.opened_at, one.resolved_at) == ("n3", 2, 10.0, 60.0)
    assert all(part.explained_by == Explanation(one.id, "merged") for part in parts)
    assert [what for _, what in one.history if what.startswith("moved")] == [
        "moved from n1 to n2",
        "moved from n2 to n3",
    ]


def test_what_fires_where_a_moving_incident_has_just_been_is_told_by_it():
    engine = incidents()
    engine.step(0.0, [verdict("late", {"A:n3": Says(score=2.0, impact=-0.5)})])
    engine.step(7.0, [verdict("late", {"A:n2": Says(score=2.0, impact=-0.1, value=5.0)})])
    engine.step(14.0, [])
    engine.step(21.0, [verdict("late", {"A:n0": Says(score=2.0, impact=math.nan, severity=0)})])
    firing = {name for one in engine.list_incidents() if one.state == "firing" for name in (one.name, *one.also)}
    assert "n0" in firing


@pytest.mark.parametrize(
    "script",
    [
        pytest.param({("late", N1): [(10, 60, Says())]}, id="it stays"),
        pytest.param({("late", N1): [(10, 25, Says())], ("late", "D:n15"): [(22, 40, Says())]}, id="elsewhere"),
        pytest.param({("late", N1): [(10, 25, Says())], ("late", N2): [(45, 60, Says())]}, id="much later"),
        pytest.param({("late", N1): [(10, 25, Says())], ("hot", N2): [(22, 40, Says())]}, id="another condition"),
    ],
)
def test_what_stays_or_begins_elsewhere_does_not_move(script):
    assert all(one.moves == 0 for one in play(script).list_incidents())


def load_of_a_pool():
    """Returns a tracker for which the backlog of a replica is of the load of its pool."""
    known = catalogue()
    known.conditions["late"] = replace(known.conditions["late"], effects=(CausalLink("backlog", "it", siblings=True),))
    return IncidentTracker(RULES, known, cluster())


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        pytest.param([(10, 40), (25, 90)], ("n5", 10.0, 90.0), id="it goes on elsewhere"),
        pytest.param([(10, 999), (400, 450)], ("n1", 10.0, None), id="it shows elsewhere for a while"),
        pytest.param([(10, 40), (450, 999)], ("n1", 10.0, 40.0), id="it was over"),
    ],
)
def test_too_much_load_of_a_pool_is_one_incident_while_it_lasts(spans, expected):
    (begin, end), (later, until) = spans
    script = {("backlog", N1): [(begin, end, Says())], ("backlog", "B:n5"): [(later, until, Says())]}
    roots = [one for one in play(script, load_of_a_pool(), 500).list_incidents() if one.explained_by is None]
    assert (roots[0].name, roots[0].opened_at, roots[0].resolved_at) == expected
    assert (len(roots) == 1) == (later < 450)
    assert roots[0].moves == 0


def test_of_all_replicas_of_a_pool_the_first_one_that_was_a_root_goes_on():
    engine = load_of_a_pool()
    weak, strong = Says(score=5.0, impact=-0.2), Says(score=9.0, impact=-0.9, severity=CRITICAL)
    spans = {"A": (10, 100, weak), "B": (20, 120, strong)}
    for t in range(200):
        said = {name: says for name, (begin, end, says) in spans.items() if begin <= t < end}
        engine.step(float(t), [verdict("backlog", said, kind="replica", names=("A", "B"))])
        if t == 60:
            (root,) = (one for one in engine.list_incidents() if one.explained_by is None)
            assert (root.name, root.also, root.severity, root.opened_at) == ("A", ("B",), "critical", 10.0)
    (root,) = (one for one in engine.list_incidents() if one.explained_by is None)
    assert (root.name, root.opened_at, root.resolved_at, root.moves) == ("B", 10.0, 120.0, 0)


def test_where_nothing_fires_no_entity_is_looked_at_one_by_one():
    engine = incidents()
    for t in range(5):
        assert engine.step(float(t), [verdict(c, {}) for c in ("late", "lossy", "blind")]) == ()
    assert engine.locality._locations == {}


def test_changes_are_told_as_they_happen():
    engine = incidents()
    assert [c.what for c in engine.step(1.0, [verdict("late", {N1: Says()})])] == ["opened"]
    assert engine.step(2.0, [verdict("late", {N1: Says()})]) == ()
    both = [verdict("late", {N1: Says()}), verdict("lossy", {N1: Says()})]
    lossy, explained = engine.step(3.0, both)
    assert (lossy.what, explained.what) == ("opened", f"explained by {lossy.id}")
    assert [c.what for c in engine.step(4.0, [verdict("late", {}), verdict("lossy", {})])] == ["resolved", "resolved"]


def test_a_rule_that_is_not_judged_in_a_tick_stays_as_it_was():
    engine = incidents()
    engine.step(1.0, [verdict("late", {N1: Says()})])
    assert engine.step(2.0, []) == ()
    assert engine.list_incidents()[0].state == "firing"


def test_evidence_is_told_as_it_stood_when_it_spoke_loudest():
    weak = Says(score=5.0, value=2.0, coverage=0.7, evidence=(YES, UNKNOWN, UNKNOWN))
    strong = Says(score=7.0, value=8.0, impact=-0.6, severity=CRITICAL, evidence=(YES, YES, NO))
    engine = play({("late", N1): [(10, 20, weak), (20, 30, strong), (30, 40, weak)]})
    one = engine.list_incidents()[0]
    assert [(e.name, e.verdict, e.value, e.weight, e.unit, e.expr) for e in one.evidence] == [
        ("main", "yes", 8.0, 3.0, "s", "x > 1"),
        ("more", "yes", 1.0, 2.0, "1", "y > 1"),
    ]
    assert [(e.name, e.verdict) for e in one.against] == [("other", "no")]
    assert (one.unseen, one.coverage, one.severity) == ((), 1.0, "critical")
    assert (one.impact.metric, one.impact.change, one.impact.unit) == ("wire.round_rate", pytest.approx(-0.6), "1")
    assert (one.rule, one.rule_hash) == ("late-rule", "h")


def test_what_could_not_be_seen_is_named_and_makes_it_less_sure():
    half = Says(score=4.0, coverage=0.6, impact=float("nan"), value=float("nan"), evidence=(YES, UNKNOWN, UNKNOWN))
    one = play({("late", N1): [(10, 40, half)]}).list_incidents()[0]
    assert one.unseen == ("sig.more", "sig.other")
    assert one.impact.change is None
    assert one.evidence[0].value is None
    assert one.confidence < play({("late", N1): [(10, 40, Says())]}).list_incidents()[0].confidence


def test_several_rules_of_one_condition_make_one_surer_incident():
    engine = incidents()
    weaker = Says(score=4.0, coverage=0.5, evidence=(YES, UNKNOWN, UNKNOWN))
    engine.step(1.0, [verdict("late", {N1: weaker}, rule="late-again")])
    alone = engine.list_incidents()[0]
    engine.step(2.0, [verdict("late", {N1: weaker}, rule="late-again"), verdict("late", {N1: Says()})])
    (both,) = engine.list_incidents()
    assert (alone.rule, both.rule, both.id) == ("late-again", "late-rule", alone.id)
    single = incidents()
    single.step(2.0, [verdict("late", {N1: Says()})])
    assert both.confidence > single.list_incidents()[0].confidence
    engine.step(3.0, [verdict("late", {N1: weaker}, rule="late-again"), verdict("late", {})])
    assert engine.list_incidents()[0].state == "firing"


def test_others_that_are_hit_are_named_once_and_as_people_know_them():
    engine = play(
        {("late", N1): [(10, 40, LOUD)], ("late", N2): [(10, 40, QUIET)], ("late", "A:n3"): [(12, 40, QUIET)]}
    )
    (one,) = engine.list_incidents()
    assert (one.kind, one.name, one.also) == ("rank", "n1", ("n2", "n3"))


def test_the_blast_reaches_the_group_and_what_is_explained():
    engine = play({("lossy", N1): [(10, 40, Says())]})
    blast = engine.list_incidents()[0].blast_radius
    assert (blast.nodes, blast.groups, blast.replicas) == (4, 1, 1)
    wider = incidents()
    wider.step(1.0, [verdict("lossy", {"n1/ew": Says()}, kind="port"), verdict("late", {"B": Says()}, kind="group")])
    root = next(one for one in wider.list_incidents() if one.explained_by is None)
    assert (root.blast_radius.nodes, root.blast_radius.groups, root.blast_radius.replicas) == (8, 2, 2)


def test_new_entities_among_the_names_disturb_nothing_and_a_lost_one_clears():
    engine = incidents()
    engine.step(1.0, [verdict("late", {N1: Says()}, names=[N1, N2])])
    assert engine.step(2.0, [verdict("late", {N1: Says()}, names=["A:n0", N1, N2])]) == ()
    assert [c.what for c in engine.step(3.0, [verdict("late", {}, names=["A:n0", N2])])] == ["resolved"]


def test_a_rule_that_nobody_described_is_passed_over():
    engine = incidents()
    assert engine.step(1.0, [verdict("late", {N1: Says()}, rule="stranger")]) == ()


def test_opening_is_when_it_fired_and_the_story_tells_since_when_it_held():
    engine = incidents()
    engine.step(12.0, [verdict("late", {N1: Says()}, since=7.5)])
    one = engine.list_incidents()[0]
    assert one.opened_at == 12.0
    assert one.history[0] == (7.5, "evidence held")


def test_the_contract_is_ordered_and_speaks_plain_json():
    engine = play(
        {
            ("late", "B:n5"): [(10, 40, Says())],
            ("blind", "C:n9"): [(10, 999, Says())],
            ("hot", "D:n13"): [(5, 9, Says())],
        }
    )
    told = order_for_contract(engine.list_incidents(), "abc")
    assert [(i.condition, i.name) for i in told] == [("hot", "n13"), ("blind", "n9"), ("late", "n5")]
    lines = [json.loads(i.as_line()) for i in told]
    assert {line["input_hash"] for line in lines} == {"abc"}
    assert lines[1]["resolved_at"] is None
    assert len({line["id"] for line in lines}) == 3


def test_the_same_run_gives_the_same_ids_and_another_time_gives_others():
    def ids(start):
        return [one.id for one in play({("late", N1): [(start, 90, Says())]}).list_incidents()]

    assert ids(10) == ids(10) != ids(11)


def test_old_incidents_can_be_forgotten_but_not_what_still_explains():
    engine = play({("late", N1): [(10, 20, Says())], ("lossy", "D:n15"): [(100, 999, Says())]})
    engine.forget(90.0)
    assert [one.condition for one in engine.list_incidents()] == ["lossy"]


def test_times_can_be_set():
    engine = incidents(timing=IncidentTiming(cool_down_s=5.0))
    assert len(play({("late", N1): [(10, 20, Says()), (30, 40, Says())]}, engine).list_incidents()) == 2
