"""Windows over rings against the same windows over plain lists of samples."""

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from skewscope.engine.features import window_store
from skewscope.engine.features.window_store import WindowStore
from skewscope.engine.features.windows import SampleWindow
from skewscope.engine.ingest.samples import MAX_PERIOD_S, MIN_PERIODS, widen_window
from skewscope.engine.ingest.slots import MAX_SLOTS, SLOTS_PER_WINDOW, SlotRing, slot_for_window
from tests.support.rule_world import Lab, ranks

NAN = math.nan
START = 1_700_000_000.0
RUNS = st.lists(st.one_of(st.none(), st.floats(-1e3, 1e3)), min_size=1, max_size=90)


class Plain:
    """Every sample of one entity, and what a window of them gives."""

    def __init__(self, track):
        self.track = track
        self.samples = []

    def inside(self, steps, skip=0):
        """The samples of `steps` slots, those of one slot in a list."""
        ring, found = self.track.ring, {}
        for t, value in self.samples:
            slot = int((t - START) / ring.slot + 1e-6)
            if ring.current - steps - skip < slot <= ring.current - skip:
                found.setdefault(slot, []).append(value)
        return [found[slot] for slot in sorted(found)], sorted(found)


def ran(run, window, tick=1.0):
    """A track and a plain list after a run of samples, None for a tick without."""
    track = SampleWindow(tick, slot_for_window(window, tick))
    track.ring.coarsen(window)
    plain = Plain(track)
    for n, value in enumerate(run):
        t = START + n * tick
        track.step(t, np.array([NAN if value is None else value]), np.array([t]))
        plain.samples += [] if value is None else [(t, value)]
    return track, plain


@given(RUNS, st.integers(1, 60))
@example([1.0, None, 3.0] * 30, 60)
def test_every_statistic_is_that_of_the_window_s_samples(run, window):
    track, plain = ran(run, float(window))
    steps = track.ring.slot_counts(widen_window(float(window), np.array([NAN])))
    slots, numbers = plain.inside(int(steps[0]))
    values = [value for slot in slots for value in slot]
    if not values:
        assert not track.ring.size or track.ring.window_sum("count", steps)[0] == 0
        return
    close = {"rel": 1e-6, "abs": 1e-6}
    assert track.ring.window_sum("count", steps)[0] == len(values)
    assert track.mean(steps)[0] == pytest.approx(np.mean(values), **close)
    assert track.variance(steps)[0] == pytest.approx(np.var(values), rel=1e-6, abs=1e-3)
    assert np.fmin.reduce(track.ring.window_slots("low", steps), axis=0)[0] == min(values)
    assert np.fmax.reduce(track.ring.window_slots("high", steps), axis=0)[0] == max(values)
    last = [slot[-1] for slot in slots]
    for q in (0.0, 0.3, 0.5, 1.0):
        assert track.quantile(steps, q)[0] == pytest.approx(np.quantile(last, q), **close)
    if len(last) > 1:
        slope = np.polyfit(np.array(numbers) * track.ring.slot, last, 1)[0]
        assert track.slope(steps)[0] == pytest.approx(slope, rel=1e-4, abs=1e-4)


@given(RUNS, st.integers(1, 10), st.integers(1, 25))
def test_the_past_of_a_change_lies_before_its_present(run, recent, past):
    track, plain = ran(run, float(recent + past))
    steps, before = (track.ring.slot_counts(widen_window(float(n), np.array([NAN]))) for n in (recent, past))
    slots, _ = plain.inside(int(before[0]), int(steps[0]))
    values = [value for slot in slots for value in slot]
    if track.ring.size:
        expected = np.mean(values) if values else NAN
        assert track.mean(before, steps)[0] == pytest.approx(expected, rel=1e-6, abs=1e-6, nan_ok=True)


@given(
    st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=80),
    st.integers(0, MAX_SLOTS - 1),
    st.sampled_from([50.0, 90.0, 300.0]),
)
def test_a_ring_made_coarser_forgets_nothing_that_it_still_had(run, when, wider):
    track, plain = ran(run[:when], 10.0)
    track.ring.coarsen(wider)
    for n, value in enumerate(run[when:], start=when):
        track.step(START + n, np.array([value]), np.array([START + n]))
        plain.samples.append((START + n, value))
    steps = track.ring.slot_counts(widen_window(wider, np.array([NAN])))
    slots, _ = plain.inside(int(steps[0]))
    values = [value for slot in slots for value in slot]
    assert track.ring.slot * (MAX_SLOTS - 2) >= wider
    assert track.ring.window_sum("count", steps)[0] == len(values)
    assert track.mean(steps)[0] == pytest.approx(np.mean(values), rel=1e-6, abs=1e-6)
    assert np.fmax.reduce(track.ring.window_slots("high", steps), axis=0)[0] == max(values)


@given(st.lists(st.floats(-1e3, 1e3), min_size=8, max_size=50), st.integers(1, 5), st.sampled_from([0.5, 1.0]))
def test_a_sample_that_comes_late_counts_as_if_it_had_come_in_time(run, delay, tick):
    window = 12.0 * tick
    whole, _ = ran(run, window, tick)
    missed = len(run) - 1 - delay
    thin, _ = ran([None if n == missed else value for n, value in enumerate(run)], window, tick)
    t = START + (len(run) - 1) * tick
    thin.add_late(t, np.array([0]), np.array([START + missed * tick]), np.array([run[missed]]))
    steps = whole.ring.slot_counts(widen_window(window, np.array([NAN])))
    for statistic in ("mean", "variance", "slope"):
        one, other = (getattr(track, statistic)(steps)[0] for track in (whole, thin))
        assert other == pytest.approx(one, rel=1e-6, abs=1e-3)
    assert thin.quantile(steps, 0.5)[0] == whole.quantile(steps, 0.5)[0]


@pytest.mark.parametrize("late", [False, True])
def test_a_late_sample_reaches_the_windows_of_a_bare_signal(late):
    lab = Lab(["mean(wire.onset_lag, 8*s)", "wire.onset_lag"])
    for _ in range(6):
        lab.tick(ranks([1.0] * 4))
    own = [(lab.t + 1, 1.0), *([(lab.t - 1.5, 10.0)] if late else [])]
    mean, newest = lab.tick(ranks([1.0] * 3) | {("wire.onset_lag", "A:n3"): own})
    assert mean["A:n3"] == (pytest.approx((7 + 10) / 8) if late else 1.0)
    assert mean["A:n0"] == newest["A:n3"] == 1.0


def test_slots_are_doubled_ticks_and_a_window_has_no_more_of_them_than_it_needs():
    for tick in (0.1, 0.5, 1.0):
        for window in (0.05, 1.0, 7.0, 60.0, 3600.0):
            slot = slot_for_window(window, tick)
            assert math.log2(slot / tick) == int(math.log2(slot / tick))
            assert window / slot <= SLOTS_PER_WINDOW


def test_a_long_run_of_large_values_keeps_its_digits():
    track = SampleWindow(1.0, 1.0)
    track.ring.coarsen(10.0)
    for n in range(5000):
        t = START + n
        track.step(t, np.array([1e12 + n % 2]), np.array([t]))
    steps = track.ring.slot_counts(widen_window(10.0, np.array([NAN])))
    assert track.mean(steps)[0] == pytest.approx(1e12 + 0.5, rel=1e-13)
    assert track.variance(steps)[0] == pytest.approx(0.25, rel=1e-6)


@pytest.mark.parametrize("absurd", [1e101, -1e200, 1.7e308])
def test_an_absurd_sample_is_a_gap_and_poisons_nothing(absurd):
    lab = Lab(["mean(wire.onset_lag, 4*s)", "jitter(wire.onset_lag, 4*s)", "drift(wire.onset_lag, 12*s)"])
    for tick in range(30):
        values = ranks([absurd if tick == 12 else 2.0 + tick % 2] * 4)
        found = [each["A:n0"] for each in lab.tick(values)]
    assert found[0] == pytest.approx(2.5)
    assert found[1] == pytest.approx(0.5)
    assert abs(found[2]) < 0.5
    assert lab.panel.counts.gaps == 4


# --- periods


def test_one_outage_at_the_start_does_not_blur_every_window_for_ever():
    lab = Lab(["mean(wire.onset_lag, 4*s)"])
    lab.tick(ranks([1.0] * 4))
    for _ in range(60):
        lab.tick({})
    for tick in range(40):
        found = lab.tick(ranks([1.0 if tick < 30 else 9.0] * 4))
    assert found[0]["A:n0"] == 9.0
    (track,) = [op.buffer.window for op in lab.evaluator._operators if hasattr(op, "buffer")]
    assert track.ring.slot == 1.0


@pytest.mark.parametrize("period", [3, 10, 30, 60])
def test_a_window_shorter_than_its_series_holds_three_of_its_samples(period):
    lab = Lab(["mean(wire.onset_lag, 2*s)", "quantile(wire.onset_lag, 0.5, 2*s)", "slope(wire.onset_lag, 2*s)"])
    for tick in range(9 * period + 1):
        found = lab.tick(ranks([float(tick // period)] * 4) if tick % period == 0 else {})
    mean, middle, slope = (each["A:n0"] for each in found)
    assert mean == pytest.approx(8.0, abs=1.01)
    assert middle == pytest.approx(8.0, abs=1.01)
    assert slope == pytest.approx(1 / period, rel=0.35)


def test_a_window_is_widened_to_no_more_than_a_few_of_the_longest_periods():
    ring = SlotRing(1.0, 1.0, ("sum",))
    ring.coarsen(MIN_PERIODS * MAX_PERIOD_S)
    wide, wider = (
        int(ring.slot_counts(widen_window(5.0, np.array([period])))[0]) for period in (MAX_PERIOD_S, 100 * MAX_PERIOD_S)
    )
    assert wide == wider
    assert (wide - 1) * ring.slot < MIN_PERIODS * MAX_PERIOD_S <= wide * ring.slot


def test_a_window_is_unknown_until_half_of_it_was_seen():
    lab = Lab(["mean(wire.onset_lag, 10*s)"])
    said = [lab.tick(ranks([1.0] * 4))[0]["A:n0"] for _ in range(10)]
    assert [math.isnan(one) for one in said[:4]] == [True] * 4
    assert not any(math.isnan(one) for one in said[5:])


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=60), st.sampled_from([(40, 16), (16, 40), (40, 40), (16, 8)])
)
def test_a_track_goes_on_with_what_another_one_remembered(run, depths):
    before, after = (SampleWindow(1.0, 1.0, origin=START, depth=depth) for depth in depths)
    after.grow(3)
    for n, value in enumerate(run):
        before.step(START + n, np.array([value, -value]), np.full(2, START + n))
    after.copy_from(slice(1, 3), before, slice(0, 2))
    for window in (1, 4):
        steps, skip = min(window, len(run)), slice(1, 3)
        assert after.mean(steps, at=skip) == pytest.approx(before.mean(steps), rel=1e-9, abs=1e-9)
        low = (
            np.fmin.reduce(track.ring.window_slots("low", steps, at), axis=0)
            for track, at in ((after, skip), (before, slice(0, 2)))
        )
        assert next(low).tolist() == next(low).tolist()


STATISTICS = {
    "mean": lambda window, at: window.mean(window.slot_counts(8.0, at), at=at),
    "slope": lambda window, at: window.slope(window.slot_counts(8.0, at), at),
    "quantile": lambda window, at: window.quantile(window.slot_counts(8.0, at), 0.3, at),
}


@pytest.mark.parametrize("name", STATISTICS)
def test_a_statistic_that_several_ask_for_is_computed_once_and_is_that_of_each_alone(name):
    store, random, asked = WindowStore(1.0), np.random.default_rng(1), []
    buffers = [store.buffer(n, "port", 8.0) for n in range(3)]
    for buffer in buffers:
        buffer.request(name, (8.0,), ("sum", "last"))
    store.allocate(lambda _: True, lambda _: 2)

    def compute(window, at):
        asked.append(at)
        return STATISTICS[name](window, at)

    for n in range(60):
        # The periods of the three are 1 s, 2 s and 3 s; values of one entity in ten are missing.
        times = START + n // np.repeat([1, 2, 3], 2) * np.repeat([1.0, 2.0, 3.0], 2)
        values = np.where(random.random(6) < 0.1, NAN, random.normal(100, 1, 6))
        store.step(START + n, lambda _, now=(values, times): now, lambda _: True, has_samples=True)
        with np.errstate(all="ignore"):
            shared = [buffer.statistic(name, compute) for buffer in buffers]
            alone = [STATISTICS[name](buffer.window, buffer.columns) for buffer in buffers]
        assert [part.tobytes() for part in shared] == [part.tobytes() for part in alone]
    assert len(asked) == 60


LAYERS_BY_STATISTIC = {"mean": ("sum",), "slope": ("last",), "quantile": ("last",)}


def statistics_of_a_run(names):
    """Returns the bytes of a statistic of each buffer in each tick of a run, and the number of their windows."""
    store, random, found = WindowStore(1.0), np.random.default_rng(1), []
    buffers = [store.buffer(n, "port", 8.0) for n in range(len(names))]
    for buffer, name in zip(buffers, names, strict=True):
        buffer.request(name, (8.0,), LAYERS_BY_STATISTIC[name])
    store.allocate(lambda _: True, lambda _: 2)
    for n in range(60):
        values = np.where(random.random((len(names), 2)) < 0.1, NAN, random.normal(100, 1, (len(names), 2)))
        fed = [number for number in range(len(names)) if n % (number + 1) == 0]

        def sample(numbers, t=START + n, now=values, fed=fed):
            return np.concatenate([now[k] for k in numbers]), np.repeat([t if k in fed else NAN for k in numbers], 2)

        store.step(START + n, sample, fed.__contains__, has_samples=True)
        with np.errstate(all="ignore"):
            for buffer, name in zip(buffers, names, strict=True):
                found.append(STATISTICS[name](buffer.window, buffer.columns).tobytes())
    return found, len({id(buffer.window) for buffer in buffers})


def test_small_windows_that_keep_different_layers_are_one_and_give_what_each_gives_alone(monkeypatch):
    names = [*LAYERS_BY_STATISTIC, *LAYERS_BY_STATISTIC]
    merged, windows = statistics_of_a_run(names)
    assert windows == 1
    monkeypatch.setattr(window_store, "MERGED_COLUMNS", 0)
    apart, windows = statistics_of_a_run(names)
    assert windows == 2
    assert merged == apart
