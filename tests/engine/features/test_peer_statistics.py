"""What the functions of the language give: laws that hold for any numbers, and what is unknown stays so."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skewscope.engine.features import evaluator
from skewscope.engine.features.operators.peers import Completeness
from tests.support.rule_world import Lab, block, ranks, topology

NAN = math.nan
VALUES = st.lists(st.floats(1e-6, 1e6), min_size=4, max_size=4)
HOLES = st.lists(st.booleans(), min_size=4, max_size=4)


def peers(text, values, scale=1.0, name="wire.onset_lag"):
    """The value of an expression for the four ranks of a group, after one tick."""
    lab = Lab([text])
    given_ = {key: value * scale for key, value in ranks(values, name).items() if not math.isnan(value)}
    (found,) = lab.tick(given_)
    return [found[f"A:n{n}"] for n in range(4)]


@settings(max_examples=15, deadline=None)
@given(VALUES, st.sampled_from([1e-9, 0.125, 3.0, 1e9]))
@pytest.mark.parametrize("function", ["peer_z", "peer_ratio", "share", "gini", "peer_spread"])
def test_a_comparison_of_peers_does_not_depend_on_the_unit(function, values, scale):
    text = f"{function}(wire.onset_lag)"
    once, scaled = peers(text, values), peers(text, values, scale)
    assert scaled == pytest.approx(once, rel=1e-4, abs=1e-6, nan_ok=True)


@settings(max_examples=15, deadline=None)
@given(VALUES, st.permutations(range(4)))
@pytest.mark.parametrize(
    "function",
    [
        "peer_z",
        "peer_ratio",
        "peer_excess",
        "peer_median",
        "peer_highest",
        "peer_lowest",
        "share",
        "gini",
        "peer_spread",
    ],
)
def test_a_comparison_of_peers_does_not_depend_on_their_order(function, values, order):
    text = f"{function}(wire.onset_lag)"
    once = peers(text, values)
    mixed = peers(text, [values[n] for n in order])
    assert mixed == pytest.approx([once[n] for n in order], rel=1e-9, abs=1e-12, nan_ok=True)


@settings(max_examples=15, deadline=None)
@given(VALUES)
def test_shares_add_up_and_a_gini_lies_between_none_and_all(values):
    assert sum(peers("share(wire.onset_lag)", values)) == pytest.approx(1.0)
    assert all(0 <= one < 1 for one in peers("gini(wire.onset_lag)", values))


@settings(max_examples=30, deadline=None)
@given(VALUES, HOLES)
@pytest.mark.parametrize(
    "function",
    [
        "peer_z",
        "peer_ratio",
        "peer_excess",
        "peer_median",
        "peer_highest",
        "peer_lowest",
        "share",
        "gini",
        "peer_spread",
    ],
)
def test_whoever_is_not_heard_is_unknown_and_never_zero(function, values, holes):
    seen = [NAN if hole else value for value, hole in zip(values, holes, strict=True)]
    found = peers(f"{function}(wire.onset_lag)", seen)
    of_the_group = function in ("gini", "peer_spread")
    assert all(math.isnan(one) for one, hole in zip(found, holes, strict=True) if hole and not of_the_group)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("peer_ratio(wire.onset_lag)", 20.0),
        ("peer_excess(wire.onset_lag)", 19.0),
        ("peer_median(wire.onset_lag)", 1.0),
        ("share(wire.onset_lag)", 20 / 23),
        ("peer_highest(wire.onset_lag)", 1.0),
    ],
)
def test_one_that_stands_out_by_hand(text, expected):
    assert peers(text, [1.0, 1.0, 20.0, 1.0])[2] == pytest.approx(expected)


@pytest.mark.parametrize("silent", [(), (1,), (0, 1, 3)])
def test_those_that_are_heard_are_counted(silent):
    found = peers("heard(wire.onset_lag)", [math.nan if n in silent else float(n) for n in range(4)])
    assert [one for n, one in enumerate(found) if n not in silent] == [4.0 - len(silent)] * (4 - len(silent))


@pytest.mark.parametrize("few", [False, True])
@pytest.mark.parametrize(("silent", "expected"), [((), 1), ((2,), 0), ((0, 1, 2, 3), 0)])
def test_whether_all_are_heard_is_yes_or_unknown(monkeypatch, silent, expected, few):
    if few:
        # As of a fleet so large that what is asked of some is worked out for them alone.
        monkeypatch.setattr(evaluator, "MAX_KEPT_SIZE", 0)
        monkeypatch.setattr(Completeness, "evaluate", None)
    lab = Lab(["complete(wire.onset_lag)"], scope="group", wants="truth", topology=topology(groups=16))
    values = ranks([0.0 if n in silent else 1.0 for n in range(4)], "wire.onset_lag")
    lab.panel.begin_tick(lab.t)
    lab.panel.ingest(block({key: value for key, value in values.items() if value}, lab.table, lab.t), lab.table)
    lab.panel.refresh()
    lab.evaluator.step(lab.t)
    some = lab.evaluator.subset_of("group", np.array([0, 1][: 2 - few]))
    assert lab.evaluator.subset_value(lab.evaluator.number_of(lab.exprs[0]), some).tolist() == [expected, 0][: 2 - few]


def test_a_window_of_what_was_never_delivered_is_unknown_for_some_as_for_all(monkeypatch):
    # As of a fleet so large that what is asked of some is worked out for them alone.
    monkeypatch.setattr(evaluator, "MAX_KEPT_SIZE", 0)
    lab = Lab(["mean(wire.last_sender_share, 5*s)"], topology=topology(groups=16))
    lab.panel.begin_tick(lab.t)
    lab.panel.ingest(block(ranks([1.0] * 4, "wire.onset_lag"), lab.table, lab.t), lab.table)
    lab.panel.refresh()
    lab.evaluator.step(lab.t)
    some = lab.evaluator.subset_of("rank", np.arange(2))
    assert np.isnan(lab.evaluator.subset_value(lab.evaluator.number_of(lab.exprs[0]), some)).all()


def test_all_alike_is_a_gini_of_zero_and_all_for_one_nearly_one():
    assert peers("gini(wire.onset_lag)", [3.0] * 4) == pytest.approx([0.0] * 4)
    assert peers("gini(wire.onset_lag)", [0.0, 0.0, 9.0, 0.0]) == pytest.approx([0.75] * 4)


def test_peers_at_zero_leave_an_excess_but_no_ratio():
    assert math.isnan(peers("peer_ratio(wire.onset_lag)", [0.0, 0.0, 5.0, 0.0])[2])
    assert peers("peer_excess(wire.onset_lag)", [0.0, 0.0, 5.0, 0.0])[2] == 5.0


# Windows: what they give over a run of samples.

RUN = [3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0, 5.0, 3.0]
LAST = RUN[-4:]
WINDOWS = {
    "mean(wire.onset_lag, 4*s)": np.mean(LAST),
    "minimum(wire.onset_lag, 4*s)": min(LAST),
    "maximum(wire.onset_lag, 4*s)": max(LAST),
    "quantile(wire.onset_lag, 0.5, 4*s)": np.median(LAST),
    "samples(wire.onset_lag, 4*s)": 4.0,
    "jitter(wire.onset_lag, 4*s)": np.std(LAST),
    "burst(wire.onset_lag, 4*s)": max(LAST) / np.mean(LAST),
    "slope(wire.onset_lag, 4*s)": np.polyfit(range(4), LAST, 1)[0],
    "change(wire.onset_lag, 4*s, 4*s)": np.mean(LAST) / np.mean(RUN[-8:-4]) - 1,
}


def ran(text, run=RUN, **more):
    lab = Lab([text], **more)
    return [lab.tick(ranks([value] * 4) if value is not None else {})[0]["A:n1"] for value in run]


@pytest.mark.parametrize("text", WINDOWS)
def test_a_window_gives_what_its_samples_give(text):
    assert ran(text)[-1] == pytest.approx(WINDOWS[text], rel=0.35 if "quantile" in text else 1e-6)


@pytest.mark.parametrize("text", WINDOWS)
def test_a_window_without_a_sample_is_unknown(text):
    assert math.isnan(ran(text, [None] * 3)[-1])
    assert math.isnan(ran(text, RUN + [None] * 60)[-1])


@settings(max_examples=15, deadline=None)
@given(st.lists(st.one_of(st.none(), st.floats(-1e6, 1e6)), max_size=25))
@pytest.mark.parametrize(
    "text", [*WINDOWS, "baseline_z(wire.onset_lag)", "drift(wire.onset_lag)", "ewma(wire.onset_lag, 5*s)"]
)
def test_no_run_of_samples_and_gaps_raises_or_gives_an_infinity(text, run):
    assert not any(math.isinf(one) for one in ran(text, run))


def test_a_window_too_short_for_its_series_widens_to_a_few_of_its_samples():
    lab = Lab(["mean(wire.onset_lag, 2*s)"])
    found = []
    for tick in range(60):
        sampled = ranks([float(tick)] * 4) if tick % 10 == 0 else {}
        found.append(lab.tick(sampled)[0]["A:n0"])
    assert not math.isnan(found[-1])
    assert 30 <= found[-1] <= 50


def test_a_value_goes_stale_by_its_own_rhythm():
    fast, slow = Lab(["wire.onset_lag"]), Lab(["wire.onset_lag"])
    for tick in range(41):
        fast.tick(ranks([1.0] * 4))
        slow.tick(ranks([1.0] * 4) if tick % 10 == 0 else {})
    after = [(fast.tick({})[0]["A:n0"], slow.tick({})[0]["A:n0"]) for _ in range(12)]
    assert math.isnan(after[5][0])
    assert after[5][1] == 1.0


# A baseline: an entity against its own healthy past.


def test_drift_tells_how_far_from_usual_and_says_nothing_before_there_is_a_usual():
    found = ran("drift(wire.onset_lag)", [2.0] * 30 + [5.0])
    assert math.isnan(found[3])
    assert found[29] == pytest.approx(0.0, abs=1e-9)
    assert found[30] == pytest.approx(1.5)


def test_a_z_of_a_steady_past_is_large_for_what_is_new_and_small_for_noise():
    noise = np.random.default_rng(5).normal(10, 1, 60).tolist()
    found = ran("baseline_z(wire.onset_lag)", [*noise, 10.5, 30.0])
    assert abs(found[-2]) < 3
    assert found[-1] > 8


# Counters.


def counted(values, text="rate(port.rx_discards, 4*s)", scope="port"):
    lab = Lab([text], scope=scope)
    found = []
    for value in values:
        given_ = {} if value is None else {("port.rx_discards", "n0/ew"): value}
        found.append(lab.tick(given_)[0]["n0/ew"])
    return found


def test_a_counter_s_rate_is_what_it_grew_by():
    assert counted([10 * n for n in range(12)])[-1] == pytest.approx(10.0)


def test_a_counter_that_starts_anew_does_not_grow_by_what_it_lost():
    found = counted([1000 + 10 * n for n in range(8)] + [10 * n for n in range(8)])
    assert min(one for one in found if not math.isnan(one)) >= 0
    assert max(one for one in found if not math.isnan(one)) <= 10.0 + 1e-9


def test_a_counter_of_32_bits_that_wraps_goes_on():
    size = 2**32
    found = counted([(size - 45 + 10 * n) % size for n in range(12)])
    assert found[-1] == pytest.approx(10.0)
    assert np.nanmax(found) <= 10.0 + 1e-9


def test_a_counter_stuck_at_the_end_of_its_range_is_unknown():
    assert math.isnan(counted([2**32 - 1] * 10)[-1])


@settings(max_examples=15, deadline=None)
@given(st.lists(st.one_of(st.none(), st.integers(0, 2**32 - 2)), max_size=25))
def test_no_counter_counts_backwards(values):
    assert all(math.isnan(one) or 0 <= one <= 2**32 for one in counted(values))


# Late and early samples.


def test_the_order_of_samples_within_a_tick_does_not_matter():
    pairs = [(1000.2, 3.0), (1000.5, 4.0), (1000.9, 5.0)]
    found = []
    for order in (pairs, pairs[::-1], [pairs[1], pairs[2], pairs[0]]):
        lab = Lab(["mean(wire.onset_lag, 4*s)", "wire.onset_lag"])
        for before in range(4):
            lab.tick({("wire.onset_lag", "A:n0"): 2.0}, t=996.0 + before)
        values = lab.tick({("wire.onset_lag", "A:n0"): order}, t=1001.0)
        found.append([each["A:n0"] for each in values])
    assert found[0] == found[1] == found[2]
    assert found[0][1] == 5.0
    assert not math.isnan(found[0][0])


def test_a_sample_that_comes_late_does_not_become_the_newest():
    lab = Lab(["wire.onset_lag"])
    lab.tick({("wire.onset_lag", "A:n0"): 7.0})
    assert lab.tick({("wire.onset_lag", "A:n0"): [(lab.t - 0.7, 1.0)]})[0]["A:n0"] == 7.0
    assert lab.panel.counts.late == 1


def test_a_sample_that_comes_far_too_late_is_dropped_and_counted():
    lab = Lab(["wire.onset_lag"])
    lab.tick({("wire.onset_lag", "A:n0"): 7.0})
    lab.tick({("wire.onset_lag", "A:n0"): [(lab.t - 100, 1.0)]})
    assert lab.panel.counts.dropped == 1


def test_series_of_entities_that_the_topology_lacks_are_counted_and_harm_nobody():
    lab = Lab(["wire.onset_lag"])
    found = lab.tick({("wire.onset_lag", "A:n99"): 7.0, **ranks([1.0] * 4)})
    assert found[0]["A:n0"] == 1.0
    assert lab.panel.counts.unplaced == 1


# --- alternatives and quotients

SAMPLES = st.one_of(st.just(math.nan), st.floats(1e-6, 1e6))


def of_rank(text, lag=math.nan, period=math.nan):
    """The value of an expression on one rank, from its lag and its group's round period."""
    lab = Lab([text])
    samples = {("wire.onset_lag", "A:n0"): lag, ("wire.round_period", "A"): period}
    return lab.tick({key: value for key, value in samples.items() if not math.isnan(value)})[0]["A:n0"]


@given(st.lists(SAMPLES, min_size=4, max_size=4))
def test_the_lowest_of_the_others_mirrors_the_highest(values):
    negative = [-value for value in values]
    lowest, highest = peers("peer_lowest(wire.onset_lag)", values), peers("peer_highest(wire.onset_lag)", negative)
    assert lowest == pytest.approx([-value for value in highest], nan_ok=True)
    for n, value in enumerate(values):
        others = [other for k, other in enumerate(values) if k != n and not math.isnan(other)]
        expected = min(others) if others and not math.isnan(value) else math.nan
        assert lowest[n] == pytest.approx(expected, nan_ok=True)


@given(SAMPLES, SAMPLES)
def test_coalesce_is_the_first_known_value_and_unknown_where_both_are(lag, period):
    found = of_rank("coalesce(wire.onset_lag, wire.round_period)", lag=lag, period=period)
    assert found == pytest.approx(period if math.isnan(lag) else lag, nan_ok=True)


@given(SAMPLES, SAMPLES, st.floats(0.01, 100.0))
def test_a_ratio_does_not_depend_on_the_unit_and_is_unknown_where_either_side_is(lag, period, scale):
    text = "ratio(wire.onset_lag, wire.round_period)"
    found = of_rank(text, lag=lag, period=period)
    assert math.isnan(found) == (math.isnan(lag) or math.isnan(period))
    assert found == pytest.approx(lag / period, nan_ok=True)
    assert of_rank(text, lag=lag * scale, period=period * scale) == pytest.approx(found, nan_ok=True)


def test_a_ratio_to_zero_is_unknown():
    assert math.isnan(of_rank("ratio(wire.onset_lag, wire.round_period)", lag=1.0, period=0.0))


def test_the_number_of_something_has_its_value_and_no_counted_unit():
    lab = Lab(["number_of(wire.open_streams)"], scope="node")
    assert lab.tick({("wire.open_streams", "n0"): 3.0})[0]["n0"] == 3.0
    assert lab.exprs[0].dimension == ()
