"""Lint of near duplicates."""

import math
import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache

from skewscope.kb.entry_store import CatalogueEntry, EntryStore
from skewscope.kb.lint import CACHED_ENTRIES, EntryProblems, catalogue_lint

MAX_SIMILARITY = 0.75
"""Cosine similarity of the words of two entries (rare words weigh more) from which they are duplicates."""

COMPARED_FIELDS = {"conditions": ("name", "what"), "mitigations": ("name", "what"), "findings": ("name", "text")}


@catalogue_lint("Merge the two, or say in both what makes them two.")
def no_near_duplicates(store: EntryStore) -> EntryProblems:
    """No two entries of a kind are near duplicates."""
    for kind, fields in COMPARED_FIELDS.items():
        entries = list(store.of_kind(kind))
        for first, second, likeness in similar_pairs(entries, fields):
            text = f"{likeness:.0%} the words of {first.name!r}"
            yield second.name, second.document.problem((fields[1],), text, "an entry of its own")


def similar_pairs(
    entries: list[CatalogueEntry], fields: tuple[str, ...]
) -> Iterator[tuple[CatalogueEntry, CatalogueEntry, float]]:
    """Yields pairs of entries with too similar texts, and their similarity."""
    counts = [_count_words(" ".join(str(e.document.data[f]) for f in fields)) for e in entries]
    holders = Counter(word for words in counts for word in words)
    rarity = {word: math.log(1 + len(entries) / n) for word, n in holders.items()}
    earlier: dict[str, list[tuple[int, float]]] = {word: [] for word in holders}
    for n, words in enumerate(counts):
        likeness = [0.0] * n
        for word, weight in _normalise({word: count * rarity[word] for word, count in words.items()}).items():
            for k, other in earlier[word]:
                likeness[k] += weight * other
            earlier[word].append((n, weight))
        yield from ((entries[k], entries[n], much) for k, much in enumerate(likeness) if much >= MAX_SIMILARITY)


def _normalise(vector: dict[str, float]) -> dict[str, float]:
    length = math.sqrt(sum(weight * weight for weight in vector.values())) or 1.0
    return {word: weight / length for word, weight in vector.items()}


@lru_cache(maxsize=CACHED_ENTRIES)
def _count_words(text: str) -> Counter[str]:
    return Counter(re.findall(r"[a-z]{3,}", text.lower()))
