"""Ends work on telemetry that takes longer, or more memory, than it may: any input gets an answer.

Most of what is too much is refused before, by the counts of `adapters.formats.bounds`; this is for all the rest. A look
comes between two instructions of Python only, so the system limits the memory of the process as well: a single call
that asks for more fails.
"""

import math
import multiprocessing
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from skewscope.kb.problems import SkewscopeError

PERIOD_S = 0.25
"""Seconds between two looks."""
LEAST_GROWTH = 256 << 20
"""Bytes by which a process may always grow before the system refuses more: a look comes first."""
USUAL_MEMORY = 512 << 20
"""Bytes that a process may hold before: a command with all its libraries takes less."""
WAITING_TIMES = 5
"""Of the time that it may work, a command may take so many times by the clock: on a busy machine it waits."""
POOL_VARIABLE = "ARROW_DEFAULT_MEMORY_POOL"
HINT = "Give less at a time: a shorter span, or fewer files."


class OverBoundError(SkewscopeError):
    """A command took more time or memory than it may. No `InputError`: no reader may take it for one bad file."""


@contextmanager
def bound_work(name: str, times: int = 1) -> Iterator[int]:
    """Raises OverBoundError in the block once it has taken more time or memory than it may; gives the seconds.

    Time is that of processors, so that other work on a machine refuses nothing; what waits ends as well, later.

    Args:
        name: what is read, for the message.
        times: by which the bound is multiplied.
    """
    from skewscope.adapters.formats.bounds import WORK_SECONDS  # noqa: PLC0415 - it is needed here only

    most_seconds = times * WORK_SECONDS.limit()
    began, worked = time.monotonic(), used_seconds()

    def check_time() -> None:
        passed = time.monotonic() - began
        if passed > most_seconds and (passed > WAITING_TIMES * most_seconds or used_seconds() - worked > most_seconds):
            raise OverBoundError(str(WORK_SECONDS.problem(name, hint=HINT, times=times)))

    with limit_memory(name), _look(name, check_time):
        yield most_seconds


@contextmanager
def bound_memory(name: str) -> Iterator[None]:
    """Raises OverBoundError in the block once it has taken more memory than it may, however long it takes."""
    with limit_memory(name), _look(name, lambda: None):
        yield


@contextmanager
def limit_memory(name: str) -> Iterator[None]:
    """Makes allocations in the block fail above the bound, also in other threads and in processes that it starts.

    Raises:
        OverBoundError: one failed in the block.
    """
    from skewscope.adapters.formats.bounds import MEMORY_MIB  # noqa: PLC0415

    before = resource.getrlimit(resource.RLIMIT_DATA)
    most = _largest_data(MEMORY_MIB.limit() << 20)
    if most and (before[1] == resource.RLIM_INFINITY or most < before[1]):
        resource.setrlimit(resource.RLIMIT_DATA, (most, before[1]))
    try:
        yield
    except MemoryError:
        raise OverBoundError(str(MEMORY_MIB.problem(name, hint=HINT))) from None
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def check_memory(name: str, held: int = 0) -> None:
    """Raises OverBoundError where this process and its reader processes hold more memory than they may.

    `held` bytes of it do not count: they were taken before.
    """
    from skewscope.adapters.formats.bounds import MEMORY_MIB  # noqa: PLC0415

    if used_memory() - held > MEMORY_MIB.limit() << 20:
        raise OverBoundError(str(MEMORY_MIB.problem(name, hint=HINT)))


def watch_memory(name: str, report: Callable[[str, float], None]) -> Callable[[str, float], None]:
    """Returns a receiver of progress that checks the memory as well, for threads, which signals do not reach."""
    looked = -math.inf

    def look_and_report(what: str, share: float) -> None:
        nonlocal looked
        if time.monotonic() - looked >= PERIOD_S:
            looked = time.monotonic()
            check_memory(name)
        report(what, share)

    return look_and_report


@contextmanager
def _look(name: str, check_time: Callable[[], None]) -> Iterator[None]:
    """Looks at time and memory while the block runs; signals reach the main thread only, so only there."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    # What an assessment of many simulated fleets has taken before must not count against the recording after them.
    held = max(used_memory() - USUAL_MEMORY, 0)

    def look(_number: int, _frame: FrameType | None) -> None:
        check_time()
        check_memory(name, held)

    before = signal.signal(signal.SIGALRM, look)
    timer = signal.setitimer(signal.ITIMER_REAL, PERIOD_S, PERIOD_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, *timer)


def _largest_data(most: int) -> int:
    """Returns the most bytes of data that the system may give this process; 0 where it does not say what it has.

    Data is what was asked for, used or not: what libraries reserve beforehand does not count.
    """
    # Reserved at its import for each core, here and in each reader process.
    import numpy as np  # noqa: F401, PLC0415

    # Its own pool reserves a GiB at once.
    os.environ.setdefault(POOL_VARIABLE, "system")
    try:
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()
    except OSError:
        return 0
    data, own = (int(n) * resource.getpagesize() for n in (pages[5], int(pages[1]) - int(pages[2])))
    return data + max(most + most // 8 - min(own, USUAL_MEMORY), LEAST_GROWTH)


def used_seconds() -> float:
    """Returns the seconds that processors worked for this process and its reader processes, those that ended too."""
    own, ended = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    seconds = sum(one.ru_utime + one.ru_stime for one in (own, ended))
    return seconds + sum(_process_seconds(child.pid) for child in multiprocessing.active_children() if child.pid)


def _process_seconds(process: int) -> float:
    try:
        fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def used_memory() -> int:
    """Returns the bytes of memory of this process and of its reader processes, without what lies in files as well."""
    processes = [os.getpid(), *(child.pid for child in multiprocessing.active_children() if child.pid)]
    return sum(map(_process_memory, processes))


def _process_memory(process: int) -> int:
    try:
        pages = Path(f"/proc/{process}/statm").read_text(encoding="ascii").split()
    except OSError:  # it has ended, or there is no such folder
        if process != os.getpid():
            return 0
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak << 10
    return (int(pages[1]) - int(pages[2])) * resource.getpagesize()
