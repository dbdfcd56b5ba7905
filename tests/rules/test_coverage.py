from dataclasses import replace

import pytest

from skewscope.kb.model import Catalogue, Condition, Observability, Signal
from skewscope.rules.coverage import compute_coverage, count_exporter_signals, dpu_readable_signals, exported_signals
from skewscope.rules.expression import Expr, Peers
from skewscope.rules.model import EntityFilter, EvidenceItem, Rule, ScoreThreshold
from skewscope.tui.render.coverage import coverage_lines
from skewscope.tui.render.text import to_plain_text


def item(name, weight, *signals, against=False, required=False):
    reads = tuple(Expr("signal", "rank", name=signal) for signal in signals)
    return EvidenceItem(name, weight, against, required, Expr("and", "rank", is_boolean=True, args=reads), name)


def rule(id_, condition, *items, score=3.0):
    fire, clear = ScoreThreshold(score, 2.0), ScoreThreshold(1.0, 5.0)
    return Rule(
        id_,
        "A rule",
        "It concludes something.",
        condition,
        "incubating",
        "dpu",
        "rank",
        EntityFilter(),
        Peers("rank", "group"),
        5.0,
        None,
        items,
        fire,
        clear,
    )


LATE = rule(
    "late",
    "tp-straggler",
    item("late", 3, "lag", required=True),
    item("slow", 1, "rate"),
    item("loss", 2, "loss", against=True),
)
LOST = rule("lost", "fabric-loss", item("loss", 2, "loss"), item("rate", 2, "rate"))


@pytest.mark.parametrize(
    ("signals", "verdict", "share", "blocking"),
    [
        ({"lag", "rate", "loss"}, "full", 1.0, ()),
        ({"lag", "rate"}, "partial", 0.667, ()),
        ({"lag"}, "partial", 0.5, ()),
        ({"rate", "loss"}, "blind", 0.5, ("lag",)),
        (set(), "blind", 0.0, ("lag",)),
    ],
)
def test_a_condition_is_judged_by_what_its_rule_can_see(signals, verdict, share, blocking):
    (found,) = compute_coverage([LATE], [condition("tp-straggler")], frozenset(signals)).conditions
    assert (found.verdict, found.share, found.blocking) == (verdict, share, blocking)


def test_too_little_weight_in_sight_is_blind_though_nothing_is_required():
    (found,) = compute_coverage([LOST], [condition("fabric-loss")], frozenset({"rate"})).conditions
    assert (found.verdict, found.blocking) == ("blind", ("loss",))


def test_the_rule_that_sees_most_speaks_for_its_condition():
    other = replace(LATE, id="other", evidence=(item("slow", 4, "rate", required=True),))
    (found,) = compute_coverage([LATE, other], [condition("tp-straggler")], frozenset({"rate"})).conditions
    assert (found.rule, found.verdict) == ("other", "full")


def condition(id_, *observability, maturity="sandbox"):
    lists = dict.fromkeys(("aliases", "scope", "phases", "parallelism", "why", "signature", "causes", "effects"), ())
    more = dict.fromkeys(("impacts", "lookalikes", "mitigations"), ())
    return Condition(
        id=id_,
        name=id_,
        group="pcie",
        kind="cause",
        what=id_,
        grade="B",
        maturity=maturity,
        observability=tuple(Observability(f"d{n}", v, "r", "b", needs) for n, (v, needs) in enumerate(observability)),
        **lists,
        **more,
    )


@pytest.mark.parametrize(
    ("sights", "signals", "verdict", "sight", "missing"),
    [
        ([("visible", ("a", "b"))], {"a", "b"}, "seen", "visible", ()),
        ([("visible", ("a", "b"))], {"a"}, "blind", "", ("b",)),
        ([("partial", ("a",)), ("visible", ("a", "b"))], {"a"}, "seen", "partial", ()),
        ([("partial", ("a",)), ("visible", ("a", "b"))], {"a", "b"}, "seen", "visible", ()),
        ([("visible", ("a", "b", "c")), ("relayed", ("d",))], {"a"}, "blind", "", ("d",)),
        ([("not_visible", ())], {"a"}, "hidden", "", ()),
    ],
)
def test_a_condition_without_a_rule_is_judged_by_what_the_catalogue_says_it_needs(
    sights, signals, verdict, sight, missing
):
    (found,) = compute_coverage([], [condition("x", *sights)], frozenset(signals)).conditions
    assert (found.verdict, found.sight, found.missing) == (verdict, sight, missing)


def test_a_condition_that_was_given_up_is_not_counted():
    assert compute_coverage([], [condition("x", maturity="withdrawn")], frozenset()).conditions == ()


def test_the_signal_that_opens_most_comes_first():
    held = [condition(id_, ("visible", ("lag", "loss"))) for id_ in ("tp-straggler", "fabric-loss", "other")]
    found = compute_coverage([LATE, LOST], held, frozenset({"rate"}))
    assert [(u.signal, u.opens, u.helps) for u in found.unlocks] == [
        ("loss", ("fabric-loss",), 3),
        ("lag", ("tp-straggler",), 2),
    ]


def test_what_would_open_a_condition_opens_it():
    held = [condition(id_, ("visible", ("lag", "loss"))) for id_ in ("tp-straggler", "fabric-loss", "other")]
    there = frozenset({"rate"})
    for unlock in compute_coverage([LATE, LOST], held, there).unlocks:
        after = {
            c.condition: c.verdict for c in compute_coverage([LATE, LOST], held, there | {unlock.signal}).conditions
        }
        assert all(after[id_] != "blind" for id_ in unlock.opens)


def test_the_picture_is_told_in_words():
    held = [condition("tp-straggler"), condition("fabric-loss"), condition("pp-bubble", ("visible", ("lag",)))]
    shown = to_plain_text(
        coverage_lines(compute_coverage([LATE, LOST], held, frozenset({"lag", "rate"})), {"loss": "Loss"})
    )
    assert "Of 3 conditions, rules judge 0 with all evidence and 1 with part of it." in shown
    assert "1 more are visible" in shown
    assert "needs loss" in shown


def signal(id_, vantage, access):
    return Signal(id_, id_, "1", "gauge", "port", vantage, access, {})


SIGNALS = [
    signal("ew", ("east-west",), "direct"),
    signal("ns", ("north-south",), "direct"),
    signal("derived", ("east-west",), "proxy"),
    signal("gpu", ("gpu",), "host-only"),
    signal("own", ("dpu",), "direct"),
    signal("switch", ("fabric",), "remote"),
]
KNOWN = Catalogue({}, {s.id: s for s in SIGNALS}, {}, {}, {})


def test_a_dpu_sees_its_networks_and_itself_but_not_the_host():
    assert dpu_readable_signals(KNOWN, ["east-west"]) == {"ew", "derived", "own"}
    assert dpu_readable_signals(KNOWN, []) == frozenset()


def test_an_exporter_delivers_what_it_has_names_for():
    named = replace(SIGNALS[3], sources={"dcgm": ("DCGM_FI_X",), "smi": ("x",)})
    known = Catalogue({}, {"gpu": named, "ew": replace(SIGNALS[0], sources={"smi": ("y",)})}, {}, {}, {})
    assert exported_signals(known, ["dcgm"]) == {"gpu"}
    assert exported_signals(known, []) == frozenset()
    assert count_exporter_signals(known) == {"dcgm": 1, "smi": 2}
