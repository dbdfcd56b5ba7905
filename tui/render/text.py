"""Lines of styled text, fitted to a terminal's width. Pure."""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from string import ascii_letters

Span = tuple[str, str]
"""Text and role: '' or a key of `SGR`."""
Line = tuple[Span, ...]

SGR = {
    "title": "1",
    "crit": "1;31",
    "warn": "33",
    "info": "36",
    "ok": "32",
    "dim": "2",
    "label": "1;34",
    "key": "1",
    "bar": "7",
    "alarm": "1;7;33",
    "chip": "1;7;31",
    "stale": "2",
    "added": "32",
    "gone": "31",
    "link": "4",
    "command": "36",
}
"""SGR codes of the roles on plain terminals; console.tcss styles the same roles."""

BLANK_SAFE_ROLES = ("", "title", "crit", "warn", "info", "ok", "dim", "label", "key", "command")
"""Roles in which a blank is invisible."""

_ASCII_GLYPHS = str.maketrans(
    {
        "✖": "X", "✓": "v", "·": ".", "…": "~", "−": "-", "–": "-", "─": "-", "━": "=", "│": "|", "└": "`", "●": "o",
        "▶": ">", "▮": "|", "◀": "<", "µ": "u", "°": " ", "×": "x", "↑": "^", "↓": "v", "→": ">", "█": "#", "═": "=",
        "≥": ">", "≤": "<", "“": '"', "”": '"', "‘": "'", "’": "'", "—": "-",
        "σ": "z", "▁": "_", "▂": ".", "▃": "-", "▄": "-", "▅": "=", "▆": "=", "▇": "#", "░": ":", "▒": "-", "▓": "=",
        "◐": "o", "◆": "*", "▲": "^", "△": "o", "▽": "v", "╮": ".", "◯": "o", "±": "~",
        "╯": "'", "╭": ".", "╰": "`", "┬": "+", "┴": "+", "┼": "+", "├": "+", "┤": "+", "┃": "|",
    }
)  # fmt: skip
_UNPRINTABLE = re.compile(r"[^ -~]")
_SINGLE_WIDTH = re.compile(
    r"[ -~\u00a1-\u00ac\u00ae-\u02ff\u0370-\u0377\u0391-\u03a1\u03a3-\u03ff\u2010-\u2027\u2030-\u205e"
    r"\u2190-\u21ff\u2200-\u22ff\u2500-\u25fc\u2701-\u2704\u2713-\u2718\u2800-\u28ff]*"
)
"""Printable characters one column wide: a fast path for nearly all texts."""


def line(text: str, role: str = "") -> Line:
    """Returns a line of one span."""
    return ((text, role),)


def sanitise(text: str) -> str:
    """Replace control, format and unassigned characters, since names come from untrusted files."""
    if _SINGLE_WIDTH.fullmatch(text):
        return text
    return _UNPRINTABLE.sub(lambda m: "\ufffd" if unicodedata.category(m[0])[0] == "C" else m[0], text)


def to_ascii(text: str) -> str:
    """Returns the text in ASCII, glyph by glyph, so that columns stay aligned."""
    return text.translate(_ASCII_GLYPHS).encode("ascii", "replace").decode()


def width(text: str) -> int:
    """Returns the width of a text in columns."""
    if text.isascii() or _SINGLE_WIDTH.fullmatch(text):
        return len(text)
    return sum(_width(c) for c in text)


def _width(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def cut(text: str, columns: int) -> str:
    """Returns the text in at most `columns`, with an ellipsis if it was cut."""
    if width(text) <= columns:
        return text
    kept, used = "", 1
    for char in text:
        used += _width(char)
        if used > columns:
            break
        kept += char
    return kept + "…" if columns > 0 else ""


def cut_words(text: str, columns: int) -> str:
    """Returns the text in at most `columns`, cut between two words where it has several."""
    if width(text) <= columns:
        return text
    kept = text
    while width(kept) + 2 > columns and " " in kept.strip():
        kept = kept.rpartition(" ")[0]
    return f"{kept} …" if width(kept) + 2 <= columns else cut(text, columns)


LEAST_END = 6
"""Columns of the end of a place that are kept, such as 0/0/12."""


def cut_middle(text: str, columns: int) -> str:
    """Returns begin and end of the text in at most `columns`: both tell of a place which one it is.

    What stands before a slash, such as a node, stays whole where there is room: `leaf4/…0/0/0/4`.
    """
    if width(text) <= columns:
        return text
    tail = columns * 3 // 5
    whole = width(text.partition("/")[0]) + 1 if "/" in text else columns
    if whole + 1 + LEAST_END <= columns:
        end = cut(text[::-1], columns - whole)[-2::-1]
        # A part of a word says nothing: `…gE0/0/0/4` is `…0/0/0/4`.
        digits = end.lstrip(ascii_letters)
        return f"{text.partition('/')[0]}/…{digits if digits[:1].isdigit() else end}"
    return cut(text, columns - tail) + cut(text[::-1], tail + 1)[-2::-1] if tail else cut(text, columns)


def pad(text: str, columns: int, *, right: bool = False) -> str:
    """Returns the text in exactly `columns`."""
    if len(text) <= columns and (text.isascii() or _SINGLE_WIDTH.fullmatch(text)):
        return text.rjust(columns) if right else text.ljust(columns)
    text = cut(text, columns)
    blank = " " * (columns - width(text))
    return blank + text if right else text + blank


def line_width(spans: Line) -> int:
    """Returns the width of a line in columns."""
    return sum(width(text) for text, _ in spans)


def fit(spans: Line, columns: int) -> Line:
    """Returns the line in at most `columns`."""
    if line_width(spans) <= columns:
        return spans
    out: list[Span] = []
    for text, role in spans:
        out.append((cut(text, columns), role))
        columns -= width(text)
        if columns <= 0:
            break
    return tuple(out)


def justify(left: Line, right: Line, columns: int) -> Line:
    """Returns `left` and `right` at the ends of one line; `right` is dropped if both do not fit."""
    gap = columns - line_width(left) - line_width(right)
    if gap < 1:
        return fit(left, columns)
    return (*left, (" " * gap, ""), *right)


def wrap(spans: Line, columns: int, hang: int = 0) -> list[Line]:
    """Wrap a line at blanks; all lines but the first are indented by `hang`. A command stays one to a shell."""
    if spans and spans[-1][1] == "command":
        return _wrap_command(spans, columns)
    lines: list[list[Span]] = [[]]
    left = columns
    for word, role in _split_words(spans, max(columns - hang, 1)):
        if width(word) > left and lines[-1]:
            lines.append([(" " * hang, "")] if hang else [])
            left = columns - hang
            if word.isspace():
                continue
        lines[-1].append((word, role))
        left -= width(word)
    rows = [_trim_line(merge_spans(parts)) for parts in lines]
    while len(rows) > 1 and not rows[-1]:
        rows.pop()  # blanks at the end, for which there was no room
    return rows


def _wrap_command(spans: Line, columns: int) -> list[Line]:
    """Wraps the last span, a command, at blanks outside of quotes, with a backslash where it goes on."""
    before, (command, role) = spans[:-1], spans[-1]
    indent = line_width(before)
    rows = [""]
    for word in _shell_word.findall(command):
        if rows[-1] and indent + width(rows[-1]) + width(word) + 3 > columns:
            rows[-1] += " \\"
            rows.append("  ")
        rows[-1] += word if not rows[-1].strip() else f" {word}"
    return [(*before, (rows[0], role)), *((((" " * indent, ""), (row, role))) for row in rows[1:])]


_word_or_quantity = re.compile(
    r"\s+"
    r"|\S*\d [kMGT]?(?:%|[mµn]?s|min|h|d|(?:B|bit|W|J|Hz)(?:/s)?|/s|°C)(?![\w/])\S*"
    r"|\S+"
)
"""A unit stays with its number."""
_shell_word = re.compile(r"""(?:'[^']*'|"[^"]*"|[^\s'"]|['"])+""")


def wrap_lines(lines: Iterable[Line], columns: int) -> list[Line]:
    """Wrap all lines; text after a bullet or a label is indented to it."""
    return [row for spans in lines for row in wrap(spans, columns, min(_hanging_indent(spans), columns // 2))]


def _hanging_indent(spans: Line) -> int:
    if not spans:
        return 0
    text, role = spans[0]
    if role == "label":
        return width(text)
    rest = text.lstrip()
    return len(text) - len(rest) + (2 if rest.startswith("·") else 0)


def _split_words(spans: Line, most: int) -> Iterator[Span]:
    for text, role in spans:
        for word in _word_or_quantity.findall(text):
            if word.isspace():
                yield " " * len(word), role
            else:
                yield from ((piece, role) for piece in _break_word(word, most))


def _break_word(word: str, most: int) -> Iterator[str]:
    while width(word) > most:
        head = cut(word, most + 1)[:-1] or word[0]
        yield head
        word = word[len(head) :]
    yield word


def merge_spans(parts: Iterable[Span]) -> list[Span]:
    """Merge adjacent spans of one role; blanks join the span before them."""
    out: list[Span] = []
    for text, role in parts:
        if out and (out[-1][1] == role or (text.isspace() and role == "" and out[-1][1] in BLANK_SAFE_ROLES)):
            out[-1] = (out[-1][0] + text, out[-1][1])
        else:
            out.append((text, role))
    return out


def _trim_line(out: list[Span]) -> Line:
    """Remove trailing blanks."""
    if out and not (last := out[-1][0].rstrip()):
        out.pop()
    elif out:
        out[-1] = (last, out[-1][1])
    return tuple(out)


def to_plain_text(lines: Iterable[Line], *, colour: bool = False, ascii_: bool = False) -> str:
    """Returns lines as text for a terminal, a file or a pipe."""
    rows = ("".join(_paint(text, role, colour, ascii_) for text, role in spans) for spans in lines)
    return "".join(row.rstrip(" ") + "\n" for row in rows)


def _paint(text: str, role: str, colour: bool, ascii_: bool) -> str:
    text = to_ascii(sanitise(text)) if ascii_ else sanitise(text)
    return f"\x1b[{SGR[role]}m{text}\x1b[0m" if colour and role else text
