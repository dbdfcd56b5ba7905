"""Which events of the catalogue a line is. Pure; times and places are the reader's."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from skewscope.kb.line_patterns import MAX_COLUMNS, LinePattern, split_words
from skewscope.kb.line_reading import compile_event, compile_unless
from skewscope.kb.model import Event


class FoundEvent(NamedTuple):
    """An event in a line, with the labels that the line gives."""

    event: Event
    labels: Mapping[str, str]
    is_retraction: bool = False
    """Whether the line says that the event means nothing at its place."""
    voids: bool = False
    """Whether it says so of such lines."""

    def retracts(self, event: Event, labels: Mapping[str, str]) -> bool:
        """Returns whether what a retraction says is of an event with some labels, or of a code of that event."""
        is_of = event == self.event or event in self.event.by_code.values()
        return is_of and all(labels.get(name, value) == value for name, value in self.labels.items())


WORDS_AT_ONCE = 100
"""Texts of one expression: an automaton of RE2 for many more outgrows its memory and is a hundred times slower."""
NOTHING = "[^\\s\\S]"
"""An expression that matches no text."""


NO_ERROR = re.compile(r"\b[Ee]rrors?: *(?:[Nn]one|N/A|[Nn]o|0|OK)\b")
"""A field of a state that says that there is no error: the line is none that a program marks as one."""


@dataclass(frozen=True)
class EventMatcher:
    """Compares lines with one event."""

    event: Event
    patterns: tuple[LinePattern, ...]
    unless: tuple[LinePattern, ...]
    despite: tuple[LinePattern, ...]

    @classmethod
    def of(cls, event: Event) -> "EventMatcher":
        """Compiles the patterns of an event.

        Raises:
            PatternError: one is not well formed, or has a field that is not described.
        """
        return cls(event, compile_event(event), *compile_unless(event))

    def find(self, text: str) -> FoundEvent | None:
        """Returns what a line is of the event: itself, one of its codes, what retracts it, or None."""
        if self.event.general and NO_ERROR.search(text, 0, MAX_COLUMNS):
            return None
        if (fields := _first_match(self.unless, text)) is not None:
            return FoundEvent(self.event, _labels(self.event, fields), is_retraction=True)
        if (fields := _first_match(self.patterns, text)) is not None:
            variant = _variant(self.event, fields)
            return FoundEvent(variant, _labels(self.event, fields)) if variant is not None else None
        fields = _first_match(self.despite, text)
        return None if fields is None else FoundEvent(self.event, {}, is_retraction=True, voids=True)

    @property
    def words(self) -> set[str]:
        """Expressions of literal texts of which each line that matches has one."""
        return {pattern.words for pattern in self.all_patterns}

    @property
    def all_patterns(self) -> tuple[LinePattern, ...]:
        """The patterns of the event, of what retracts it, and of what voids that."""
        return (*self.patterns, *self.unless, *self.despite)


@dataclass(frozen=True)
class KnownEvents:
    """Some events, behind one expression that passes over most lines."""

    matchers: tuple[EventMatcher, ...]
    words: re.Pattern[str]
    """Literal texts of which each line with an event has one. It has neither groups nor look-arounds."""
    some_words: tuple[str, ...]
    """The same as several expressions, each of some of the texts."""
    phrases: tuple[tuple[str, ...], ...]
    """The same as literal texts, with blanks between those of one phrase."""
    keys: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """Texts, each with the places of the matchers of which a line that has it may be."""

    @classmethod
    def of(cls, events: Iterable[Event]) -> "KnownEvents":
        """Compiles the patterns of events."""
        matchers = tuple(map(EventMatcher.of, events))
        words = sorted({text for each in matchers for text in each.words}, key=lambda text: (-len(text), text))
        parts = tuple("|".join(words[n : n + WORDS_AT_ONCE]) for n in range(0, len(words), WORDS_AT_ONCE))
        phrases = tuple(map(split_words, words))
        return cls(matchers, re.compile("|".join(words) or NOTHING), parts or (NOTHING,), phrases, _keys_of(matchers))

    def find(self, text: str) -> list[FoundEvent]:
        """Returns what events a line is or retracts, mostly none."""
        return self.compare(text) if self.words.search(text, 0, MAX_COLUMNS) else []

    def compare(self, text: str) -> list[FoundEvent]:
        """Returns the same of a line that has the words of some event."""
        # To look for a text is much faster than to try the patterns of all events.
        places = sorted({place for key, places in self.keys if key in text for place in places})
        found = [each for place in places if (each := self.matchers[place].find(text)) is not None]
        return [each for each in found if not each.event.general] or found[:1]

    def may_have(self, shape: str) -> bool:
        """Returns whether a line of a shape (`mask_digits`) may be an event."""
        return any(pattern.may_match(shape) for matcher in self.matchers for pattern in matcher.all_patterns)


def _keys_of(matchers: Iterable[EventMatcher]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    keys: dict[str, list[int]] = {}
    for place, each in enumerate(matchers):
        for key in {max(split_words(words), key=len) for words in each.words}:
            keys.setdefault(key, []).append(place)
    return tuple((key, tuple(places)) for key, places in sorted(keys.items()))


def _first_match(patterns: Iterable[LinePattern], text: str) -> dict[str, str] | None:
    found = (pattern.find(text) for pattern in patterns)
    return next((fields for fields in found if fields is not None), None)


def _variant(event: Event, fields: Mapping[str, str]) -> Event | None:
    """Returns the event of the code that a line has; None where such a line is none."""
    words = [fields.get(name, "") for name in event.code]
    first = (" ".join(words[:count]).strip() for count in range(len(words), 0, -1))
    for code in (*first, *words[1:]):
        if (coded := event.by_code.get(code)) is not None:
            return coded
    return None if event.codes and event.unlisted == "ignored" else event


def _labels(event: Event, fields: Mapping[str, str]) -> dict[str, str]:
    named = ((event.fields[name], text) for name, text in fields.items())
    return {what.label: str(what.words.get(text, text)) for what, text in named if what.label}
