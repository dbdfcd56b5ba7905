"""A real Prometheus is asked, and pushes; and servers that only pretend to be one are asked."""

import asyncio
import contextlib
import json
import math
import re
import shutil
import socket
import subprocess
import time
import urllib.request

import numpy as np
import pytest

from skewscope.adapters.mapping.names import MetricResolver
from skewscope.adapters.runtime.clock import SystemClock
from skewscope.adapters.sources import SourceContext
from skewscope.adapters.sources.common.base import BatchSink
from skewscope.adapters.sources.common.http_client import FetchError, FetchOptions
from skewscope.adapters.sources.common.push_receiver import PushSettings as Pushed
from skewscope.adapters.sources.common.scrape_settings import ScrapeSettings as Scraped
from skewscope.adapters.sources.common.series_mapper import SeriesMapper
from skewscope.adapters.sources.common.targets import ScrapeTarget, TargetDiscovery
from skewscope.adapters.sources.prometheus_query import (
    PrometheusQuerySettings,
    PrometheusQuerySource,
    PrometheusResponseError,
    build_selectors,
    read,
)
from skewscope.adapters.sources.remote_write import PATH, read_body
from skewscope.adapters.sources.scrape import ScrapeSource
from skewscope.kb.field_reader import FieldReader
from skewscope.kb.loader import catalogue as whole_catalogue
from skewscope.kb.yamlfile import parse
from tests.adapters.controller.prometheus import Scraping, Serving, prometheus, until
from tests.support.telemetry import catalogue, cluster

NAMES = MetricResolver(catalogue(), cluster())
PUSHED = Pushed("prom", PATH)
MATRIX = '{"status": "success", "data": {"resultType": "matrix", "result": %s}}'
INSTANCE = re.compile(r"instance=[^,]*,")
PAGE = """node_netstat_Tcp_RetransSegs{node="n0"} 17
node_netstat_Tcp_RetransSegs{node="n1"} 21
nvidia_smi_utilization_gpu_ratio{node="n0",gpu="1"} 0.25
vllm:time_to_first_token_seconds_bucket{node="n0",le="0.5"} 3
vllm:time_to_first_token_seconds_bucket{node="n0",le="+Inf"} 5
go_goroutines 9
"""
EXPECTED = {
    ("host.retrans", "n0", ""): 17.0,
    ("host.retrans", "n1", ""): 21.0,
    ("gpu.util", "n0/gpu1", ""): 25.0,
    ("serve.ttft", "A", "bucket:0.5"): 3.0,
    ("serve.ttft", "A", "bucket:+Inf"): 5.0,
}


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """A page that is scraped, and the Prometheus that scrapes it."""
    with Serving(PAGE) as page, Scraping(tmp_path_factory.mktemp("prometheus")) as server:
        server.begin(page.place, page.place)
        until(lambda: b"RetransSegs" in server.get("/api/v1/label/__name__/values"))
        yield page, server


def told(batches):
    """The last value of each series."""
    found = {}
    for batch in batches:
        keys = [batch.columns.keys[n] for n in batch.numbers]
        found |= {(k.signal, k.entity, INSTANCE.sub("", k.selector)): v for k, v in zip(keys, batch.value, strict=True)}
    return found


async def asked(url, seconds, **wishes):
    """What a source hands over that asks for so long."""
    clock = SystemClock()
    sink = BatchSink(clock)
    query = PrometheusQuerySource(
        PrometheusQuerySettings("q", url, FetchOptions(5.0), 1.0, **wishes), SourceContext(cluster(), NAMES, clock)
    )
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(query.run(sink), seconds)
    return sink.take()


WISHES = {"raw": {}, "steps": {"step": 1.0}, "one node": {"match": (("node", "n1"),)}}


@pytest.fixture(scope="module")
def handed(pair):
    """What sources hand over that ask beside one another."""

    async def play():
        url = f"http://{pair[1].address}"
        return await asyncio.gather(*(asked(url, 5.5, **wishes) for wishes in WISHES.values()))

    return dict(zip(WISHES, asyncio.run(play()), strict=True))


@prometheus
@pytest.mark.slow
def test_a_prometheus_is_asked_for_raw_samples_each_of_them_once(handed):
    batches = handed["raw"]
    assert told(batches) == EXPECTED
    times = [
        (batch.columns.keys[n], t) for batch in batches for n, t in zip(batch.numbers, batch.time.tolist(), strict=True)
    ]
    assert len(times) == len(set(times))
    assert 3 * len(EXPECTED) <= len(times) <= 9 * len(EXPECTED)
    assert all(time.time() - 20 < t < time.time() + 1 for _, t in times)


@prometheus
@pytest.mark.slow
def test_a_prometheus_is_asked_for_steps(handed):
    batches = handed["steps"]
    assert told(batches) == EXPECTED
    assert all(t == math.floor(t) for batch in batches for t in batch.time.tolist())


@prometheus
@pytest.mark.slow
def test_only_series_with_the_wanted_labels_are_asked_for(handed):
    assert told(handed["one node"]) == {("host.retrans", "n1", ""): 21.0}


@prometheus
def test_what_a_prometheus_pushes_is_what_the_page_says(pair):
    page, _ = pair
    until(lambda: len(page.posted) >= 3)
    series, batches = SeriesMapper(NAMES, {}, honor_labels=True), []
    for body, headers in list(page.posted):
        batch, reply = read_body(body, headers, PUSHED, series)
        assert reply.status == 204
        batches += [batch] if batch else []
    assert told(batches) == EXPECTED
    assert series.trouble == ""


def test_names_are_asked_for_in_questions_of_bounded_length(monkeypatch):
    monkeypatch.setattr("skewscope.adapters.sources.prometheus_query.MAX_SELECTOR", 18)
    assert list(build_selectors(["abcdefgh", "ijklmnop", "qr"], (("a", 'b"c'),))) == [
        '{__name__=~"abcdefgh|ijklmnop",a="b\\"c"}',
        '{__name__=~"qr",a="b\\"c"}',
    ]
    assert list(build_selectors([], ())) == []


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        ("<html>", "no JSON"),
        ("[" * 100_000, "no JSON"),
        ('{"status": "error", "error": "too many samples"}', "too many samples"),
        ("[1]", "without success"),
        ('{"status": "success", "data": {"resultType": "vector", "result": []}}', "where series were asked"),
        (
            '{"status": "success", "data": {"resultType": "matrix", "result": [{"metric": {}, "values": [[1]]}]}}',
            "shape",
        ),
        ('{"status": "success", "data": {"resultType": "matrix", "result": [{"metric": 3}]}}', "shape"),
        ('{"status": "success", "data": 5}', "shape"),
    ],
)
def test_an_answer_that_is_none_is_told(answer, fault):
    query = PrometheusQuerySource(
        PrometheusQuerySettings("q", "http://x", FetchOptions(), 1.0), SourceContext(cluster(), NAMES, SystemClock())
    )
    with pytest.raises(PrometheusResponseError, match=fault):
        query._parse_batch(answer.encode())


def test_odd_numbers_are_values_or_none():
    query = PrometheusQuerySource(
        PrometheusQuerySettings("q", "http://x", FetchOptions(), 1.0), SourceContext(cluster(), NAMES, SystemClock())
    )
    metric = {"__name__": "node_netstat_Tcp_RetransSegs", "node": "n0"}
    values = [[1.5, "NaN"], [2.5, "+Inf"], [3, "4"], ["nan", "1"], [1e300, "1"]]
    result = [{"metric": metric, "values": values}]
    batch = query._parse_batch(
        json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}}).encode()
    )
    assert batch.time.tolist() == [1.5, 2.5, 3.0]
    assert np.isnan(batch.value[0])


def test_a_server_that_is_gone_ends_the_source():
    with pytest.raises(FetchError):
        asyncio.run(asked("http://127.0.0.1:9", 5.0))


def test_settings_are_read_with_all_their_faults():
    text = "{kind: prometheus-query, url: 'https://p:9090/', period: 10, step: 2, match: {cluster: a}}"
    found = read(FieldReader(parse(text, "c.yaml")), (), "p")
    assert (found.url, found.period, found.step, found.match) == ("https://p:9090", 10.0, 2.0, (("cluster", "a"),))
    faulty = FieldReader(parse("{kind: prometheus-query, url: 'ftp://p', step: 99, quiet: 1}", "c.yaml"))
    read(faulty, (), "p")
    assert sorted(problem.field for problem in faulty.problems) == ["quiet", "step", "url"]


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("prometheus-node-exporter"), reason="needs prometheus-node-exporter")
def test_a_real_node_exporter_is_scraped_value_by_value(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    command = ["prometheus-node-exporter", f"--web.listen-address={address}", "--log.level=error"]
    process = subprocess.Popen(command, cwd=tmp_path)
    try:
        until(lambda: not process.poll() and answers(address))
        where = TargetDiscovery((ScrapeTarget(f"http://{address}/metrics", (("node", "n0"),)),))
        clock = SystemClock()
        names = MetricResolver(whole_catalogue(), cluster())

        async def play():
            sink = BatchSink(clock)
            scrape = ScrapeSource(
                Scraped("node", where, FetchOptions(5.0), 0.5), SourceContext(cluster(), names, clock)
            )
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(scrape.run(sink), 3.0)
            return sink.take()

        before = page_of(address)
        found = told(asyncio.run(play()))
        after = page_of(address)
        for metric, signal in (
            ("node_netstat_Tcp_InSegs", "host.tcp_in_segs"),
            ("node_vmstat_oom_kill", "host.oom_kill"),
        ):
            assert before[metric] <= found[signal, "n0", ""] <= after[metric]
        assert found["host.tcp_in_segs", "n0", ""] > 0
    finally:
        process.terminate()
        process.wait(10)


def answers(address):
    with contextlib.suppress(OSError):
        return bool(page_of(address))
    return False


def page_of(address):
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as page:
        lines = (line.split() for line in page.read().decode().splitlines() if not line.startswith("#"))
        return {words[0]: float(words[-1]) for words in lines}
