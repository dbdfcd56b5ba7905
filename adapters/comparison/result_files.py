"""The results of benchmarks in a file or a folder."""

from collections.abc import Iterator
from pathlib import Path

from skewscope.adapters.formats.bounds import INPUTS
from skewscope.adapters.formats.compression import open_stream
from skewscope.adapters.inputs.benchmark_result import read_bytes
from skewscope.adapters.results.result import BenchmarkResult
from skewscope.adapters.results.result_format import HEAD_BYTES, find_result_format, read_results
from skewscope.kb.problems import InputError, Problem

MAX_DEPTH = 6


def read_side(path: Path) -> list[BenchmarkResult]:
    """Returns the results in a file, or in all files of a folder that have some; none where there are none.

    Raises:
        InputError: it does not exist, or a file with results is damaged.
    """
    if not path.exists():
        raise InputError(
            [Problem(str(path), 0, "", "no such file or folder", "results of a benchmark, or a recording")]
        )
    results: list[BenchmarkResult] = []
    for number, file in enumerate(_files(path, MAX_DEPTH)):
        INPUTS.check(str(path), number + 1, "Give a folder with fewer.")
        results += _read_file(file, is_named=file == path)
    return results


def _read_file(file: Path, *, is_named: bool) -> list[BenchmarkResult]:
    try:
        with open_stream(file) as stream:
            if not find_result_format(stream.peek(HEAD_BYTES)[:HEAD_BYTES]):
                return []
            return read_results(read_bytes(stream, str(file)), str(file))
    except InputError:
        if is_named:
            raise
        return []


def _files(path: Path, depth: int) -> Iterator[Path]:
    """Yields a file, or those in a folder, sorted, without hidden ones and links."""
    if not path.is_dir():
        yield path
        return
    for entry in sorted(path.iterdir()):
        if not entry.name.startswith(".") and not entry.is_symlink() and (depth or not entry.is_dir()):
            yield from _files(entry, depth - 1)
