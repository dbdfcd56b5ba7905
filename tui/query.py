"""The filter language: `late !n3 sev>=warning (node:n2 or ~tpstr)`. Pure; no text is an error, at most it has a fault.

Words stand side by side and must all hold; `or` separates alternatives, parentheses group, `!` negates, `~` forgives
left-out letters, `"..."` takes everything as it is. `field:text` looks into one field, `field>=number` compares; times
and sizes may carry a unit: `age>10s`, `now>2ms`, `sure>80%`.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Union

import numpy as np
from numpy.typing import NDArray

from skewscope.kb.problems import nearest

Mask = NDArray[np.bool_]

OPERATORS = (">=", "<=", "!=", "=", ">", "<", ":")
MOST_DEEP = 20
MOST_TEXT = 1000
_TEST = re.compile(r"([a-z][a-z_]{0,19})(>=|<=|!=|=|>|<|:)(.*)", re.DOTALL)
_PLAIN = re.compile(r'[^\s()"!~\\][^\s()"\\]*')
_NUMBER = re.compile(r"([+-]?\d{1,15}(?:\.\d{1,9})?)\s*([a-zµ%]{0,4})", re.IGNORECASE)
_UNITS = {
    "": 1.0, "%": 0.01, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9, "min": 60.0, "m": 60.0, "h": 3600.0,
    "d": 86400.0, "k": 1e3, "kb": 1e3, "mb": 1e6, "gb": 1e9,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Has:
    """The words somewhere."""

    text: str


@dataclass(frozen=True, slots=True)
class Like:
    """The letters somewhere, in this order."""

    text: str


@dataclass(frozen=True, slots=True)
class Compare:
    """A comparison of a field."""

    field: str
    operator: str
    value: str


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite."""

    of: "Query"


@dataclass(frozen=True, slots=True)
class Every:
    """All of them; none means everything."""

    of: tuple["Query", ...] = ()


@dataclass(frozen=True, slots=True)
class Either:
    """At least one of them."""

    of: tuple["Query", ...]


Query = Union[Has, Like, Compare, Not, Every, Either]  # noqa: UP007 - it names itself


def every(parts: Sequence[Query]) -> Query:
    """All of some queries, in its simplest form."""
    flat = tuple(p for part in parts for p in (part.of if isinstance(part, Every) else (part,)))
    return flat[0] if len(flat) == 1 else Every(flat)


def either(parts: Sequence[Query]) -> Query:
    """One of some queries, in its simplest form."""
    flat = tuple(p for part in parts for p in (part.of if isinstance(part, Either) else (part,)))
    return flat[0] if len(flat) == 1 else Either(flat)


# --- reading


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    quoted: bool = False
    """Whether it began with a quotation mark: then it is nothing but text."""
    tail: str | None = None
    """What was quoted behind it, as in `node:"a b"`."""


def parse(text: str) -> Query:
    """The query that a text means; what cannot be read as anything else is a word to look for."""
    reader = _Reader(list(_tokens(text[:MOST_TEXT])))
    parts = []
    while reader.left:
        parts.append(reader.alternatives(0))
        if reader.left:
            reader.left.pop(0)  # a closing parenthesis that nothing opened
    return every([part for part in parts if part != Every()])


def _tokens(text: str) -> Iterator[_Token]:
    at = 0
    while at < len(text):
        char = text[at]
        if char.isspace():
            at += 1
        elif char in "()!~":
            yield _Token(char)
            at += 1
        elif char == '"':
            words, at = _quoted(text, at)
            yield _Token(words, quoted=True)
        else:
            end = at
            while end < len(text) and not text[end].isspace() and text[end] not in '()"':
                end += 1
            word, at = text[at:end], end
            tail = None
            if at < len(text) and text[at] == '"' and word.endswith(OPERATORS):
                tail, at = _quoted(text, at)
            yield _Token(word, tail=tail)


def _quoted(text: str, at: int) -> tuple[str, int]:
    """What stands in quotation marks from here on, and where it ends; the last one may be missing."""
    found, at = [], at + 1
    while at < len(text) and text[at] != '"':
        if text[at] == "\\" and at + 1 < len(text):
            at += 1
        found.append(text[at])
        at += 1
    return "".join(found), at + 1


class _Reader:
    """Takes tokens from the left."""

    def __init__(self, left: list[_Token]) -> None:
        self.left = left

    def _is(self, text: str) -> bool:
        return bool(self.left) and self.left[0] == _Token(text)

    def alternatives(self, depth: int) -> Query:
        """What stands between `or`s."""
        parts = [self.words(depth)]
        while self._is("or"):
            self.left.pop(0)
            parts.append(self.words(depth))
        full = [part for part in parts if part != Every()]
        return either(full) if full else Every()

    def words(self, depth: int) -> Query:
        """What stands side by side."""
        parts: list[Query] = []
        while self.left and not self._is("or") and not self._is(")"):
            parts.append(self.one(depth))
        return every([part for part in parts if part != Every()])

    def one(self, depth: int) -> Query:
        """One word, comparison or group, with what negates it."""
        token = self.left.pop(0)
        if token == _Token("!"):
            inner = self.one(depth + 1) if self._more(depth) else Every()
            return Every() if inner == Every() else Not(inner)
        if token == _Token("~"):
            follows = self.left and (self.left[0].quoted or self.left[0].text not in "()!~")
            return Like(_all_of(self.left.pop(0))) if follows else Has("~")
        if token == _Token("("):
            if depth >= MOST_DEEP:
                return Every()
            inner = self.alternatives(depth + 1)
            if self._is(")"):
                self.left.pop(0)
            return inner
        return _term(token)

    def _more(self, depth: int) -> bool:
        return bool(self.left) and depth < MOST_DEEP and not self._is("or") and not self._is(")")


def _all_of(token: _Token) -> str:
    return token.text + (token.tail or "")


def _term(token: _Token) -> Query:
    found = None if token.quoted else _TEST.fullmatch(token.text)
    if not found:
        return Has(_all_of(token))
    name, operator, value = found.groups()
    if token.tail is not None:
        value += token.tail
    return Compare(name, operator, value)


def shown(query: Query) -> str:
    """The query as text that means the same."""
    if isinstance(query, Either):
        return " or ".join(map(_inside_either, query.of))
    if isinstance(query, Every):
        return " ".join(_inside(part) for part in query.of)
    return _inside(query)


def _inside_either(query: Query) -> str:
    return shown(query) if isinstance(query, Every) and query.of else _inside(query)


def _inside(query: Query) -> str:
    if isinstance(query, Has):
        bare = _PLAIN.fullmatch(query.text) and query.text != "or" and not _TEST.fullmatch(query.text)
        # What begins like a comparison would swallow quotation marks behind it.
        return query.text if bare and not query.text.endswith(OPERATORS) else _quotes(query.text)
    if isinstance(query, Like):
        return "~" + (query.text if _PLAIN.fullmatch(query.text) and query.text != "or" else _quotes(query.text))
    if isinstance(query, Compare):
        # A value that begins with = would make another operator of the one before it.
        plain = re.fullmatch(r'[^\s()"\\=][^\s()"\\]*', query.value) and not query.value.endswith(OPERATORS)
        return f"{query.field}{query.operator}{query.value if plain else _quotes(query.value)}"
    if isinstance(query, Not):
        return "!" + _inside(query.of)
    return f"({shown(query)})"


def _quotes(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


# --- asking


@dataclass(frozen=True)
class Table:
    """What a filter can ask of the rows of a screen."""

    texts: Sequence[str]
    """Every row's words, in lower case."""
    words: Mapping[str, Callable[[], Sequence[str]]] = field(default_factory=dict)
    """Fields that hold text."""
    numbers: Mapping[str, Callable[[], NDArray[np.floating]]] = field(default_factory=dict)
    """Fields that hold numbers."""
    ranks: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Fields whose numbers have names, the smallest first."""

    shares: Collection[str] = ()
    """Fields of which people write percents: `sure>80`."""

    @property
    def fields(self) -> Collection[str]:
        """All fields, in order."""
        return (*self.words, *self.numbers)


@dataclass(frozen=True, slots=True)
class Found:
    """Which rows a query keeps; `fault` says what in it was not understood and keeps everything."""

    mask: Mask
    fault: str = ""


def ask(query: Query, table: Table) -> Found:
    """The rows that a query keeps."""
    faults: list[str] = []
    mask = _mask(query, table, faults)
    return Found(mask, faults[0] if faults else "")


def _mask(query: Query, table: Table, faults: list[str]) -> Mask:
    size = len(table.texts)
    if isinstance(query, Not):
        before = len(faults)
        inner = _mask(query.of, table, faults)
        return inner if len(faults) > before else ~inner
    if isinstance(query, Every | Either):
        parts = [_mask(part, table, faults) for part in query.of]
        if not parts:
            return np.ones(size, bool)
        found: Mask = np.all(parts, axis=0) if isinstance(query, Every) else np.any(parts, axis=0)
        return found
    if isinstance(query, Has):
        wanted = query.text.lower()
        return np.fromiter((wanted in text for text in table.texts), bool, size)
    if isinstance(query, Like):
        letters = re.compile(".*?".join(map(re.escape, query.text.lower())), re.DOTALL)
        return np.fromiter((letters.search(text) is not None for text in table.texts), bool, size)
    return _tested(query, table, faults)


def _tested(test: Compare, table: Table, faults: list[str]) -> Mask:
    if test.field in table.words:
        wanted = test.value.lower()
        texts = table.words[test.field]()
        if test.operator in ("=", "!="):
            return np.fromiter(((wanted == text.lower()) == (test.operator == "=") for text in texts), bool, len(texts))
        if test.operator == ":":
            return np.fromiter((wanted in text.lower() for text in texts), bool, len(texts))
        faults.append(f"{test.field} holds words: write {test.field}:{test.value or 'text'}")
    elif test.field in table.numbers:
        number = _ranked(test, table.ranks[test.field]) if test.field in table.ranks else _number(test.value)
        if number is not None:
            number = number / 100 if test.field in table.shares and "%" not in test.value else number
            return _compared(table.numbers[test.field](), test.operator, number)
        names = ", ".join(table.ranks.get(test.field, ())) or "a number like 80, 10s or 2ms"
        faults.append(f"{test.field}{test.operator}{test.value}: {test.field} is compared with {names}")
    else:
        # Names like A:n2 or n0/ew>n1/ew are no comparisons.
        mask = _mask(Has(f"{test.field}{test.operator}{test.value}"), table, faults)
        if mask.any():
            return mask
        hint = nearest(test.field, table.fields) or f"There are {', '.join(table.fields)}."
        faults.append(f"no field {test.field!r} here. {hint}")
    return np.ones(len(table.texts), bool)


def _ranked(test: Compare, names: Sequence[str]) -> float | None:
    wanted = test.value.lower()
    return next((float(n) for n, name in enumerate(names) if wanted and name.startswith(wanted)), None)


def _number(text: str) -> float | None:
    found = _NUMBER.fullmatch(text.strip())
    if not found or found[2].lower() not in _UNITS:
        return None
    return float(found[1]) * _UNITS[found[2].lower()]


_COMPARE: Mapping[str, Callable[[NDArray[np.floating], float], Mask]] = {
    ">=": lambda a, b: a >= b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    "<": lambda a, b: a < b,
    "=": np.isclose,
    ":": np.isclose,
    "!=": lambda a, b: ~np.isclose(a, b),
}


def _compared(numbers: NDArray[np.floating], operator: str, wanted: float) -> Mask:
    found: Mask = _COMPARE[operator](numbers, wanted) & ~np.isnan(numbers)
    return found
