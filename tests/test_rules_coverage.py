from dataclasses import replace

import pytest

from skewscope.engine.topology import Node, Topology
from skewscope.kb.model import Catalogue, Signal
from skewscope.rules.expr import Expr, Peers
from skewscope.rules.model import Evidence, Level, Rule, Where
from skewscope.tui.coverage import coverage, coverage_lines, visible
from skewscope.tui.text import plain


def item(name, weight, *signals, against=False, required=False):
    reads = tuple(Expr("signal", "rank", name=signal) for signal in signals)
    return Evidence(name, weight, against, required, Expr("and", "rank", truth=True, args=reads), name)


def rule(id_, condition, *items, score=3.0):
    fire, clear = Level(score, 2.0), Level(1.0, 5.0)
    return Rule(
        id_, condition, "incubating", "dpu", "rank", Where(), Peers("rank", "group"), 5.0, None, items, fire, clear
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
    (found,) = coverage([LATE], [], frozenset(signals)).conditions
    assert (found.verdict, found.share, found.blocking) == (verdict, share, blocking)


def test_too_little_weight_in_sight_is_blind_though_nothing_is_required():
    (found,) = coverage([LOST], [], frozenset({"rate"})).conditions
    assert (found.verdict, found.blocking) == ("blind", ("loss",))


def test_the_rule_that_sees_most_speaks_for_its_condition():
    other = replace(LATE, id="other", evidence=(item("slow", 4, "rate", required=True),))
    (found,) = coverage([LATE, other], [], frozenset({"rate"})).conditions
    assert (found.rule, found.verdict) == ("other", "full")


def test_a_condition_without_a_rule_is_said_to_have_none():
    assert [c.verdict for c in coverage([], ["pp-bubble"], frozenset()).conditions] == ["no rule"]


def test_the_signal_that_opens_most_comes_first():
    found = coverage([LATE, LOST], [], frozenset({"rate"}))
    assert [(u.signal, u.opens, u.helps) for u in found.unlocks] == [("loss", 1, 2), ("lag", 1, 1)]


def test_the_picture_is_told_in_words():
    shown = plain(coverage_lines(coverage([LATE, LOST], ["pp-bubble"], frozenset({"lag", "rate"})), {"loss": "Loss"}))
    assert "0 of 3 conditions can be fully judged, 1 in part, 1 are blind and 1 have no rule yet." in shown
    assert "needs loss" in shown


def signal(id_, vantage, access):
    return Signal(id_, id_, "1", "gauge", "port", vantage, access, {})


def test_a_dpu_sees_its_networks_and_itself_but_not_the_host():
    signals = [
        signal("ew", ("east-west",), "direct"),
        signal("ns", ("north-south",), "direct"),
        signal("derived", ("east-west",), "proxy"),
        signal("gpu", ("gpu",), "host-only"),
        signal("own", ("dpu",), "direct"),
        signal("switch", ("fabric",), "remote"),
    ]
    catalogue = Catalogue({}, {s.id: s for s in signals}, {}, {})
    node = Node("n0", sees=("east-west",))
    assert visible(Topology(nodes=(node,)), catalogue) == {"ew", "derived", "own"}
    assert visible(Topology(nodes=(replace(node, sees=()),)), catalogue) == frozenset()
