"""Tasks that are ended."""

import asyncio
from typing import Any

CANCEL_TIMEOUT = 2.0
"""Seconds that a task may take to end."""


async def cancel_and_wait(task: "asyncio.Task[Any]") -> None:
    """Cancels a task and waits a while for its end; how it ends is of no interest any more."""
    task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
    task.cancel()
    await asyncio.wait({task}, timeout=CANCEL_TIMEOUT)


def check_cancellation() -> None:
    """To be called where any exception is taken for an answer: whoever was cancelled meanwhile ends all the same.

    Raises:
        CancelledError: the task was cancelled, and what it waited for answered with something else.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
