"""Ends a command that reads telemetry and takes longer, or more memory, than it may: any input gets an answer.

Most of what is too much is refused before, by the counts of `adapters.formats.bounds`; this is for all the rest.
"""

import multiprocessing
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from skewscope.kb.problems import SkewscopeError

PERIOD_S = 0.25
"""Seconds between two looks."""
HINT = "Give less at a time: a shorter span, or fewer files."


class OverBoundError(SkewscopeError):
    """A command took more time or memory than it may. No `InputError`: no reader may take it for one bad file."""


@contextmanager
def bound_work(name: str) -> Iterator[int]:
    """Raises OverBoundError in the block once it has taken more time or memory than it may; gives the seconds.

    Args:
        name: what is read, for the message.
    """
    from skewscope.adapters.formats.bounds import MEMORY_MIB, WORK_SECONDS  # noqa: PLC0415 - it is needed here only

    most_seconds, most_mib, began = WORK_SECONDS.limit(), MEMORY_MIB.limit(), time.monotonic()
    if threading.current_thread() is not threading.main_thread():
        yield most_seconds
        return

    def look(_number: int, _frame: FrameType | None) -> None:
        if time.monotonic() - began > most_seconds:
            raise OverBoundError(str(WORK_SECONDS.problem(name, hint=HINT)))
        if used_memory() > most_mib << 20:
            raise OverBoundError(str(MEMORY_MIB.problem(name, hint=HINT)))

    before = signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, PERIOD_S, PERIOD_S)
    try:
        yield most_seconds
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


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
