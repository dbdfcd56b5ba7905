"""Searching the catalogue by words: ranked, by their beginnings, and by the nearest word where one is misspelt."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from difflib import SequenceMatcher, get_close_matches

from skewscope.kb.build import Value
from skewscope.kb.kinds import KINDS
from skewscope.kb.latest import of_latest
from skewscope.kb.model import Catalogue
from skewscope.kb.query import entries

MOST_QUERY = 400
MOST_WORDS = 20
MOST_ASKED = 1000
"""Words whose entries an index remembers."""

WEIGHTS = {"id": 8.0, "name": 8.0, "aliases": 6.0, "title": 6.0, "what": 3.0, "sources": 3.0}
"""How much a word counts by the field it stands in; 1 elsewhere."""
KIND_WEIGHTS = {"conditions": 2.5, "signals": 1.0, "mitigations": 1.3, "sources": 1.0, "findings": 1.1}
"""Whoever searches looks for a condition more often than for its sources."""
IDENTITY = 1.0
PREFIX = 0.6
MISSPELT = 0.4
ALIKE = 0.72
"""Likeness from which a word may be another one misspelt."""
NEARLY = 0.06
"""Of likeness (0 to 1): by how much less alike than the nearest word another one still counts."""
PHRASE = 1.6
"""How much more an entry counts whose name, or another name of it, holds the words just as they were typed."""


@dataclass(frozen=True, slots=True)
class Hit:
    """One entry that a search found."""

    kind: str
    id: str
    name: str
    score: float


class Index:
    """The words of a catalogue, for many searches."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._names = {(kind, id_): _title(value) for kind in KINDS for id_, value in entries(catalogue, kind).items()}
        self._called = {key: _called(entries(catalogue, key[0])[key[1]]) for key in self._names}
        self._weights: dict[str, dict[tuple[str, str], float]] = defaultdict(dict)
        for kind, id_ in self._names:
            for word, weight in _weighed(entries(catalogue, kind)[id_]).items():
                self._weights[word][kind, id_] = weight * KIND_WEIGHTS[kind]
        self._words = sorted(self._weights)
        self._letters = [(word, len(word), _letters(word)) for word in self._words]
        # Whoever types a search asks for its first words again with each letter of the last.
        self._asked: dict[str, dict[tuple[str, str], float]] = {}

    def search(self, text: str, kind: str = "", most: int = 20) -> tuple[Hit, ...]:
        """Entries by how well they fit the words, best first. A word misspelt is taken for the nearest one known."""
        words = list(dict.fromkeys(_words(text[:MOST_QUERY])))[:MOST_WORDS]
        parts: dict[tuple[str, str], list[float]] = defaultdict(list)
        for word in words:
            for key, score in self._scored(word).items():
                parts[key].append(score)
        # Who says three words means an entry that has all three.
        scores = {key: sum(found) * len(found) / len(words) for key, found in parts.items()}
        typed = " ".join(_words(text[:MOST_QUERY]))
        scores = {key: score * (PHRASE if self._holds(key, typed) else 1.0) for key, score in scores.items()}
        ranked = sorted(
            ((typed in self._called[key], score, key) for key, score in scores.items() if kind in ("", key[0])),
            key=lambda hit: (not hit[0], -hit[1], KINDS.index(hit[2][0]), hit[2][1]),
        )
        return tuple(Hit(*key, self._names[key], round(score, 3)) for _, score, key in ranked[:most])

    def _holds(self, key: tuple[str, str], typed: str) -> bool:
        return " " in typed and any(f" {typed} " in f" {name} " for name in self._called[key])

    def _scored(self, word: str) -> dict[tuple[str, str], float]:
        """By entry, what one word of a search is worth: the best of the ways in which it is there."""
        if word not in self._asked:
            if len(self._asked) >= MOST_ASKED:
                self._asked.clear()
            self._asked[word] = self._looked_up(word)
        return self._asked[word]

    def _looked_up(self, word: str) -> dict[tuple[str, str], float]:
        best: dict[tuple[str, str], float] = {}
        for known, likeness in self._alike(word):
            holders = self._weights[known]
            rarity = math.log1p(len(self._names) / len(holders))
            for key, weight in holders.items():
                best[key] = max(best.get(key, 0.0), likeness * rarity * weight)
        return best

    def _alike(self, word: str) -> Iterator[tuple[str, float]]:
        if word in self._weights:
            yield word, IDENTITY
        longer = [known for known in self._words if known != word and known.startswith(word)] if len(word) > 2 else []
        yield from ((known, PREFIX) for known in longer)
        if word not in self._weights and not longer:
            near = get_close_matches(word, self._maybe(word), n=3, cutoff=ALIKE)
            likeness = [SequenceMatcher(None, word, known).ratio() for known in near]
            # What is clearly farther off than the nearest was not meant.
            yield from ((k, MISSPELT) for k, ratio in zip(near, likeness, strict=True) if ratio > likeness[0] - NEARLY)

    def _maybe(self, word: str) -> list[str]:
        """The words with so many letters in common that they may be that much alike: the rest need no comparison."""
        mine, size = _letters(word), len(word)
        return [
            known
            for known, long, theirs in self._letters
            if size - (mine & ~theirs).bit_count() >= (size + long) * ALIKE / 2
            and long - (theirs & ~mine).bit_count() >= (size + long) * ALIKE / 2
        ]


def _letters(word: str) -> int:
    """Which letters and figures a word has, a bit each."""
    return sum(1 << (ord(letter) - ord("0")) for letter in set(word))


@of_latest
def index(catalogue: Catalogue) -> Index:
    """The index of a catalogue; making it takes a tenth of a second."""
    return Index(catalogue)


def search(catalogue: Catalogue, text: str, kind: str = "", most: int = 20) -> tuple[Hit, ...]:
    """Entries by how well they fit the words, best first; see `Index.search`."""
    return index(catalogue).search(text, kind, most)


def _weighed(value: Value) -> dict[str, float]:
    """Words of an entry by weight; a word said twice in a field counts little more than once."""
    found: dict[str, float] = {}
    for f in fields(value):
        if f.name == "file":
            continue
        counts = Counter(_words(_text(getattr(value, f.name))))
        for word, count in counts.items():
            found[word] = found.get(word, 0.0) + WEIGHTS.get(f.name, 1.0) * (1.0 + math.log(count))
    return found


def _called(value: Value) -> frozenset[str]:
    """The names of an entry, as plain words."""
    return frozenset(" ".join(_words(name)) for name in (value.id, _title(value), *getattr(value, "aliases", ())))


def _text(value: object) -> str:
    if isinstance(value, Mapping):
        return " ".join(_text(item) for pair in value.items() for item in pair)
    if isinstance(value, tuple | list):
        return " ".join(map(_text, value))
    if is_dataclass(value):
        return " ".join(_text(getattr(value, f.name)) for f in fields(value))
    return str(value)


def _words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", text.lower())


def _title(value: Value) -> str:
    return str(getattr(value, "name", "") or getattr(value, "title", ""))
