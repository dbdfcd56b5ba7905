"""Searches the catalogue by words: ranked, with prefixes and corrected misspellings."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from difflib import SequenceMatcher, get_close_matches

from skewscope.kb.builders import EntryValue
from skewscope.kb.entry_kinds import KINDS
from skewscope.kb.latest_cache import cache_latest
from skewscope.kb.model import Catalogue, Condition
from skewscope.kb.query import entries

MAX_QUERY = 400
MAX_WORDS = 20
MAX_CACHED_WORDS = 1000
"""Number of words whose scores an index caches."""

FIELD_WEIGHTS = {"id": 8.0, "name": 8.0, "aliases": 6.0, "title": 6.0, "what": 3.0, "sources": 3.0}
"""Weight of a word by its field; 1 elsewhere."""
KIND_WEIGHTS = {
    "conditions": 2.5,
    "signals": 1.0,
    "mitigations": 1.3,
    "sources": 1.0,
    "findings": 1.1,
    "symptoms": 1.5,
    "formats": 1.2,
    "events": 1.4,
}
"""Conditions are searched more often than their sources."""
EXACT_WEIGHT = 1.0
PREFIX_WEIGHT = 0.6
FUZZY_WEIGHT = 0.4
MIN_SIMILARITY = 0.72
"""Similarity from which a word may be a misspelling of another."""
SIMILARITY_MARGIN = 0.06
"""Similarity (0 to 1) by which a word may be below the nearest one and still count."""
PHRASE_BOOST = 1.6
"""Factor for an entry whose name or alias contains the words as typed."""


@dataclass(frozen=True, slots=True)
class SearchHit:
    """One result of a search."""

    kind: str
    id: str
    name: str
    score: float


class SearchIndex:
    """Index of the words of a catalogue."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._names = {(kind, id_): _title(value) for kind in KINDS for id_, value in entries(catalogue, kind).items()}
        self._plain_names = {key: _plain_names(entries(catalogue, key[0])[key[1]]) for key in self._names}
        self._postings: dict[str, dict[tuple[str, str], float]] = defaultdict(dict)
        for kind, id_ in self._names:
            for word, weight in _word_weights(entries(catalogue, kind)[id_]).items():
                self._postings[word][kind, id_] = weight * KIND_WEIGHTS[kind]
        self._words = sorted(self._postings)
        self._letter_masks = [(word, len(word), _letter_mask(word)) for word in self._words]
        # While a search is typed, its first words are looked up again with each letter of the last.
        self._score_cache: dict[str, dict[tuple[str, str], float]] = {}

    def search(self, text: str, kind: str = "", most: int = 20) -> tuple[SearchHit, ...]:
        """Returns entries by score, best first. A misspelt word matches the nearest known one."""
        words = list(dict.fromkeys(_words(text[:MAX_QUERY])))[:MAX_WORDS]
        parts: dict[tuple[str, str], list[float]] = defaultdict(list)
        for word in words:
            for key, score in self._score_word(word).items():
                parts[key].append(score)
        # An entry must match all words.
        scores = {key: sum(found) * len(found) / len(words) for key, found in parts.items()}
        typed = " ".join(_words(text[:MAX_QUERY]))
        scores = {key: score * (PHRASE_BOOST if self._has_phrase(key, typed) else 1.0) for key, score in scores.items()}
        ranked = sorted(
            ((typed in self._plain_names[key], score, key) for key, score in scores.items() if kind in ("", key[0])),
            key=lambda hit: (not hit[0], -hit[1], KINDS.index(hit[2][0]), hit[2][1]),
        )
        return tuple(SearchHit(*key, self._names[key], round(score, 3)) for _, score, key in ranked[:most])

    def export(self) -> dict[str, object]:
        """Returns the index for programs in other languages.

        `entries` are lists of kind, id, name and plain names; `words` has for each word the numbers of entries, each
        followed by the word's weight there in hundredths.
        """
        order = list(self._names)
        number = {key: n for n, key in enumerate(order)}
        words = {
            word: [part for key, weight in held.items() for part in (number[key], round(100 * weight))]
            for word, held in sorted(self._postings.items())
        }
        return {"entries": [[*key, self._names[key], sorted(self._plain_names[key])] for key in order], "words": words}

    def _has_phrase(self, key: tuple[str, str], typed: str) -> bool:
        return " " in typed and any(f" {typed} " in f" {name} " for name in self._plain_names[key])

    def _score_word(self, word: str) -> dict[tuple[str, str], float]:
        """Returns by entry the score of one word: the best of its matches."""
        if word not in self._score_cache:
            if len(self._score_cache) >= MAX_CACHED_WORDS:
                self._score_cache.clear()
            self._score_cache[word] = self._compute_scores(word)
        return self._score_cache[word]

    def _compute_scores(self, word: str) -> dict[tuple[str, str], float]:
        best: dict[tuple[str, str], float] = {}
        for known, likeness in self._similar_words(word):
            holders = self._postings[known]
            rarity = math.log1p(len(self._names) / len(holders))
            for key, weight in holders.items():
                best[key] = max(best.get(key, 0.0), likeness * rarity * weight)
        return best

    def _similar_words(self, word: str) -> Iterator[tuple[str, float]]:
        if word in self._postings:
            yield word, EXACT_WEIGHT
        longer = [known for known in self._words if known != word and known.startswith(word)] if len(word) > 2 else []
        yield from ((known, PREFIX_WEIGHT) for known in longer)
        if word not in self._postings and not longer:
            near = get_close_matches(word, self._candidate_words(word), n=3, cutoff=MIN_SIMILARITY)
            likeness = [SequenceMatcher(None, word, known).ratio() for known in near]
            # Words clearly farther off than the nearest do not match.
            yield from (
                (k, FUZZY_WEIGHT)
                for k, ratio in zip(near, likeness, strict=True)
                if ratio > likeness[0] - SIMILARITY_MARGIN
            )

    def _candidate_words(self, word: str) -> list[str]:
        """Returns the words that share enough letters to be similar; the rest need no comparison."""
        mine, size = _letter_mask(word), len(word)
        return [
            known
            for known, long, theirs in self._letter_masks
            if size - (mine & ~theirs).bit_count() >= (size + long) * MIN_SIMILARITY / 2
            and long - (theirs & ~mine).bit_count() >= (size + long) * MIN_SIMILARITY / 2
        ]


def _letter_mask(word: str) -> int:
    """Returns the letters and digits of a word as a bit mask."""
    return sum(1 << (ord(letter) - ord("0")) for letter in set(word))


@cache_latest
def search_index(catalogue: Catalogue) -> SearchIndex:
    """Returns the index of a catalogue; building it takes 0.1 s."""
    return SearchIndex(catalogue)


def search(catalogue: Catalogue, text: str, kind: str = "", most: int = 20) -> tuple[SearchHit, ...]:
    """Returns entries by score, best first; see `SearchIndex.search`."""
    return search_index(catalogue).search(text, kind, most)


def _word_weights(value: EntryValue) -> dict[str, float]:
    """Returns the words of an entry by weight; a repeated word counts little more than once."""
    found: dict[str, float] = {}
    for f in fields(value):
        if f.name == "file":
            continue
        counts = Counter(_words(_flatten_text(_searched_value(value, f.name))))
        for word, count in counts.items():
            found[word] = found.get(word, 0.0) + FIELD_WEIGHTS.get(f.name, 1.0) * (1.0 + math.log(count))
    return found


def _searched_value(value: EntryValue, field: str) -> object:
    """Returns the value of a field; of a signature its signals only, since every signature has the other words."""
    if isinstance(value, Condition) and field == "signature":
        return value.signature_signals
    return getattr(value, field)


def _plain_names(value: EntryValue) -> frozenset[str]:
    """Returns the names of an entry as plain words."""
    return frozenset(" ".join(_words(name)) for name in (value.id, _title(value), *getattr(value, "aliases", ())))


def _flatten_text(value: object) -> str:
    if isinstance(value, Mapping):
        return " ".join(_flatten_text(item) for pair in value.items() for item in pair)
    if isinstance(value, tuple | list):
        return " ".join(map(_flatten_text, value))
    if is_dataclass(value):
        return " ".join(_flatten_text(getattr(value, f.name)) for f in fields(value))
    return str(value)


def _words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", text.lower())


def _title(value: EntryValue) -> str:
    return str(getattr(value, "name", "") or getattr(value, "title", ""))
