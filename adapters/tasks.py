"""Tasks that are ended."""

import asyncio
from typing import Any

LETTING_GO = 2.0
"""Seconds that a task may take to end."""


async def let_go(task: "asyncio.Task[Any]") -> None:
    """Cancels a task and waits a while for its end; how it ends is of no interest any more."""
    task.cancel()
    await asyncio.wait({task}, timeout=LETTING_GO)
    if task.done() and not task.cancelled():
        task.exception()
