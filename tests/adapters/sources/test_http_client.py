"""Requests are bounded, keep their connections where nothing is changed, and read certificates once."""

import asyncio
import gzip
import os
import ssl
import subprocess
import sys
from contextlib import asynccontextmanager

import pytest

from skewscope.adapters.config import tls_context
from skewscope.adapters.config.secret import Secret
from skewscope.adapters.config.tls_context import ClientTls, client_context
from skewscope.adapters.sources.common import http_session
from skewscope.adapters.sources.common.http_client import BasicAuth, FetchError, FetchOptions, PostBody, exchange, fetch
from skewscope.adapters.sources.common.request_settings import REQUEST_FIELDS, parse_request_options
from skewscope.kb import yamlfile
from skewscope.kb.field_reader import FieldReader
from tests.adapters.sources.pages import answer, serving
from tests.support.certificates import openssl


def play(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 30))


class KeepingServer:
    """Answers every request of a connection; `connections` counts them, `requests` has their heads."""

    def __init__(self, close_after=0):
        self.connections, self.requests, self.close_after = 0, [], close_after

    async def talk(self, reader, writer):
        self.connections += 1
        served = 0
        while not self.close_after or served < self.close_after:
            try:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
            except (asyncio.IncompleteReadError, ConnectionError):
                break
            self.requests.append(head)
            size = next((int(line[15:]) for line in head.splitlines() if line.lower().startswith("content-length:")), 0)
            await reader.readexactly(size)
            writer.write(answer(b"ok"))
            served += 1
        writer.close()

    @asynccontextmanager
    async def running(self, context=None):
        server = await asyncio.start_server(self.talk, "127.0.0.1", 0, ssl=context)
        try:
            yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        finally:
            server.close()


def test_reads_share_a_connection_and_changes_have_their_own():
    async def go():
        server = KeepingServer()
        async with server.running() as place:
            for _ in range(3):
                await fetch(f"http://{place}/", FetchOptions())
            assert server.connections == 1
            await exchange(f"http://{place}/", FetchOptions(), PostBody(b"{}", "application/json"))
            await exchange(f"http://{place}/", FetchOptions(), method="DELETE")
        assert server.connections == 3

    play(go())
    assert not http_session._open, "the connections of an event loop end with it"


def test_a_read_on_a_connection_that_the_server_has_closed_is_made_again():
    async def go():
        server = KeepingServer(close_after=1)
        async with server.running() as place:
            for _ in range(3):
                assert await fetch(f"http://{place}/", FetchOptions()) == b"ok"
        assert server.connections == 3

    play(go())


def test_connections_of_only_so_many_servers_are_kept(monkeypatch):
    monkeypatch.setattr(http_session, "MAX_KEPT_HOSTS", 1)

    async def go():
        servers = KeepingServer(), KeepingServer()
        async with servers[0].running() as first, servers[1].running() as second:
            for _ in range(2):
                await fetch(f"http://{first}/", FetchOptions())
                await fetch(f"http://{second}/", FetchOptions())
        assert [server.connections for server in servers] == [1, 2]

    play(go())


def create_server(folder):
    """The TLS context of a server for 127.0.0.1; its certificate is its own CA."""
    request = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=test"
    openssl(folder, f"{request} -addext subjectAltName=IP:127.0.0.1 -keyout key.pem -out ca.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "ca.pem", folder / "key.pem")
    return context


def test_certificates_are_read_once_for_many_requests_and_again_when_they_change(tmp_path, monkeypatch):
    read = []
    create = ssl.create_default_context
    monkeypatch.setattr(
        tls_context.ssl, "create_default_context", lambda **files: (read.append(files), create(**files))[1]
    )
    options = FetchOptions(ca_file=str(tmp_path / "ca.pem"))

    async def go():
        async with KeepingServer().running(create_server(tmp_path)) as place:
            assert await asyncio.gather(*[fetch(f"https://{place}/", options) for _ in range(20)]) == [b"ok"] * 20
            assert await exchange(f"https://{place}/", options, PostBody(b"", "text/plain"))
            assert len(read) == 1
            create_server(tmp_path)
            with pytest.raises(FetchError, match=r"self-signed|verify failed"):
                await exchange(f"https://{place}/", options, PostBody(b"", "text/plain"))
            assert len(read) == 2

    play(go())


def test_a_certificate_of_the_client_is_read_again_when_it_changes(tmp_path):
    create_server(tmp_path)
    files = ClientTls(str(tmp_path / "ca.pem"), str(tmp_path / "ca.pem"), str(tmp_path / "key.pem"))
    first = client_context(files)
    assert client_context(files) is first
    os.utime(tmp_path / "key.pem", (1, 1))
    assert client_context(files) is not first


def packed(*parts):
    body = b"".join(parts)
    return b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(body) + body


EMPTY_BLOCK = b"\x00\x00\x00\xff\xff"
"""A block of a gzip stream that holds nothing."""


@pytest.mark.parametrize(
    ("page", "problem"),
    [
        (packed(gzip.compress(b"a 1\n", mtime=0), b"x" * 100), "after the end"),
        (packed(gzip.compress(b"a 1\n", mtime=0), b"x" * 5000), "more than 1000 bytes"),
        (packed(gzip.compress(b"a 1\n", mtime=0), gzip.compress(b"b 1\n")), "after the end"),
        (packed(gzip.compress(os.urandom(5000))), "more than 1000 bytes"),
        (packed(gzip.compress(b"a 1\n", mtime=0)[:10], EMPTY_BLOCK * 1000), "more than 1000 bytes"),
        (packed(gzip.compress(b"a 1\n", mtime=0)[:-4]), "cut off"),
    ],
    ids=["more", "much more", "a second stream", "what does not shrink", "empty blocks", "cut off"],
)
def test_what_a_gzip_stream_brings_is_counted_whole(page, problem):
    async def go():
        async with serving({"/": page}) as (place, _):
            with pytest.raises(FetchError, match=problem):
                await fetch(f"http://{place}/", FetchOptions(max_bytes=1000))

    play(go())


def test_an_address_outside_of_latin_1_is_encoded():
    async def go():
        server = KeepingServer()
        async with server.running() as place:
            assert await fetch(f"http://{place}/métrique/数?q=é", FetchOptions()) == b"ok"
        assert server.requests[0].startswith("GET /m%C3%A9trique/%E6%95%B0?q=%C3%A9 HTTP/1.1\r\n")

    play(go())


@pytest.mark.parametrize("url", ["http://host:99999/", "http://[::1/", "http:///x", "http://a\r\nb/"])
def test_what_is_no_address_is_an_error_of_a_request(url):
    with pytest.raises(FetchError) as error:
        play(fetch(url, FetchOptions(0.5)))
    assert "no HTTP" not in str(error.value)


def test_who_makes_no_requests_does_not_import_the_library():
    """An agent, and a command that reads settings, stay small."""
    modules = "skewscope.adapters.agent.runner, skewscope.adapters.controller.config"
    code = f"import sys, {modules}; sys.exit('aiohttp' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0


def test_a_request_carries_credentials_and_goes_through_a_proxy():
    async def go():
        server = KeepingServer()
        options = FetchOptions(basic=BasicAuth("user", Secret("pass")))
        async with server.running() as place:
            await fetch(f"http://{place}/", options)
            await fetch("http://exporter.example:9100/metrics", FetchOptions(proxy=f"http://{place}"))
        direct, proxied = server.requests
        assert "Authorization: Basic dXNlcjpwYXNz\r\n" in direct
        assert proxied.startswith("GET http://exporter.example:9100/metrics HTTP/1.1\r\n")
        assert "Authorization" not in proxied

    play(go())


def parse(text, monkeypatch):
    monkeypatch.setenv("PASSWORD", "s3cret")
    fields = FieldReader(yamlfile.parse(text, "skewscope.yaml"))
    fields.check_keys((), (), REQUEST_FIELDS)
    return parse_request_options(fields, (), 5.0, 1000), fields.problems


def test_credentials_and_proxy_come_from_the_config(monkeypatch):
    options, problems = parse("basic: {user: u, token: '${PASSWORD}'}\nproxy: http://proxy:3128\n", monkeypatch)
    assert not problems
    assert options == FetchOptions(5.0, 1000, basic=BasicAuth("u", Secret("s3cret")), proxy="http://proxy:3128")
    assert "s3cret" not in repr(options)


@pytest.mark.parametrize(
    "text",
    [
        "basic: {user: u, token: '${PASSWORD}'}\nbearer: {token: '${PASSWORD}'}",
        "basic: {user: 'a:b', token: '${PASSWORD}'}",
        "basic: {user: u, token: plain}",
        "proxy: https://proxy:1",
        "proxy: http://proxy",
        "proxy: http://u:p@proxy:1",
        "proxy: http://proxy:x",
    ],
)
def test_credentials_and_proxies_that_cannot_be_used_are_refused(text, monkeypatch):
    assert parse(text, monkeypatch)[1]
