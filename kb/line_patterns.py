"""Patterns of lines: literal text with fields in angle brackets, compiled to regular expressions.

`Running: <running> reqs{, Waiting: <waiting> reqs}` matches a line that contains this text; what stands in braces may
be missing, `...` passes over anything, blanks match any number of blanks. A doubled brace or bracket is one of the
text.
A field is a word, or a number where the format says what it measures. No repetition is nested, so the time of a match
grows with the square of a line's length at most, and lines are cut to `MAX_COLUMNS`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

MAX_COLUMNS = 4000
"""Characters of a line that are matched."""
SHAPES: Mapping[str, str] = {
    "number": r"[-+]?(?:\d{1,3}(?:,\d{3})+(?![\d,])|\d+|(?=\.\d))(?:\.\d+)?(?:[eE][-+]?\d{1,3})?",
    "owner": r"\S{1,253}",
    "quantity": r"[-+]?\d+(?:\.\d+)? ?[A-Za-z%/°]{0,8}",
    "word": r"[^\s,;|\[\](){}'\"]{1,256}",
    "text": r"\S.{0,400}?",
    "hex": r"(?:0[xX])?[0-9a-fA-F]{1,32}",
    "pci": r"(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-9a-fA-F])?",
}
"""What a field may match, by the name of its shape."""
POD_ENDING = re.compile(r"(?:-[0-9a-f]{6,10})?-(?:[bcdfghjklmnpqrstvwxz2456789]{5}|\d{1,4}|[a-z0-9]{5})$")
"""What Kubernetes appends to the name of a Deployment, a StatefulSet or another owner for each of its pods."""
ANYTHING = r".{0,1000}?"
BLANK = "\n"
"""Stands for any number of blanks between literal texts; no line has one."""
TOKEN = re.compile(
    r"(?P<double><<|>>|\{\{|\}\})|<(?P<field>[a-z][a-z0-9_]*)>|(?P<open>\{)|(?P<close>\})|(?P<any>\.\.\.)|(?P<blank>\s+)"
)
MIN_MARK = 3
"""Characters of the literal text by which lines are passed over before they are matched."""


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

    def find(self, text: str) -> dict[str, str] | None:
        """Returns the texts of the fields that a line has, by name; None where the line does not match."""
        if self.mark not in text:
            return None
        match = self.expression.search(text[:MAX_COLUMNS])
        return None if match is None else {name: part for name, part in match.groupdict().items() if part is not None}


@lru_cache(4096)
def compile_pattern(text: str, shapes: tuple[tuple[str, str], ...] = (), *, whole: bool = False) -> LinePattern:
    """Compiles the pattern of a line.

    Args:
        text: the pattern.
        shapes: name of a field and name of its shape; fields that are not named are words.
        whole: whether the pattern stands for the whole line, and not for a part of it.

    Raises:
        PatternError: it is not well formed.
    """
    known, fields, parts, literal, literals = dict(shapes), [], [], "", [""]
    runs: list[list[str]] = [[]]
    depth = position = 0
    for token in TOKEN.finditer(text):
        plain = text[position : token.start()]
        position = token.end()
        parts.append(re.escape(plain))
        literals[-1] += plain if not depth else ""
        runs[-1].append(plain if not depth else "")
        if name := token["field"]:
            if name in fields:
                raise PatternError(f"the field <{name}> stands twice, once was expected")
            fields.append(name)
            parts.append(f"(?P<{name}>{SHAPES[known.get(name, 'word')]})")
        elif token["double"]:
            parts.append(re.escape(token["double"][0]))
            literals[-1] += token["double"][0] if not depth else ""
            runs[-1].append(token["double"][0] if not depth else "")
            continue
        elif token["open"] or token["close"]:
            depth += 1 if token["open"] else -1
            if depth not in (0, 1):
                raise PatternError("braces inside braces, or one without its other end")
            parts.append("(?:" if token["open"] else ")?")
        else:
            parts.append(ANYTHING if token["any"] else r"\s+")
        literals.append("")
        if token["blank"] and not depth:
            runs[-1].append(BLANK)
        else:
            runs.append([])
    literal = text[position:]
    parts.append(re.escape(literal))
    literals[-1] += literal if not depth else ""
    runs[-1].append(literal if not depth else "")
    if depth:
        raise PatternError("an opening brace without its end")
    body = "".join(parts)
    if not any(part.strip() for part in (*literals, *fields)):
        raise PatternError("no text and no field")
    mark = max(literals, key=len)
    expression = re.compile(rf"^\s*{body}\s*$" if whole else _bounded(text, body))
    words = _words(max(runs, key=lambda run: len("".join(run).strip())))
    return LinePattern(expression, mark if len(mark) >= MIN_MARK else "", tuple(fields), words)


def _words(run: list[str]) -> str:
    """Returns the expression of literal texts and the blanks between them; '' where they are too short."""
    text = re.sub(f"{BLANK}+", BLANK, "".join(run).strip(BLANK))
    return r"[ \t]+".join(map(re.escape, text.split(BLANK))) if len(text) >= MIN_MARK else ""


def _bounded(text: str, body: str) -> str:
    """Returns an expression that does not begin or end inside a word."""
    begin = r"(?<![\w.])" if text[:1].isalnum() or text[:1] == "<" else ""
    end = r"(?![\w])" if text[-1:].isalnum() or text[-1:] == ">" else ""
    return f"{begin}{body}{end}"
