"""Asking the catalogue: one entry with all that points to it, entries by field, entries by words."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from difflib import SequenceMatcher, get_close_matches
from typing import Any

from skewscope.kb.basis import sources_of
from skewscope.kb.build import Value
from skewscope.kb.kinds import KINDS
from skewscope.kb.model import Catalogue, Claim, Condition
from skewscope.kb.problems import InputError, Problem, listed, nearest

MOST_QUERY = 400
MOST_WORDS = 20

WEIGHTS = {"id": 8.0, "name": 8.0, "aliases": 6.0, "title": 6.0, "what": 3.0, "sources": 3.0}
"""How much a word counts by the field it stands in; 1 elsewhere."""
KIND_WEIGHTS = {"conditions": 2.5, "signals": 1.0, "mitigations": 1.3, "sources": 1.0, "findings": 1.1}
"""Whoever searches looks for a condition more often than for its sources."""
IDENTITY = 1.0
PREFIX = 0.6
MISSPELT = 0.4
NEARLY = 0.06
"""Of likeness (0 to 1): by how much less alike than the nearest word another one still counts."""
PHRASE = 1.6
"""How much more an entry counts whose name, or another name of it, holds the words just as they were typed."""


def entries(catalogue: Catalogue, kind: str) -> Mapping[str, Value]:
    """All entries of a kind (conditions, signals, mitigations, sources), by id.

    Raises:
        InputError: there is no such kind.
    """
    if kind not in KINDS:
        raise _unknown("kind", kind, KINDS)
    found: Mapping[str, Value] = getattr(catalogue, kind)
    return found


def select(catalogue: Catalogue, kind: str, where: Mapping[str, str] | None = None) -> tuple[Value, ...]:
    """The entries of a kind whose fields are, or hold, the given values; in the order of ids.

    Raises:
        InputError: there is no such kind or field.
    """
    found = entries(catalogue, kind)
    wanted = dict(where or {})
    for value in found.values():
        known = [f.name for f in fields(value)]
        if strange := next((name for name in wanted if name not in known), None):
            raise _unknown("field", strange, known)
        break
    return tuple(v for v in found.values() if all(_holds(getattr(v, name), text) for name, text in wanted.items()))


def _holds(value: object, text: str) -> bool:
    if isinstance(value, Mapping):
        return any(_holds(item, text) for pair in value.items() for item in pair)
    if isinstance(value, tuple):
        return any(_holds(item, text) for item in value)
    if is_dataclass(value):
        return any(_holds(getattr(value, f.name), text) for f in fields(value))
    return str(value) == text


def find(catalogue: Catalogue, id_: str, kind: str = "") -> tuple[str, Value]:
    """The kind and the value of an entry; without a kind, of the first kind that has the id.

    Raises:
        InputError: nothing has this id; the hint names the nearest that exists.
    """
    kinds = (kind,) if kind else KINDS
    for name in kinds:
        if value := entries(catalogue, name).get(id_):
            return name, value
    known = [known for name in kinds for known in entries(catalogue, name)]
    raise _unknown("entry", id_, known)


def show(catalogue: Catalogue, id_: str, kind: str = "") -> dict[str, Any]:
    """An entry as JSON takes it, with `entry`: its kind, and `used_by`: what names it.

    Raises:
        InputError: nothing has this id.
    """
    found, value = find(catalogue, id_, kind)
    return {"entry": found, **jsonable(value), "used_by": users(catalogue, found, id_)}


def users(catalogue: Catalogue, kind: str, id_: str) -> dict[str, list[str]]:
    """By kind, the entries that name an entry of a kind."""
    return {by: list(ids) for by, ids in named_by(catalogue).get((kind, id_), {}).items()}


def named_by(catalogue: Catalogue) -> dict[tuple[str, str], dict[str, tuple[str, ...]]]:
    """By kind and id of an entry, the entries that name it: by kind, in the order of ids."""
    found: dict[tuple[str, str], dict[str, tuple[str, ...]]] = defaultdict(dict)
    for by, id_, names in _naming(catalogue):
        for kind, named in names.items():
            for other in sorted(named):
                found[kind, other][by] = (*found[kind, other].get(by, ()), id_)
    return dict(found)


def _naming(catalogue: Catalogue) -> Iterator[tuple[str, str, dict[str, set[str]]]]:
    """Kind and id of each entry with what it names, by kind."""
    for c in catalogue.conditions.values():
        yield "conditions", c.id, _named(c)
    for m in catalogue.mitigations.values():
        yield "mitigations", m.id, {"sources": _cited(m)}
    for f in catalogue.findings.values():
        yield "findings", f.id, {"conditions": set(f.conditions), "sources": {*f.sources, *_cited(f)}}


def _named(c: Condition) -> dict[str, set[str]]:
    """By kind, what a condition names."""
    needs = {name for o in c.observability for name in o.needs}
    links = {link.condition for link in (*c.causes, *c.effects)}
    others = links | {look.condition for look in c.lookalikes}
    return {
        "conditions": others,
        "signals": {*c.signature, *needs},
        "mitigations": set(c.mitigations),
        "sources": _cited(c),
    }


def _cited(value: object) -> set[str]:
    """The sources of every claim and every basis inside a value."""
    if isinstance(value, tuple):
        return set().union(*map(_cited, value))
    if not is_dataclass(value):
        return set()
    found = {value.source} if isinstance(value, Claim) else set()
    for f in fields(value):
        inner = getattr(value, f.name)
        found |= set(sources_of(inner)) if f.name in ("basis", "signature_basis") else _cited(inner)
    return found


def jsonable(value: object) -> Any:
    """A value of the catalogue as JSON takes it, without where it was read."""
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: jsonable(getattr(value, f.name)) for f in fields(value) if f.name != "file"}
    if isinstance(value, Mapping):
        return {str(key): jsonable(item) for key, item in value.items()}
    return [jsonable(item) for item in value] if isinstance(value, tuple | list) else value


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
            near = get_close_matches(word, self._words, n=3, cutoff=0.72)
            likeness = [SequenceMatcher(None, word, known).ratio() for known in near]
            # What is clearly farther off than the nearest was not meant.
            yield from ((k, MISSPELT) for k, ratio in zip(near, likeness, strict=True) if ratio > likeness[0] - NEARLY)


def search(catalogue: Catalogue, text: str, kind: str = "", most: int = 20) -> tuple[Hit, ...]:
    """Entries by how well they fit the words, best first; see `Index.search`."""
    return Index(catalogue).search(text, kind, most)


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


def _unknown(what: str, name: str, known: tuple[str, ...] | list[str]) -> InputError:
    hint = nearest(name, known)
    expected = f"one of {listed(sorted(known), 6)}"
    return InputError([Problem("kb", 0, what, repr(name), expected, hint)])
