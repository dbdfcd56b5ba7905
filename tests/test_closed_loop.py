"""The closed loop of `bench.closed_loop`: its parts, and one short loop for real."""

import asyncio
import json
import math
import shutil
import time
import xml.etree.ElementTree as ET

import pytest

from bench import closed_loop_switch
from bench.closed_loop_load import Answers, Load
from bench.closed_loop_report import compute_figures, describe_loop, draw_loop
from bench.closed_loop_rigs import running_workers, speed_setter
from bench.closed_loop_routers import DEADLINE, LoopRun, Timetable, run_loop
from bench.line_plot import Panel, draw_plot
from skewscope.adapters.sources.common.http_client import FetchOptions, PostBody, exchange, fetch
from tests.support import dynamo, switch_lab

SHORT = Timetable(fault_at=5.0, fault_end=40.0, seconds=75.0, warm_up=30.0)
SHORTEST = Timetable(fault_at=2.0, fault_end=14.0, seconds=30.0, warm_up=20.0, probe_every=1.0)


def make_run(late: range, **steps: float) -> LoopRun:
    """A run of ten requests per second, of which some tenths are late."""
    due = [n / 10 for n in range(1200)]
    latency = [1.0 if n in late else 0.2 for n in range(1200)]
    action = {"ending": "3 probes found it as quick as its peers"} if steps else {}
    return LoopRun(Timetable(), Answers(due, latency), [(25.0, "diagnosis: x")], action, [], 0, dict(steps))


def test_figures_of_a_loop_that_reaches_its_aims():
    acting = make_run(range(200, 250), applied_at=25.0, ended_at=90.0)
    found = compute_figures(acting, make_run(range(200, 800)))
    assert (found.out_after, found.back_after, found.p95_ratio) == (5.0, 10.0, 1.0)
    assert (found.lost_acting, found.lost_observing) == (50, 600)
    assert found.recovered == pytest.approx(550 / 600)
    assert found.problems == ()


def test_figures_of_a_loop_that_misses_them():
    found = compute_figures(make_run(range(200, 700)), make_run(range(200, 800)))
    assert found.problems == (
        "not out within 10 s",
        "p95 not within 10 % of healthy",
        "less than 80 % of the lost goodput recovered",
        "not back after the end of the fault, by a probe",
    )
    early = make_run(range(200, 500), applied_at=31.0, ended_at=60.0)
    early.others = 2
    problems = compute_figures(early, make_run(range(200, 800))).problems
    assert "not out within 10 s" in problems
    assert "not back after the end of the fault, by a probe" in problems
    assert "2 further actions" in problems


def test_a_report_shows_events_spans_and_a_plot():
    acting, observing = make_run(range(200, 250), applied_at=25.0, ended_at=90.0), make_run(range(200, 800))
    text = describe_loop("haproxy", acting, observing)
    assert "25.0 s  diagnosis: x" in text
    assert "fault, taken out" in text
    assert "recovered 92 %" in text
    plot = ET.fromstring(draw_loop("haproxy", acting, observing))
    assert len(plot.findall(".//{*}polyline")) == 4


def test_a_plot_keeps_to_its_panel():
    values = [(0.0, 0.0), (60.0, math.inf), (120.0, 7.0)]
    plot = ET.fromstring(draw_plot("a < b", [Panel("p", {"line": values})], 120.0))
    (line,) = plot.findall(".//{*}polyline")
    points = [tuple(map(float, pair.split(","))) for pair in line.attrib["points"].split()]
    assert [x for x, _ in points] == sorted(x for x, _ in points)
    assert points[1][1] < points[2][1] < points[0][1]


def test_a_load_has_its_rate_and_its_seed():
    load = Load(20.0, 4, 500.0, seed=3)
    assert list(load.arrivals()) == list(load.arrivals())
    assert list(load.arrivals()) != list(Load(20.0, 4, 500.0, seed=4).arrivals())
    assert len(list(load.arrivals())) == pytest.approx(10_000, rel=0.05)


def test_goodput_and_quantiles_of_a_span():
    answers = Answers([0.5, 1.5, 2.5, 3.5], [0.1, 0.9, math.inf, 0.2])
    assert answers.goodput(0.0, 4.0, DEADLINE) == 0.5
    assert answers.between(1.0, 3.0) == [0.9, math.inf]
    assert answers.quantile(0.0, 4.0, 0.5) == 0.9
    assert answers.quantile(9.0, 10.0, 0.5) == math.inf


@pytest.mark.slow
def test_a_slowed_worker_says_so_in_its_metrics(tmp_path):
    async def run() -> tuple[float, float, bytes]:
        async with running_workers(tmp_path) as ports:
            url = f"http://127.0.0.1:{ports[1]}"
            body = PostBody(json.dumps({"max_tokens": 20}).encode(), "application/json")
            seconds = []
            for speed in (1.0, 0.2):
                await speed_setter(ports)(1, speed)
                begun = time.monotonic()
                await exchange(f"{url}/v1/completions", FetchOptions(10.0), body)
                seconds.append(time.monotonic() - begun)
            return *seconds, await fetch(f"{url}/metrics", FetchOptions(5.0))

    quick, slow, page = asyncio.run(run())
    assert slow > 3.0 * quick
    assert b'vllm:generation_tokens_total{engine="0",model_name="m"} 40\n' in page
    assert b'vllm:inter_token_latency_seconds_count{engine="0",model_name="m"} 38\n' in page


@pytest.mark.alone
@pytest.mark.skipif(shutil.which("haproxy") is None, reason="haproxy is not installed")
def test_a_slow_replica_is_taken_out_and_put_back():
    """Acting alone, and shorter than `python -m bench.closed_loop haproxy`."""
    acting = asyncio.run(run_loop("haproxy", "act", SHORT))
    out, back = acting.steps["applied_at"], acting.steps["ended_at"]
    assert out - SHORT.fault_at <= 10.0
    assert SHORT.fault_end <= back
    assert "probes found it as quick" in acting.action["ending"]
    assert acting.others == 0
    healthy = acting.answers.quantile(0.0, SHORT.fault_at, 0.95)
    assert acting.answers.quantile(out + 2.0, SHORT.fault_end, 0.95) <= 1.1 * healthy
    late = sum(latency > DEADLINE for latency in acting.answers.between(out + 2.0, SHORT.seconds))
    assert late <= 0.01 * len(acting.answers.due)


@pytest.mark.alone
@pytest.mark.skipif(not dynamo.is_installed(), reason="ai-dynamo is not installed (see .ci/run)")
def test_a_slow_engine_of_dynamo_is_taken_out_and_put_back():
    acting = asyncio.run(run_loop("dynamo", "act", SHORTEST))
    out, back = acting.steps["applied_at"], acting.steps["ended_at"]
    assert out - SHORTEST.fault_at <= 10.0
    assert SHORTEST.fault_end <= back
    # What is planned while its incident still fires waits for the cool-down, and never begins.
    assert "probes found it as quick" in acting.action["ending"]
    slow = acting.answers.quantile(SHORTEST.fault_at, out, 0.95)
    assert acting.answers.quantile(out + 2.0, SHORTEST.fault_end, 0.95) < slow
    late = sum(latency > DEADLINE for latency in acting.answers.between(out + 2.0, SHORTEST.seconds))
    assert late <= 0.01 * len(acting.answers.due)


@pytest.mark.alone
@pytest.mark.skipif(bool(switch_lab.missing()), reason=switch_lab.missing() or "the switch is here")
def test_an_elephant_is_metered_and_marked_until_it_ends():
    acting = closed_loop_switch.run_loop("act", closed_loop_switch.Times(12.0, 38.0, 48.0, 4.0, 5.0))
    assert not closed_loop_switch.find_problems(acting), closed_loop_switch.describe(acting, acting)
