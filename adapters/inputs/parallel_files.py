"""Reads the files of one input in several processes, where that pays."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from skewscope.adapters.formats.compression import report_bytes
from skewscope.adapters.inputs.byte_progress import SharedCounter, count_bytes
from skewscope.adapters.inputs.recording import BYTES_PER_WORKER
from skewscope.adapters.runtime.processes import ProcessEndedError, map_parallel
from skewscope.kb.problems import InputError, Problem

R = TypeVar("R")


def read_files(read_one: Callable[[Path], R], paths: Sequence[Path], workers: int) -> list[R]:
    """Returns the result of each file, in their order.

    Args:
        read_one: reads a file; it and its results are pickled between processes, which lose exceptions of its own.
        paths: the files.
        workers: processes at most.

    Raises:
        InputError: a process ended.
    """
    sizes = [path.stat().st_size if path.is_file() else 0 for path in paths]
    workers = min(workers, len(paths), sum(sizes) // BYTES_PER_WORKER)
    if workers < 2:
        return [read_one(path) for path in paths]
    counter, told = SharedCounter(), 0

    def tell() -> None:
        nonlocal told
        now = counter.value
        report_bytes(now - told)
        told = now

    # The largest first: short files fill the gaps at the end.
    order = sorted(range(len(paths)), key=lambda index: -sizes[index])
    work = partial(count_bytes, counter, read_one)
    found: dict[int, R] = {}
    try:
        for place, result in map_parallel(work, [paths[index] for index in order], workers, tell):
            found[order[place]] = result
            tell()
    except ProcessEndedError:
        hint = "Was there enough memory? Fewer workers need less."
        fault = Problem(str(paths[0].parent), 0, "", "the reader process died", "samples", hint)
        raise InputError([fault]) from None
    return [found[index] for index in range(len(paths))]
