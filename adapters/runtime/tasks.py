"""Background tasks and threads: each has a name, and none ends unexpectedly without a line in the log and a count.

A job ends by itself. A service runs until it is cancelled: when it fails, it is started again after a while. What the
process cannot do without is awaited by the process itself, which ends with it.
"""

import asyncio
import logging
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from skewscope.adapters.runtime.clock import read_uptime

T = TypeVar("T")

CANCEL_TIMEOUT = 2.0
"""Seconds to wait for a cancelled task."""
MIN_BACKOFF, MAX_BACKOFF = 1.0, 60.0
"""Seconds before a service is started again. They double with each failure; one that ran for the longest is well."""

failures: Counter[str] = Counter()
"""Unexpected ends in this process, by name of the task or thread."""
_running: set["asyncio.Task[Any]"] = set()
"""The event loop itself holds tasks weakly."""

log = logging.getLogger(__name__)


def record_failure(name: str, error: BaseException | None, then: str = "") -> None:
    """Logs and counts that something ended unexpectedly; `then` says what follows, None as error: without one."""
    failures[name] += 1
    log.error("%s: %s%s", name, "failed" if error else "ended", then and f"; {then}", exc_info=error)


def start_job(name: str, work: Coroutine[Any, Any, T], *, is_awaited: bool = False) -> "asyncio.Task[T]":
    """Starts a task that ends by itself, and returns it. An exception in it is logged and counted.

    Args:
        name: for the log and the count of failures.
        work: the job.
        is_awaited: whether its exceptions belong to those who await it: they are neither logged nor counted.
    """

    def end(task: "asyncio.Task[T]") -> None:
        _running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None and not is_awaited:
            record_failure(name, error)

    task = asyncio.get_running_loop().create_task(work, name=name)
    _running.add(task)
    task.add_done_callback(end)
    return task


def start_service(
    name: str, run: Callable[[], Coroutine[Any, Any, None]], sleep: Callable[[float], Coroutine[Any, Any, None]]
) -> "asyncio.Task[None]":
    """Starts what runs until it is cancelled, again after each failure, and returns its task.

    Args:
        name: for the log and the count of failures.
        run: the service.
        sleep: waits for some seconds before it is started again.
    """
    return start_job(name, _serve(name, run, sleep))


async def _serve(
    name: str, run: Callable[[], Coroutine[Any, Any, None]], sleep: Callable[[float], Coroutine[Any, Any, None]]
) -> None:
    backoff = _Backoff()
    while True:
        error: Exception | None = None
        try:
            await run()
        except Exception as raised:  # noqa: BLE001 - whatever it is, it is logged, and the service goes on
            error = raised
        check_cancellation()
        wait = backoff.next()
        record_failure(name, error, f"it is started again in {wait:.0f} s")
        del error
        await sleep(wait)


class _Backoff:
    """How long to wait after a failure."""

    def __init__(self) -> None:
        self._wait, self._begun = 0.0, read_uptime()

    def next(self) -> float:
        """Returns the seconds before the next start."""
        now = read_uptime()
        is_well = now - self._begun - self._wait >= MAX_BACKOFF
        self._wait = MIN_BACKOFF if is_well else min(max(2 * self._wait, MIN_BACKOFF), MAX_BACKOFF)
        self._begun = now
        return self._wait


def start_thread(name: str, run: Callable[[], None]) -> threading.Thread:
    """Starts a thread that runs something until it returns, again after each failure; the process need not wait for it.

    Returns the thread.
    """
    thread = threading.Thread(target=_run_until_it_returns, args=(name, run), name=name, daemon=True)
    thread.start()
    return thread


def _run_until_it_returns(name: str, run: Callable[[], None]) -> None:
    backoff = _Backoff()
    while True:
        try:
            run()
        except Exception as error:  # noqa: BLE001 - as above
            wait = backoff.next()
            record_failure(name, error, f"it is started again in {wait:.0f} s")
            time.sleep(wait)
        else:
            return


def start_vital_thread(name: str, run: Callable[[], None]) -> threading.Thread:
    """Starts a thread without which the process is of no use: when it fails, the process ends at once.

    Returns the thread. Whoever started the process starts it again.
    """

    def run_or_exit() -> None:
        try:
            run()
        except Exception as error:  # noqa: BLE001 - as above
            record_failure(name, error, "the process ends")
            os._exit(1)

    thread = threading.Thread(target=run_or_exit, name=name, daemon=True)
    thread.start()
    return thread


async def wait_for_first(*works: Coroutine[Any, Any, Any]) -> None:
    """Waits until the first of several ends, cancels the others, and raises what it raised."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
    for task in done:
        task.result()


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
