"""A terminal driver that omits redundant colour codes from Textual's output, for slow connections."""

import re
from functools import cache

from textual.driver import Driver

RESET = "\x1b[0m"
_STYLES = re.compile(
    r"(?P<reset>\x1b\[0m(?P<between>(?:\x1b\[\d+;\d+H|\n)*))?"
    r"\x1b\[(?P<attributes>(?:[1-9];)*)(?P<colour>38;2;\d+;\d+;\d+);(?P<ground>48;2;\d+;\d+;\d+)m"
    r"|\x1b\[[\d;]*m"
)
"""A complete style, usually preceded by the reset of the previous one, or any other style change."""
Style = tuple[str, str, str]
"""Attributes, foreground and background, as written."""
PLAIN: Style = ("", "", "")


def compact(data: str) -> str:
    """Returns the output with each style reduced to what differs from the style before it.

    Textual ends every style and writes the next one in full, which is half of the bytes of a table. Textual resets the
    style at the end of each write, so each call starts with the default style.
    """
    before: Style | None = PLAIN

    def shorten(match: re.Match[str]) -> str:
        nonlocal before
        last, before = before, _next_style(match, before)
        if not (before and last and match["reset"]) or last == PLAIN or last[0] not in ("", before[0]):
            return match[0]
        attributes = before[0] if last[0] != before[0] else ""
        changed = [new for new, old in zip(before[1:], last[1:], strict=True) if new != old]
        codes = attributes + ";".join(changed)
        return match["between"] + (f"\x1b[{codes.rstrip(';')}m" if codes else "")

    return _STYLES.sub(shorten, data)


def _next_style(match: re.Match[str], before: Style | None) -> Style | None:
    """Returns the style in force after a change, None if it is unknown."""
    if not match["colour"]:
        return PLAIN if match[0] == RESET else None
    # A style without a preceding reset keeps attributes that it does not name.
    return (match["attributes"], match["colour"], match["ground"]) if match["reset"] or before == PLAIN else None


@cache
def make_compact_driver(driver: type[Driver]) -> type[Driver]:
    """Returns a driver class that writes the same output with fewer bytes."""

    def write(self: Driver, data: str) -> None:
        driver.write(self, compact(data))

    return type(f"Lean{driver.__name__}", (driver,), {"write": write})
