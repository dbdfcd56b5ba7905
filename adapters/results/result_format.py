"""The protocol of readers of results: each module of `readers` has one as `FORMAT`, and nothing else lists it."""

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from skewscope.adapters.formats.log_lines import CONTROL
from skewscope.adapters.results.plausibility import drop_impossible
from skewscope.adapters.results.result import BenchmarkResult
from skewscope.kb.problems import InputError, Problem

HEAD_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class ResultFormat:
    """What a benchmark writes."""

    tool: str
    """The program, as messages call it."""
    recognise: Callable[[str], bool]
    """Whether the first characters of a file are of it."""
    read: Callable[[str, str], Sequence[BenchmarkResult]]
    """Returns the results in (text, name of the file); InputError where it is damaged."""


@cache
def result_formats() -> tuple[ResultFormat, ...]:
    """Returns all formats, by the names of their modules."""
    import skewscope.adapters.results.readers as folder  # noqa: PLC0415

    names = sorted(module.name for module in pkgutil.iter_modules(folder.__path__))
    modules = [importlib.import_module(f"{folder.__name__}.{name}") for name in names]
    return tuple(module.FORMAT for module in modules)


def find_result_format(head: bytes) -> ResultFormat | None:
    """Returns the format of a file by its first bytes; None where it holds no results."""
    text = _to_text(head[:HEAD_BYTES])
    return next((each for each in result_formats() if each.recognise(text)), None)


def read_results(data: bytes, file: str) -> list[BenchmarkResult]:
    """Returns the results in the bytes of a file, in their order.

    Raises:
        InputError: it holds none, or is damaged.
    """
    known = find_result_format(data)
    results = [drop_impossible(each) for each in known.read(_to_text(data), file)] if known else []
    if not results:
        tools = ", ".join(sorted({each.tool for each in result_formats()}))
        found = f"no result that is whole, of {known.tool}" if known else "no results of a benchmark"
        raise InputError([Problem(file, 0, "", found, f"results of one of these: {tools}")])
    return results


def _to_text(data: bytes) -> str:
    text = data.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")
    return CONTROL.sub("", text)
