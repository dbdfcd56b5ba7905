"""Parallel map over worker processes that end with the caller, however the caller ends.

`concurrent.futures` is not used: its thread may still be closing when the interpreter ends, which prints a traceback at
Ctrl-C, and it waits for ever on a result that a process wrote only half of.
"""

import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")

STOP_TIMEOUT_S = 10.0
"""Seconds for a process to end after the signal."""
IDLE_S = 0.2
"""Seconds between two calls of `on_idle`."""


class ProcessEndedError(Exception):
    """A process ended before it returned its result, nearly always for lack of memory."""


class WorkerProcess:
    """One process that applies `work` to the items that it is sent, one after another; `work` may keep state."""

    def __init__(self, work: Callable[[Any], object]) -> None:
        """Starts the process; `work` is pickled once."""
        with _defer_interrupts():
            self._end, self._process = _start_process(work)

    def send(self, item: object) -> None:
        """Sends an item, which is pickled.

        Raises:
            ProcessEndedError: the process ended on its own.
        """
        _send_item(self._end, item)

    def receive(self) -> Any:
        """Waits for the result of the oldest item that has not been received and returns it.

        Raises:
            ProcessEndedError: the process ended on its own.
            Exception: any exception of `work`.
        """
        return _receive_result(self._end)

    def is_ready(self) -> bool:
        """Returns whether `receive` would return at once."""
        return self._end.poll()

    def close(self) -> None:
        """Ends the process."""
        self._process.terminate()
        _stop_process(self._process)
        self._end.close()


class ItemStream:
    """The items that a copy of this process produces, in their order, while this one works; see `can_copy_process`.

    A copy starts at once, with all that is imported and read. It waits while its items are not received for long, and
    ends with this process, however this one ends.
    """

    def __init__(self, produce: Callable[[], Iterable[object]]) -> None:
        """Starts the copy, which calls `produce`; only its items are pickled."""
        context = get_context("fork")
        with _defer_interrupts(is_copy=True), warnings.catch_warnings():
            # Python 3.12 and later warn of threads, also of those of numpy's libraries, which allow for copies.
            warnings.simplefilter("ignore", DeprecationWarning)
            self.connection, theirs = context.Pipe()
            args = self.connection, theirs, produce
            self._process = context.Process(target=_send_items, args=args, daemon=True)
            self._process.start()
            theirs.close()

    def is_ready(self) -> bool:
        """Returns whether `receive` would return at once."""
        return self.connection.poll()

    def receive(self) -> Any | None:
        """Waits for the next item and returns it; None after the last one.

        Raises:
            ProcessEndedError: the process ended on its own.
            Exception: any exception of `produce`.
        """
        return _receive_result(self.connection)

    def close(self) -> None:
        """Ends the process."""
        self._process.terminate()
        _stop_process(self._process)
        self.connection.close()


def can_copy_process() -> bool:
    """Returns whether this process may be copied while it runs: on Linux, from its main thread, with no other one."""
    is_alone = threading.active_count() == 1 and threading.current_thread() is threading.main_thread()
    return sys.platform == "linux" and is_alone


def count_cores() -> int:
    """Returns the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def wait_for_items(streams: Sequence[ItemStream], seconds: float | None) -> None:
    """Waits until `receive` of any stream would return at once, or for so many seconds."""
    wait([stream.connection for stream in streams], seconds)


def _send_items(parent: Connection, end: Connection, produce: Callable[[], Iterable[object]]) -> None:
    """Sends all items; then None."""
    # While this process held it open as well, it would not see that the parent is gone.
    parent.close()
    for number in (signal.SIGTERM, signal.SIGALRM):
        signal.signal(number, signal.SIG_DFL)
    with suppress(EOFError, OSError):  # the parent has ended
        try:
            for item in produce():
                end.send((item, None))
        except Exception as error:  # noqa: BLE001 - the parent raises it
            end.send((None, error))
        else:
            end.send((None, None))


def map_parallel(
    work: Callable[[T], R], items: Sequence[T], workers: int, on_idle: Callable[[], None] | None = None
) -> Iterator[tuple[int, R]]:
    """Yields (index, `work(item)`) as results become ready; items are started in their order.

    Items and results are pickled between processes; `work` is pickled once per process. `on_idle` is called several
    times a second while no result is ready.

    Raises:
        ProcessEndedError: a process ended on its own.
        Exception: any exception of `work`.
    """
    ours: dict[Connection, BaseProcess] = {}
    try:
        with _defer_interrupts():
            ours |= (_start_process(work) for _ in range(min(workers, len(items))))
        yield from _collect_results(items, ours, on_idle)
    finally:
        for process in ours.values():
            process.terminate()
        for end, process in ours.items():
            _stop_process(process)
            end.close()


def _collect_results(
    items: Sequence[object], ends: Iterable[Connection], on_idle: Callable[[], None] | None
) -> Iterator[tuple[int, Any]]:
    """Yields results and sends each process the next item as soon as it is free."""
    left = iter(enumerate(items))
    busy: dict[Connection, int] = {}
    for end, (index, item) in zip(ends, left, strict=False):
        _send_item(end, item)
        busy[end] = index
    while busy:
        ready = wait(list(busy), IDLE_S if on_idle else None)
        if on_idle and not ready:
            on_idle()
        for end in [end for end in busy if end in ready]:
            index, answer = busy.pop(end), _receive_result(end)
            for following, item in left:
                _send_item(end, item)
                busy[end] = following
                break
            yield index, answer


def _send_item(end: Connection, item: object) -> None:
    try:
        end.send(item)
    except OSError:
        raise ProcessEndedError from None


def _receive_result(end: Connection) -> Any:
    try:
        answer, error = end.recv()
    except (EOFError, OSError):
        raise ProcessEndedError from None
    if error is not None:
        raise error
    return answer


def _start_process(work: Callable[[T], object]) -> tuple[Connection, BaseProcess]:
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, work), daemon=True)
    process.start()
    # With our copy of its end closed, a process that dies ends the stream that we read.
    theirs.close()
    return ours, process


def _serve(end: Connection, work: Callable[[T], object]) -> None:
    with suppress(EOFError, OSError):  # the parent has ended
        while True:
            item = end.recv()
            end.send(_run_item(work, item))


def _run_item(work: Callable[[T], R], item: T) -> tuple[R | None, Exception | None]:
    try:
        return work(item), None
    except Exception as error:  # noqa: BLE001 - the parent raises it
        return None, error


def _stop_process(process: BaseProcess) -> None:
    process.join(STOP_TIMEOUT_S)
    if process.is_alive():
        process.kill()
        process.join()


@contextmanager
def _defer_interrupts(*, is_copy: bool = False) -> Iterator[None]:
    """Defers Ctrl-C to the end of the block; processes started in it ignore it, so that they print no traceback.

    `is_copy`: whether they are copies of this process.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    if not is_copy:
        resource_tracker.ensure_running()  # it would reset the signal mask
    pending: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _frame: pending.append(number))
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGINT, before)
        if pending:
            signal.raise_signal(signal.SIGINT)
