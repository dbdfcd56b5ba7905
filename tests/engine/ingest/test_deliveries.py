"""Signals of which all series came at one time are judged as series of times of their own are."""

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skewscope.engine.engine import Engine
from skewscope.engine.features.windows import SampleWindow
from skewscope.engine.ingest.deliveries import SignalDeliveries
from skewscope.engine.ingest.feed import Block, FrameColumn, SampleFrame, SeriesKey, SeriesTable
from skewscope.engine.ingest.samples import CommonTimestamp
from skewscope.kb.loader import catalogue
from skewscope.rules.entity_kinds import kind_of
from skewscope.rules.loader import load as load_rules
from tests.support.rule_world import Bench, entity_names, rule, topology

START = 1_760_000_000.0
SIGNALS = (
    "port.tx_bytes",
    "port.rx_bytes",
    "rdma.local_ack_timeout_err",
    "gpu.util",
    "gpu.sm_clock",
    "gpu.power",
    "step.duration",
    "step.compute_time",
    "wire.onset_lag",
    "wire.round_rate",
    "host.cpu_util",
    "serve.waiting",
)
PERIODS_S = (1.0, 2.0, 5.0, 15.0)


def scrapes_of(seed: int, seconds: int, table: SeriesTable) -> Block:
    """Samples of jobs that are scraped whole, with lost members, gaps, members that end, and a fault half-way."""
    random = np.random.default_rng(seed)
    signals = catalogue().signals
    names = entity_names(topology())
    parts = []
    for job in np.array_split(random.permutation(SIGNALS), 3):
        period, jitter = random.choice(PERIODS_S), random.choice([0.0, 0.2])
        scraped = START + np.arange(random.uniform(0, period), seconds, period)
        scraped += random.uniform(0, jitter, len(scraped))
        for name in job.tolist():
            kind = kind_of(signals[name].entity)
            lost, ends = random.choice([0.0, 0.0, 0.05]), random.choice([1.0, 0.6])
            for n, entity in enumerate(names.get(kind, [])):
                time = scraped[random.random(len(scraped)) >= lost]
                time = time[time < START + seconds * (ends if n == 1 else 1.0)]
                size = len(time)
                value = random.lognormal(0, 0.05, size) * np.where((time > START + seconds / 2) & (n == 0), 3.0, 1.0)
                value = np.cumsum(value * 1e8) if signals[name].type == "counter" else value
                value[random.random(size) < lost] = np.nan
                number = np.full(size, table.number(SeriesKey(name, kind, entity)), np.int32)
                parts.append((time, number, value))
    time, number, value = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.lexsort((number, time))
    return Block(time[order], number[order], value[order])


def check_equal_verdicts(seed: int, seconds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compares an engine that knows common times with one that looks at the time of each series."""
    rules, table = load_rules(catalogue())[0], SeriesTable()
    block = scrapes_of(seed, seconds, table)
    common, single = (Engine(rules.values(), catalogue(), topology(), symptoms=True) for _ in range(2))
    monkeypatch.setattr(single._rules.series_state.deliveries, "timestamp", lambda _signal: None)
    edges = np.searchsorted(block.time, START + np.arange(seconds + 60.0), side="right")
    for n in range(1, seconds + 60):
        at = slice(edges[n - 1], edges[n])
        part = Block(block.time[at], block.series[at], block.value[at])
        common.step(START + n, part, table)
        single.step(START + n, part, table)
        states = [
            [(v.firing.tobytes(), v.state.tobytes(), v.since.tobytes()) for v in engine.verdicts]
            for engine in (common, single)
        ]
        assert states[0] == states[1], n
    lines = [[one.as_line() for one in engine.list_incidents()] for engine in (common, single)]
    assert lines[0] == lines[1]


@pytest.mark.slow
@given(st.integers(0, 1 << 32))
@settings(max_examples=1, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_common_times_change_no_verdict(seed: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        check_equal_verdicts(seed, 60, patch)


@pytest.mark.slow
@given(st.integers(0, 1 << 32))
@settings(max_examples=12, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_common_times_change_no_verdict_for_longer(seed: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        check_equal_verdicts(seed, 240, patch)


def test_a_scrape_of_all_series_takes_the_short_way(monkeypatch: pytest.MonkeyPatch) -> None:
    bench, ways = Bench(rule()), []
    way = SampleWindow._add_simultaneous
    monkeypatch.setattr(SampleWindow, "_add_simultaneous", lambda *given: ways.append(given[2]) or way(*given))
    for _ in range(4):
        bench.tick({("wire.round_rate", group): 10.0 for group in "AB"})
    assert set(ways) == {bench.t - n for n in range(4)}


def deliveries_after(*ticks: dict[str, float | None]) -> tuple[SignalDeliveries, int, Bench]:
    """Takes in ticks, a second apart: values by rank, where None stands for a gap."""
    bench = Bench(rule())
    for tick in ticks:
        bench.tick({("wire.onset_lag", rank): math.nan if value is None else value for rank, value in tick.items()})
    state = bench.detector.series_state
    return state.deliveries, state.signal_numbers["wire.onset_lag"], bench


WHOLE = {"A:n0": 1.0, "A:n1": 2.0}


@pytest.mark.parametrize(
    ("ticks", "age", "is_complete"),
    [
        ([WHOLE], 0.0, True),
        ([WHOLE, {}], 1.0, True),
        ([WHOLE, WHOLE | {"A:n1": None}], 0.0, False),
        ([{"A:n0": 1.0}], 0.0, True),
        ([WHOLE, *[{"A:n0": 1.0}] * 40], 0.0, False),
    ],
)
def test_all_values_that_are_read_are_of_one_time(ticks, age: float, is_complete: bool) -> None:
    deliveries, signal, bench = deliveries_after(*ticks)
    assert deliveries.timestamp(signal) == CommonTimestamp(bench.t - age, is_complete)


@pytest.mark.parametrize("ticks", [[], [WHOLE, {"A:n0": 1.0}], [WHOLE, WHOLE | {"A:n2": 1.0}, WHOLE]])
def test_values_of_several_times_have_no_common_one(ticks) -> None:
    deliveries, signal, _ = deliveries_after(*ticks)
    assert deliveries.timestamp(signal) is None


def test_samples_of_several_times_in_one_tick_have_no_common_one() -> None:
    deliveries, signal, bench = deliveries_after(WHOLE)
    numbers = np.array([bench.table.number(SeriesKey("wire.onset_lag", "rank", name)) for name in WHOLE], np.int32)
    bench.t += 1.0
    block = Block(bench.t - np.array([0.0, 0.5]), numbers, np.ones(2))
    bench.detector.judge_samples(bench.t, block, bench.table)
    assert deliveries.timestamp(signal) is None


def test_a_frame_of_the_same_signal_ends_a_common_time() -> None:
    deliveries, signal, bench = deliveries_after(WHOLE)
    bench.t += 1.0
    frame = SampleFrame((FrameColumn("wire.onset_lag"),), bench.t, (np.ones(8),))
    bench.detector.judge_samples(bench.t, Block(np.empty(0), np.empty(0, np.int32), np.empty(0)), bench.table, [frame])
    assert deliveries.timestamp(signal) is None
