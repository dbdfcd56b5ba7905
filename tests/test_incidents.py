"""The life of incidents: opening, clearing, flapping, folding, being explained, coming back."""

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from incident_makers import CRITICAL, LOST, RULES, SILENT, Says, cluster, incidents, ranks, verdict
from policy_makers import policy, program

from skewscope.engine.advice import Context
from skewscope.engine.calibration import Calibration
from skewscope.engine.confidence import PRIOR, probability
from skewscope.engine.incidents import Incidents, Timing, as_contract
from skewscope.engine.matcher import Policies
from skewscope.engine.places import Entity
from skewscope.engine.verdict import NO, UNKNOWN, YES
from skewscope.kb.model import Link

N1, N2 = "A:n1", "A:n2"
UNSEEN = replace(LOST, fires=False)
LOUD, QUIET = Says(value=9.0), Says(value=2.0)


def play(script, engine=None, until=200, every=("late", "lossy", "backlog", "blind", "hot")):
    """An engine after a script: {(condition, entity): [(from, to, Says)]}, one tick a second."""
    engine = engine or incidents()
    for t in range(until):
        said = {}
        for (condition, name), spans in script.items():
            for start, end, says in spans:
                if start <= t < end:
                    said.setdefault(condition, {})[name] = says
        engine.step(float(t), [verdict(c, said.get(c, {})) for c in every])
    return engine


def lives(engine):
    """(condition, name, state, opened, resolved, root's condition) of every incident."""
    found = engine.all()
    by_id = {one.id: one for one in found}
    return [
        (
            one.condition,
            one.name,
            one.state,
            one.opened_at,
            one.resolved_at,
            by_id[one.explained_by].condition if one.explained_by else None,
        )
        for one in found
    ]


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
    one = play({("late", N1): [(10, 20, Says()), (25, 30, Says()), (40, 50, Says())]}).all()[0]
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
    told = {one.condition: one for one in play(script).all()}
    assert told["late"].explained_by == told["lossy"].id


ROUND = {
    ("late", N1): [(10, 25, Says())],
    ("late", N2): [(22, 40, Says())],
    ("late", "A:n3"): [(43, 60, Says())],
}


def test_what_goes_round_a_group_is_one_incident_that_moves():
    one, *parts = sorted(play(ROUND).all(), key=lambda i: (i.explained_by is not None, i.opened_at))
    assert (one.name, one.moves, one.opened_at, one.resolved_at) == ("n3", 2, 10.0, 60.0)
    assert all(part.explained_by == one.id for part in parts)
    assert [what for _, what in one.history if what.startswith("moved")] == [
        "moved from n1 to n2",
        "moved from n2 to n3",
    ]


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
    assert all(one.moves == 0 for one in play(script).all())


def test_where_nothing_fires_no_entity_is_looked_at_one_by_one():
    engine = incidents()
    for t in range(5):
        assert engine.step(float(t), [verdict(c, {}) for c in ("late", "lossy", "blind")]) == ()
    assert engine.places._known == {}


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
    assert engine.all()[0].state == "firing"


def test_evidence_is_told_as_it_stood_when_it_spoke_loudest():
    weak = Says(score=5.0, value=2.0, coverage=0.7, evidence=(YES, UNKNOWN, UNKNOWN))
    strong = Says(score=7.0, value=8.0, impact=-0.6, severity=CRITICAL, evidence=(YES, YES, NO))
    engine = play({("late", N1): [(10, 20, weak), (20, 30, strong), (30, 40, weak)]})
    one = engine.all()[0]
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
    one = play({("late", N1): [(10, 40, half)]}).all()[0]
    assert one.unseen == ("sig.more", "sig.other")
    assert one.impact.change is None
    assert one.evidence[0].value is None
    assert one.confidence < play({("late", N1): [(10, 40, Says())]}).all()[0].confidence


def test_several_rules_of_one_condition_make_one_surer_incident():
    engine = incidents()
    weaker = Says(score=4.0, coverage=0.5, evidence=(YES, UNKNOWN, UNKNOWN))
    engine.step(1.0, [verdict("late", {N1: weaker}, rule="late-again")])
    alone = engine.all()[0]
    engine.step(2.0, [verdict("late", {N1: weaker}, rule="late-again"), verdict("late", {N1: Says()})])
    (both,) = engine.all()
    assert (alone.rule, both.rule, both.id) == ("late-again", "late-rule", alone.id)
    single = incidents()
    single.step(2.0, [verdict("late", {N1: Says()})])
    assert both.confidence > single.all()[0].confidence
    engine.step(3.0, [verdict("late", {N1: weaker}, rule="late-again"), verdict("late", {})])
    assert engine.all()[0].state == "firing"


def test_others_that_are_hit_are_named_once_and_as_people_know_them():
    engine = play(
        {("late", N1): [(10, 40, LOUD)], ("late", N2): [(10, 40, QUIET)], ("late", "A:n3"): [(12, 40, QUIET)]}
    )
    (one,) = engine.all()
    assert (one.kind, one.name, one.also) == ("rank", "n1", ("n2", "n3"))


def test_the_blast_reaches_the_group_and_what_is_explained():
    engine = play({("lossy", N1): [(10, 40, Says())]})
    blast = engine.all()[0].blast_radius
    assert (blast.nodes, blast.groups, blast.replicas) == (4, 1, 1)
    wider = incidents()
    wider.step(1.0, [verdict("lossy", {"n1/ew": Says()}, kind="port"), verdict("late", {"B": Says()}, kind="group")])
    root = next(one for one in wider.all() if one.explained_by is None)
    assert (root.blast_radius.nodes, root.blast_radius.groups, root.blast_radius.replicas) == (8, 2, 2)


def test_a_look_alike_competes_with_the_test_that_separates_it():
    engine = play({("late", N1): [(10, 40, Says())]}, every=("late",))
    (rival,) = engine.all()[0].competing
    assert (rival.condition, rival.separate_by) == ("bubble", "who is late follows the stages")
    judged = play({("late", N1): [(10, 40, Says())]}, every=("late", "bubble"))
    assert judged.all()[0].competing[0].confidence < rival.confidence
    partly = Says(fires=False, state=NO, score=3.0, evidence=(YES, NO, NO))
    suspected = play({("late", N1): [(10, 40, Says())], ("bubble", N1): [(0, 99, partly)]}, every=("late", "bubble"))
    assert suspected.all()[0].competing[0].confidence > rival.confidence


@pytest.mark.parametrize(
    ("other", "says", "expected"),
    [
        ("bubble", {N1: UNSEEN}, ("bubble",)),
        ("bubble", {N1: SILENT}, ()),
        ("lossy", {N1: UNSEEN}, ("lossy",)),
        ("lossy", {N2: UNSEEN}, ()),
        ("blind", {N1: UNSEEN}, ()),
    ],
    ids=["look-alike", "judged", "cause", "cause of another member", "neither"],
)
def test_what_nothing_here_can_judge_is_a_candidate(other, says, expected):
    engine = incidents()
    engine.step(1.0, [verdict("late", {N1: Says()}), verdict(other, says)])
    late = next(one for one in engine.all() if one.condition == "late")
    assert late.candidates == expected
    assert late.as_json()["candidates"] == list(expected)


def test_what_was_measured_where_a_rule_spoke_does_not_count_where_it_is_silent():
    sure = {name: replace(info, calibration=Calibration(shift=4.0)) for name, info in RULES.items()}
    engine = Incidents(sure, incidents().catalogue, cluster())
    engine.step(1.0, [verdict("late", {N1: Says()}), verdict("bubble", {N1: UNSEEN})])
    (late,) = engine.all()
    assert late.competing[0].confidence == pytest.approx(probability(PRIOR), abs=0.01)
    spoken = Incidents(sure, incidents().catalogue, cluster())
    spoken.step(1.0, [verdict("late", {N1: Says()}), verdict("bubble", {N1: Says()})])
    late = next(one for one in spoken.all() if one.condition == "late")
    assert late.competing[0].confidence > 0.9


def test_a_look_alike_of_another_member_does_not_compete():
    partly = Says(fires=False, state=NO, score=3.0, evidence=(YES, NO, NO))

    def chance(script):
        (one,) = play({("late", N1): [(10, 40, Says())], **script}, every=("late", "bubble")).all()
        return one.competing[0].confidence

    assert chance({("bubble", N2): [(0, 99, partly)]}) == chance({})
    assert chance({("bubble", N1): [(0, 99, partly)]}) > chance({})


def test_a_look_alike_that_a_root_explains_is_left_little_chance_beside_it():
    engine = incidents()
    engine.step(1.0, [verdict("late", {N1: Says()}), verdict("bubble", {N1: Says(score=7.0)})])
    before = next(one for one in engine.all() if one.condition == "late")
    assert before.competing[0].confidence > 0.9
    engine.catalogue.conditions["late"] = replace(engine.catalogue.conditions["late"], effects=(Link("bubble", "it"),))
    again = Incidents(RULES, engine.catalogue, cluster())
    again.step(1.0, [verdict("late", {N1: Says()}), verdict("bubble", {N1: Says(score=7.0)})])
    late, bubble = sorted(again.all(), key=lambda one: one.condition, reverse=True)
    assert bubble.explained_by == late.id
    assert late.competing[0].condition == "bubble"
    assert late.competing[0].confidence < 0.1 < late.confidence


def test_another_root_in_the_same_place_competes_and_makes_it_less_sure():
    alone = play({("late", N1): [(10, 40, Says())]}).all()[0]
    engine = play({("late", N1): [(10, 40, Says())], ("blind", N1): [(10, 40, Says())]})
    late = next(one for one in engine.all() if one.condition == "late")
    assert "blind" in {c.condition for c in late.competing}
    assert late.confidence < alone.confidence
    apart = play({("late", N1): [(10, 40, Says())], ("blind", "D:n15"): [(10, 40, Says())]})
    assert next(one for one in apart.all() if one.condition == "late").confidence == alone.confidence


LATE = {"fact": "diagnosis", "condition": "late"}
REST = policy(
    id="rest",
    when=[LATE, {"fact": "topology", "entity": "same", "members": {"at_least": 3}}],
    unless={"fact": "maintenance", "entity": "same"},
    advise={"mitigation": "rest", "why": "{entity} suffers from {condition}."},
)
MORE = policy(
    id="swap", when=[{**LATE, "severity": "critical"}], advise={"mitigation": "swap", "why": "It is bad."}, priority=1
)


def advised(*policies):
    return incidents(policies=Policies(program(*policies)))


def test_advice_comes_ranked_with_who_can_do_it_and_why():
    engine = advised(REST, MORE)
    engine.step(1.0, [verdict("late", {N1: Says()})])
    (one,) = engine.all()
    assert [(a.id, a.actor, a.why) for a in one.mitigations] == [("rest", "scheduler", "n1 suffers from late.")]
    engine.step(2.0, [verdict("late", {N1: Says(severity=CRITICAL)})])
    assert [a.id for a in engine.all()[0].mitigations] == ["swap", "rest"]


@pytest.mark.parametrize(
    ("where", "kept"),
    [(("node", "n1"), 0), (("rank", N1), 0), (("group", "A"), 0), (("node", "n2"), 1), (("group", "B"), 1)],
)
def test_maintenance_silences_advice_where_it_applies(where, kept):
    engine = advised(REST)
    engine.step(1.0, [verdict("late", {N1: Says()})])
    engine.know([Context("maintenance", Entity(*where))])
    engine.step(2.0, [verdict("late", {N1: Says()})])
    assert len(engine.all()[0].mitigations) == kept
    engine.know([])
    engine.step(3.0, [verdict("late", {N1: Says()})])
    assert len(engine.all()[0].mitigations) == 1


def test_what_is_explained_leaves_the_advice_to_its_root():
    engine = advised(REST)
    engine.step(1.0, [verdict("late", {N1: Says()}), verdict("lossy", {N1: Says()})])
    late = next(one for one in engine.all() if one.condition == "late")
    assert late.explained_by
    assert late.mitigations == ()


DERIVE = policy(id="it-is-blind", when=[{**LATE, "severity": "critical"}], derive={"diagnosis": "blind"})


def test_a_derived_diagnosis_is_an_incident_with_the_evidence_it_rests_on():
    engine = advised(DERIVE)
    engine.step(1.0, [verdict("late", {N1: Says()})])
    assert [one.condition for one in engine.all()] == ["late"]
    engine.step(2.0, [verdict("late", {N1: Says(severity=CRITICAL)})])
    blind = next(one for one in engine.all() if one.condition == "blind")
    assert (blind.rule, blind.rule_hash, blind.name, blind.state) == ("it-is-blind", DERIVE.hash, "n1", "firing")
    assert blind.evidence[0].name == "main"
    engine.step(3.0, [verdict("late", {})])
    assert {one.state for one in engine.all()} == {"resolved"}


def test_a_measured_diagnosis_takes_over_from_a_derived_one():
    engine = advised(DERIVE)
    engine.step(1.0, [verdict("late", {N1: Says(severity=CRITICAL)})])
    engine.step(2.0, [verdict("late", {N1: Says(severity=CRITICAL)}), verdict("blind", {N1: Says(score=7.0)})])
    (blind,) = [one for one in engine.all() if one.condition == "blind"]
    assert blind.state == "firing"


def test_what_holds_but_not_yet_for_long_is_pending():
    engine = incidents()
    waiting = Says(fires=False, state=YES)
    for t in (1.0, 2.0):
        engine.step(t, [verdict("late", {N1: waiting, N2: Says()})])
    (one,) = engine.pending()
    assert (one.state, one.condition, one.name, one.opened_at) == ("pending", "late", "n1", 1.0)
    assert [i.name for i in engine.all()] == ["n2"]
    engine.step(3.0, [verdict("late", {N1: SILENT, N2: Says()})])
    assert engine.pending() == []


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
    one = engine.all()[0]
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
    told = as_contract(engine, "abc")
    assert [(i.condition, i.name) for i in told] == [("hot", "n13"), ("blind", "n9"), ("late", "n5")]
    lines = [json.loads(i.as_line()) for i in told]
    assert {line["input_hash"] for line in lines} == {"abc"}
    assert lines[1]["resolved_at"] is None
    assert len({line["id"] for line in lines}) == 3


def test_the_same_run_gives_the_same_ids_and_another_time_gives_others():
    def ids(start):
        return [one.id for one in play({("late", N1): [(start, 90, Says())]}).all()]

    assert ids(10) == ids(10) != ids(11)


def test_old_incidents_can_be_forgotten_but_not_what_still_explains():
    engine = play({("late", N1): [(10, 20, Says())], ("lossy", "D:n15"): [(100, 999, Says())]})
    engine.forget(90.0)
    assert [one.condition for one in engine.all()] == ["lossy"]


def test_times_can_be_set():
    engine = incidents(timing=Timing(cool_down_s=5.0))
    assert len(play({("late", N1): [(10, 20, Says()), (30, 40, Says())]}, engine).all()) == 2


says = st.builds(
    Says,
    fires=st.booleans(),
    state=st.sampled_from([NO, UNKNOWN, YES]),
    score=st.sampled_from([2.0, 5.0, 7.0]),
    impact=st.sampled_from([float("nan"), -0.1, -0.5]),
    severity=st.integers(0, 2),
    value=st.sampled_from([float("nan"), 1.0, 5.0]),
)
names = st.sampled_from([f"{g}:{n}" for g, n in ranks()])
ticks = st.lists(
    st.dictionaries(
        st.sampled_from(["late", "lossy", "backlog", "hot", "blind"]), st.dictionaries(names, says, max_size=5)
    ),
    max_size=12,
)


@settings(max_examples=60, deadline=None)
@given(ticks, st.randoms(), st.sampled_from([1.0, 7.0, 25.0]))
def test_the_order_of_verdicts_and_of_entities_changes_nothing(script, random, pace):
    one, other = advised(REST, MORE, DERIVE), advised(MORE, DERIVE, REST)
    for n, said in enumerate(script):
        verdicts = [verdict(condition, those) for condition, those in said.items()]
        order = [f"{g}:{m}" for g, m in ranks()]
        random.shuffle(order)
        mixed = [verdict(condition, those, names=order) for condition, those in said.items()]
        random.shuffle(mixed)
        assert one.step(n * pace, verdicts) == other.step(n * pace, mixed)
    assert [i.as_line() for i in as_contract(one, "")] == [i.as_line() for i in as_contract(other, "")]


@settings(max_examples=60, deadline=None)
@given(ticks, st.sampled_from([1.0, 7.0, 25.0]))
def test_whatever_fires_is_told_and_every_explanation_leads_to_a_root(script, pace):
    engine = incidents()
    for n, said in enumerate(script):
        engine.step(n * pace, [verdict(condition, those) for condition, those in said.items()])
        told = {i.id: i for i in engine.all()}
        firing = {(i.condition, name) for i in told.values() if i.state == "firing" for name in (i.name, *i.also)}
        for condition, those in said.items():
            for name, what in those.items():
                assert not what.fires or (condition, name.partition(":")[2]) in firing
        for i in told.values():
            assert i.explained_by is None or told[i.explained_by].explained_by is None
            assert (i.state == "firing") == (i.resolved_at is None)
            assert i.resolved_at is None or i.resolved_at >= i.opened_at


@settings(max_examples=60, deadline=None)
@given(ticks, st.sampled_from([1.0, 7.0, 25.0]))
def test_a_run_again_gives_the_same_text_and_no_id_twice(script, pace):
    def text():
        engine = advised(REST, MORE, DERIVE)
        for n, said in enumerate(script):
            engine.step(n * pace, [verdict(condition, those) for condition, those in said.items()])
        return [one.as_line() for one in as_contract(engine, "")]

    lines = text()
    assert text() == lines
    assert len({json.loads(line)["id"] for line in lines}) == len(lines)


@settings(max_examples=60, deadline=None)
@given(ticks, st.sampled_from([1.0, 7.0, 25.0]), st.sampled_from([0.0, 5.0, 60.0]))
def test_forgetting_keeps_what_is_open_and_every_root_that_is_named(script, pace, age):
    engine, whole = incidents(), incidents()
    for n, said in enumerate(script):
        verdicts = [verdict(condition, those) for condition, those in said.items()]
        assert engine.step(n * pace, verdicts) == whole.step(n * pace, verdicts)
        engine.forget(n * pace - age)
        told = {i.id: i for i in engine.all()}
        every = {i.id: i for i in whole.all()}
        assert {i for i, one in every.items() if one.state == "firing"} <= set(told)
        assert all(told[i].explained_by == every[i].explained_by for i in told)
        assert {i.explained_by for i in told.values() if i.explained_by} <= set(told)


@given(st.lists(st.integers(1, 29), min_size=1, max_size=8))
def test_flapping_within_the_cool_down_is_one_incident_however_often(gaps):
    engine, t = incidents(), 0.0
    for gap in gaps:
        engine.step(t, [verdict("late", {N1: Says()})])
        engine.step(t + 1, [verdict("late", {})])
        t += 1 + gap
    engine.step(t, [verdict("late", {N1: Says()})])
    (one,) = engine.all()
    assert (one.state, one.resolved_at, one.opened_at, one.flaps) == ("firing", None, 0.0, len(gaps))


@given(st.lists(st.sampled_from(["unknown", "unjudged"]), max_size=30), st.booleans())
def test_what_cannot_be_judged_neither_opens_nor_closes(gap, fires):
    engine = incidents()
    engine.step(0.0, [verdict("late", {N1: Says()} if fires else {})])
    lost = {N1: LOST} if fires else {N1: Says(fires=False, state=UNKNOWN, score=0.0, coverage=0.0)}
    for n, kind in enumerate(gap):
        assert engine.step(n + 1.0, [verdict("late", lost)] if kind == "unknown" else []) == ()
    assert [one.state for one in engine.all()] == ["firing"] * fires


def test_what_a_withdrawn_root_explained_comes_back_with_advice_of_its_own():
    engine = advised(REST)
    for t in range(60):
        lossy = {N1: Says()} if 5 <= t < 15 else {}
        engine.step(float(t), [verdict("lossy", lossy), verdict("late", {N1: Says()} if t >= 6 else {})])
        late = [one for one in engine.all() if one.condition == "late"]
        if 6 <= t < 30:
            assert late[0].explained_by
            assert late[0].mitigations == ()
    (root, late) = engine.all()
    assert (root.state, late.state, late.explained_by) == ("resolved", "firing", None)
    assert [a.id for a in late.mitigations] == ["rest"]
    assert [what for _, what in late.history][-1] == "a root again"
