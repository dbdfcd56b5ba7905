"""Workers that answer like an OpenAI server, each request after a delay that a test can change."""

import asyncio
import json
from dataclasses import dataclass, field
from typing import Self

BODY_LIMIT = 1 << 20


@dataclass
class OpenaiWorker:
    """One worker on a port of the loopback."""

    name: str
    delay: float = 0.0
    """Seconds before an answer."""
    port: int = 0
    answered: int = 0
    """Number of completions, without health checks."""
    _server: asyncio.Server | None = field(default=None, repr=False)

    @property
    def url(self) -> str:
        """Base URL."""
        return f"http://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                length = 0
                while (header := await reader.readline()).strip():
                    name, _, value = header.partition(b":")
                    if name.strip().lower() == b"content-length":
                        length = min(int(value), BODY_LIMIT)
                await reader.readexactly(length)
                method, path, _ = line.decode("latin-1").split()
                writer.write(await self._answer(method, path))
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError, ValueError):
            pass
        finally:
            writer.close()

    async def _answer(self, method: str, path: str) -> bytes:
        content: dict[str, object] = {"status": "ok"}
        if path.endswith("/models"):
            content = {"object": "list", "data": [{"id": "m", "object": "model", "owned_by": "test"}]}
        elif path in ("/get_model_info", "/get_server_info", "/server_info", "/model_info"):
            content = {"model_path": "m", "served_model_name": "m", "tokenizer_path": "m", "is_generation": True}
        elif method == "POST":
            await asyncio.sleep(self.delay)
            self.answered += 1
            usage = {"prompt_tokens": 4, "completion_tokens": 8, "total_tokens": 12}
            message = {"role": "assistant", "content": self.name}
            choice = {"index": 0, "text": self.name, "message": message, "finish_reason": "length"}
            content = {"id": "c", "object": "text_completion", "created": 0, "model": "m"}
            content |= {"choices": [choice], "usage": usage, "worker": self.name}
        body = json.dumps(content).encode()
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        return head.encode() + body
