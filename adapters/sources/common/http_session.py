"""Connections of the HTTP client, by aiohttp: kept for reads, of their own for what changes something."""

import asyncio
import re
import socket
import ssl
from base64 import b64encode
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from skewscope.adapters.config.tls_context import ClientTls, client_context, find_context
from skewscope.adapters.runtime.blocking_calls import WORK
from skewscope.adapters.runtime.name_lookup import names
from skewscope.adapters.sources.common.http_client import (
    CONTENT_TYPES,
    BasicAuth,
    BodyDecoder,
    FetchOptions,
    PostBody,
)

CONNECTIONS_PER_HOST = 32
"""Maximum connections for reads to one server at a time; further reads wait."""
MAX_KEPT_HOSTS = 1024
"""Servers with kept connections; those of others are closed after each answer."""
KEEP_ALIVE_S = 75.0
"""Seconds for which an idle connection is kept."""
CHUNK = 1 << 16
"""Bytes of a body that are read ahead."""
ENCODED_URL = re.compile(r"[!-~]+")
"""URLs that are sent as they are written; others are percent-encoded."""


class Request(NamedTuple):
    """One request."""

    url: str
    options: FetchOptions
    body: PostBody | None
    method: str


@dataclass
class _Sessions:
    """The connections of an event loop."""

    kept: aiohttp.ClientSession
    """For reads, which aiohttp repeats once where a server has closed a kept connection."""
    fresh: aiohttp.ClientSession
    """For everything else: where a kept connection ends, nobody knows whether a change was made."""
    hosts: dict[str, float] = field(default_factory=dict)
    """When each server with kept connections was last asked, seconds of the event loop, the earliest first."""

    def choose(self, request: Request, origin: str) -> aiohttp.ClientSession:
        """Returns the session for a request."""
        if request.method not in ("GET", "HEAD"):
            return self.fresh
        now = asyncio.get_running_loop().time()
        if self.hosts.pop(origin, None) is None and len(self.hosts) >= MAX_KEPT_HOSTS:
            oldest = next(iter(self.hosts))
            if now - self.hosts[oldest] <= KEEP_ALIVE_S:
                return self.fresh
            del self.hosts[oldest]
        self.hosts[origin] = now
        return self.kept


_open: dict[asyncio.AbstractEventLoop, tuple[AsyncGenerator[_Sessions, None], _Sessions]] = {}


async def send(request: Request, decoder: BodyDecoder) -> tuple[int, dict[str, str]]:
    """Sends a request, decodes the body of the answer, and returns its status and its headers by lower-case name.

    Raises:
        OSError, EOFError: there is no answer, or not all of it.
        ValueError, zlib.error: what comes is no HTTP.
        FetchError: the body is too large.
    """
    url = _parse_url(request.url)
    session = (await _sessions_of_loop()).choose(request, str(url.origin()))
    try:
        async with session.request(
            request.method,
            url,
            data=request.body.body if request.body else None,
            headers=_headers_of(request),
            allow_redirects=False,
            proxy=request.options.proxy or None,
            ssl=await _context_of(request.options) if url.scheme == "https" else True,
        ) as answer:
            decoder.begin(answer.headers.get("Content-Encoding", "").lower())
            async for part in answer.content.iter_any():
                decoder.feed(part)
            return answer.status, {name.lower(): value for name, value in answer.headers.items()}
    except aiohttp.ClientConnectorError as error:
        raise error.os_error from None
    except (aiohttp.ServerDisconnectedError, aiohttp.ClientPayloadError):
        raise EOFError("the answer was cut off") from None
    except aiohttp.ClientResponseError as error:
        raise ValueError(error.message) from None
    except aiohttp.ClientError as error:
        raise OSError(str(error)) from None


async def _context_of(options: FetchOptions) -> ssl.SSLContext:
    """Returns the TLS context of a request; a new one is made in a thread."""
    files = ClientTls(options.ca_file)
    context = find_context(files)
    return await WORK.run(client_context, files) if context is None else context


def _headers_of(request: Request) -> dict[str, str]:
    """Returns the headers that the options and the body of a request ask for."""
    options, body = request.options, request.body
    headers = {"User-Agent": "skewscope", "Accept": CONTENT_TYPES, "Accept-Encoding": "gzip"}
    if options.bearer is not None:
        headers["Authorization"] = f"Bearer {options.bearer.text}"
    elif options.basic is not None:
        headers["Authorization"] = _encode_basic(options.basic)
    if body is not None:
        headers |= {"Content-Type": body.content_type, **dict(body.headers)}
    return headers


def _encode_basic(auth: BasicAuth) -> str:
    return f"Basic {b64encode(f'{auth.user}:{auth.password.text}'.encode()).decode()}"


def _parse_url(text: str) -> URL:
    """Returns an address, percent-encoded, without user and password.

    Raises:
        OSError: it is none.
    """
    try:
        url = URL(text, encoded=ENCODED_URL.fullmatch(text) is not None)
        url.origin()
        return url.with_user(None)
    except ValueError as error:
        raise OSError(f"no address of a server ({error})") from None


async def _sessions_of_loop() -> _Sessions:
    """Returns the connections of the running event loop, which end with it."""
    loop = asyncio.get_running_loop()
    if loop not in _open:
        lifetime = _open_sessions(loop)
        _open[loop] = lifetime, await anext(lifetime)
    return _open[loop][1]


async def _open_sessions(loop: asyncio.AbstractEventLoop) -> AsyncGenerator[_Sessions, None]:
    """Yields the connections of an event loop, which closes all asynchronous generators at its end."""
    connector = partial(aiohttp.TCPConnector, limit=0, resolver=_Resolver(), use_dns_cache=False)
    kept = connector(limit_per_host=CONNECTIONS_PER_HOST, keepalive_timeout=KEEP_ALIVE_S)
    sessions = _Sessions(_create_session(kept), _create_session(connector(force_close=True)))
    try:
        yield sessions
    finally:
        del _open[loop]
        await sessions.kept.close()
        await sessions.fresh.close()


class _Resolver(AbstractResolver):
    """Looks names up with a deadline, in threads in which nothing else waits."""

    async def resolve(self, host: str, port: int = 0, family: int = socket.AF_INET) -> list[ResolveResult]:
        """Returns the addresses of a host of a family; of any for AF_UNSPEC.

        Raises:
            OSError: there is no such name, or no answer in time.
        """
        pairs = [(socket.AF_INET6 if ":" in one else socket.AF_INET, one) for one in await names.find(host)]
        flags = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
        return [
            ResolveResult(hostname=host, host=address, port=port, family=kind, proto=0, flags=flags)
            for kind, address in pairs
            if family in (kind, socket.AF_UNSPEC)
        ]

    async def close(self) -> None:
        """Does nothing: addresses are those of the process."""


def _create_session(connector: aiohttp.TCPConnector) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=connector,
        auto_decompress=False,
        cookie_jar=aiohttp.DummyCookieJar(),
        read_bufsize=CHUNK,
        # The deadline of a request is that of its options.
        timeout=aiohttp.ClientTimeout(),
    )
