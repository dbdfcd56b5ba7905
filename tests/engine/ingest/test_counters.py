"""Counters: resets, wraps, gaps, ends of range, and that nothing is ever counted that nobody counted."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewscope.engine.ingest.counters import Ranges, compute_increases, ranges_of
from tests.support.rule_world import Lab, signal

NAN = math.nan
SIZE = 2.0**32
DISCARDS, BYTES = "rate(port.rx_discards, 4*s)", "rate(port.tx_bytes, 4*s)"


def increase(before, now, *sizes):
    """(by, broke, stuck) of one counter with these ranges."""
    found = compute_increases(np.array([before]), np.array([now]), ranges(*sizes))
    return float(found.increase[0]), bool(found.reset[0]), bool(found.saturated[0])


def ranges(*sizes):
    table = np.array([[size] for size in sizes or [NAN]])
    return Ranges(table, table - 1)


@pytest.mark.parametrize(
    ("before", "now", "sizes", "expected"),
    [
        (10.0, 25.0, (), (15.0, False, False)),
        (10.0, 10.0, (), (0.0, False, False)),
        (NAN, 10.0, (), (0.0, True, False)),
        (1000.0, 10.0, (), (0.0, True, False)),
        (SIZE - 5, 10.0, (SIZE,), (15.0, False, False)),
        (SIZE - 5, 10.0, (), (0.0, True, False)),
        (SIZE * 0.4, 10.0, (SIZE,), (0.0, True, False)),
        (SIZE * 0.51, SIZE * 0.005, (SIZE,), (pytest.approx(SIZE * 0.495), False, False)),
        (SIZE * 0.5, 10.0, (SIZE,), (0.0, True, False)),
        (SIZE - 9, SIZE - 1, (SIZE,), (8.0, False, True)),
        (SIZE - 1, 4.0, (SIZE,), (0.0, True, False)),
        (SIZE - 1, SIZE - 1, (SIZE,), (0.0, False, True)),
        (SIZE + 9, 4.0, (SIZE,), (0.0, True, False)),
        (8 * SIZE - 8, 8.0, (SIZE, 8 * SIZE), (16.0, False, False)),
    ],
)
def test_a_counter_between_two_samples(before, now, sizes, expected):
    assert increase(before, now, *sizes) == expected


def test_the_ranges_of_a_signal_are_those_of_its_exporters():
    assert ranges_of(signal("a.b", "By", "counter", width_bits=0)) == ()
    assert ranges_of(signal("a.b", "By", "counter", width_bits=32)) == ((SIZE, SIZE - 1),)
    assert ranges_of(signal("a.b", "By", "counter", width_bits=32, scale={"x": 4.0})) == (
        (SIZE, SIZE - 1),
        (4 * SIZE, 4 * (SIZE - 1)),
    )


def rates(values, text=DISCARDS, tick=1.0):
    """The rate after each tick; None is no sample, a list several within the tick."""
    lab, found = Lab([text], scope="port", tick=tick), []
    key = (text.partition("(")[2].rstrip(")").partition(",")[0], "n0/ew")
    for value in values:
        many = value if isinstance(value, list) else [value]
        times = lab.t + tick * (np.arange(len(many)) + 1) / len(many)
        samples = {} if value is None else {key: list(zip(times.tolist(), many, strict=True))}
        found.append(lab.tick(samples)[0]["n0/ew"])
    return found


def test_a_rate_is_what_was_counted_over_the_time_in_which_it_was():
    assert rates([10.0 * n for n in range(12)])[-1] == pytest.approx(10.0)
    assert rates([10.0 * n if n % 2 else None for n in range(12)])[-1] == pytest.approx(10.0)


def test_a_silence_in_between_is_bridged_by_what_was_counted_meanwhile():
    found = rates([10.0 * n for n in range(8)] + [None] * 2 + [10.0 * n for n in range(10, 14)])
    assert found[-4:] == pytest.approx([10.0] * 4)


def test_several_samples_in_a_tick_count_as_they_would_one_by_one():
    run = [0.0, 3.0, 9.0, 11.0, 30.0, 31.0, 2.0, 4.0, 9.0, 9.0, 12.0, 18.0, 20.0, 25.0]
    pairs = [run[n : n + 2] for n in range(0, len(run), 2)]
    assert rates(pairs)[-1] == pytest.approx(rates(run, tick=0.5)[-1])


def test_a_counter_that_starts_anew_twice_in_one_tick_counts_from_the_later_start():
    found = rates([100.0, 110.0, 120.0, 130.0, [5.0, 3.0, 4.0], 8.0, 12.0, 16.0, 20.0])
    assert all(math.isnan(one) or 0 <= one <= 10.0 for one in found)
    assert found[-1] == pytest.approx(4.0, rel=0.1)


def test_a_counter_stands_since_the_reading_that_first_showed_its_value():
    found = rates([5.0, 5.0, 8.0, 8.0, None, 8.0, 9.0, 9.0, *[None] * 4], text="standing(port.rx_discards)")
    assert math.isnan(found[1])
    assert found[2:8] == [0.0, 1.0, 1.0, 3.0, 0.0, 1.0]
    assert math.isnan(found[-1])


def test_a_delivered_gap_is_a_rate_unknown_and_what_follows_is_none_the_worse():
    found = rates([10.0 * n for n in range(8)] + [NAN] + [10.0 * n for n in range(9, 12)])
    assert math.isnan(found[8])
    assert found[9:] == pytest.approx([10.0] * 3)


@given(st.lists(st.one_of(st.none(), st.integers(0, 50)), min_size=1, max_size=40), st.integers(1, 20))
def test_a_rate_is_that_of_a_plain_list_of_samples(steps, window):
    text = f"rate(port.tx_bytes, {window}*s)"
    total, values = 100, []
    for step in steps:
        total += step or 0
        values.append(None if step is None else float(total))
    found = rates(values, text)[-1]
    there = [(n, value) for n, value in enumerate(values) if value is not None]
    if math.isnan(found):
        return
    end = len(values) - 1
    starts = [pair for pair in there if pair[0] <= end - window] or there[:1]
    (t0, v0), (t1, v1) = starts[-1], there[-1]
    wide = [(v1 - value) / (t1 - n) for n, value in there if n < t1]
    exact = (v1 - v0) / (t1 - t0) if t1 > t0 else NAN
    # Where it was widened to a few of its periods the start is an earlier sample.
    assert found == pytest.approx(exact) or any(found == pytest.approx(one) for one in wide)


@given(st.lists(st.one_of(st.none(), st.floats(0, 1e9), st.just(NAN)), max_size=30))
def test_no_rate_is_below_zero_or_beyond_all_numbers(values):
    assert all(math.isnan(one) or 0 <= one < 1e10 for one in rates(values, BYTES))


def test_small_counters_keep_their_digits_beside_those_of_a_fleet():
    lab = Lab(["rate(port.tx_bytes, 4*s)", "rate(port.pause_time, 4*s)"], scope="port")
    for tick in range(8):
        huge = {("port.tx_bytes", f"n{n}/{port}"): (tick + 0.3) * 1e17 for n in range(8) for port in ("ns", "ew")}
        _, paused = lab.tick(huge | {("port.pause_time", "n0/ew", "p3"): 0.25 * tick})
    assert paused["n0/ew"] == pytest.approx(0.25e-6)


def test_counters_side_by_side_are_summed_and_unknown_while_one_is_silent():
    lab = Lab(["rate(port.pause_time, 4*s)", "rate(port.pause_time[p3], 4*s)"], scope="port")
    for tick in range(40):
        samples = {("port.pause_time", "n0/ew", "p3"): 4e6 * tick}
        if tick < 10:
            samples["port.pause_time", "n0/ew", "p4"] = 1e6 * tick
        both, one = (each["n0/ew"] for each in lab.tick(samples))
        if tick == 9:
            assert both == pytest.approx(5.0)
    assert math.isnan(both)
    assert one == pytest.approx(4.0)


# --- histograms

BOUNDS = (0.1, 0.5, 1.0, 5.0)


def observed(values, per_tick=10):
    """Quantiles and the mean that a histogram gives after these observations, so many a tick."""
    texts = ["bucket_quantile(serve.ttft, 0.5, 10*s)", "bucket_quantile(serve.ttft, 0.95, 10*s)"]
    lab = Lab([*texts, "bucket_mean(serve.ttft, 10*s)"], scope="group")
    seen = []
    for tick in range(12):
        seen += values[(tick - 1) * per_tick : tick * per_tick] if tick else []
        parts = {f"bucket:{bound}": sum(v <= bound for v in seen) for bound in BOUNDS}
        parts |= {"bucket:+Inf": len(seen), "count": len(seen), "sum": sum(seen)}
        found = lab.tick({("serve.ttft", "A", part): float(value) for part, value in parts.items()})
    return [each["A"] for each in found]


@given(st.lists(st.floats(0.001, 8.0), min_size=110, max_size=110))
def test_a_quantile_lies_in_its_bucket_and_the_mean_is_the_mean(values):
    median, high, mean = observed(values)
    edges = (0.0, *BOUNDS)
    window = sorted(values[-100:])
    for q, found in ((0.5, median), (0.95, high)):
        true = window[math.ceil(q * len(window)) - 1]
        bucket = next((n for n, bound in enumerate(BOUNDS) if true <= bound), None)
        low, top = (BOUNDS[-1], BOUNDS[-1]) if bucket is None else (edges[bucket], BOUNDS[bucket])
        assert low - 1e-9 <= found <= top + 1e-9
    assert mean == pytest.approx(np.mean(window), rel=1e-6)


def test_a_histogram_in_which_nothing_new_was_counted_says_nothing():
    assert all(math.isnan(one) for one in observed([]))


def test_a_histogram_without_its_buckets_has_a_mean_and_no_quantile():
    lab = Lab(["bucket_quantile(serve.ttft, 0.5, 5*s)", "bucket_mean(serve.ttft, 5*s)"], scope="group")
    for tick in range(8):
        parts = {"count": 10.0 * tick, "sum": 5.0 * tick, "bucket:nonsense": 1.0}
        found = lab.tick({("serve.ttft", "A", part): value for part, value in parts.items()})
    assert math.isnan(found[0]["A"])
    assert found[1]["A"] == pytest.approx(0.5)


def test_a_mean_rests_on_the_last_two_intervals_and_a_rate_on_three():
    lab = Lab(["bucket_mean(serve.ttft, 3*s)", "rate(front(wire.requests), 3*s)"], scope="group")
    count = total = requests = 0.0
    for tick in range(121):
        is_late = tick > 90  # two scrapes each 15 s
        count, total, requests = count + 1.0, total + (4.0 if is_late else 1.0), requests + (40.0 if is_late else 10.0)
        parts = {("serve.ttft", "A", "count"): count, ("serve.ttft", "A", "sum"): total}
        found = lab.tick({**parts, ("wire.requests", "n0"): requests} if tick % 15 == 0 else {})
    assert found[0]["A"] == pytest.approx(4.0)
    assert found[1]["A"] == pytest.approx(30.0)
