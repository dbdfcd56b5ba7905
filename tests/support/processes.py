"""Programs that a test starts, with their output in a file; they end with the test."""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from skewscope.adapters.sources.common.http_client import FetchError, FetchOptions, exchange


@asynccontextmanager
async def running(
    arguments: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Runs a program in a process group of its own, which is killed at the end."""
    with log.open("ab") as output:
        process = await asyncio.create_subprocess_exec(
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**os.environ, **(environment or {})},
            start_new_session=True,
        )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


async def wait_until(check: Callable[[], Awaitable[bool]], seconds: float, what: str) -> None:
    """Waits until a check is true; fails after a time."""
    end = time.monotonic() + seconds
    while not await check():
        assert time.monotonic() < end, f"{what}: not within {seconds:g} s"
        await asyncio.sleep(0.05)


async def answers(url: str, part: bytes = b"") -> bool:
    """Returns whether a page is answered with 200 and holds a part."""
    try:
        answer = await exchange(url, FetchOptions(2.0))
    except FetchError:
        return False
    return answer.status == 200 and part in answer.body
