"""The filter language: `late !n3 sev>=warning (node:n2 or ~tpstr)`. Every text is a valid filter.

Adjacent terms must all match; `or` separates alternatives, parentheses group, `!` negates, `~` allows omitted
letters, `"..."` quotes. `field:text` searches one field, `field>=number` compares; times and sizes may have a unit:
`age>10s`, `now>2ms`, `sure>80%`.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Union

import numpy as np
from numpy.typing import NDArray

from skewscope.engine.model.arrays import Mask
from skewscope.kb.problems import suggest_name

OPERATORS = (">=", "<=", "!=", "=", ">", "<", ":")
MAX_DEPTH = 20
MAX_TEXT = 1000
_COMPARISON = re.compile(r"([a-z][a-z_]{0,19})(>=|<=|!=|=|>|<|:)(.*)", re.DOTALL)
_BARE_WORD = re.compile(r'[^\s()"!~\\][^\s()"\\]*')
_NUMBER = re.compile(r"([+-]?\d{1,15}(?:\.\d{1,9})?)\s*([a-zµ%]{0,4})", re.IGNORECASE)
_UNITS = {
    "": 1.0, "%": 0.01, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9, "min": 60.0, "m": 60.0, "h": 3600.0,
    "d": 86400.0, "k": 1e3, "kb": 1e3, "mb": 1e6, "gb": 1e9,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Contains:
    """Matches rows that contain a text."""

    text: str


@dataclass(frozen=True, slots=True)
class FuzzyMatch:
    """Matches rows that contain these letters in this order."""

    text: str


@dataclass(frozen=True, slots=True)
class FieldComparison:
    """Compares a field with a value."""

    field: str
    operator: str
    value: str


@dataclass(frozen=True, slots=True)
class Negation:
    """Matches rows that the operand does not match."""

    operand: "Query"


@dataclass(frozen=True, slots=True)
class AllOf:
    """Matches rows that all operands match; without operands every row."""

    operands: tuple["Query", ...] = ()


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Matches rows that at least one operand matches."""

    operands: tuple["Query", ...]


Query = Union[Contains, FuzzyMatch, FieldComparison, Negation, AllOf, AnyOf]  # noqa: UP007 - it names itself


def all_of(parts: Sequence[Query]) -> Query:
    """Returns the conjunction of queries, simplified."""
    flat = tuple(p for part in parts for p in (part.operands if isinstance(part, AllOf) else (part,)))
    return flat[0] if len(flat) == 1 else AllOf(flat)


def any_of(parts: Sequence[Query]) -> Query:
    """Returns the disjunction of queries, simplified."""
    flat = tuple(p for part in parts for p in (part.operands if isinstance(part, AnyOf) else (part,)))
    return flat[0] if len(flat) == 1 else AnyOf(flat)


# --- parsing


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    quoted: bool = False
    """Whether it started with a quotation mark, so that it is text only."""
    tail: str | None = None
    """The quoted text after it, as in `node:"a b"`."""


def parse(text: str) -> Query:
    """Parse a filter; anything that is not an operator is a text to search for."""
    reader = _Parser(list(_tokens(text[:MAX_TEXT])))
    parts = []
    while reader.tokens:
        parts.append(reader.parse_alternatives(0))
        if reader.tokens:
            reader.tokens.pop(0)  # an unmatched closing parenthesis
    return all_of([part for part in parts if part != AllOf()])


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
            quoted, at = _read_quotation(text, at)
            yield _Token(quoted, quoted=True)
        else:
            end = at
            while end < len(text) and not text[end].isspace() and text[end] not in '()"':
                end += 1
            word, at = text[at:end], end
            tail = None
            if at < len(text) and text[at] == '"' and word.endswith(OPERATORS):
                tail, at = _read_quotation(text, at)
            yield _Token(word, tail=tail)


def _read_quotation(text: str, at: int) -> tuple[str, int]:
    """Returns the quoted text at a position and the position after it; the closing mark is optional."""
    found, at = [], at + 1
    while at < len(text) and text[at] != '"':
        if text[at] == "\\" and at + 1 < len(text):
            at += 1
        found.append(text[at])
        at += 1
    return "".join(found), at + 1


class _Parser:
    """Consumes tokens from the left."""

    def __init__(self, left: list[_Token]) -> None:
        self.tokens = left

    def _at(self, text: str) -> bool:
        return bool(self.tokens) and self.tokens[0] == _Token(text)

    def parse_alternatives(self, depth: int) -> Query:
        """Parse alternatives separated by `or`."""
        parts = [self.parse_terms(depth)]
        while self._at("or"):
            self.tokens.pop(0)
            parts.append(self.parse_terms(depth))
        full = [part for part in parts if part != AllOf()]
        return any_of(full) if full else AllOf()

    def parse_terms(self, depth: int) -> Query:
        """Parse adjacent terms."""
        parts: list[Query] = []
        while self.tokens and not self._at("or") and not self._at(")"):
            parts.append(self.parse_term(depth))
        return all_of([part for part in parts if part != AllOf()])

    def parse_term(self, depth: int) -> Query:
        """Parse a word, a comparison, a negation or a group."""
        token = self.tokens.pop(0)
        if token == _Token("!"):
            inner = self.parse_term(depth + 1) if self._has_operand(depth) else AllOf()
            return AllOf() if inner == AllOf() else Negation(inner)
        if token == _Token("~"):
            follows = self.tokens and (self.tokens[0].quoted or self.tokens[0].text not in "()!~")
            return FuzzyMatch(_full_text(self.tokens.pop(0))) if follows else Contains("~")
        if token == _Token("("):
            if depth >= MAX_DEPTH:
                return AllOf()
            inner = self.parse_alternatives(depth + 1)
            if self._at(")"):
                self.tokens.pop(0)
            return inner
        return _parse_word(token)

    def _has_operand(self, depth: int) -> bool:
        return bool(self.tokens) and depth < MAX_DEPTH and not self._at("or") and not self._at(")")


def _full_text(token: _Token) -> str:
    return token.text + (token.tail or "")


def _parse_word(token: _Token) -> Query:
    found = None if token.quoted else _COMPARISON.fullmatch(token.text)
    if not found:
        return Contains(_full_text(token))
    name, operator, value = found.groups()
    if token.tail is not None:
        value += token.tail
    return FieldComparison(name, operator, value)


def to_text(query: Query) -> str:
    """Returns a query as filter text with the same meaning."""
    if isinstance(query, AnyOf):
        return " or ".join(map(_alternative_text, query.operands))
    if isinstance(query, AllOf):
        return " ".join(_term_text(part) for part in query.operands)
    return _term_text(query)


def _alternative_text(query: Query) -> str:
    return to_text(query) if isinstance(query, AllOf) and query.operands else _term_text(query)


def _term_text(query: Query) -> str:
    if isinstance(query, Contains):
        bare = _BARE_WORD.fullmatch(query.text) and query.text != "or" and not _COMPARISON.fullmatch(query.text)
        # Quote a text that ends like a comparison: it would absorb a following quotation.
        return query.text if bare and not query.text.endswith(OPERATORS) else _quote(query.text)
    if isinstance(query, FuzzyMatch):
        return "~" + (query.text if _BARE_WORD.fullmatch(query.text) and query.text != "or" else _quote(query.text))
    if isinstance(query, FieldComparison):
        # Quote a value that starts with =: it would extend the operator before it.
        plain = re.fullmatch(r'[^\s()"\\=][^\s()"\\]*', query.value) and not query.value.endswith(OPERATORS)
        return f"{query.field}{query.operator}{query.value if plain else _quote(query.value)}"
    if isinstance(query, Negation):
        return "!" + _term_text(query.operand)
    return f"({to_text(query)})"


def _quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


# --- evaluation


@dataclass(frozen=True)
class FilterTable:
    """The texts and fields of a screen's rows that a filter can test."""

    texts: Sequence[str]
    """The searchable text of each row, in lower case."""
    text_fields: Mapping[str, Callable[[], Sequence[str]]] = field(default_factory=dict)
    """Text fields by name."""
    number_fields: Mapping[str, Callable[[], NDArray[np.floating]]] = field(default_factory=dict)
    """Number fields by name."""
    rank_names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Names of the values of a number field, the smallest first."""

    percent_fields: Collection[str] = ()
    """Fields compared in percent: `sure>80`."""

    @property
    def fields(self) -> Collection[str]:
        """All field names, in order."""
        return (*self.text_fields, *self.number_fields)


@dataclass(frozen=True, slots=True)
class FilterResult:
    """The rows that a query matches; with an `error` the faulty term matches every row."""

    mask: Mask
    error: str = ""


def evaluate(query: Query, table: FilterTable) -> FilterResult:
    """Evaluate a query on a table."""
    faults: list[str] = []
    mask = _mask(query, table, faults)
    return FilterResult(mask, faults[0] if faults else "")


def _mask(query: Query, table: FilterTable, faults: list[str]) -> Mask:
    size = len(table.texts)
    if isinstance(query, Negation):
        before = len(faults)
        inner = _mask(query.operand, table, faults)
        return inner if len(faults) > before else ~inner
    if isinstance(query, AllOf | AnyOf):
        parts = [_mask(part, table, faults) for part in query.operands]
        if not parts:
            return np.ones(size, bool)
        found: Mask = np.all(parts, axis=0) if isinstance(query, AllOf) else np.any(parts, axis=0)
        return found
    if isinstance(query, Contains):
        wanted = query.text.lower()
        return np.fromiter((wanted in text for text in table.texts), bool, size)
    if isinstance(query, FuzzyMatch):
        letters = re.compile(".*?".join(map(re.escape, query.text.lower())), re.DOTALL)
        return np.fromiter((letters.search(text) is not None for text in table.texts), bool, size)
    return _compare_field(query, table, faults)


def _compare_field(test: FieldComparison, table: FilterTable, faults: list[str]) -> Mask:
    if test.field in table.text_fields:
        wanted = test.value.lower()
        texts = table.text_fields[test.field]()
        if test.operator in ("=", "!="):
            return np.fromiter(((wanted == text.lower()) == (test.operator == "=") for text in texts), bool, len(texts))
        if test.operator == ":":
            return np.fromiter((wanted in text.lower() for text in texts), bool, len(texts))
        faults.append(f"{test.field} is a text field: write {test.field}:{test.value or 'text'}")
    elif test.field in table.number_fields:
        number = (
            _rank_value(test, table.rank_names[test.field])
            if test.field in table.rank_names
            else _parse_number(test.value)
        )
        if number is not None:
            number = number / 100 if test.field in table.percent_fields and "%" not in test.value else number
            return _compare_numbers(table.number_fields[test.field](), test.operator, number)
        names = ", ".join(table.rank_names.get(test.field, ())) or "a number like 80, 10s or 2ms"
        faults.append(f"{test.field}{test.operator}{test.value}: {test.field} takes {names}")
    else:
        # Names such as A:n2 or n0/ew>n1/ew look like comparisons.
        mask = _mask(Contains(f"{test.field}{test.operator}{test.value}"), table, faults)
        if mask.any():
            return mask
        hint = suggest_name(test.field, table.fields) or f"There are {', '.join(table.fields)}."
        faults.append(f"no field {test.field!r} here. {hint}")
    return np.ones(len(table.texts), bool)


def _rank_value(test: FieldComparison, names: Sequence[str]) -> float | None:
    wanted = test.value.lower()
    return next((float(n) for n, name in enumerate(names) if wanted and name.startswith(wanted)), None)


def _parse_number(text: str) -> float | None:
    found = _NUMBER.fullmatch(text.strip())
    if not found or found[2].lower() not in _UNITS:
        return None
    return float(found[1]) * _UNITS[found[2].lower()]


_COMPARATORS: Mapping[str, Callable[[NDArray[np.floating], float], Mask]] = {
    ">=": lambda a, b: a >= b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    "<": lambda a, b: a < b,
    "=": np.isclose,
    ":": np.isclose,
    "!=": lambda a, b: ~np.isclose(a, b),
}


def _compare_numbers(numbers: NDArray[np.floating], operator: str, wanted: float) -> Mask:
    found: Mask = _COMPARATORS[operator](numbers, wanted) & ~np.isnan(numbers)
    return found
