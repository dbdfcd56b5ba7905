"""A server of pages for tests, in the loop that runs them."""

import asyncio
import gzip
from contextlib import asynccontextmanager


def answer(text: bytes, head: str = "", status: str = "200 OK") -> bytes:
    """A whole answer."""
    return f"HTTP/1.1 {status}\r\n{head}Content-Length: {len(text)}\r\n\r\n".encode() + text


def chunked(text: bytes, size: int = 7) -> bytes:
    """The same in pieces."""
    parts = [text[n : n + size] for n in range(0, len(text), size)]
    body = b"".join(f"{len(part):x};x=y\r\n".encode() + part + b"\r\n" for part in parts)
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + body + b"0\r\n\r\n"


def zipped(text: bytes) -> bytes:
    """The same, packed."""
    return answer(gzip.compress(text), "Content-Encoding: gzip\r\n")


@asynccontextmanager
async def serving(pages: dict[str, bytes]):
    """`host:port` of a server; a page that is not there is never answered. `asked` has the requests."""
    asked: list[str] = []

    async def talk(reader, writer):
        request = (await reader.readuntil(b"\r\n\r\n")).decode()
        asked.append(request)
        path = request.split()[1]
        if path not in pages:
            await asyncio.sleep(60)
        writer.write(pages[path])
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    try:
        yield f"{host}:{port}", asked
    finally:
        server.close()
