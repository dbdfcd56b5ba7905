"""Cancellation of asyncio tasks."""

import asyncio
from typing import Any

CANCEL_TIMEOUT = 2.0
"""Seconds to wait for a cancelled task."""


async def cancel_and_wait(task: "asyncio.Task[Any]") -> None:
    """Cancels a task and waits for its end, up to `CANCEL_TIMEOUT`; its result is ignored."""
    task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
    task.cancel()
    await asyncio.wait({task}, timeout=CANCEL_TIMEOUT)


def check_cancellation() -> None:
    """Raises if the current task was cancelled; call it after catching any exception.

    Raises:
        CancelledError: the task was cancelled, but the awaited call raised another exception.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
