"""Threads for calls that block, by what they wait for: a silent name server holds up no file, and a file no store.

The threads that asyncio itself offers are left to libraries.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class BlockingCalls:
    """Threads of one purpose; calls beyond their number wait for their turn."""

    def __init__(self, name: str, threads: int) -> None:
        self._executor = ThreadPoolExecutor(threads, name)
        self.under_way = 0
        """Calls that are waited for."""

    async def run(self, do: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Returns what a call returns; who is cancelled meanwhile does not wait for its end."""
        self.under_way += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._executor, partial(do, *args, **kwargs))
        finally:
            self.under_way -= 1


STORE = BlockingCalls("store reads", 4)
FILES = BlockingCalls("files", 8)
"""Files may be on shared storage that hangs."""
NAMES = BlockingCalls("names", 8)
WORK = BlockingCalls("work", 6)
"""Calculations, such as the parsing of a long answer."""
