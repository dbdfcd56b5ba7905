"""Work spread over processes of our own, which end with whoever waits for them, however that ends.

Not `concurrent.futures`: its thread may still be closing when the interpreter ends, which prints a traceback at Ctrl-C,
and it waits for ever on a result of which a process wrote but a half.
"""

import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")

STOP_TIMEOUT_S = 10.0
"""For a process to end when it is told to."""


class ProcessEndedError(Exception):
    """A process ended before its answer came: nearly always the system's, for want of memory."""


def map_parallel(work: Callable[[T], R], items: Sequence[T], workers: int) -> Iterator[tuple[int, R]]:
    """What `work` gives for each item, with the item's index, as they get ready; items are begun in their order.

    Work, items and what comes of them travel between processes; work does so once for each of them.

    Raises:
        ProcessEndedError: a process ended on its own.
        Exception: whatever `work` raises.
    """
    ours: dict[Connection, BaseProcess] = {}
    try:
        with _defer_interrupts():
            ours |= (_start_process(work) for _ in range(min(workers, len(items))))
        yield from _collect_results(items, ours)
    finally:
        for process in ours.values():
            process.terminate()
        for end, process in ours.items():
            _stop_process(process)
            end.close()


def _collect_results(items: Sequence[object], ends: Iterable[Connection]) -> Iterator[tuple[int, Any]]:
    """Each process is given the next item as soon as it has answered."""
    left = iter(enumerate(items))
    busy: dict[Connection, int] = {}
    for end, (index, item) in zip(ends, left, strict=False):
        _send_item(end, item)
        busy[end] = index
    while busy:
        ready = wait(list(busy))
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
    # With the last other end gone, a process that dies is the end of what we read.
    theirs.close()
    return ours, process


def _serve(end: Connection, work: Callable[[T], object]) -> None:
    with suppress(EOFError, OSError):  # nobody waits any more
        while True:
            item = end.recv()
            end.send(_run_item(work, item))


def _run_item(work: Callable[[T], R], item: T) -> tuple[R | None, Exception | None]:
    try:
        return work(item), None
    except Exception as error:  # noqa: BLE001 - whoever waits raises it
        return None, error


def _stop_process(process: BaseProcess) -> None:
    process.join(STOP_TIMEOUT_S)
    if process.is_alive():
        process.kill()
        process.join()


@contextmanager
def _defer_interrupts() -> Iterator[None]:
    """Ctrl-C is answered after this; processes started in here never hear it: they would print where it hit them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    resource_tracker.ensure_running()  # it would take our mask away
    heard: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _frame: heard.append(number))
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGINT, before)
        if heard:
            signal.raise_signal(signal.SIGINT)
