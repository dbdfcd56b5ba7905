"""Traffic to targets, and servers that answer what a test has written down."""

import asyncio
import socket
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from skewscope.adapters.sources.common.http_client import FetchOptions, PostBody, exchange
from tests.support.loopback import Asked, Says, Server

HANGS = b"(hangs)"
"""A page that comes after ten seconds."""


def free_port() -> int:
    """Returns a port of the loopback that nothing listens on."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


async def count_answers(url: str, count: int) -> Counter[str]:
    """Sends requests one after another to a router, and returns the number that each OpenAI worker answered."""
    found: Counter[str] = Counter()
    for _ in range(count):
        answer = await exchange(url, FetchOptions(5.0), PostBody(b"{}", "application/json"))
        found[answer.body.decode().partition('"worker": "')[2][:2]] += 1
        await asyncio.sleep(0)
    return found


@contextmanager
def scripted_server(pages: Sequence[bytes | Says | None]) -> Iterator[str]:
    """Yields the URL of a server that answers with each page once, then with the last; None ends the connection."""
    left = list(pages)

    def answer(_: Asked) -> Says | None:
        page = left.pop(0) if len(left) > 1 else left[0]
        if page == HANGS:
            time.sleep(10.0)
        return Says(200, page) if isinstance(page, bytes) else page

    with Server(answer) as server:
        yield server.url
