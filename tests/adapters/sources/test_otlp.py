"""Metrics of OpenTelemetry, written by its own library and read by us."""

import contextlib
import gzip
import math
from collections import defaultdict

import pytest
from google.protobuf.json_format import MessageToJson
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from skewscope.adapters.formats.otlp_wire import _parse_message
from skewscope.adapters.mapping.names import MetricResolver
from skewscope.adapters.sources.common.push_receiver import InvalidBodyError, PushSettings
from skewscope.adapters.sources.common.series_mapper import SeriesMapper
from skewscope.adapters.sources.otlp import PATH, OtlpReader
from skewscope.kb.loader import catalogue
from tests.adapters.mapping.test_real_pages import rows as rows_of
from tests.adapters.mapping.test_real_pages import text_of
from tests.support.telemetry import cluster

NAMES = MetricResolver(catalogue(), cluster())
WANTED = PushSettings("collector", PATH, max_bytes=1 << 20)
PROTOBUF = {"content-type": "application/x-protobuf"}
JSON = {"content-type": "application/json; charset=utf-8"}
METRIC = '{"resourceMetrics": [{"scopeMetrics": [{"metrics": [%s]}]}]}'
T = 1_795_000_000


class Sent:
    """A request in the making: one resource, one scope."""

    def __init__(self, **resource):
        self.request = ExportMetricsServiceRequest()
        of = self.request.resource_metrics.add()
        for name, value in resource.items():
            attribute(of.resource, name.replace("_", "."), value)
        self.metrics = of.scope_metrics.add().metrics

    def metric(self, name):
        made = self.metrics.add()
        made.name = name
        return made

    def gauge(self, name, *points, **labels):
        made = self.metric(name).gauge
        for time, value in points:
            point = made.data_points.add(time_unix_nano=int(time * 1e9))
            setattr(point, "as_int" if isinstance(value, int) else "as_double", value)
            for label, text in labels.items():
                attribute(point, label, text)
        return made


def attribute(of, name, value):
    made = of.attributes.add(key=name)
    setattr(made.value, "int_value" if isinstance(value, int) else "string_value", value)


def taken(body, headers=None, reader=None, series=None):
    """(signal, entity, selector) to (time, value) pairs."""
    series = series or SeriesMapper(NAMES, {}, honor_labels=True)
    batch, reply = (reader or OtlpReader()).read_body(body, headers or PROTOBUF, WANTED, series)
    assert reply.status == 200
    found = defaultdict(list)
    rows = zip(batch.numbers, batch.time.tolist(), batch.value.tolist(), strict=True) if batch else ()
    for number, time, value in rows:
        key = series.registry.keys[number]
        found[key.signal, key.entity, key.selector].append((time, value))
    return dict(found)


def both(sent):
    """What came of a request, which is the same whether it is protobuf or JSON."""
    found = taken(sent.request.SerializeToString())
    assert taken(MessageToJson(sent.request).encode(), JSON) == found
    return found


def test_gauges_and_sums_go_where_their_attributes_say():
    sent = Sent(host_name="n0", service_name="exporter")
    sent.gauge("DCGM_FI_DEV_GPU_UTIL", (T, 40), (T + 0.5, 41.5), gpu="1")
    counter = sent.metric("node_netstat_Tcp_RetransSegs_total").sum
    counter.aggregation_temporality, counter.is_monotonic = 2, True
    counter.data_points.add(time_unix_nano=T * 10**9, as_int=17)
    found = {signal: values for (signal, *_), values in both(sent).items()}
    assert found == {"gpu.util": [(T, 40.0), (T + 0.5, 41.5)], "flow.tcp_retrans": [(T, 17.0)]}


def test_points_that_are_told_twice_count_once():
    sent = Sent(host_name="n0")
    sent.gauge("DCGM_FI_DEV_GPU_UTIL", (T, 40), (T, 41), (T, 40), gpu="1")
    sent.gauge("DCGM_FI_DEV_GPU_UTIL", (T, 43), gpu="1")
    assert list(both(sent).values()) == [[(T, 40.0)]]


def test_differences_are_added_up_and_none_twice():
    reader, series = OtlpReader(), SeriesMapper(NAMES, {}, honor_labels=True)
    found = []
    for time, value in ((T, 5), (T + 1, 7), (T + 1, 7), (T + 2, 1)):
        sent = Sent(host_name="n0")
        counter = sent.metric("node_netstat_Tcp_RetransSegs").sum
        counter.aggregation_temporality = 1
        counter.data_points.add(time_unix_nano=time * 10**9, as_int=value)
        found += taken(sent.request.SerializeToString(), reader=reader, series=series).values()
    assert found == [[(T, 5.0)], [(T + 1, 12.0)], [(T + 2, 13.0)]]


def test_a_histogram_is_told_as_an_exporter_tells_it():
    sent = Sent(host_name="n0")
    point = sent.metric("vllm:time_to_first_token_seconds").histogram.data_points.add(time_unix_nano=T * 10**9)
    point.count, point.sum = 6, 4.5
    point.bucket_counts.extend([1, 2, 3])
    point.explicit_bounds.extend([0.25, 0.5])
    found = {selector: values for (_, _, selector), values in both(sent).items()}
    assert found == {
        "bucket:0.25": [(T, 1.0)],
        "bucket:0.5": [(T, 3.0)],
        "bucket:+Inf": [(T, 6.0)],
        "count": [(T, 6.0)],
        "sum": [(T, 4.5)],
    }


@given(st.integers(-3, 8), st.integers(-40, 40), st.lists(st.integers(0, 50), min_size=1, max_size=60))
def test_exponential_buckets_end_at_powers_of_two_that_do_not_lie(scale, offset, counts):
    sent = Sent(host_name="n0")
    made = sent.metric("vllm:time_to_first_token_seconds").exponential_histogram
    point = made.data_points.add(time_unix_nano=T * 10**9, scale=scale, zero_count=2, count=sum(counts) + 2, sum=1.0)
    point.positive.offset = offset
    point.positive.bucket_counts.extend(counts)
    found = {s: values[0][1] for (_, _, s), values in taken(sent.request.SerializeToString()).items()}
    for selector, told in found.items():
        kind, _, bound = selector.partition(":")
        if kind == "bucket" and bound != "+Inf":
            ends = [2.0 ** ((offset + n + 1) * 2.0**-scale) for n in range(len(counts))]
            assert told == 2 + sum(c for c, end in zip(counts, ends, strict=True) if end <= float(bound) * (1 + 1e-9))
    assert found["bucket:+Inf"] == found["count"] == sum(counts) + 2


def test_a_real_page_that_comes_by_way_of_a_collector_is_the_page(shared):
    page = text_of(shared / "fixtures/ai-dynamo-dynamo/vllm.prom")
    prefix = "vllm:e2e_request_latency_seconds"
    told = [(name, labels, value) for name, labels, value in rows_of(page) if name.startswith(prefix)]
    buckets = [(labels["le"], value) for name, labels, value in told if name.endswith("_bucket")]
    sent = Sent(host_name="n0")
    point = sent.metric(prefix).histogram.data_points.add(time_unix_nano=T * 10**9)
    point.explicit_bounds.extend(float(le) for le, _ in buckets[:-1])
    before = 0.0
    for _, value in buckets:
        point.bucket_counts.append(int(value - before))
        before = value
    point.count = int(before)
    point.sum = next(value for name, _, value in told if name.endswith("_sum"))
    found = {selector: values[0][1] for (_, _, selector), values in both(sent).items()}
    for le, value in buckets:
        assert found["bucket:+Inf" if le == "+Inf" else f"bucket:{float(le):.12g}"] == value
    assert math.isclose(found["sum"], point.sum)


def test_points_without_a_value_are_none():
    sent = Sent(host_name="n0")
    made = sent.gauge("DCGM_FI_DEV_GPU_UTIL", (T, 40), gpu="1")
    made.data_points[0].flags = 1
    assert both(sent) == {}


def test_a_body_may_be_packed_but_not_without_end():
    sent = Sent(host_name="n0")
    sent.gauge("DCGM_FI_DEV_GPU_UTIL", (T, 40), gpu="1")
    packed = {**PROTOBUF, "content-encoding": "gzip"}
    assert taken(gzip.compress(sent.request.SerializeToString()), packed) == both(sent)
    for body, told in ((gzip.compress(b"\0" * (3 << 20)), "more than"), (b"PK", "no gzip")):
        with pytest.raises(InvalidBodyError, match=told):
            taken(body, packed)
    with pytest.raises(InvalidBodyError, match="encoding"):
        taken(b"", {**PROTOBUF, "content-encoding": "br"})


@pytest.mark.parametrize(
    "body",
    [
        "nothing",
        "[]",
        "[" * 100_000,
        '{"resourceMetrics": 3}',
        '{"resourceMetrics": [3]}',
        METRIC % '{"name": "x", "gauge": {"dataPoints": [{}]}}',
        METRIC % '{"name": "x", "histogram": {"dataPoints": [{"timeUnixNano": 1, "bucketCounts": ["1", "2"]}]}}',
    ],
)
def test_what_is_no_request_is_refused(body):
    with pytest.raises(InvalidBodyError):
        taken(body.encode(), JSON)


def test_messages_without_end_are_not_read_to_their_end(monkeypatch):
    monkeypatch.setattr("skewscope.adapters.formats.otlp_wire.MAX_MESSAGES", 100)
    metric = b"\x12\x00" * 9
    body = b"".join(b"\x0a" + bytes([len(metric)]) + metric for _ in range(11))
    with pytest.raises(InvalidBodyError, match="more than 100 messages"):
        taken(body)
    assert taken(body[: len(body) // 11 * 9]) == {}
    with pytest.raises(InvalidBodyError, match="more than 100 objects"):
        taken(b'{"resourceMetrics": [' + b"{}," * 100 + b"{}]}", JSON)


def test_a_packed_list_that_comes_in_parts_is_one():
    sent = Sent(host_name="n0")
    made = sent.metric("vllm:time_to_first_token_seconds").histogram
    point = made.data_points.add(time_unix_nano=T * 10**9, count=6)
    point.bucket_counts.extend([1, 2, 3])
    point.explicit_bounds.extend([0.25, 0.5])
    packed = made.data_points[0].SerializeToString()
    at = packed.index(b"\x32\x18") + 2
    parts = b"".join(b"\x32\x08" + packed[at + 8 * n : at + 8 * n + 8] for n in range(3))
    again = _parse_message(memoryview(packed[: at - 2] + parts + packed[at + 24 :]), "histogram", iter(range(99)))
    assert again == _parse_message(memoryview(packed), "histogram", iter(range(99)))
    assert again["bucketCounts"] == [1, 2, 3]


@given(st.binary(max_size=200))
def test_garbage_is_refused_or_harmless(body):
    with contextlib.suppress(InvalidBodyError):
        taken(body)
