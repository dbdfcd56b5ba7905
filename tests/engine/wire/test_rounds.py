"""What rounds, stages and lags mean holds for any period, payload, group size and topology of the exchange."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skewscope.engine.ingest.feed import SeriesKey, SeriesTable
from skewscope.engine.wire import rounds
from skewscope.engine.wire.bursts import EDGES, Bursts, _count_by_bin, otsu_threshold
from skewscope.engine.wire.join import WireJoin
from skewscope.engine.wire.lags import merge_lags
from skewscope.engine.wire.rounds import RoundReader
from skewscope.engine.wire.stages import INPUT, OUTPUT, StageReader
from tests.support.traffic import Shape, mesh, pipeline, ring, told, topology

SHAPES = {
    "small and fast": Shape(size=4, compute=0.3e-3, transit=4e-6, spacing=0.3e-6, segments=2, segment=1024),
    "as in the lab": Shape(),
    "eight members": Shape(size=8, compute=5e-3),
    "three members": Shape(size=3),
    "sixteen, single packets": Shape(size=16, segments=1, compute=4e-3),
    "long bursts": Shape(size=4, compute=20e-3, segments=64, spacing=60e-6),
    "a training step": Shape(size=4, compute=2.5, transit=1e-3, spacing=100e-6, segments=400),
}
ROUNDS = {"a training step": 30, "long bursts": 150}
EVERYDAY = ("three members", "long bursts")
NAMES = [pytest.param(name, marks=() if name in EVERYDAY else pytest.mark.slow) for name in SHAPES]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("make", [mesh, ring])
def test_a_member_late_by_a_share_of_the_round_is_late_by_that_much(name: str, make) -> None:
    shape = SHAPES[name]
    shape = Shape(**{**shape.__dict__, "late": {1: 1.4 * shape.compute}})
    says = told(shape, make, ROUNDS.get(name, 400))
    lags = [says.typical("wire.onset_lag", f"G:n{i}") for i in range(shape.size)]
    assert int(np.argmax(lags)) == 1
    assert lags[1] == pytest.approx(1.4 * shape.compute, rel=0.25)
    assert sorted(lags)[-2] < 0.35 * lags[1]
    assert says.typical("wire.last_sender_share", "G:n1") > 0.9


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("make", [mesh, ring])
def test_a_healthy_group_has_no_member_that_stands_out(name: str, make) -> None:
    shape = SHAPES[name]
    says = told(shape, make, ROUNDS.get(name, 400))
    lags = [says.typical("wire.onset_lag", f"G:n{i}") for i in range(shape.size)]
    assert max(lags) < 0.2 * shape.compute
    assert max(says.typical("wire.last_sender_share", f"G:n{i}") for i in range(shape.size)) < 0.85
    period = says.typical("wire.round_period", "G")
    assert period >= 0.95 * shape.compute


@pytest.mark.parametrize("flight", [1, 3])
@pytest.mark.parametrize("scale", [0.01, 1.0, 100.0])
def test_the_slow_stage_of_a_pipeline_is_told_by_its_own_time(flight: int, scale: float) -> None:
    shape = Shape(
        kind="pipeline-parallel", compute=8e-3 * scale, late={2: 20e-3 * scale}, transit=50e-6 * min(scale, 1)
    )
    says = told(shape, pipeline, 300 if scale < 10 else 60, flight=flight)
    times = [says.typical("wire.onset_lag", f"G:n{i}") for i in range(4)]
    assert times[2] == pytest.approx(28e-3 * scale, rel=0.2)
    assert max(times[i] for i in (0, 1, 3)) < 0.6 * times[2]
    assert says.typical("wire.last_sender_share", "G:n2") == 1.0


@pytest.mark.parametrize("make", [mesh, ring])
def test_wrong_clocks_change_nothing(make) -> None:
    shape = Shape(late={2: 9e-3})
    wrong = Shape(late={2: 9e-3}, offset=(0.0, 0.21, -0.13, 0.002))
    right, found = (
        [says.typical("wire.onset_lag", f"G:n{i}") for i in range(4)]
        for says in (told(one, make, 300) for one in (shape, wrong))
    )
    assert found == pytest.approx(right, abs=1e-3)


def test_a_straggler_that_moves_shares_out_the_last_place() -> None:
    def moving(shape: Shape, rounds: int, seed: int = 1):
        del seed
        yield from (
            send
            for turn in range(rounds // 4)
            for send in shifted(mesh(Shape(late={turn % 4: 9e-3}), 4, seed=turn), turn * 4 * 18e-3)
        )

    def shifted(sends, by: float):
        for send in sends:
            send.time += by
            yield send

    says = told(Shape(), moving, 400)
    shares = [says.typical("wire.last_sender_share", f"G:n{i}") for i in range(4)]
    assert max(shares) < 0.5
    assert says.typical("wire.onset_lag_p95", "G:n1") > 5e-3


def test_one_port_that_is_not_captured_costs_nothing_in_a_mesh() -> None:
    rng = np.random.default_rng(3)
    true = np.array([0.0, 3e-3, 11e-3, 1e-3])
    lag = np.tile(true, (1, 4, 1)) + rng.normal(0, 1e-5, (1, 4, 1))
    lag[0, 2] = np.nan
    out, _, _ = merge_lags(lag, np.full(lag.shape, 0.25), np.array([20e-3]))
    assert out[0] == pytest.approx(true, abs=1e-9)


def test_members_nobody_can_compare_are_unknown() -> None:
    lag = np.full((1, 4, 4), np.nan)
    lag[0, 0, :2] = 0.0, 1e-3
    out, _, _ = merge_lags(lag, lag, np.array([20e-3]))
    assert np.isnan(out[0]).tolist() == [False, False, True, True]


@given(st.lists(st.floats(0, 5e-3), min_size=3, max_size=9), st.lists(st.floats(-1, 1), min_size=9, max_size=9))
def test_the_join_finds_places_whatever_each_receivers_offset(places: list[float], offsets: list[float]) -> None:
    true = np.array(places) - min(places)
    size = len(true)
    lag = np.array([[true + offsets[r] for r in range(size)]])
    out, _, _ = merge_lags(lag, np.full(lag.shape, 1 / size), np.array([1.0]))
    assert out[0] == pytest.approx(true, abs=1e-9)


@settings(max_examples=25)
@given(st.floats(1e-6, 1e-4), st.floats(20, 1e4), st.integers(1, 200), st.integers(1, 200))
def test_the_gap_that_parts_two_heaps_lies_between_them(small: float, apart: float, inside: int, between: int) -> None:
    heap = np.histogram(np.log10([small] * inside + [small * apart] * between), EDGES)[0].astype(float)
    assert small * 0.79 <= otsu_threshold(heap) <= small * apart * 1.26


def bursts_of(begins_by_stream):
    rows = [(stream, begin) for stream, begins in begins_by_stream.items() for begin in begins.tolist()]
    stream, begin = np.array([s for s, _ in rows], np.int64), np.array([b for _, b in rows])
    return Bursts(stream, begin, begin + 1e-4, np.full(len(rows), 1e4))


@pytest.mark.parametrize("doubled", [INPUT, OUTPUT], ids=["input", "hand-over"])
def test_a_burst_that_the_wire_broke_in_two_does_not_make_a_stage_slow(doubled):
    begins = np.arange(60) * 0.07
    streams = {INPUT: begins, OUTPUT: begins + 0.018}
    streams[doubled] = np.sort(np.append(streams[doubled], streams[doubled][30] + 0.004))
    reader, took = StageReader(), []
    for low, high in ((-1.0, 1.5), (1.5, 3.0), (3.0, 9.0)):
        part = {stream: times[(times >= low) & (times < high)] for stream, times in streams.items()}
        took += reader.read(bursts_of(part)).duration.tolist()
    assert np.mean(np.abs(np.array(took) - 0.018) < 0.005) > 0.95


@given(st.lists(st.one_of(st.floats(-8, 4), st.sampled_from(EDGES.tolist())), max_size=40))
def test_gaps_are_counted_by_bin_as_numpy_counts_them(logs):
    values = np.array(logs)
    assert _count_by_bin(values).tolist() == np.histogram(values, EDGES)[0].tolist()


@given(seed=st.integers(0, 1 << 16), senders=st.integers(2, 5), lost=st.sampled_from([0.0, 0.02, 0.3]))
def test_a_certain_reading_is_checked_as_well_without_the_others(seed, senders, lost):
    rng = np.random.default_rng(seed)
    begin = np.arange(400) // senders * 10e-3 + np.arange(400) % senders * 1e-3 + rng.random(400) * 5e-4
    begin[200:] += 3.0  # a silence shows where rounds begin
    kept = rng.random(400) >= lost
    stream = (np.arange(400) % senders)[kept]
    bursts = Bursts(stream, begin[kept], begin[kept] + 1e-4, np.ones(kept.sum()))
    found = []
    for is_quick in (True, False):
        reader, told_rounds = RoundReader(), []
        with pytest.MonkeyPatch.context() as patch:
            if not is_quick:
                patch.setattr(rounds, "_is_mostly_whole", lambda *_: False)
            for first in range(6):
                some = bursts.take((bursts.begin >= first) & (bursts.begin < first + 1))
                told_rounds.append(reader.read(some, first + 1.0).begin.tolist())
        found.append((told_rounds, reader.is_certain, reader.is_carried, reader.period))
    assert repr(found[0]) == repr(found[1])
    assert any(map(len, found[0][0]))


@pytest.mark.parametrize(("readers", "is_known"), [(1, False), (2, True), (4, True)])
def test_one_port_of_four_is_not_enough_for_the_pace_of_a_group(readers: int, is_known: bool) -> None:
    join, table, latest = WireJoin(topology(Shape())), SeriesTable(), []
    for port in range(4):
        for signal, is_told in (("wire.rounds_unreadable", True), ("wire.port_round_period", port < readers)):
            table.number(SeriesKey(signal, "port", f"n{port}/ew", "G"))
            latest.append(0.05 if is_told else np.nan)
    told_at = np.where(np.isnan(latest), -np.inf, 10.0)
    block = join(10.0, table, np.array(latest), told_at)
    signals = {table.keys[number].signal for number in block.series.tolist()}
    assert ("wire.round_period" in signals) == is_known


def test_a_port_that_takes_a_step_for_two_rounds_makes_no_pace_uneven() -> None:
    join, table, latest = WireJoin(topology(Shape())), SeriesTable(), []
    for port, uneven in enumerate((0.08, 0.55, 0.6, 0.5)):
        for signal, value in (("round_period", 0.03), ("round_period_cv", uneven), ("pause", 0.02)):
            name = f"wire.own_{signal}" if signal == "pause" else f"wire.port_{signal}"
            table.number(SeriesKey(name, "port", f"n{port}/ew", "G"))
            latest.append(value)
    block = join(10.0, table, np.array(latest), np.full(len(latest), 10.0))
    told_of = {table.keys[n].signal: v for n, v in zip(block.series.tolist(), block.value.tolist(), strict=True)}
    assert told_of["wire.round_period_cv"] == 0.08
