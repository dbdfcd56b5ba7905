"""How a rule fires and clears: three-valued truth, hold times, warm-up, and silence that decides nothing."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skewscope.engine.features.baselines import Baseline
from skewscope.engine.model.topology import Pool
from skewscope.engine.model.verdict import NO, UNKNOWN, YES
from tests.support.rule_world import Bench, Lab, edited, ranks, rule, topology

SIMPLE = """\
id: late-rank
title: One rank is late
description: Looks at the lag of each rank and concludes that one is late.
condition: tp-straggler
maturity: incubating
vantage: dpu
scope: rank
evidence:
  - name: late
    for: 3
    required: true
    when: wire.onset_lag > 2*ms
    why: A guess.
  - name: congested
    against: 2
    when: highest(wire.ecn_ce_ratio[east_west]) > 1*percent
    why: A guess.
fire: {score: 3, hold: 2*s}
clear: {score: 1, hold: 3*s}
impact: {metric: rounds per second, change: "-change(wire.round_rate, 8*s)"}
severity: {warning: 5*percent, critical: 20*percent}
"""


def firing(bench, values, rank="A:n2"):
    """Whether the rank fires after each tick; None is no sample, a pair adds the share of marks."""
    said = []
    for value in values:
        lag, marks = value if isinstance(value, tuple) else (value, 0.0)
        samples = {} if lag is None else {("wire.onset_lag", rank): lag * 1e-3}
        if marks is not None:
            samples["wire.ecn_ce_ratio", "n2/ew"] = marks
        (verdict,) = bench.tick(samples)
        said.append(bool(verdict.firing[verdict.names.index(rank)]))
    return said


def test_it_fires_once_it_held_long_enough_and_clears_once_health_did():
    said = firing(Bench(rule(SIMPLE)), [1] * 5 + [9] * 6 + [1] * 6)
    assert said == [False] * 7 + [True] * 7 + [False] * 3


def test_a_flicker_shorter_than_the_hold_is_nothing():
    assert not any(firing(Bench(rule(SIMPLE)), [1] * 5 + [9, 9, 1] * 6))


@pytest.mark.parametrize(
    ("values", "is_told"),
    [
        ([9], True),
        ([9] * 5, True),
        ([1, 1, 9, 9, 9, 9], True),
        ([1, 1, 1, 1, 9, 9], False),
        ([9, 9, 9, 9, 9, 1], False),
        ([1] * 20 + [9] * 20, False),
    ],
)
def test_where_the_data_is_shorter_than_the_hold_most_of_it_is_enough(values, is_told):
    bench = Bench(rule(edited(SIMPLE, fire="{score: 3, hold: 30*s}")))
    assert not any(firing(bench, values))
    bench.detector.conclude()
    (verdict,) = bench.detector.findings()
    assert bool(verdict.firing[verdict.names.index("A:n2")]) is is_told


def test_silence_neither_fires_nor_clears():
    bench = Bench(rule(SIMPLE))
    assert firing(bench, [1] * 5 + [9] * 4)[-1]
    assert all(firing(bench, [None] * 120))
    assert firing(bench, [1] * 6)[-1] is False


def test_silence_does_not_count_towards_a_hold():
    # A sample stands for three of its periods and no longer.
    said = firing(Bench(rule(edited(SIMPLE, fire="{score: 3, hold: 6*s}"))), [1] * 5 + [9] + [None] * 60 + [9])
    assert not any(said)


LAGS, ROUNDS, SHARE, QUEUE = (
    ("wire.onset_lag", "A:n0"),
    ("wire.round_period", "A"),
    ("wire.last_sender_share", "A:n0"),
    ("serve.waiting", "A"),
)
MORE = """\
  - name: more
    for: 3
    when: wire.last_sender_share > 0.5
    why: A guess.
  - name: congested"""


@pytest.mark.parametrize(
    ("when", "fires_on", "other"),
    [
        ("wire.onset_lag > 2*s or wire.last_sender_share > 0.5", LAGS, SHARE),
        ("wire.onset_lag > 2*s or size() > 2 and wire.round_period > 2*s", LAGS, ROUNDS),
        ("wire.round_period > 2*s or serve.waiting > 2*requests", ROUNDS, QUEUE),
        ("wire.onset_lag > 2*s", LAGS, SHARE),
    ],
    ids=["of the rank", "of the group", "both of the group", "of another item"],
)
def test_what_nobody_there_ever_knew_does_not_keep_it_firing(when, fires_on, other):
    text = SIMPLE.replace("wire.onset_lag > 2*ms", when)
    if "or" not in when:
        text = text.replace("    required: true\n", "").replace("  - name: congested", MORE)
    bench = Bench(rule(edited(text, fire="{score: 3, hold: 2*s}")))

    def firing(*samples):
        (verdict,) = bench.tick(dict(samples))
        return bool(verdict.firing[verdict.names.index("A:n0")])

    high, low = (fires_on, 9.0), (fires_on, 0.1)
    assert [firing(high) for _ in range(5)][-1]
    assert not [firing(low) for _ in range(5)][-1]
    # What was heard as it began to fire, and falls silent, may still be so.
    assert [firing(high, (other, 9.0)) for _ in range(5)][-1]
    assert all(firing(low, (other, 9.0)) for _ in range(5))
    assert all(firing(low) for _ in range(60))
    assert not [firing(low, (other, 0.1)) for _ in range(5)][-1]


def test_what_speaks_against_keeps_it_from_firing_and_what_is_unknown_does_not():
    assert not any(firing(Bench(rule(SIMPLE)), [(9, 0.05)] * 10))
    assert firing(Bench(rule(SIMPLE)), [(9, None)] * 10)[-1]


def test_warm_up_counts_from_the_first_sample():
    said = firing(Bench(rule(edited(SIMPLE, warm_up="6*s"))), [(None, None)] * 5 + [(9, None)] * 12)
    assert said.index(True) >= 5 + 6


def test_a_rule_that_no_longer_applies_says_no_and_clears():
    bench = Bench(rule(edited(SIMPLE, applies_when="wire.round_period < 1*s")))
    applies, ended = (
        [bench.tick(ranks([9e-3]) | {("wire.round_period", "A"): period})[0] for _ in range(6)][-1]
        for period in (0.1, 2.0)
    )
    rank = applies.names.index("A:n0")
    assert (applies.state[rank], applies.firing[rank]) == (YES, True)
    assert (ended.state[rank], ended.firing[rank]) == (NO, False)


@pytest.mark.parametrize(
    ("wanted", "heard", "expected"),
    [
        ("peers() >= 3", 4, YES),
        ("peers() >= 3", 3, YES),
        ("peers() >= 3", 2, UNKNOWN),
        ("peers() >= 5", 2, NO),
        ("peers() < 2", 2, NO),
        ("peers() <= 2", 2, UNKNOWN),
        ("peers() <= 4", 2, YES),
        ("5 > peers()", 1, YES),
        ("peers() == 4", 4, YES),
        ("peers() == 3", 2, UNKNOWN),
        ("peers() == 2", 2, UNKNOWN),
        ("peers() == 1", 2, NO),
        ("peers() != 3", 2, UNKNOWN),
        ("peers() != 5", 2, YES),
    ],
)
def test_peers_of_whom_nothing_was_heard_may_be_there(wanted, heard, expected):
    bench = Bench(rule(edited(SIMPLE, applies_when=wanted)))
    for _ in range(3):
        (verdict,) = bench.tick(ranks([9e-3] * heard))
    found = verdict.state[verdict.names.index("A:n0")]
    assert found == expected


def state(samples, text=SIMPLE, rank="A:n2"):
    bench = Bench(rule(text))
    for _ in range(3):
        (verdict,) = bench.tick(samples)
    return int(verdict.state[verdict.names.index(rank)]), float(verdict.coverage[verdict.names.index(rank)])


LAG, MARKS = ("wire.onset_lag", "A:n2"), ("wire.ecn_ce_ratio", "n2/ew")


@pytest.mark.parametrize(
    ("samples", "expected", "coverage"),
    [
        ({LAG: 9e-3, MARKS: 0.0}, YES, 1.0),
        ({LAG: 9e-3}, YES, 0.6),
        ({LAG: 1e-3, MARKS: 0.0}, NO, 1.0),
        ({LAG: 1e-3}, NO, 0.6),
        ({MARKS: 0.0}, UNKNOWN, 0.4),
        ({}, UNKNOWN, 0.0),
        ({LAG: 9e-3, MARKS: 0.5}, NO, 1.0),
        ({LAG: math.nan, MARKS: 0.0}, UNKNOWN, 0.4),
    ],
)
def test_truth_has_three_values_and_coverage_says_how_much_was_seen(samples, expected, coverage):
    assert state(samples) == (expected, pytest.approx(coverage))


KLEENE = {
    ("yes", "yes"): (YES, YES),
    ("yes", "no"): (NO, YES),
    ("yes", "unknown"): (UNKNOWN, YES),
    ("no", "no"): (NO, NO),
    ("no", "unknown"): (NO, UNKNOWN),
    ("unknown", "unknown"): (UNKNOWN, UNKNOWN),
}
LEVEL = {"yes": 5.0, "no": 0.0, "unknown": None}


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("pair", KLEENE, ids=" ".join)
def test_and_or_and_not_are_those_of_kleene(pair, turned):
    texts = [f"gpu.util > 1*percent {word} gpu.temperature > 1*Cel" for word in ("and", "or")]
    lab = Lab([*texts, "not gpu.util > 1*percent"], scope="gpu", wants="truth")
    first, second = pair[::-1] if turned else pair
    levels = {("gpu.util", "n0/gpu0"): LEVEL[first], ("gpu.temperature", "n0/gpu0"): LEVEL[second]}
    both, either, negative = lab.tick({key: level for key, level in levels.items() if level is not None})
    assert (both["n0/gpu0"], either["n0/gpu0"]) == KLEENE[pair]
    assert negative["n0/gpu0"] == -{"yes": YES, "no": NO, "unknown": UNKNOWN}[first]


NOBODY = {
    "known(serve.waiting)": NO,
    "not known(serve.waiting)": YES,
    "not known(serve.waiting) and serve.waiting > 1*request": UNKNOWN,
    "known(serve.waiting) and serve.waiting > 1*request": NO,
    "serve.waiting > 1*request": UNKNOWN,
}


@pytest.mark.parametrize("text", NOBODY)
def test_of_a_replica_that_a_group_is_not_nothing_is_known_and_that_much_is(text):
    made = topology()
    trains = replace(made.groups[1], front_end="")
    lab = Lab(
        [text],
        scope="group",
        wants="truth",
        topology=replace(made, groups=(made.groups[0], trains), pools=(Pool("lab", ("A",)),)),
    )
    (found,) = lab.tick({("serve.waiting", "A"): 0.0})
    assert found["B"] == NOBODY[text]


def test_a_baseline_learns_who_is_suspected_until_it_can_judge_and_no_further():
    baseline = Baseline(60.0)
    baseline.grow(1)
    suspected = np.array([True])
    for t in range(40):
        baseline.learn(np.array([2.0 if t < 20 else 8.0]), np.array([float(t)]), suspected)
    assert baseline.drift(np.array([8.0])) == pytest.approx(3.0)


def test_entities_learn_beside_each_other_as_each_would_alone():
    """One begins when the past of the others is long, one has gaps, one is suspected for a while."""
    random = np.random.default_rng(3)
    values = random.normal(10, 1, (100, 4))
    values[:70, 1] = values[random.random(100) < 0.2, 2] = np.nan
    suspected = np.zeros((100, 4), bool)
    suspected[30:50, 3] = True

    def learned(who):
        baseline = Baseline(20.0)
        baseline.grow(len(who))
        for t in range(100):
            baseline.learn(values[t, who], float(t), suspected[t, who])
        return baseline.mean.tolist(), baseline.variance.tolist(), baseline.z_score(np.full(len(who), 12.0)).tolist()

    alone = [learned([n]) for n in range(4)]
    assert learned([0, 1, 2, 3]) == tuple([own[0] for own in found] for found in zip(*alone, strict=True))


RUNS = st.lists(
    st.tuples(st.one_of(st.none(), st.floats(0, 20)), st.one_of(st.none(), st.floats(0, 0.1))), min_size=1, max_size=30
)


@settings(max_examples=25, deadline=None)
@given(RUNS, st.lists(st.booleans(), min_size=30, max_size=30))
def test_taking_required_samples_away_never_makes_a_rule_fire_that_did_not(run, holes):
    full = firing(Bench(rule(SIMPLE)), [(lag, 0.0) for lag, _ in run])
    thin = [(None if hole else lag, 0.0) for (lag, _), hole in zip(run, holes, strict=False)]
    # A hold stands still in silence: what would have cleared may stay, but nothing fires that never did.
    if not any(full) and all(lag is not None for lag, _ in run):
        bench = Bench(rule(edited(SIMPLE, fire="{score: 3, hold: 0*s}")))
        once = firing(bench, [(lag, 0.0) for lag, _ in run])
        assert any(once) or not any(firing(Bench(rule(SIMPLE)), thin))


@settings(max_examples=25, deadline=None)
@given(RUNS)
def test_no_run_of_values_and_gaps_raises(run):
    said = firing(Bench(rule()), run)
    assert len(said) == len(run)


@settings(max_examples=25, deadline=None)
@given(RUNS, st.randoms(use_true_random=False))
def test_the_order_in_which_series_come_does_not_matter(run, random):
    names = [f"A:n{n}" for n in range(4)]
    tables = []
    for shuffle in (False, True):
        bench, said = Bench(rule()), []
        for lag, _ in run:
            order = random.sample(names, 4) if shuffle else names
            samples = {} if lag is None else {("wire.onset_lag", name): lag * 1e-3 * int(name[-1]) for name in order}
            (verdict,) = bench.tick(samples)
            said.append((verdict.firing.tolist(), verdict.state.tolist(), np.nan_to_num(verdict.values).tolist()))
        tables.append(said)
    assert tables[0] == tables[1]


def test_the_same_samples_twice_are_the_same_verdicts_bit_by_bit():
    values = np.random.default_rng(3).gamma(2.0, 2e-3, (40, 4))
    told = []
    for _ in range(2):
        bench = Bench(rule())
        told.append(
            [verdict.values.tobytes() + verdict.state.tobytes() for row in values for verdict in bench.tick(ranks(row))]
        )
    assert told[0] == told[1]


def test_a_drift_has_the_level_of_now_as_well():
    text = edited(SIMPLE, impact="{metric: rounds per second, change: drift(wire.round_rate)}")
    bench = Bench(rule(text))
    for tick in range(60):
        late = tick >= 50
        (verdict,) = bench.tick({LAG: 9e-3 if late else 1e-4, ("wire.round_rate", "A"): 60.0 if late else 100.0})
    evidence = verdict.evidence_of([verdict.names.index("A:n2")])
    assert evidence.impact[0] == pytest.approx(-0.4, abs=0.02)
    assert evidence.level[0] == pytest.approx(60.0)
    (plain,) = Bench(rule(SIMPLE)).tick({LAG: 9e-3, ("wire.round_rate", "A"): 60.0})
    assert np.isnan(plain.evidence_of([plain.names.index("A:n2")]).level[0])


def test_severity_follows_the_impact():
    bench = Bench(rule(SIMPLE))
    for tick in range(20):
        rate = 100.0 if tick < 12 else 60.0
        (verdict,) = bench.tick({LAG: 9e-3, ("wire.round_rate", "A"): rate})
    at = verdict.names.index("A:n2")
    assert verdict.impact[at] == pytest.approx(0.4, abs=0.2)
    assert verdict.severity[at] == 2
