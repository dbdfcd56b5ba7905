"""What else an incident may be: look-alikes, what nothing there can judge, other roots in the same place."""

from dataclasses import replace

import pytest

from bench.incident_storm import build_fleet
from skewscope.engine.incidents.confidence import Calibration
from skewscope.engine.incidents.tracker import IncidentTracker
from skewscope.engine.model.finding import PAST, Finding
from skewscope.engine.model.incident import parse_incident
from skewscope.engine.model.locality import Entity, NeighbourIndex
from skewscope.engine.model.verdict import NO, YES
from skewscope.kb.model import CausalLink
from tests.support.incidents import (
    GROUPS,
    N1,
    N2,
    RULES,
    SILENT,
    UNSEEN,
    Says,
    cluster,
    condition,
    incidents,
    info,
    play,
    verdict,
)
from tests.support.symptom_world import KNOWN, START, SymptomWorld

PARTLY = Says(fires=False, state=NO, score=3.0, evidence=(YES, NO, NO))


def test_a_look_alike_competes_with_the_test_that_separates_it():
    engine = play({("late", N1): [(10, 40, Says())]}, every=("late",))
    (rival,) = engine.list_incidents()[0].competing
    assert (rival.condition, rival.separate_by) == ("bubble", "who is late follows the stages")
    judged = play({("late", N1): [(10, 40, Says())]}, every=("late", "bubble"))
    assert judged.list_incidents()[0].competing[0].confidence < rival.confidence
    suspected = play({("late", N1): [(10, 40, Says())], ("bubble", N1): [(0, 99, PARTLY)]}, every=("late", "bubble"))
    assert suspected.list_incidents()[0].competing[0].confidence > rival.confidence


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
    late = next(one for one in engine.list_incidents() if one.condition == "late")
    assert late.candidates == expected
    listed = late.as_json()["candidates"]
    assert [each["condition"] for each in listed] == list(expected)
    assert all(0 < each["probability"] < late.confidence for each in listed)
    assert 0 < late.none < late.confidence


@pytest.mark.parametrize(("ago", "expected"), [(1, ("bubble",)), (4, ("bubble",)), (6, ())])
def test_a_moment_below_its_thresholds_does_not_rule_out_what_could_not_be_judged(ago, expected):
    engine = incidents()
    for t in range(20):
        unsure = t == 19 - ago
        said = (
            verdict("late", {N1: Says() if t == 19 else SILENT}),
            verdict("bubble", {N1: UNSEEN if unsure else SILENT}),
        )
        engine.step(float(t), said)
    (late,) = engine.list_incidents()
    assert late.candidates == expected


@pytest.mark.parametrize(
    ("unsure", "expected"), [((0,), ("bubble",)), ((5,), ("bubble",)), ((0, 5), ("bubble",)), ((12,), ())]
)
def test_what_cannot_be_judged_as_it_comes_up_or_a_little_later_is_a_candidate(unsure, expected):
    engine = incidents()
    for t in range(14):
        engine.step(
            float(t), [verdict("late", {N1: Says()}), verdict("bubble", {N1: UNSEEN if t in unsure else SILENT})]
        )
    (late,) = engine.list_incidents()
    assert late.candidates == expected


@pytest.mark.parametrize(
    ("hot", "throttled", "expected"),
    [(UNSEEN, UNSEEN, ("hot", "throttled")), (SILENT, UNSEEN, ()), (UNSEEN, SILENT, ("hot",))],
    ids=["both", "what it would act by is not so", "judged"],
)
def test_what_may_lie_behind_a_candidate_and_cannot_be_judged_either_is_one(hot, throttled, expected):
    engine = incidents()
    told = [verdict("late", {N1: Says()}), verdict("hot", {N1: hot}), verdict("throttled", {N1: throttled})]
    engine.step(1.0, told)
    late = next(one for one in engine.list_incidents() if one.condition == "late")
    assert late.candidates == expected


@pytest.mark.parametrize(("unseen", "expected"), [("n1/ew", ("lossy",)), ("n9/ew", ())], ids=["its group", "another"])
def test_what_nobody_can_judge_at_another_port_of_the_group_may_lie_on_the_path(unseen, expected):
    engine = incidents()
    ports = [f"n{i}/ew" for i in range(16)]
    engine.step(
        1.0,
        [verdict("late", {"n0/ew": Says()}, "port", ports), verdict("lossy", {unseen: UNSEEN}, "port", ports)],
    )
    (late,) = engine.list_incidents()
    assert late.candidates == expected
    assert late.elsewhere == tuple((candidate, (unseen,)) for candidate in expected)


@pytest.mark.parametrize(
    ("judged", "expected"),
    [
        ({"B": UNSEEN}, ("B",)),
        ({"A": UNSEEN}, ()),
        ({"A": UNSEEN, "B": UNSEEN}, ("A", "B")),
        ({"C": UNSEEN}, None),
    ],
    ids=["a sibling", "here", "both", "of another pool"],
)
@pytest.mark.parametrize("siblings", [True, False])
def test_where_else_a_candidate_may_be_is_named(judged, expected, siblings):
    engine = incidents()
    lossy = engine.catalogue.conditions["lossy"]
    engine.catalogue.conditions["lossy"] = replace(lossy, effects=(CausalLink("late", "it", siblings=siblings),))
    engine = IncidentTracker(RULES, engine.catalogue, cluster())
    told = verdict("late", {"A": Says()}, "replica", GROUPS), verdict("lossy", judged, "replica", GROUPS)
    engine.step(1.0, told)
    (late,) = engine.list_incidents()
    if not siblings:
        expected = () if "A" in judged else None
    assert late.candidates == (() if expected is None else ("lossy",))
    assert late.elsewhere == ((("lossy", expected),) if expected else ())
    assert parse_incident(late.as_json()).elsewhere == late.elsewhere
    assert late.format_location("lossy") == {None: "", (): "", ("B",): " (at B)", ("A", "B"): " (or at B)"}[expected]


def test_the_pool_of_a_replica_is_not_elsewhere():
    engine = incidents()
    lossy = verdict("lossy", {"lab": UNSEEN}, "pool", ("lab",))
    engine.step(1.0, [verdict("late", {"A": Says()}, "replica", GROUPS), lossy])
    (late,) = engine.list_incidents()
    assert (late.candidates, late.elsewhere) == (("lossy",), ())


def test_names_that_come_and_go_lose_no_candidate():
    engine = incidents()
    engine.step(1.0, [verdict("late", {"A": SILENT}, "replica", GROUPS), verdict("lossy", {"B": UNSEEN, "A": UNSEEN})])
    engine.step(
        2.0, [verdict("late", {"A": Says()}, "replica", GROUPS), verdict("lossy", {"A": SILENT}, "replica", "A")]
    )
    (late,) = engine.list_incidents()
    assert late.candidates == ("lossy",)


def test_what_else_it_could_be_is_looked_at_every_few_seconds_and_at_once_where_it_moves():
    engine, chance = incidents(), {}
    for t in range(13):
        late = {N1: Says(score=5.0 + min(t // 8, 1))} if t < 11 else {N2: Says(score=9.0)}
        bubble = verdict("bubble", {N1: Says() if t in (0, 8) else SILENT, N2: PARTLY if t >= 11 else SILENT})
        engine.step(float(t), [verdict("late", late), bubble])
        one = next(i for i in engine.list_incidents() if i.condition == "late")
        chance[t] = {rival.condition: rival.confidence for rival in one.competing}["bubble"]
    # Once more after five seconds, though nothing changed; then not before five more, though it speaks louder at 8 s.
    assert min(chance[0], chance[4]) > 3 * max(chance[5], chance[7], chance[10])
    assert chance[11] > chance[10]


def test_what_was_measured_where_a_rule_spoke_does_not_count_where_it_is_silent():
    sure = {name: replace(info, calibration=Calibration(shift=4.0)) for name, info in RULES.items()}
    engine = IncidentTracker(sure, incidents().catalogue, cluster())
    engine.step(1.0, [verdict("late", {N1: Says()}), verdict("bubble", {N1: UNSEEN})])
    (late,) = engine.list_incidents()
    assert late.competing[0].confidence < 0.02
    spoken = IncidentTracker(sure, incidents().catalogue, cluster())
    spoken.step(1.0, [verdict("late", {N1: Says()}), verdict("bubble", {N1: Says()})])
    late = next(one for one in spoken.list_incidents() if one.condition == "late")
    assert late.competing[0].confidence > 0.08


def test_a_look_alike_of_another_member_does_not_compete():
    partly = Says(fires=False, state=NO, score=3.0, evidence=(YES, NO, NO))

    def chance(script):
        (one,) = play({("late", N1): [(10, 40, Says())], **script}, every=("late", "bubble")).list_incidents()
        return one.competing[0].confidence

    assert chance({("bubble", N2): [(0, 99, partly)]}) == chance({})
    assert chance({("bubble", N1): [(0, 99, partly)]}) > chance({})


def test_another_root_in_the_same_place_competes_and_makes_it_less_sure():
    alone = play({("late", N1): [(10, 40, Says())]}).list_incidents()[0]
    engine = play({("late", N1): [(10, 40, Says())], ("blind", N1): [(10, 40, Says())]})
    late = next(one for one in engine.list_incidents() if one.condition == "late")
    assert "blind" in {c.condition for c in late.competing}
    assert late.confidence < alone.confidence
    apart = play({("late", N1): [(10, 40, Says())], ("blind", "D:n15"): [(10, 40, Says())]})
    assert next(one for one in apart.list_incidents() if one.condition == "late").confidence == alone.confidence


@pytest.mark.parametrize("ends", [40, 20])
def test_a_look_alike_that_an_incident_explains_stays_a_candidate(ends):
    known = incidents().catalogue
    alike = condition("backlog", (), [("late", "arrivals rise first")])
    engine = IncidentTracker(RULES, replace(known, conditions={**known.conditions, "backlog": alike}), cluster())
    for n in range(40):
        backlog = {"A": Says()} if 5 <= n < ends else {}
        engine.step(float(n), [verdict("late", {N1: Says()}), verdict("backlog", backlog, kind="group", names=GROUPS)])
    late, backlog = engine.list_incidents()
    assert backlog.root_id == late.id
    (first, likeliest), (second, likely), *_ = late.posterior
    assert (first, second) == ("late", "backlog")
    assert 0.02 < likely < likeliest


def test_in_quiet_ticks_one_list_of_entities_after_another_is_learnt(monkeypatch):
    learnt = []
    index = NeighbourIndex._build_index
    monkeypatch.setattr(NeighbourIndex, "_build_index", lambda self, *of: learnt.append(of) or index(self, *of))
    engine, quiet = incidents(), Says(fires=False, state=NO)
    said = [verdict(name, {N1: quiet}) for name in ("late", "bubble", "lossy")]
    lists = {(one.kind, id(one.names)) for one in said}
    for n in range(5):
        engine.step(float(n), said)
    assert len(learnt) == len(lists)
    engine.step(9.0, [replace(said[0], firing=verdict("late", {N1: Says()}).firing), *said[1:]])
    assert len(learnt) == len(lists)


@pytest.mark.parametrize(("says", "is_less"), [(SILENT, True), (UNSEEN, False), (PARTLY, False), (None, False)])
def test_a_rule_that_is_judged_where_a_symptom_is_and_does_not_hold_speaks_against_its_condition(says, is_less):
    cause = "link-flap"
    tracker = SymptomWorld(fleet=build_fleet(1, 0), rules={"flap-rule": info(cause, "flap-rule")}).tracker
    signal = KNOWN.signals["port.carrier_down_changes"]
    abnormal = Finding(signal, Entity("port", "n0/ew"), PAST, "up", START, 9.0, 1.0)
    shares = []
    for n in range(60):
        found = (
            [] if says is None else [verdict(cause, {"n0/ew": says if n else UNSEEN}, "port", ["n0/ew"], "flap-rule")]
        )
        tracker.step(START + n, [*found, (abnormal,)])
        (symptom,) = tracker.list_incidents()
        shares.append(dict(zip(symptom.candidates, symptom.probabilities, strict=True)).get(cause, 0.0))
    assert shares[0] > 0.01
    assert (shares[-1] < shares[0] / 2) == is_less
    assert is_less or shares[-1] == pytest.approx(shares[0])
