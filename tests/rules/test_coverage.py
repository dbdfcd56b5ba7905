from dataclasses import replace

import pytest

from skewscope.kb.exporter_settings import find_signal_source, load_settings
from skewscope.kb.loader import catalogue
from skewscope.kb.model import Catalogue, Condition, Observability, Signal
from skewscope.kb.problems import InputError
from skewscope.rules.coverage import (
    AdditionHints,
    choose_first_addition,
    compute_coverage,
    count_exporter_signals,
    dpu_readable_signals,
    exported_signals,
    symptom_signals,
)
from skewscope.rules.expression import Expr, Peers
from skewscope.rules.loader import load_strict
from skewscope.rules.model import EntityFilter, EvidenceItem, Rule, ScoreThreshold
from skewscope.tui.render.coverage import addition_sentence, coverage_lines
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


def test_a_blind_condition_that_shows_in_a_symptom_is_a_candidate():
    held, detectable = [condition("tp-straggler"), condition("x")], {"tp-straggler": {"rate"}, "x": {"rate"}}
    found = {c.condition: c for c in compute_coverage([LATE], held, frozenset({"rate"}), detectable).conditions}
    assert (found["tp-straggler"].verdict, found["tp-straggler"].blocking) == ("candidate", ("lag",))
    assert found["x"].verdict == "candidate"
    without = compute_coverage([LATE], held, frozenset({"loss"}), detectable).conditions
    assert {c.verdict for c in without} == {"blind", "hidden"}


def test_every_condition_with_a_signature_can_show_in_a_symptom():
    known = catalogue()
    shown = symptom_signals(known)
    assert not {name for name, one in known.conditions.items() if one.signature and not shown[name]}


def test_the_signal_to_add_first_comes_from_an_exporter_that_is_there():
    known = catalogue()
    rules = load_strict(known).values()
    for exporter, lacking in (("dcgm", "gpu.sm_clock"), ("vllm", "serve.kv_usage")):
        signals = exported_signals(known, [exporter]) - {lacking}
        found = compute_coverage(rules, known.conditions.values(), signals, symptom_signals(known))
        first = choose_first_addition(found, known, signals)
        assert (first.missing.signal, first.source.exporter) == (lacking, exporter)
        assert first.source.setting
        assert addition_sentence(first) in to_plain_text(coverage_lines(found, {}, first))


def first_addition(signals, **hints):
    known = catalogue()
    there = frozenset(signals)
    found = compute_coverage(load_strict(known).values(), known.conditions.values(), there, symptom_signals(known))
    return choose_first_addition(found, known, there, AdditionHints(**hints))


LOG_OF_A_SERVER = ("serve.running", "serve.waiting", "serve.kv_usage", "serve.gen_throughput", "serve.prefix_hit_rate")
STEPS = ("step.duration", "step.comm_time", "step.compute_time", "step.wait_time")


@pytest.mark.parametrize("exporter", ["vllm", "sglang"])
def test_the_signal_to_add_first_comes_from_the_exporter_that_the_data_are_of(exporter):
    assert first_addition(LOG_OF_A_SERVER, exporters=frozenset({exporter})).source.exporter == exporter


def test_a_signal_that_tells_the_causes_of_a_symptom_apart_is_the_one_to_add_first():
    found = first_addition(STEPS, decides=("step.duration", "wire.last_sender_share", "gpu.sm_clock"))
    assert (found.missing.signal, found.missing.decides) == ("wire.last_sender_share", True)
    assert addition_sentence(found).endswith("it would tell the causes of a symptom apart.")


def test_then_comes_a_signal_with_which_a_condition_that_was_not_judged_would_be():
    found = first_addition(("nccl.coll_seq", "nccl.op_state"), conditions=frozenset({"fabric-congestion"}))
    assert (found.missing.signal, found.missing.opens) == ("wire.rtt", ("fabric-congestion",))


def test_telemetry_of_training_is_not_told_to_add_what_only_serving_has():
    known = catalogue()
    for signals in (STEPS, ("nccl.coll_seq", "nccl.op_state")):
        assert all("training" in known.conditions[name].scope for name in first_addition(signals).missing.opens)


def test_settings_are_of_exporters_of_the_catalogue():
    assert {setting.exporter for setting in load_settings()} <= set(count_exporter_signals(catalogue()))
    ethtool = replace(SIGNALS[0], sources={"node_exporter": ("node_ethtool_x",)})
    assert find_signal_source(ethtool).setting == "node_exporter --collector.ethtool"
    assert find_signal_source(SIGNALS[0]) is None


def test_a_fault_in_the_settings_is_told_with_its_line(tmp_path):
    path = tmp_path / "settings.yaml"
    path.write_text("version: 1\nsettings:\n- {exporter: dcgm, sett: x}\n")
    with pytest.raises(InputError, match=r"settings\.yaml:3"):
        load_settings(path)


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
    assert "0 more can only be causes of symptoms, visible without a rule yet: 1." in shown
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
