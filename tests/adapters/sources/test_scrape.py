"""Pages are fetched from where targets are found, read under the labels they should have, and hurt nobody."""

import asyncio
import json

import numpy as np
import pytest

from skewscope.adapters.config.secret import Secret
from skewscope.adapters.mapping.names import MetricResolver
from skewscope.adapters.mapping.senders import FLEET, OTHER_NODE, UNBOUND
from skewscope.adapters.sources import SourceContext, source_kinds
from skewscope.adapters.sources.common.base import BatchSink
from skewscope.adapters.sources.common.dns_srv import encode_question, lookup_services, parse_answer
from skewscope.adapters.sources.common.http_client import FetchError, FetchOptions, HttpResponse, fetch
from skewscope.adapters.sources.common.scrape_settings import ScrapeSettings
from skewscope.adapters.sources.common.targets import ScrapeTarget, TargetDiscovery, discover_targets
from skewscope.adapters.sources.scrape import build
from skewscope.engine.model.topology import Group, Node, Topology
from skewscope.kb.loader import catalogue
from tests.adapters.controller.clocks import FakeClock, settled
from tests.adapters.sources.pages import answer, chunked, serving, zipped

TEXT = b'# TYPE node_load1 gauge\nnode_load1 2.5\nDCGM_FI_DEV_GPU_UTIL{gpu="0",Hostname="n1"} 70\n'
TOPOLOGY = Topology((Node("n0", gpus=1), Node("n1", gpus=1)))


def play(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 30))


@pytest.mark.parametrize("packed", [answer, chunked, zipped, lambda t: b"HTTP/1.0 200 OK\r\n\r\n" + t])
def test_a_page_comes_however_it_is_sent(packed):
    async def go():
        async with serving({"/m?a=b": packed(TEXT)}) as (place, asked_):
            assert await fetch(f"http://{place}/m?a=b", FetchOptions(bearer=Secret("s3cret"))) == TEXT
            assert "Authorization: Bearer s3cret" in asked_[0]

    play(go())


@pytest.mark.parametrize("steps", range(6))
def test_whoever_is_cancelled_as_the_page_ends_is_cancelled(monkeypatch, steps):
    """Else what scrapes a target goes on after the target is gone, and nobody can end it."""

    async def go():
        whole = asyncio.Event()

        async def exchanged(*_):
            await whole.wait()
            return HttpResponse(200, {}, TEXT)

        monkeypatch.setattr("skewscope.adapters.sources.common.http_client._send_request", exchanged)
        task = asyncio.create_task(fetch("http://n0/metrics", FetchOptions()))
        await asyncio.sleep(0.01)
        whole.set()
        for _ in range(steps):
            await asyncio.sleep(0)
        wanted = task.cancel()
        await asyncio.wait({task})
        assert task.cancelled() == wanted

    play(go())


BOMB = zipped(bytes(1 << 20))


@pytest.mark.parametrize(
    ("page", "told"),
    [
        (answer(b"x" * 2000), "more than 1000 bytes"),
        (BOMB, "more than 1000 bytes"),
        (chunked(b"x" * 2000), "more than 1000 bytes"),
        (answer(b"gone", status="404 Not Found"), "the answer 404"),
        (answer(b"", "Location: http://other/\r\n", "302 Found"), "the answer 302"),
        (b"SSH-2.0-OpenSSH\r\n\r\n", "no HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nhalf", "cut off"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n", "no HTTP"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "no HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 1\r\n\r\nx", "not asked for"),
        (answer(b"no gzip", "Content-Encoding: gzip\r\n"), "no HTTP"),
        (b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 20000 + b"\r\n", "Too many headers"),
    ],
)
def test_what_is_no_page_is_told_in_a_line(page, told):
    async def go():
        async with serving({"/": page}) as (place, _):
            with pytest.raises(FetchError, match=told):
                await fetch(f"http://{place}/", FetchOptions(max_bytes=1000))

    play(go())


def test_who_does_not_answer_or_is_not_there_is_told():
    async def go():
        async with serving({}) as (place, _):
            with pytest.raises(FetchError, match="no answer within"):
                await fetch(f"http://{place}/", FetchOptions(timeout=0.05))
        with pytest.raises(FetchError):
            await fetch(f"http://{place}/", FetchOptions())

    play(go())


async def scraped(where, honor=False, seconds=2.0, reports_for=(), topology=TOPOLOGY):
    """(keys with values, trouble) after some seconds."""
    return (await scraped_with_refusals(where, honor, seconds, reports_for, topology))[:2]


async def scraped_with_refusals(where, honor=False, seconds=2.0, reports_for=(), topology=TOPOLOGY):
    """(keys with values, trouble, refused series by sender and reason) after some seconds."""
    clock = FakeClock()
    world = SourceContext(topology, MetricResolver(catalogue(), topology), clock)
    source = build(ScrapeSettings("s", where, FetchOptions(timeout=0.5), 1.0, honor, reports_for), world)
    sink = BatchSink(clock)
    task = asyncio.create_task(source.run(sink))
    for _ in range(round(seconds * 10)):
        await clock.pass_(0.1)
        await asyncio.sleep(0.03)
    await settled()
    task.cancel()
    values = {}
    for batch in sink.take():
        assert np.all(batch.time >= 1000.0)
        numbers = batch.numbers.tolist()
        values |= {batch.columns.keys[n]: v for n, v in zip(numbers, batch.value.tolist(), strict=True)}
    return {(k.signal, k.entity): v for k, v in values.items()}, sink.trouble, sink.count_refusals()


def test_targets_are_scraped_under_their_labels():
    async def go():
        async with serving({"/metrics": answer(TEXT)}) as (place, asked_):
            url = f"http://{place}/metrics"
            got, trouble = await scraped(TargetDiscovery((ScrapeTarget(url, (("node", "n0"),)),)))
            assert got == {("gpu.util", "n0/gpu0"): 70.0}
            assert trouble == ""
            assert len(asked_) == 2

    play(go())


def test_one_target_that_fails_hurts_no_other():
    async def go():
        pages = {"/metrics": answer(TEXT), "/bad": answer(b"<html>"), "/big": answer(b"x" * 70000)}
        async with serving(pages) as (place, _):
            targets = [
                ScrapeTarget(f"http://{place}/{p}", (("node", "n0"),)) for p in ("metrics", "bad", "big", "silent")
            ]
            got, trouble = await scraped(TargetDiscovery(tuple(targets)), seconds=3.0)
            assert ("gpu.util", "n0/gpu0") in got
            assert "3 of 4 targets are down" in trouble

    play(go())


def test_the_page_of_an_engine_that_does_not_answer_is_down():
    engines = Topology(
        TOPOLOGY.nodes,
        tuple(
            Group(f"r{n}", "tensor-parallel", (f"n{n}/gpu0",), front_end=f"n{n}", engine=(("pod", f"llm-{n}"),))
            for n in range(2)
        ),
    )
    pages = {"/0": answer(b"vllm:num_requests_running 3\n"), "/1": answer(b"", status="500 Internal Server Error")}

    async def go():
        async with serving(pages) as (place, _):
            targets = [ScrapeTarget(f"http://{place}/{n}", (("pod", f"llm-{n}"), ("node", f"n{n}"))) for n in range(2)]
            got, _ = await scraped(TargetDiscovery(tuple(targets)), topology=engines, reports_for=(FLEET,))
            assert got == {("serve.running", "r0"): 3.0, ("serve.up", "r0"): 1.0, ("serve.up", "r1"): 0.0}

    play(go())


def test_a_page_reports_for_its_own_node_only():
    page = b'DCGM_FI_DEV_GPU_UTIL{gpu="0",node="n1"} 70\nDCGM_FI_DEV_GPU_UTIL{gpu="0",node="n0"} 20\n'

    async def go():
        async with serving({"/metrics": answer(page)}) as (place, _):
            url = f"http://{place}/metrics"
            bound = TargetDiscovery((ScrapeTarget(url, (("nodename", "n0"),)),))
            values, _, refused = await scraped_with_refusals(bound)
            assert values == {("gpu.util", "n0/gpu0"): 20.0}
            assert refused == {f"s {place}": {OTHER_NODE: 1}}
            unbound = TargetDiscovery((ScrapeTarget(url),))
            values, _, refused = await scraped_with_refusals(unbound)
            assert values == {}
            assert refused == {f"s {place}": {UNBOUND: 2}}
            values, _, refused = await scraped_with_refusals(unbound, reports_for=(FLEET,))
            assert set(values.values()) == {20.0, 70.0}
            assert refused == {}

    play(go())


def test_labels_of_the_page_win_where_they_are_honoured():
    async def go():
        page = b'DCGM_FI_DEV_GPU_UTIL{gpu="0",node="n1"} 70\n'
        async with serving({"/metrics": answer(page)}) as (place, _):
            where = TargetDiscovery((ScrapeTarget(f"http://{place}/metrics", (("node", "n0"),)),))
            theirs, _ = await scraped(where, honor=True, reports_for=("n1",))
            ours, _ = await scraped(where)
            assert [e for _, e in theirs] == ["n1/gpu0"]
            assert [e for _, e in ours] == ["n0/gpu0"]

    play(go())


def test_targets_come_from_files_that_are_read_again(tmp_path):
    file = tmp_path / "targets.json"
    where = TargetDiscovery((), (str(file),), (), "https", "/m", (("job", "j"),))

    def told(text):
        file.write_text(text)
        return play(discover_targets(where))

    assert told(json.dumps([{"targets": ["a:1", "http://b/x"], "labels": {"rack": "r"}}])) == (
        [
            ScrapeTarget("http://b/x", (("job", "j"), ("rack", "r"))),
            ScrapeTarget("https://a:1/m", (("job", "j"), ("rack", "r"))),
        ],
        [],
    )
    for text in ("{", '{"targets": []}', '[{"targets": ["a b"]}]', '[{"targets": ["a:1"], "tragets": 1}]', "[1]"):
        targets, (trouble,) = told(text)
        assert targets == []
        assert str(file) in trouble


def test_targets_come_from_names():
    targets, troubles = play(discover_targets(TargetDiscovery(names=(("localhost", 9100), ("no.such.invalid", 1)))))
    assert ScrapeTarget("http://127.0.0.1:9100/metrics") in targets
    assert len(troubles) == 1
    assert "no.such.invalid" in troubles[0]


def record(number=7):
    """An answer with two services, the second's name told by a jump."""
    question = encode_question(number, "_m._tcp.x")
    head = bytes([number >> 8, number & 255]) + bytes.fromhex("8180 0001 0002 0000 0000")
    first = b"\xc0\x0c" + bytes.fromhex("0021 0001 0000003c 000a") + bytes.fromhex("0000 0000 2382") + b"\x02n1\x00"
    second = (
        b"\xc0\x0c" + bytes.fromhex("0021 0001 0000003c 000b") + bytes.fromhex("0000 0000 2383") + b"\x02n2\xc0\x14"
    )
    return head + question[12:] + first + second


def test_services_are_read_from_an_answer():
    assert parse_answer(record(), 7) == [("n1", 9090), ("n2.x", 9091)]


@pytest.mark.parametrize("cut", range(12, 60, 3))
def test_an_answer_that_is_cut_off_is_none(cut):
    with pytest.raises(OSError, match="no DNS"):
        parse_answer(record()[:cut], 7)


@pytest.mark.parametrize("data", [b"", record()[:3] + b"\x83" + record()[4:], record(8), b"\0\7" + b"\xff" * 40])
def test_what_is_no_answer_is_refused(data):
    with pytest.raises(OSError):  # noqa: PT011 - whatever it says
        parse_answer(data, 7)


def test_a_name_that_points_at_itself_ends():
    loop = bytes.fromhex("0007 8180 0000 0001 0000 0000") + b"\xc0\x0c"
    with pytest.raises(OSError, match="no DNS"):
        parse_answer(loop, 7)


def test_a_name_server_is_asked():
    class Server(asyncio.DatagramProtocol):
        def connection_made(self, transport):
            self.transport = transport

        def datagram_received(self, data, addr):
            self.transport.sendto(data[:2] + record()[2:], addr)

    async def go():
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_datagram_endpoint(Server, local_addr=("127.0.0.1", 0))
        assert await lookup_services("_m._tcp.x", transport.get_extra_info("sockname")) == [
            ("n1", 9090),
            ("n2.x", 9091),
        ]
        transport.close()

    play(go())


def test_every_kind_of_source_can_be_asked_for():
    assert "scrape" in source_kinds()
