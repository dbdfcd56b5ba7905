"""Finds the known metric whose name is nearest to an unknown one."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from difflib import SequenceMatcher

from skewscope.adapters.mapping.column_names import convert_unit, find_signal, is_needless, split_name
from skewscope.adapters.mapping.names import build_index
from skewscope.kb.model import Catalogue

WORD = re.compile(r"[A-Za-z]+|\d+")
MIN_RATIO = 0.7
"""Similarity below which a name is no suggestion."""
MAX_COMPARED = 12
"""Candidates with the most words in common that are compared letter by letter."""


class NearestMetric:
    """An index of the known names by their words."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._signals = catalogue.signals
        self._names: dict[str, list[str]] = defaultdict(list)
        self._origins = build_index(catalogue)
        for name in _distinct_names(self._origins):
            for word in _words(name):
                self._names[word].append(name)

    def find_signal(self, name: str) -> str:
        """Returns the signal that the nearest known name delivers, '' where none is near."""
        origins = self._origins.get(self.find(name), ())
        return origins[0].signal if origins else ""

    def find(self, name: str) -> str:
        """Returns the nearest known name of the same unit and type; '' for none, and for what says nothing of a fault.

        Likeness alone is no ground: a size in bytes is no share of a size.
        """
        if is_needless(name):
            return ""
        if signal := find_signal(split_name(name)):
            return self._signals[signal].metric
        shared: Counter[str] = Counter()
        for word in _words(name[:200]):
            holders = self._names.get(word, [])
            for holder in holders:
                # A rare word says more than a frequent one.
                shared[holder] += 1_000_000 // len(holders)
        best = max(
            (
                (_ratio(name, other), other)
                for other, _ in sorted(shared.items(), key=_by_weight)[:MAX_COMPARED]
                if self._fits(name, other)
            ),
            default=(0.0, ""),
        )
        return best[1] if best[0] >= MIN_RATIO else ""

    def _fits(self, name: str, other: str) -> bool:
        """Returns whether two names say the same unit and type: that of the known one's signal, where its name does."""
        given, wanted = split_name(name.removesuffix("_total")).unit, split_name(other.removesuffix("_total")).unit
        signal = self._signals[self._origins[other][0].signal]
        is_total = name.endswith("_total")
        if is_total != other.endswith("_total") and is_total != (signal.type == "counter"):
            return False
        return given == wanted or (bool(given) and convert_unit(given, signal.unit) is not None)


def _distinct_names(names: Iterable[str]) -> list[str]:
    """Returns one name of those that differ by numbers only, without canonical names."""
    return sorted({re.sub(r"\d+", "0", name): name for name in names if not name.startswith("skewscope_")}.values())


def _words(name: str) -> set[str]:
    return {word.lower() for word in WORD.findall(name)}


def _by_weight(one: tuple[str, int]) -> tuple[int, str]:
    return -one[1], one[0]


def _ratio(name: str, other: str) -> float:
    return SequenceMatcher(None, name.lower(), other.lower(), autojunk=False).ratio()
