"""Patterns of lines: literal text with fields in angle brackets, compiled to regular expressions.

`Running: <running> reqs{, Waiting: <waiting> reqs}` matches a line that contains this text; what stands in braces may
be missing, `...` passes over anything, blanks match any number of blanks, a double quote matches a single one as well,
blanks before a number do not matter.
A doubled brace or bracket is one of the text.
A field is a word, or a number where the format says what it measures. The language is a safe subset of expressions: no
repetition is nested, what `...` passes over is never looked at again, and few fields touch one another, so the time of
a match grows with the square of a line's length at most, and lines are cut to `MAX_COLUMNS`.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

MAX_COLUMNS = 4000
"""Characters of a line that are matched."""
SHAPES: Mapping[str, str] = {
    "number": r"[-+]?(?:\d{1,3}(?:,\d{3})+(?![\d,])|\d+|(?=\.\d))(?:\.\d+)?(?:[eE][-+]?\d{1,3})?",
    "minutes": r"(?:[3-9]\d\d|\d{4,9})(?:\.\d{1,9})?(?!\d)",
    "owner": r"\S{1,253}",
    "quantity": r"[-+]?\d+(?:\.\d+)? ?[A-Za-z%/°]{0,8}",
    "word": r"[^\s,;|\[\](){}'\"]{1,256}",
    "text": r"\S.{0,400}?",
    "hex": r"(?:0[xX])?[0-9a-fA-F]{1,32}",
    "pci": r"(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-9a-fA-F])?",
    "duration": (
        r"(?:(?:\d{1,6} days?, )?(?:\d{1,6}:)?\d{1,6}:\d\d(?:\.\d{1,9})?"
        r"|(?:\d{1,6}d ?)?(?:\d{1,6}h ?)?(?:\d{1,6}m ?)?\d{1,6}(?:\.\d{1,9})?s|(?:\d{1,6}d ?)?(?:\d{1,6}h ?)?\d{1,6}m"
        r"|(?:\d{1,6}d ?)?\d{1,6}h|\d{1,6}d|\d{1,12}(?:\.\d{1,9})?[mu\u00b5n]s)"
    ),
}
"""What a field may match, by the name of its shape."""
DURATION_PARTS = (
    re.compile(
        r"(?:(?P<days>\d{1,6}) days?, )?(?:(?P<hours>\d{1,6}):)?(?P<minutes>\d{1,6}):(?P<seconds>\d\d(?:\.\d{1,9})?)"
    ),
    re.compile(
        r"(?:(?P<days>\d{1,6})d ?)?(?:(?P<hours>\d{1,6})h ?)?(?:(?P<minutes>\d{1,6})m ?)?"
        r"(?:(?P<seconds>\d{1,6}(?:\.\d{1,9})?)s)?"
    ),
    re.compile(
        r"(?P<milliseconds>\d{1,12}(?:\.\d{1,9})?)ms|(?P<microseconds>\d{1,12}(?:\.\d{1,9})?)[u\u00b5]s"
        r"|(?P<nanoseconds>\d{1,12}(?:\.\d{1,9})?)ns"
    ),
)
"""`1 day, 2:03:04`, `1d 2h 3m 4s` and `4.5ms`."""
SECONDS_OF = {"days": 86_400.0, "hours": 3600.0, "minutes": 60.0, "seconds": 1.0}
SECONDS_OF |= {"milliseconds": 1e-3, "microseconds": 1e-6, "nanoseconds": 1e-9}
POD_ENDING = re.compile(r"(?:-[0-9a-f]{6,10})?-(?:[bcdfghjklmnpqrstvwxz2456789]{5}|\d{1,4}|[a-z0-9]{5})$")
"""What Kubernetes appends to the name of a Deployment, a StatefulSet or another owner for each of its pods."""
ANYTHING = r".{0,1000}?"
BLANK = "\n"
"""Stands for any number of blanks between literal texts; no line has one."""
BLANKS = r"[ \t]+"
"""The same in an expression."""
ESCAPED = re.compile(r"\\(.)", re.DOTALL)
PADDING = r" {0,20}"
TOKEN = re.compile(
    r"(?P<double><<|>>|\{\{|\}\})|<(?P<field>[a-z][a-z0-9_]*)>|(?P<open>\{)|(?P<close>\})|(?P<any>\.\.\.)|(?P<blank>\s+)"
    r"|(?P<quote>\")"
)
MAX_TOUCHING = 2
"""Fields in a row of which none ends where the next begins: each more multiplies the ways to divide a line."""
ENDS_OF_WORDS = ",;|[](){}'\""
"""Beside blanks, what no word contains."""
MIN_MARK = 3
"""Characters of the literal text by which lines are passed over before they are matched."""
DIGITS = re.compile(r"[0-9]+")

Shapes = tuple[tuple[str, str], ...]
"""Name of a field and name of its shape."""


def mask_digits(text: str) -> str:
    """Returns the shape of a text: each run of digits as one 0. What a text contains, its shape contains as a shape."""
    return DIGITS.sub("0", text)


class PatternError(ValueError):
    """A pattern is not well formed; the text says what was found and what was expected."""


@dataclass(frozen=True, slots=True)
class LinePattern:
    """A compiled pattern."""

    expression: re.Pattern[str]
    mark: str
    """Literal text that each matching line contains; '' where there is too little of it."""
    fields: tuple[str, ...]
    words: str = ""
    """An expression of the longest literal text, blanks included, that each matching line contains."""
    lead: str = ""
    """Literal text with which each match begins; '' where there is too little of it."""
    phrase: re.Pattern[str] | None = None
    """Finds the same words, where there is no literal text to look for; None where there is one, or are no words."""
    others: tuple[str, ...] = ()
    """Other literal texts that each matching line contains: what is passed over may take long to match in vain."""
    masked: tuple[str, ...] = ()
    """The shapes of all these texts."""
    masked_phrase: re.Pattern[str] | None = None
    """Finds the shape of the words, where there is a phrase."""

    def may_match(self, shape: str) -> bool:
        """Returns whether a line of a shape may match; where it may not, no line of that shape does."""
        if self.masked_phrase and not self.masked_phrase.search(shape):
            return False
        return all(text in shape for text in self.masked)

    def search(self, text: str) -> re.Match[str] | None:
        """Returns the match of a line, None where it does not match."""
        if self.mark not in text:
            return None
        for other in self.others:
            if other not in text:
                return None
        if self.phrase and not self.phrase.search(text, 0, MAX_COLUMNS):
            return None
        if not self.lead:
            return self.expression.search(text, 0, MAX_COLUMNS)
        # To look for text is much faster than to look for an expression.
        begin = text.find(self.lead, 0, MAX_COLUMNS)
        while begin >= 0:
            if match := self.expression.match(text, begin, MAX_COLUMNS):
                return match
            begin = text.find(self.lead, begin + 1, MAX_COLUMNS)
        return None

    def find(self, text: str) -> dict[str, str] | None:
        """Returns the texts of the fields that a line has, by name; None where the line does not match."""
        match = self.search(text)
        return None if match is None else {name: part for name, part in match.groupdict().items() if part is not None}


class PartPatterns:
    """Patterns of which a line may have any, each once, in any order."""

    def __init__(self, texts: Sequence[str], shapes: Shapes) -> None:
        """Compiles the patterns.

        Raises:
            PatternError: one is not well formed, or two have the same field.
        """
        self._patterns = [compile_pattern(text, shapes) for text in texts]
        self.fields = tuple(name for pattern in self._patterns for name in pattern.fields)
        if len(set(self.fields)) < len(self.fields):
            raise PatternError("a field in two `parts`, one was expected")

    def list_matches(self, text: str) -> list[re.Match[str]]:
        """Returns the matches of the parts that a line has."""
        return [match for pattern in self._patterns if (match := pattern.search(text))]

    def add(self, text: str, found: dict[str, str]) -> None:
        """Adds the texts of the fields that a line has, by name: of each part where it stands first."""
        for pattern in self._patterns:
            if match := pattern.search(text):
                for name in pattern.fields:
                    if (part := match[name]) is not None:
                        found[name] = part


def parse_duration(text: str) -> float:
    """Returns the seconds of a text such as `1 day, 2:03:04`, `03:20`, `1h 2m 3s` or `4.5ms`.

    Raises:
        ValueError: it is none.
    """
    match = next(filter(None, (pattern.fullmatch(text) for pattern in DURATION_PARTS)), None)
    if match is None or not text:
        raise ValueError(f"{text!r:.40} is no duration")
    return sum(float(part) * SECONDS_OF[name] for name, part in match.groupdict().items() if part)


@lru_cache(4096)
def compile_pattern(text: str, shapes: Shapes = (), *, whole: bool = False) -> LinePattern:
    """Compiles the pattern of a line.

    Args:
        text: the pattern.
        shapes: name of a field and name of its shape; fields that are not named are words.
        whole: whether the pattern stands for the whole line, and not for a part of it.

    Raises:
        PatternError: it is not well formed.
    """
    known = dict(shapes)
    _check_touching(text, known)
    made, position = _PatternBuilder(), 0
    for token in TOKEN.finditer(text):
        made.add_text(text[position : token.start()])
        position = token.end()
        if token["double"]:
            made.add_text(token["double"][0])
        else:
            made.add_token(token, known)
    made.add_text(text[position:])
    made.check()
    begin, end = (r"^\s*", r"\s*$") if whole else _bounds(text)
    expression = re.compile(begin + made.finish(end))
    mark, lead = max(made.literals, key=len), "" if whole else made.literals[0]
    words = _words(max(made.runs, key=lambda run: len("".join(run).strip())))
    mark, lead = (text if len(text) >= MIN_MARK else "" for text in (mark, lead))
    others = {text for text in made.literals if len(text) >= MIN_MARK} - {mark}
    phrase = re.compile(words) if words and not mark else None
    return LinePattern(
        expression,
        mark,
        tuple(made.fields),
        words,
        lead,
        phrase,
        tuple(sorted(others)),
        tuple(sorted({mask_digits(text) for text in (mark, *others) if text})),
        re.compile(mask_digits(words)) if phrase else None,
    )


def find_fitting_begin(text: str, shapes: Shapes, line: str) -> tuple[float, str, int]:
    """Returns the longest begin of a pattern that a line matches, to say where it stops fitting.

    Args:
        text: the pattern, which is well formed.
        shapes: those of its fields.
        line: the line.

    Returns:
        The part of the pattern's characters in that begin, the rest of the pattern, the column where the match ends.
    """
    ends, depth = [], 0
    for token in TOKEN.finditer(text):
        ends += [] if depth else [token.start()]
        depth += bool(token["open"]) - bool(token["close"])
        ends += [] if depth else [token.end()]
    for end in sorted({*ends} - {0}, reverse=True):
        begin = text[:end]
        made = compile_pattern(begin, shapes) if begin.strip() else None
        if made and made.mark and (match := made.search(line)):
            return end / len(text), text[end:], match.end()
    return 0.0, text, 0


def _check_touching(text: str, shapes: Mapping[str, str]) -> None:
    """Raises PatternError where fields follow one another of which it is not clear where each ends."""
    touching = end = 0
    for token in TOKEN.finditer(text):
        between = text[end : token.start()]
        if token["any"] or token["blank"] or any(sign in between for sign in ENDS_OF_WORDS):
            touching = 0
        if token["field"]:
            is_number = shapes.get(token["field"]) == "number"
            touching = 0 if is_number and between else touching + 1
            if touching > MAX_TOUCHING:
                what = f"<{token['field']}> behind {MAX_TOUCHING} more fields without a blank or a comma between them"
                raise PatternError(what)
        end = token.end()


class _PatternBuilder:
    """The expression of a pattern, in which a match takes a time that grows with the square of a line's length.

    What follows a gap, up to the next one, is found where it stands first and is not looked for again: a later place
    leaves less for the rest. So gaps do not multiply the places that are tried.
    """

    def __init__(self) -> None:
        self.fields: list[str] = []
        self.literals = [""]
        """Texts that each matching line contains."""
        self.runs: list[list[str]] = [[]]
        """The same with the blanks between them, as BLANK."""
        self._parts: list[str] = []
        self._is_open = [False]
        """Whether a gap has begun, in the pattern and in the option that is open."""

    def add_text(self, text: str) -> None:
        """Adds literal text."""
        self._parts.append(re.escape(text))
        if len(self._is_open) == 1:
            self.literals[-1] += text
            self.runs[-1].append(text)

    def add_token(self, token: re.Match[str], shapes: Mapping[str, str]) -> None:
        """Adds what is no text.

        Raises:
            PatternError: it must not stand there.
        """
        if name := token["field"]:
            # Programs pad numbers to a width.
            self._add_field(name, shapes.get(name, "word"), PADDING if token.start() else "")
        elif token["open"]:
            self._open_option()
        elif token["close"]:
            self._close_option()
        elif token["any"]:
            self._add_gap(ANYTHING)
        else:
            self._parts.append("[\"']" if token["quote"] else r"\s++")
        self.literals.append("")
        if token["blank"] and len(self._is_open) == 1:
            self.runs[-1].append(BLANK)
        else:
            self.runs.append([])

    def check(self) -> None:
        """Raises PatternError where the pattern has not ended, or is empty."""
        if len(self._is_open) > 1:
            raise PatternError("an opening brace without its end")
        if not any(part.strip() for part in (*self.literals, *self.fields)):
            raise PatternError("no text and no field")

    def finish(self, end: str) -> str:
        """Returns the expression, which ends with another one."""
        self._parts.append(end)
        self._close_gap()
        return "".join(self._parts)

    def _add_field(self, name: str, shape: str, padding: str) -> None:
        if name in self.fields:
            raise PatternError(f"the field <{name}> stands twice, once was expected")
        self.fields.append(name)
        field = f"(?P<{name}>{SHAPES[shape]})"
        if shape == "text":
            # It begins with no blank, which what stands before it must leave.
            self._parts.append(r"(?=\S)" if self._is_open[-1] else "")
            self._add_gap(field)
        else:
            self._parts.append(f"{padding}{field}" if shape == "number" else field)

    def _add_gap(self, expression: str) -> None:
        """Adds what matches as few characters as possible, of any kind."""
        self._close_gap()
        self._is_open[-1] = True
        self._parts.append(f"(?>{expression}")

    def _open_option(self) -> None:
        if len(self._is_open) > 1:
            raise PatternError("braces inside braces")
        self._parts.append("(?:")
        self._is_open.append(False)

    def _close_option(self) -> None:
        if len(self._is_open) == 1:
            raise PatternError("a closing brace without an opening one")
        self._close_gap()
        self._is_open.pop()
        self._parts.append(")?")

    def _close_gap(self) -> None:
        self._parts.append(")" if self._is_open[-1] else "")
        self._is_open[-1] = False


def _words(run: list[str]) -> str:
    """Returns the expression of literal texts and the blanks between them; '' where they are too short."""
    text = re.sub(f"{BLANK}+", BLANK, "".join(run).strip(BLANK))
    return BLANKS.join(map(re.escape, text.split(BLANK))) if len(text) >= MIN_MARK else ""


def split_words(words: str) -> tuple[str, ...]:
    """Returns the literal texts of the `words` of a pattern."""
    return tuple(ESCAPED.sub(r"\1", part) for part in words.split(BLANKS))


def _bounds(text: str) -> tuple[str, str]:
    """Returns expressions before and behind a pattern, by which it does not begin or end inside a word."""
    begin = r"(?<![\w.])" if text[:1].isalnum() or text[:1] == "<" else ""
    end = r"(?!\w|\.\d)" if text[-1:] == ">" else r"(?!\w)" if text[-1:].isalnum() else ""
    return begin, end
