"""Nothing in a log line is raw that came from outside."""

import logging
import re
from pathlib import Path

import pytest

from skewscope.adapters.runtime.log_lines import PrintableFormatter

ROOT = Path(__file__).parents[3]


def formatted(message, *args, exc_info=None):
    record = logging.LogRecord("x", logging.WARNING, "x.py", 1, message, args, exc_info)
    return PrintableFormatter("%(levelname)s %(message)s").format(record)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("HTTP/1.1 200 \x1b[2J\x1b]0;owned\x07", "HTTP/1.1 200 \\x1b[2J\\x1b]0;owned\\x07"),
        ("a\rWARNING b", "a\\rWARNING b"),
        ("a\nERROR it is forged", "a\n  ERROR it is forged"),
        ("\u202etxt", "\\u202etxt"),
        ("Zürich 3\t4", "Zürich 3\t4"),
    ],
)
def test_what_is_not_printable_is_shown_as_an_escape(text, shown):
    assert formatted("it answers %s", text) == f"WARNING it answers {shown}"


def test_tracebacks_are_escaped_too():
    try:
        raise ValueError("\x1b[31m")
    except ValueError as error:
        text = formatted("no luck", exc_info=(type(error), error, error.__traceback__))
    assert "\x1b" not in text
    assert "\\x1b[31m" in text


def test_every_program_writes_its_log_so():
    programs = [path for floor in ("adapters", "tui") for path in (ROOT / floor).rglob("*.py")]
    raw = [path.name for path in programs if re.search(r"\bbasicConfig\(", path.read_text())]
    assert raw == ["log_lines.py"]
