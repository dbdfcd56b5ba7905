"""What a Prometheus pushes, and what somebody pushes who is none."""

import asyncio
import contextlib
import struct
import threading

import cramjam
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.prometheus_server import encode_snappy, encode_write_request, labels
from skewscope.adapters.formats.protobuf import ProtobufError, iter_fields
from skewscope.adapters.mapping.names import MetricResolver
from skewscope.adapters.sources import SourceContext
from skewscope.adapters.sources.common import push_receiver
from skewscope.adapters.sources.common.base import BatchSink
from skewscope.adapters.sources.common.push_receiver import (
    InvalidBodyError,
    PushQueueFullError,
    PushSettings,
    PushSource,
)
from skewscope.adapters.sources.common.series_mapper import SeriesMapper
from skewscope.adapters.sources.remote_write import ENDPOINT_INFO, PATH, V2_CONTENT_TYPE, read, read_body
from skewscope.kb.field_reader import FieldReader
from skewscope.kb.yamlfile import parse
from tests.adapters.controller.clocks import FakeClock
from tests.support.telemetry import catalogue, cluster

NAMES = MetricResolver(catalogue(), cluster())
WANTED = PushSettings("prom", PATH)
UTIL = {"__name__": "DCGM_FI_DEV_GPU_UTIL", "Hostname": "n0", "gpu": "1"}


def series():
    return SeriesMapper(NAMES, {}, honor_labels=True)


def rows(body, *, headers=None, of=None):
    """(entity, time, value) of what a body holds."""
    of = of or series()
    batch, reply = read_body(body, headers or {}, WANTED, of)
    if batch is None:
        return [], reply
    keys = [of.registry.keys[number].entity for number in batch.numbers]
    return list(zip(keys, batch.time.tolist(), batch.value.tolist(), strict=True)), reply


def one(pairs, times, values):
    return encode_snappy(encode_write_request([labels(pairs)], np.array(times), np.array([values], float)))


def varint(number):
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def put(number, content):
    return bytes([number << 3 | 2]) + varint(len(content)) + content


def sample(value, time):
    return b"\x09" + struct.pack("<d", value) + b"\x10" + varint(time)


def test_samples_keep_their_own_times_and_go_where_their_labels_say():
    found, reply = rows(one(UTIL, [1_795_000_000_250, 1_795_000_001_250], [40, 60]))
    assert found == [("n0/gpu1", 1_795_000_000.25, 40.0), ("n0/gpu1", 1_795_000_001.25, 60.0)]
    assert (reply.status, reply.headers) == (204, ())


def test_what_a_series_is_is_worked_out_once():
    known = series()
    for _ in range(3):
        rows(one(UTIL, [1_795_000_000_000], [40]), of=known)
    rows(one({**UTIL, "__name__": "of_nobody"}, [1_795_000_000_000], [40]), of=known)
    assert len(known.registry.keys) == 1
    assert known.registry.unmapped.total() == 1


def test_the_second_version_has_its_texts_in_a_table():
    symbols = ["", "__name__", "DCGM_FI_DEV_GPU_UTIL", "gpu", "1", "hostname", "n0"]
    each = put(1, bytes([1, 2, 3, 4, 5, 6])) + put(2, sample(70.0, 1_795_000_000_000)) + put(3, b"")
    body = b"".join(put(4, text.encode()) for text in symbols) + put(5, each)
    headers = {"content-type": f"application/x-protobuf;proto={V2_CONTENT_TYPE}"}
    found, reply = rows(bytes(cramjam.snappy.compress_raw(body)), headers=headers)
    assert found == [("n0/gpu1", 1_795_000_000.0, 70.0)]
    assert ("X-Prometheus-Remote-Write-Samples-Written", "1") in reply.headers
    broken = put(5, put(1, bytes([1, 9])))
    with pytest.raises(InvalidBodyError, match="not in the table"):
        rows(encode_snappy(broken), headers=headers)


def test_values_that_say_none_and_repetitions_are_no_values():
    blank = one(UTIL, [1_795_000_000_000], [2.0**63])
    assert np.isnan(rows(blank)[0][0][2])
    twice = one(UTIL, [1_795_000_000_000, 1_795_000_000_000], [1, 2])
    assert rows(twice)[0] == [("n0/gpu1", 1_795_000_000.0, 1.0)]
    zero = encode_snappy(put(1, labels(UTIL) + put(2, b"\x10" + varint(1_795_000_000_000))))
    assert rows(zero)[0] == [("n0/gpu1", 1_795_000_000.0, 0.0)]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        encode_snappy(b"\x0a\xff\xff\xff\xff\x0f"),  # longer than it is
        encode_snappy(b"\x0a" + b"\x80" * 20),  # a number without end
        encode_snappy(put(1, put(2, b"\x0d1234"))),  # no sample
        encode_snappy(put(1, put(1, put(1, b"\xff\xfe")))),  # no UTF-8
        encode_snappy(put(1, b"".join(put(1, put(1, b"l%d" % n) + put(2, b"v")) for n in range(500)))),
        varint(1 << 40) + b"\x00" * 50,  # a bomb: a terabyte, it says
    ],
)
def test_what_is_no_request_is_refused_whole(body):
    with pytest.raises(InvalidBodyError):
        rows(body)


@given(st.binary(max_size=200))
def test_garbage_is_refused_or_harmless(data):
    with contextlib.suppress(InvalidBodyError):
        rows(encode_snappy(data))
    with contextlib.suppress(ProtobufError):
        assert all(number for number, _ in iter_fields(memoryview(data)))


def test_series_without_end_do_not_fill_the_memory(monkeypatch):
    monkeypatch.setattr("skewscope.adapters.sources.common.series_mapper.MAX_SERIES", 3)
    monkeypatch.setattr("skewscope.adapters.sources.common.series_mapper.MAX_REMEMBERED", 5)
    known = series()
    for n in range(20):
        rows(one({**UTIL, "id": str(n)}, [1_795_000_000_000], [1]), of=known)
    assert len(known.registry.keys) == 3
    assert known.trouble.startswith("17 series too many")


def test_labels_without_end_do_not_fill_the_memory(monkeypatch):
    monkeypatch.setattr("skewscope.adapters.sources.common.series_mapper.MAX_TEXT", 100)
    monkeypatch.setattr("skewscope.adapters.sources.common.series_mapper.MAX_REMEMBERED_TEXT", 1000)
    known = series()
    for n in range(100):
        rows(one({**UTIL, "id": f"{n:30}"}, [1_795_000_000_000], [1]), of=known)
        rows(one({**UTIL, "id": "x" * 100 + str(n)}, [1_795_000_000_000], [1]), of=known)
    assert known.refused == 100
    assert len(known._targets) < 20


@pytest.mark.parametrize("headers", [{}, {"content-type": V2_CONTENT_TYPE}])
@pytest.mark.parametrize("field", [1, 4, 9])
def test_fields_without_end_are_not_read_to_their_end(monkeypatch, headers, field):
    monkeypatch.setattr("skewscope.adapters.formats.protobuf.MAX_FIELDS", 1000)
    rows(encode_snappy(put(field, b"") * 1000), headers=headers)
    with pytest.raises(InvalidBodyError, match="more than 1000 fields"):
        rows(encode_snappy(put(field, b"") * 1001), headers=headers)


def test_a_source_that_ends_does_not_wait_for_a_body_that_takes_long():
    begun, go_on = threading.Event(), threading.Event()

    def slow(*_):
        begun.set()
        assert go_on.wait(30)
        return push_receiver.PushResult(None, push_receiver.PushReply())

    async def play():
        source = PushSource(WANTED, SourceContext(cluster(), NAMES, FakeClock()), slow, ENDPOINT_INFO)
        running = asyncio.create_task(source.run(BatchSink(FakeClock())))
        await asyncio.sleep(0)
        talks = [asyncio.create_task(source.take(b"", {})) for _ in range(2)]
        await asyncio.to_thread(begun.wait, 30)
        running.cancel()
        await asyncio.wait({running})
        with pytest.raises(PushQueueFullError):
            await source.take(b"", {})
        assert not talks[0].done()
        go_on.set()
        await asyncio.wait(talks)
        assert talks[1].cancelled()

    asyncio.run(play())


def test_a_source_that_is_pushed_to_hands_over_what_it_is_given_and_says_when_it_has_no_room(monkeypatch):
    async def play():
        clock = FakeClock()
        source = PushSource(WANTED, SourceContext(cluster(), NAMES, clock), read_body, ENDPOINT_INFO)
        with pytest.raises(PushQueueFullError):
            await source.take(one(UTIL, [1_795_000_000_000], [1]), {})
        sink = BatchSink(clock)
        running = asyncio.create_task(source.run(sink))
        await clock.pass_(0.1)
        await source.take(one(UTIL, [1_795_000_000_000], [1]), {})
        with pytest.raises(InvalidBodyError):
            await source.take(b"garbage", {})
        monkeypatch.setattr(push_receiver, "MAX_WAITING", 0)
        with pytest.raises(PushQueueFullError):
            await source.take(b"", {})
        await clock.pass_(6.0)
        assert sink.values == 1
        assert "1 invalid bodies" in sink.trouble
        running.cancel()

    asyncio.run(play())


def test_a_path_is_the_usual_one_or_below_it():
    document = parse("{kind: remote-write, path: /api/v1/write/b, labels: {cluster: x}}", "c.yaml")
    fields_ = FieldReader(document)
    assert read(fields_, (), "b").path == "/api/v1/write/b"
    assert not fields_.problems
    faulty = FieldReader(parse("{kind: remote-write, path: /api/v1/rows, pfad: x}", "c.yaml"))
    read(faulty, (), "b")
    assert [p.field for p in faulty.problems] == ["pfad", "path"]


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.floats(allow_nan=False), st.integers(17 * 10**11, 19 * 10**11)),
        max_size=20,
    )
)
def test_the_short_way_gives_what_the_long_one_does(samples):
    known, long = series(), []
    short = []
    for gpu, value, time in samples:
        body = one({**UTIL, "gpu": str("abc".index(gpu) % 2)}, [time], [value])
        short += rows(body, of=known)[0]
        long += rows(body)[0]
    assert short == long


def test_labels_that_stand_behind_a_sample_are_labels():
    first, second = (
        put(1, put(1, b"__name__") + put(2, UTIL["__name__"].encode())),
        put(1, put(1, b"node") + put(2, b"n0")),
    )
    known = series()
    for gpu in (b"0", b"1"):
        late = put(1, put(1, b"gpu") + put(2, gpu))
        body = encode_snappy(put(1, first + second + put(2, sample(5.0, 1_795_000_000_000)) + late))
        assert rows(body, of=known)[0] == [(f"n0/gpu{gpu.decode()}", 1_795_000_000.0, 5.0)]
    assert rows(encode_snappy(put(1, first + second + put(2, sample(5.0, 1_795_000_000_000)))), of=known)[0] == []
