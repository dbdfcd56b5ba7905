"""Compares Skewscope with Prometheus: 200 alert rules over 200,000 series, processor seconds of one evaluation.

`pytest -s bench/test_bench_prometheus.py` prints the figures. It needs `prometheus` on the path (the package of that
name in Debian); both run one after the other on the same machine.

**Data.** 1,000 nodes of 8 GPUs, 25 DCGM signals each (16 gauges, 9 counters), a sample of each every second. Values are
noisy and rounded; three GPUs are faulty in all signals, so that each rule fires on exactly these three. Both get the
same values with the same times.

**Rules.** Eight for each signal: its value, means, extremes and deviation over 5 to 60 s, and its share of the node
for a gauge; rates over 5 to 60 s for a counter, two of them joined with the mean of a gauge. Each compares one or two
expressions with a constant and holds for 5 s. No two rules share an expression: Skewscope would compute that once,
Prometheus each time. The same 200 are written in both languages, Skewscope's as rule files that its loader reads. The
bench asserts that both fire on the same rules and GPUs.

**Prometheus.** Samples arrive by remote write, so that the windows lie in the head block as with scrapes; the seconds
in which rules are evaluated are written before. Its processor time (`/proc`, all threads, with garbage collection) is
measured for a while without rules, and from the end of the first pass to the end of the last with them. The difference
is the cost of the rules, without ingestion, notifications, annotations and recording rules. Its own
`prometheus_rule_group_last_duration_seconds` and `prometheus_rule_evaluation_duration_seconds` are printed beside it:
wall time of one thread.

**Skewscope.** Live ticks with the samples as a frame. The figure is the processor time of `RuleDetector` without
ingestion: advancing the windows, evaluating, holding, and the value behind each rule that fires.

**Limits of the comparison.** Prometheus keeps each sample, its windows may end anywhere, and any new query can be
evaluated later; Skewscope keeps only the windows that rules requested, with edges exact to a 24th. Ingestion is
excluded on both sides: Skewscope handles counters there, Prometheus at each pass. Skewscope evaluates the second
operand of an `and` only where the first holds. A pass of Prometheus costs less with fewer samples or shorter windows.
It can spread several groups over cores; here there is one group; more would make passes shorter, not cheaper. With few
series a pass of Skewscope is dominated by the overhead of 200 rules, and the ratio is smaller: `NODES=100` shows it.

`NODES`, `PASSES` and `AHEAD` choose the size, the number of measured passes, and the seconds that they may last.
"""

import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from bench.prometheus_server import Prometheus, labels
from skewscope.engine.ingest.feed import FrameColumn, SampleFrame, SeriesTable, empty_block
from skewscope.engine.judge.rule_detector import RuleDetector
from skewscope.engine.model.tick import NewSamples, Tick
from skewscope.engine.model.topology import Node, Topology
from skewscope.kb.loader import catalogue
from skewscope.rules.loader import load_strict

NODES, GPUS = int(os.environ.get("NODES", "1000")), 8
PASSES = int(os.environ.get("PASSES", "5"))
PAST, AHEAD = 90, int(os.environ.get("AHEAD", "240"))
"""Seconds of samples before and after the rules begin."""
CHUNK, LONGEST = 30, 1800
"""Seconds of samples that are written at a time, and at most."""
HOLD = 5
TIMED = 60
IDLE, LOOK = 10.0, 0.25
"""Seconds of looking at Prometheus without rules, and between two looks."""
ILL = (5, 997, 4321)
LEVEL = 64.0
"""Of each signal in health, in its unit; where it would be a ratio, 64/256."""

GAUGES = {
    "gpu.c2c_tx": "By/s",
    "gpu.dram_active": "",
    "gpu.engine_active": "",
    "gpu.fb_free": "MiB",
    "gpu.fb_used": "MiB",
    "gpu.mem_clock": "MHz",
    "gpu.mem_temperature": "Cel",
    "gpu.nvlink_rx": "By/s",
    "gpu.nvlink_tx": "By/s",
    "gpu.pcie_rx": "By/s",
    "gpu.pcie_tx": "By/s",
    "gpu.power": "W",
    "gpu.sm_active": "",
    "gpu.sm_clock": "MHz",
    "gpu.temperature": "Cel",
    "gpu.tensor_active": "",
}
COUNTERS = {
    "gpu.board_limit_violation": "ns",
    "gpu.energy": "mJ",
    "gpu.low_util_violation": "ns",
    "gpu.nvlink_bw_total": "By",
    "gpu.pcie_rx_total": "By",
    "gpu.pcie_tx_total": "By",
    "gpu.power_violation": "ns",
    "gpu.sync_boost_violation": "ns",
    "gpu.thermal_violation": "ns",
}
SIGNALS = [*GAUGES, *COUNTERS]


@dataclass(frozen=True)
class Pair:
    """One rule in both languages."""

    name: str
    ours: str
    theirs: str


def pairs() -> list[Pair]:
    """Returns the 200 rules."""
    found = []
    for signal, unit in GAUGES.items():
        found += _about(signal, [*_of_gauge(signal, unit)])
    for n, (signal, unit) in enumerate(COUNTERS.items()):
        found += _about(signal, [*_of_counter(signal, unit, list(GAUGES)[n])])
    return found


def _about(signal: str, texts: list[tuple[str, str]]) -> list[Pair]:
    name = "about-" + signal.replace(".", "-").replace("_", "-")
    return [Pair(f"{name}-{n}", *both) for n, both in enumerate(texts)]


def _of_gauge(x: str, unit: str):
    """Returns each rule on a gauge in both languages; most compare it with 1.5 times its healthy value."""
    at, over = 1.5 * level(x), _times(1.5 * level(x), unit)
    y = x.replace(".", "_")
    yield f"{x} > {over}", f"{y} > {at}"
    for name, theirs, window in (
        ("mean", "avg", 5),
        ("mean", "avg", 10),
        ("mean", "avg", 60),
        ("minimum", "min", 20),
        ("maximum", "max", 30),
    ):
        yield f"{name}({x}, {window}*s) > {over}", f"{theirs}_over_time({y}[{window}s]) > {at}"
    at, over = 0.15 * level(x), _times(0.15 * level(x), unit)
    yield f"jitter({x}, 30*s) > {over}", f"stddev_over_time({y}[30s]) > {at}"
    yield f"share({x}) > 0.17", f"{y} / on (instance) group_left sum by (instance) ({y}) > 0.17"


def _of_counter(x: str, unit: str, beside: str):
    """Returns each rule on a counter in both languages."""
    at, over = 1.5 * LEVEL, _times(1.5 * LEVEL, f"{unit}/s")
    y = x.replace(".", "_")
    for window in (5, 8, 12, 20, 30, 60):
        yield f"rate({x}, {window}*s) > {over}", f"rate({y}[{window}s]) > {at}"
    also, other = _times(1.5 * level(beside), GAUGES[beside]), beside.replace(".", "_")
    for window in (15, 25):
        yield (
            f"rate({x}, {window}*s) > {over} and mean({beside}, {window}*s) > {also}",
            f"rate({y}[{window}s]) > {at} and avg_over_time({other}[{window}s]) > {1.5 * level(beside)}",
        )


def _times(number: float, unit: str) -> str:
    return f"{number}*{unit}" if unit else f"{number}"


def level(signal: str) -> float:
    """Returns the healthy value of a gauge."""
    return LEVEL if GAUGES[signal] else LEVEL / 256


def our_rules(folder: Path, known):
    """Returns the rules as Skewscope's loader reads them."""
    for pair in pairs():
        (folder / f"{pair.name}.yaml").write_text(
            f"id: {pair.name}\ntitle: A rule of the bench\ndescription: Compares one value with a threshold.\n"
            f"condition: {min(known.conditions)}\nmaturity: sandbox\nvantage: gpu\nscope: gpu\n"
            f"evidence:\n  - {{name: it, for: 1, required: true, when: '{pair.ours}',"
            " why: Made up for a bench.}\n"
            f"fire: {{score: 1, hold: {HOLD}*s}}\nclear: {{score: 0, hold: 0*s}}\n"
        )
    return load_strict(known, folder)


def their_rules() -> str:
    """Returns the rules as Prometheus reads them, in one group."""
    texts = (f"  - {{alert: {pair.name}, for: {HOLD}s, expr: '{pair.theirs}'}}\n" for pair in pairs())
    return "groups:\n- name: all\n  rules:\n" + "".join(texts)


class Telemetry:
    """Values of all series second by second; each new instance gives the same."""

    def __init__(self) -> None:
        self.topology = Topology(tuple(Node(f"n{n:05d}", gpus=GPUS) for n in range(NODES)))
        self.gpus = NODES * GPUS
        self.ill = [n for n in ILL if n < self.gpus]
        self._random = np.random.default_rng(1)
        self._counted = np.full((len(COUNTERS), self.gpus), 1e6)

    def step(self) -> np.ndarray:
        """Returns [signals, gpus] of the next second."""
        values = self._random.uniform(0.9, 1.1, (len(SIGNALS), self.gpus))
        values[:, self.ill] = self._random.uniform(2.0, 3.0, (len(SIGNALS), len(self.ill)))
        values = np.rint(values * LEVEL)
        self._counted += values[len(GAUGES) :]
        values[len(GAUGES) :] = self._counted
        values[[n for n, unit in enumerate(GAUGES.values()) if not unit]] /= 256
        return values


def fill(server: Prometheus) -> float:
    """Writes samples from `PAST` seconds ago to `AHEAD` seconds ahead; returns the time of the last one."""
    telemetry, begin = Telemetry(), round(time.time()) - PAST
    time_ = begin
    names = [
        [
            labels({"__name__": signal.replace(".", "_"), "instance": node.name, "gpu": str(gpu), "job": "dcgm"})
            for node in telemetry.topology.nodes
            for gpu in range(GPUS)
        ]
        for signal in SIGNALS
    ]
    while time_ < min(time.time() + AHEAD, begin + LONGEST):
        values = np.array([telemetry.step() for _ in range(CHUNK)])
        times = 1000 * (time_ + np.arange(CHUNK))
        for n, those in enumerate(names):
            server.write(those, times, values[:, n].T)
        time_ += CHUNK
    return float(time_)


def idle_rate(server: Prometheus) -> float:
    """Returns processor seconds a second without rules, with metrics read as later."""
    cpu, begin = server.cpu(), time.monotonic()
    while time.monotonic() < begin + IDLE:
        server.metrics()
        time.sleep(LOOK)
    return (server.cpu() - cpu) / (time.monotonic() - begin)


def wait_for_pass(server: Prometheus, known: float) -> float:
    """Waits for the end of a pass that began after `known`; returns its start."""
    while True:
        began = server.metrics().get("prometheus_rule_group_last_evaluation_timestamp_seconds", 0.0)
        if began > known:
            return began
        time.sleep(LOOK)


def of_prometheus(folder: Path) -> tuple[float, set[tuple[str, str]]]:
    """Returns processor seconds of a pass of Prometheus, and the alerts that fire."""
    with Prometheus(folder) as server:
        until = fill(server)
        idle = idle_rate(server)
        server.load(their_rules())
        began = first = wait_for_pass(server, 0.0)
        cpu, begin, before, passes = server.cpu(), time.monotonic(), server.metrics(), 0
        while passes < PASSES or began < first + HOLD + 1:
            began = wait_for_pass(server, began)
            passes += 1
        wall, cpu = time.monotonic() - begin, server.cpu() - cpu
        after, firing = server.metrics(), server.firing()
    assert time.time() < until, "the samples ended before the passes did: AHEAD must be more"
    one = (cpu - idle * wall) / passes
    rule = "prometheus_rule_evaluation_duration_seconds"
    spent, judged = (after[f"{rule}_{name}"] - before[f"{rule}_{name}"] for name in ("sum", "count"))
    print(
        f"\nPrometheus: {one:.2f} s of processor time a pass ({passes} passes; {cpu / wall:.2f} s a second with rules,"
        f" {idle:.3f} without); by its own clock the last pass took"
        f" {after['prometheus_rule_group_last_duration_seconds']:.2f} s, a rule {1000 * spent / judged:.1f} ms"
    )
    return one, firing


class Halved(RuleDetector):
    """A detector that records the time of ingestion."""

    def _ingest(self, *args) -> None:
        begin = time.process_time()
        super()._ingest(*args)
        self.absorbing = time.process_time() - begin


def of_skewscope(folder: Path) -> tuple[float, set[tuple[str, str]]]:
    """Returns processor seconds of a pass of Skewscope, and the alerts that fire."""
    known, telemetry, table = catalogue(), Telemetry(), SeriesTable()
    detector = Halved(our_rules(folder, known).values(), known, telemetry.topology, 1.0)
    schema, took, absorbed = tuple(FrameColumn(signal) for signal in SIGNALS), [], []
    verdicts = []
    for n in range(PAST + TIMED):
        frame = SampleFrame(schema, 1.7e9 + n, [*telemetry.step()])
        begin = time.process_time()
        detector.take_in(frame.time, empty_block(), table, [frame])
        detector.step(Tick(frame.time, NewSamples.empty()))
        verdicts = detector.findings()
        for verdict in verdicts:
            if verdict.firing.any():
                verdict.evidence_of(np.flatnonzero(verdict.firing))
        took.append(time.process_time() - begin - detector.absorbing)
        absorbed.append(detector.absorbing)
    ms = 1000 * np.array(took[PAST:])
    print(
        f"Skewscope: {np.median(ms):.1f} ms of processor time a pass (p99 {np.quantile(ms, 0.99):.1f}; {TIMED} passes),"
        f" and {1000 * np.median(absorbed[PAST:]):.1f} ms to take the samples in"
    )
    firing = {(v.rule, v.names[n]) for v in verdicts for n in np.flatnonzero(v.firing)}
    return float(np.median(ms)) / 1000, firing


@pytest.mark.skipif(not shutil.which("prometheus"), reason="needs prometheus (the package of that name in Debian)")
def test_beside_prometheus(tmp_path):
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    ours.mkdir()
    theirs.mkdir()
    its, its_firing = of_prometheus(theirs)
    mine, firing = of_skewscope(ours)
    print(f"{len(pairs())} rules, {len(SIGNALS) * NODES * GPUS} series: Skewscope takes {its / mine:.0f} times less")
    assert len(pairs()) == 200
    assert len({rule for rule, _ in firing}) == 200
    assert firing == its_firing
