"""The order of results that nobody ordered: by their dates, else by the names of their files."""

import re
from collections.abc import Sequence
from pathlib import PurePath

from skewscope.adapters.results.result import BenchmarkResult

FIRST = frozenset(("before", "baseline", "base", "old", "prev", "previous", "reference", "ref", "good", "healthy"))
LAST = frozenset(("after", "new", "now", "current", "bad", "slow", "degraded", "candidate", "today"))
"""Words in the name of a file that say which side it is."""


def order_results(results: Sequence[BenchmarkResult]) -> list[BenchmarkResult]:
    """Returns results from the earliest to the latest; those that nothing orders stay as they are."""
    dates = [each.started for each in results]
    if results and None not in dates and len(set(dates)) > 1:
        return sorted(results, key=lambda each: each.started or 0.0)
    sides = [_side(each.file) for each in results]
    ordered = sorted(zip(sides, range(len(results)), results, strict=True), key=lambda item: item[:2])
    return [each for _, _, each in ordered]


def _side(file: str) -> int:
    words = set(re.split(r"[^a-z]+", PurePath(file).name.lower()))
    return -bool(words & FIRST) + bool(words & LAST)
