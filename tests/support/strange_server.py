"""An HTTP server on the loopback that gives the answers a test wants, or none."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

Answer = tuple[int, bytes]
HANG: Answer = (0, b"")
"""No answer ever."""
GARBAGE: Answer = (-1, b"\x00\xff no HTTP at all\r\n\r\n")


@asynccontextmanager
async def strange_server(answer: Callable[[str, str], Answer]) -> AsyncIterator[str]:
    """Yields the URL of a server whose answers are those of a function of method and path."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            method, path, _ = head.split("\r\n", 1)[0].split(" ", 2)
            status, body = answer(method, path)
            if status == 0:
                await asyncio.sleep(3600)
            start = f"HTTP/1.1 {status} Some\r\nContent-Length: {len(body)}\r\n\r\n".encode() if status > 0 else b""
            writer.write(start + body)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
