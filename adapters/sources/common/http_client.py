"""An HTTP client: bounded in time and size, without redirects, with TLS settings that are read once.

`fetch` gets a page; `exchange` sends any request and returns any answer. Connections are kept by `http_session`.
"""

import asyncio
import zlib
from dataclasses import dataclass
from typing import NamedTuple

from skewscope.adapters.config.secret import Secret, redact_secrets

CONTENT_TYPES = "application/openmetrics-text;version=1.0.0;q=0.7,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
MAX_ERROR_TEXT = 200
"""Maximum characters of what a server sent in an error."""


class FetchError(Exception):
    """A page could not be fetched."""


class BasicAuth(NamedTuple):
    """Name and password of a user."""

    user: str
    password: Secret


@dataclass(frozen=True, slots=True)
class FetchOptions:
    """Options of a request."""

    timeout: float = 10.0
    """Seconds for the whole exchange."""
    max_bytes: int = 64 << 20
    """Maximum bytes of the page, packed and unpacked."""
    bearer: Secret | None = None
    ca_file: str = ""
    """CA file for the server's certificate; '' for the system's."""
    basic: BasicAuth | None = None
    proxy: str = ""
    """URL of an HTTP proxy; '' for none."""


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
            return await _send_request(url, options, body, method or ("GET" if body is None else "POST"))
    except TimeoutError:
        raise FetchError(f"no answer within {options.timeout:g} s") from None
    except (OSError, EOFError) as error:
        raise FetchError(str(error) or type(error).__name__) from None
    except (ValueError, zlib.error) as error:
        password = options.basic.password if options.basic else None
        text = redact_secrets(str(error), options.bearer, password)[:MAX_ERROR_TEXT]
        raise FetchError(f"an answer that is no HTTP ({text})") from None


async def _send_request(url: str, options: FetchOptions, body: PostBody | None, method: str) -> HttpResponse:
    # Imported here: most commands read settings of requests and make none.
    from skewscope.adapters.sources.common import http_session  # noqa: PLC0415

    decoder = BodyDecoder(options.max_bytes)
    status, headers = await http_session.send(http_session.Request(url, options, body, method), decoder)
    return HttpResponse(status, headers, decoder.finish())


class BodyDecoder:
    """Decodes a body as it arrives, up to a maximum size of what arrives and of what it becomes."""

    def __init__(self, most: int) -> None:
        self._gzip: zlib._Decompress | None = None
        self._max_bytes = most
        self._received = 0
        self._size = 0
        self._parts: list[bytes] = []

    def begin(self, encoding: str) -> None:
        """Takes the encoding that the answer states.

        Raises:
            ValueError: it was not asked for.
        """
        if encoding not in ("", "identity", "gzip"):
            raise ValueError(f"an encoding {encoding[:20]!r} that was not asked for")
        self._gzip = zlib.decompressobj(wbits=31) if encoding == "gzip" else None

    def feed(self, part: bytes) -> None:
        """Decodes one chunk.

        Raises:
            FetchError: the body is too large.
            ValueError, zlib.error: it is not of the encoding.
        """
        self._received += len(part)
        if self._gzip is not None:
            part = self._gzip.decompress(part, self._max_bytes - self._size + 1)
        self._parts.append(part)
        self._size += len(part)
        # A stream of empty blocks grows without any output.
        if max(self._size, self._received) > self._max_bytes:
            raise FetchError(f"a page of more than {self._max_bytes} bytes")
        if self._gzip is not None and self._gzip.unused_data:
            raise ValueError("bytes after the end of the gzip stream")

    def finish(self) -> bytes:
        """Returns the complete body.

        Raises:
            EOFError: it is not complete.
        """
        if self._gzip is not None and self._received and not self._gzip.eof:
            raise EOFError("the answer was cut off")
        return b"".join(self._parts)
