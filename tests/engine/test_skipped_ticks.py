"""Ticks that are left out because nothing changes in them: the result is that of a replay of every tick."""

import dataclasses

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skewscope.adapters.inputs.recording import load, open_recording
from skewscope.adapters.runtime.replay import replay, tick_ends
from skewscope.adapters.runtime.runtime import build_runtime
from skewscope.engine.engine import Engine
from skewscope.engine.ingest.feed import Block, SeriesKey, SeriesTable
from skewscope.engine.judge.rule_detector import RuleDetector
from skewscope.kb.loader import catalogue
from skewscope.rules.entity_kinds import kind_of
from skewscope.rules.loader import load as load_rules
from tests.support.rule_world import entity_names, topology

MARGIN_S = 1e-3
START = 1_760_000_000
SIGNALS = (
    "port.tx_bytes",
    "port.rx_bytes",
    "port.tx_packets",
    "port.carrier",
    "rdma.local_ack_timeout_err",
    "gpu.util",
    "gpu.sm_clock",
    "step.duration",
    "step.compute_time",
    "wire.onset_lag",
    "wire.retransmit_ratio",
    "wire.round_rate",
    "host.softnet_squeezed",
    "serve.waiting",
    "serve.running",
)
"""Gauges and counters of ports, GPUs, ranks, groups, nodes and engines."""
PERIODS_S = (1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0)


def samples_of(seed: int, seconds: int, table: SeriesTable) -> Block:
    """Samples of some signals of all entities, each signal at a period of its own, with gaps and a shift half-way."""
    random = np.random.default_rng(seed)
    signals = catalogue().signals
    names = entity_names(topology())
    parts = []
    for name in random.choice(SIGNALS, 6, replace=False):
        kind = kind_of(signals[name].entity)
        period, jitter, end = random.choice(PERIODS_S), random.choice([0.0, 0.4]), random.choice([0.5, 1.0])
        for n, entity in enumerate(names.get(kind, [])):
            time = START + np.arange(random.uniform(0, period), seconds * end, period)
            time = (time + random.uniform(-jitter, jitter, len(time)))[random.random(len(time)) > 0.1]
            value = random.lognormal(0, 0.05, len(time)) * np.where((time > START + seconds / 2) & (n == 0), 3.0, 1.0)
            value = np.cumsum(value * 1e8) if signals[name].type == "counter" else value
            number = np.full(len(time), table.number(SeriesKey(name, kind, entity)), np.int32)
            parts.append((time, number, value))
    time, number, value = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.lexsort((number, time))
    return Block(time[order], number[order], value[order])


def states(engine: Engine) -> list[tuple[bytes, bytes, bytes]]:
    return [(v.firing.tobytes(), v.state.tobytes(), v.since.tobytes()) for v in engine.verdicts]


def incidents(engine: Engine) -> list[object]:
    return [dataclasses.asdict(incident) for incident in engine.list_incidents()]


@given(st.integers(0, 1 << 32))
@settings(max_examples=1, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_a_tick_that_is_left_out_changes_nothing(seed):
    check_skipped_ticks(seed, 150)


@pytest.mark.slow
@given(st.integers(0, 1 << 32))
@settings(max_examples=6, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_a_tick_that_is_left_out_changes_nothing_for_longer(seed):
    check_skipped_ticks(seed, 300)


def check_skipped_ticks(seed, seconds):
    """Compares a run of every tick with one that leaves out ticks in which nothing changes."""
    rules, _ = load_rules(catalogue())
    table = SeriesTable()
    block = samples_of(seed, seconds, table)
    every, some = (Engine(rules.values(), catalogue(), topology()) for _ in range(2))
    every._rules._wake_time = lambda: -np.inf
    edges = np.searchsorted(block.time, START + np.arange(seconds + 200.0), side="right")
    # A replay begins with the first sample: the slots of windows are counted from there.
    for n in range(int(np.argmax(edges > edges[0])), seconds + 200):
        t, at = START + float(n), slice(edges[n - 1], edges[n])
        part = Block(block.time[at], block.series[at], block.value[at])
        every.step(t, part, table)
        if len(part.time) or t >= some.next_change() - MARGIN_S:
            some.step(t, part, table)
        else:
            some.skip(t)
        assert states(every) == states(some), t
    assert incidents(every) == incidents(some)


def test_ticks_of_a_gauge_that_is_read_rarely_are_left_out():
    engine, table = Engine(load_rules(catalogue())[0].values(), catalogue(), topology()), SeriesTable()
    series = np.array([table.number(SeriesKey("gpu.util", "gpu", "n0/gpu0"))], np.int32)
    steps = 0
    for n in range(1, 301):
        t = START + float(n)
        size = int(n % 20 == 1)
        if size or t >= engine.next_change() - MARGIN_S:
            engine.step(t, Block(np.full(size, t), series[:size], np.full(size, 50.0)), table)
            steps += 1
    assert steps < 225


@pytest.mark.slow
@pytest.mark.parametrize("name", ["minibatch-job-1", "ranks-lock-gil-1st"])
def test_a_recording_gives_the_same_bytes_as_with_every_tick(shared, name, monkeypatch):
    recording = open_recording(shared / "real" / name)
    loaded = load(recording, catalogue(), lambda _what, _share: None, 1)
    with build_runtime(recording.topology, catalogue(), loaded.table) as runtime, monkeypatch.context() as patch:
        patch.setattr(RuleDetector, "_wake_time", lambda _self: -np.inf)
        before = 0
        for t in tick_ends(loaded, recording):
            edge = int(np.searchsorted(loaded.block.time, t, side="right"))
            block = loaded.block
            runtime.step(t, Block(block.time[before:edge], block.series[before:edge], block.value[before:edge]))
            before = edge
        every = [incident.as_line() for incident in runtime.engine.list_incidents(loaded.input_hash)]
    assert every == [incident.as_line() for incident in replay(recording).incidents]
