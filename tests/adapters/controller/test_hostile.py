"""Sources that hang, lie, flood, send a line without end or disappear, beside one that is sound."""

import asyncio
import gzip
import os
import threading
import zlib
from contextlib import AsyncExitStack

import numpy as np
import pytest

from skewscope.adapters.formats.openmetrics import ExpositionReader
from skewscope.adapters.mapping.names import MetricResolver
from skewscope.adapters.runtime.clock import SystemClock
from skewscope.adapters.sources import SourceContext, source_kinds
from skewscope.adapters.sources.common.http_client import FetchOptions
from skewscope.adapters.sources.common.scrape_settings import ScrapeSettings
from skewscope.adapters.sources.common.supervisor import SourceSupervisor
from skewscope.adapters.sources.common.targets import ScrapeTarget, TargetDiscovery
from skewscope.adapters.sources.scrape import ScrapeSource
from skewscope.kb.field_reader import FieldReader
from skewscope.kb.yamlfile import parse
from tests.support.telemetry import catalogue, cluster

PERIOD = 0.2
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
SOUND = b'node_netstat_Tcp_RetransSegs{node="n0"} 17\n'


def page(body, *more):
    return b"".join((HEAD, *more, b"Content-Length: %d\r\n\r\n" % len(body), body))


async def hangs(writer):
    await asyncio.sleep(60)


async def trickles(writer):
    writer.write(HEAD + b"\r\n")
    while True:
        writer.write(b"a")
        await writer.drain()
        await asyncio.sleep(0.02)


async def one_line(writer):
    """A gigabyte without a line feed."""
    writer.write(HEAD + b"\r\n")
    for _ in range(1 << 10):
        writer.write(b"x" * (1 << 20))
        await writer.drain()


async def without_end(writer):
    writer.write(HEAD + b"\r\n")
    n = 0
    while True:
        writer.write(b"".join(b'node_netstat_Tcp_RetransSegs{node="n0",id="%d"} 1\n' % (n + k) for k in range(1000)))
        n += 1000
        await writer.drain()


def says(answer):
    async def say(writer):
        writer.write(answer)
        await writer.drain()

    return say


BOMB = gzip.compress(b"\0" * (64 << 20), 1)
PACKED = zlib.compress(SOUND)
HOSTILE = {
    "hangs": hangs,
    "trickles": trickles,
    "a gigabyte line": one_line,
    "a flood": without_end,
    "hangs up": says(b""),
    "half a status line": says(b"HTTP/1.1\r\n\r\n"),
    "no HTTP": says(b"\0\1\2\3" * 1000),
    "endless headers": says(b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 100_000),
    "a lie about its length": says(HEAD + b"Content-Length: 99999999999\r\n\r\nx"),
    "a negative length": says(HEAD + b"Content-Length: -1\r\n\r\nx"),
    "a broken chunk": says(HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n"),
    "a bomb": says(page(BOMB, b"Content-Encoding: gzip\r\n")),
    "not packed as it says": says(page(PACKED, b"Content-Encoding: gzip\r\n")),
    "a web page": says(page(b"<html><body>It works!</body></html>\n")),
    "elsewhere": says(b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"),
    "binary": says(page(os.urandom(10_000))),
}


async def serving(stack, answer):
    """The port of a server that answers each request so."""

    async def talk(reader, writer):
        try:
            await reader.readuntil(b"\r\n\r\n")
            await answer(writer)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    stack.push_async_callback(closed, server)
    return server.sockets[0].getsockname()[1]


async def closed(server):
    server.close()


def scraping(name, port, world):
    where = TargetDiscovery((ScrapeTarget(f"http://127.0.0.1:{port}/metrics", (("node", "n0"),)),))
    return ScrapeSource(ScrapeSettings(name, where, FetchOptions(PERIOD, 2 << 20), PERIOD), world)


@pytest.fixture
def world():
    return SourceContext(cluster(), MetricResolver(catalogue(), cluster()), SystemClock())


@pytest.mark.slow
def test_none_of_them_hurts_another(world):
    async def play():
        supervisor = SourceSupervisor(world.clock)
        async with AsyncExitStack() as stack:
            supervisor.start(scraping("sound", await serving(stack, says(page(SOUND))), world))
            for name, answer in HOSTILE.items():
                supervisor.start(scraping(name, await serving(stack, answer), world))
            supervisor.start(scraping("nobody", 1, world))
            await asyncio.sleep(4.0)
            supervisor.check()
            standings = {one.name: one for one in supervisor.statuses()}
            taken = supervisor.take()
            await supervisor.close()
        return standings, taken

    standings, taken = asyncio.run(play())
    assert standings["sound"].up
    values = np.concatenate([batch.value for batch in taken.pop("sound")])
    assert len(values) >= 5
    assert set(values.tolist()) == {17.0}
    for name, one in standings.items():
        if name != "sound":
            assert not one.up, name
    # What does not fit is left out whole: of none of them there is a value.
    assert {name: batches for name, batches in taken.items() if batches} == {}


def test_a_page_that_is_being_read_does_not_hold_up_the_end_of_its_source(world, monkeypatch):
    reading, go_on = threading.Event(), threading.Event()

    def slow(self, stream, file, at=None):
        reading.set()
        go_on.wait(20.0)
        raise ZeroDivisionError

    monkeypatch.setattr(ExpositionReader, "read", slow)

    async def play():
        async with AsyncExitStack() as stack:
            supervisor = SourceSupervisor(world.clock)
            supervisor.start(scraping("slow", await serving(stack, says(page(SOUND))), world))
            assert await asyncio.to_thread(reading.wait, 10.0)
            await supervisor.close()
            ended_first = not go_on.is_set()
            go_on.set()
            return ended_first

    watch = threading.Timer(10.0, go_on.set)
    watch.start()
    assert asyncio.run(play())
    watch.cancel()


def test_what_nobody_thought_of_does_not_end_the_scraping_of_a_target(world, monkeypatch):
    """Beside a sound target, so that the source as a whole is not started anew."""
    count = 0
    read = ExpositionReader.read

    def strange(self, stream, file, at=None):
        nonlocal count
        if file.endswith("/strange"):
            count += 1
            raise ZeroDivisionError
        return read(self, stream, file, at)

    monkeypatch.setattr(ExpositionReader, "read", strange)

    async def play():
        async with AsyncExitStack() as stack:
            port = await serving(stack, says(page(SOUND)))
            targets = tuple(
                ScrapeTarget(f"http://127.0.0.1:{port}/{end}", (("node", "n0"),)) for end in ("sound", "strange")
            )
            source = ScrapeSource(
                ScrapeSettings("both", TargetDiscovery(targets), FetchOptions(PERIOD, 2 << 20), PERIOD), world
            )
            supervisor = SourceSupervisor(world.clock)
            supervisor.start(source)
            while count < 3:  # noqa: ASYNC110 - as below
                await asyncio.sleep(0.05)
            await supervisor.close()

    asyncio.run(asyncio.wait_for(play(), 30))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("off", "up", "part"),
    [(-3600.0, False, "s old"), (3600.0, True, "s ahead"), (-60.0, True, ""), (2.0, True, "")],
)
def test_a_page_whose_times_are_far_off_is_told(world, monkeypatch, off, up, part):
    monkeypatch.setattr("skewscope.adapters.sources.scrape.TARGET_REFRESH_PERIOD", 0.1)

    async def says_when(writer):
        when = int((world.clock.now() + off) * 1000)
        writer.write(page(b'node_netstat_Tcp_RetransSegs{node="n0"} 17 %d\n' % when))
        await writer.drain()

    async def play():
        async with AsyncExitStack() as stack:
            supervisor = SourceSupervisor(world.clock)
            supervisor.start(scraping("strange", await serving(stack, says_when), world))
            await asyncio.sleep(1.5)
            supervisor.check()
            kept = supervisor._supervised["strange"]
            trouble = kept.sink.trouble
            (standing,) = supervisor.statuses()
            await supervisor.close()
        return standing, trouble

    standing, trouble = asyncio.run(play())
    assert (standing.values > 0) is up
    assert part in trouble
    assert bool(trouble) is bool(part)


def test_a_flood_of_new_series_stops_at_its_bound_and_is_told(world, monkeypatch):
    monkeypatch.setattr("skewscope.adapters.sources.common.series_mapper.MAX_SERIES", 50)
    monkeypatch.setattr("skewscope.adapters.sources.scrape.MAX_REMEMBERED", 10_000)
    monkeypatch.setattr("skewscope.adapters.sources.scrape.TARGET_REFRESH_PERIOD", 0.1)
    count = 0

    async def ever_new(writer):
        nonlocal count
        body = b"".join(b'node_netstat_Tcp_RetransSegs{id="%d"} 1\n' % n for n in range(count, count + 100))
        count += 100
        writer.write(page(body))
        await writer.drain()

    async def play():
        supervisor = SourceSupervisor(world.clock)
        async with AsyncExitStack() as stack:
            source = scraping("flood", await serving(stack, ever_new), world)
            supervisor.start(source)
            while count < 800:  # noqa: ASYNC110 - what is waited for is what a server counts
                await asyncio.sleep(0.05)
            await asyncio.sleep(0.2)
            supervisor.check()
            (standing,) = supervisor.statuses()
            await supervisor.close()
        return source, standing

    source, standing = asyncio.run(play())
    assert len(source.registry.keys) == 50
    assert all(page.reader.remembered <= 20_000 for page in source.target_states.values())
    assert "series too many" in standing.trouble


SETTINGS = """
- {{kind: prometheus-query, name: hangs, url: "http://127.0.0.1:{hangs}", period: 0.2}}
- {{kind: prometheus-query, name: lies, url: "http://127.0.0.1:{lies}", period: 0.2}}
- {{kind: nccl-ras, name: ras, targets: ["127.0.0.1:{hangs}"], timeout: 1}}
- {{kind: nccl-inspector, name: records, path: "{pipe}"}}
- {{kind: kernel-log, name: log, node: n0, path: "{pipe}"}}
- {{kind: kernel-log, name: gone, node: n0, path: "{pipe}.not-there"}}
- {{kind: doca-telemetry, name: dts, targets: ["127.0.0.1:{lies}"], period: 0.2}}
- {{kind: remote-write, name: pushed}}
- {{kind: otlp, name: otlp}}
"""


@pytest.mark.slow
def test_sources_of_every_kind_stand_beside_a_sound_one(world, tmp_path):
    os.mkfifo(tmp_path / "pipe")

    async def play():
        supervisor = SourceSupervisor(world.clock)
        async with AsyncExitStack() as stack:
            hanging = await serving(stack, hangs)
            lying = await serving(stack, says(page(b'{"status": "success", "data": [3, {"a": 1}]}')))
            text = SETTINGS.format(hangs=hanging, lies=lying, pipe=tmp_path / "pipe")
            fields = FieldReader(parse(text, str(tmp_path / "c.yaml")))
            for at in fields.item_paths(()):
                kind = source_kinds()[fields.text((*at, "kind"))]
                supervisor.start(kind.build(kind.read(fields, at, fields.text((*at, "name"))), world))
            assert fields.problems == []
            supervisor.start(scraping("sound", await serving(stack, says(page(SOUND))), world))
            await asyncio.sleep(3.0)
            supervisor.check()
            standings = {one.name: one for one in supervisor.statuses()}
            await supervisor.close()
        return standings

    standings = asyncio.run(play())
    assert standings.pop("sound").values >= 5
    assert {name for name, one in standings.items() if one.values} == set()
