"""Log lines in which nothing is raw that came from outside: a status line may hold escape sequences for a terminal."""

import logging
import sys


class PrintableFormatter(logging.Formatter):
    """Shows characters that are not printable as escapes, and indents what follows a line break."""

    def format(self, record: logging.LogRecord) -> str:
        """Returns the text of a record: its first line begins with the time or level, the others with blanks."""
        first, *more = (escape_line(line) for line in super().format(record).split("\n"))
        return "\n".join([first, *(f"  {line}" for line in more)])


def configure_log(layout: str) -> None:
    """Writes log lines of at least level INFO to standard error; `layout` is in the style of `logging`."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(PrintableFormatter(layout))
    logging.basicConfig(level=logging.INFO, handlers=[handler])


def escape_line(line: str) -> str:
    """Returns a line with escapes for characters that are not printable."""
    return "".join(c if c.isprintable() or c == "\t" else c.encode("unicode_escape").decode() for c in line)
