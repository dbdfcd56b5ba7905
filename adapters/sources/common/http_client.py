"""A minimal HTTP client: bounded in time and size, without redirects.

`fetch` gets a page; `exchange` sends any request and returns any answer.
"""

import asyncio
import ssl
import zlib
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

from skewscope.adapters.config.secret import Secret, redact_secrets

ACCEPT = "application/openmetrics-text;version=1.0.0;q=0.7,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
MAX_HEADER = 1 << 16
"""Maximum bytes of a line, and of all headers."""
CHUNK = 1 << 16
DEFAULT_PORTS = {"http": 80, "https": 443}
BODYLESS_STATUSES = (204, 304)
"""Statuses without a body."""


class FetchError(Exception):
    """A page could not be fetched."""


@dataclass(frozen=True, slots=True)
class FetchOptions:
    """Options of a request."""

    timeout: float = 10.0
    """Seconds for the whole exchange."""
    max_bytes: int = 64 << 20
    """Maximum bytes of the decompressed page."""
    bearer: Secret | None = None
    ca_file: str = ""
    """CA file for the server's certificate; '' for the system's."""


class PostBody(NamedTuple):
    """A body to post."""

    body: bytes
    content_type: str
    """Its media type."""
    headers: tuple[tuple[str, str], ...] = ()
    """Additional headers."""


class HttpResponse(NamedTuple):
    """Status, headers and body of an answer."""

    status: int
    headers: dict[str, str]
    """By lower-case name."""
    body: bytes


class _ResponseHead(NamedTuple):
    status: int
    headers: dict[str, str]


async def fetch(url: str, options: FetchOptions) -> bytes:
    """Returns the body of a page.

    Raises:
        FetchError: the status is not 200, or the page is too large or too slow.
    """
    answer = await exchange(url, options)
    if answer.status != 200:
        raise FetchError(f"the answer {answer.status}")
    return answer.body


async def exchange(url: str, options: FetchOptions, body: PostBody | None = None, method: str = "") -> HttpResponse:
    """Sends a request and returns the answer; the method is GET, or POST with a body, unless it is given.

    Raises:
        FetchError: there is no answer, or it is too large or too slow.
    """
    try:
        async with asyncio.timeout(options.timeout):
            return await _send_request(urlsplit(url), options, body, method or ("GET" if body is None else "POST"))
    except TimeoutError:
        raise FetchError(f"no answer within {options.timeout:g} s") from None
    except (OSError, ssl.SSLError, EOFError) as error:
        raise FetchError(str(error) or type(error).__name__) from None
    except (ValueError, zlib.error, asyncio.LimitOverrunError) as error:
        raise FetchError(f"an answer that is no HTTP ({redact_secrets(str(error), options.bearer)})") from None


async def _send_request(url: SplitResult, options: FetchOptions, body: PostBody | None, method: str) -> HttpResponse:
    assert url.hostname is not None
    context = ssl.create_default_context(cafile=options.ca_file or None) if url.scheme == "https" else None
    port = url.port or DEFAULT_PORTS[url.scheme]
    reader, writer = await asyncio.open_connection(url.hostname, port, ssl=context, limit=MAX_HEADER)
    try:
        writer.write(_encode_request(url, options, body, method))
        head = await _read_head(reader)
        page = b"" if head.status in BODYLESS_STATUSES else await _read_body(reader, head, options.max_bytes)
        return HttpResponse(head.status, head.headers, page)
    finally:
        # The rest of the answer is not needed.
        writer.transport.abort()


def _encode_request(url: SplitResult, options: FetchOptions, body: PostBody | None, method: str) -> bytes:
    target = url._replace(scheme="", netloc="", fragment="").geturl() or "/"
    lines = [
        f"{method} {target} HTTP/1.1",
        f"Host: {url.netloc.rpartition('@')[2]}",
        "User-Agent: skewscope",
        f"Accept: {ACCEPT}",
        "Accept-Encoding: gzip",
        "Connection: close",
    ]
    if options.bearer is not None:
        lines.append(f"Authorization: Bearer {options.bearer.text}")
    if body is not None:
        lines += [f"Content-Type: {body.content_type}", f"Content-Length: {len(body.body)}"]
        lines += [f"{name}: {value}" for name, value in body.headers]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + (body.body if body else b"")


async def _read_head(reader: asyncio.StreamReader) -> _ResponseHead:
    size = 0
    lines: list[str] = []
    while line := (await reader.readuntil(b"\n")).strip():
        lines.append(line.decode("latin-1"))
        size += len(line)
        if size > MAX_HEADER:
            raise ValueError("headers without end")
    if not lines or not lines[0].startswith("HTTP/1.") or len(lines[0].split()) < 2:
        raise ValueError("no status line")
    pairs = (line.partition(":") for line in lines[1:])
    return _ResponseHead(int(lines[0].split()[1]), {name.strip().lower(): value.strip() for name, _, value in pairs})


async def _read_body(reader: asyncio.StreamReader, head: _ResponseHead, most: int) -> bytes:
    unpacked = _BodyDecoder(head.headers.get("content-encoding", ""), most)
    if head.headers.get("transfer-encoding", "").lower() == "chunked":
        while size := int((await reader.readuntil(b"\n")).partition(b";")[0], 16):
            await _read_exactly(reader, size, unpacked)
            await reader.readuntil(b"\n")
    elif "content-length" in head.headers:
        await _read_exactly(reader, int(head.headers["content-length"]), unpacked)
    else:
        while part := await reader.read(CHUNK):
            unpacked.feed(part)
    return unpacked.finish()


async def _read_exactly(reader: asyncio.StreamReader, size: int, unpacked: "_BodyDecoder") -> None:
    """Reads exactly `size` bytes into the decoder."""
    if size < 0:
        raise ValueError("a negative size")
    while size:
        part = await reader.read(min(size, CHUNK))
        if not part:
            raise EOFError("the answer was cut off")
        size -= len(part)
        unpacked.feed(part)


class _BodyDecoder:
    """Decodes a body as it arrives, up to a maximum size."""

    def __init__(self, encoding: str, most: int) -> None:
        if encoding not in ("", "identity", "gzip"):
            raise ValueError(f"an encoding {encoding[:20]!r} that was not asked for")
        self._gzip = zlib.decompressobj(wbits=31) if encoding == "gzip" else None
        self._max_bytes = most
        self._size = 0
        self._parts: list[bytes] = []

    def feed(self, part: bytes) -> None:
        """Decodes one chunk."""
        if self._gzip is not None:
            part = self._gzip.decompress(part, self._max_bytes - self._size + 1)
        self._parts.append(part)
        self._size += len(part)
        if self._size > self._max_bytes:
            raise FetchError(f"a page of more than {self._max_bytes} bytes")

    def finish(self) -> bytes:
        """Returns the complete body."""
        if self._gzip is not None and not self._gzip.eof:
            raise EOFError("the answer was cut off")
        return b"".join(self._parts)
