"""Fewer bytes for a terminal far away: what Textual writes, without colours that are in force already."""

import re
from functools import cache

from textual.driver import Driver

RESET = "\x1b[0m"
_STYLES = re.compile(
    r"(?P<reset>\x1b\[0m(?P<between>(?:\x1b\[\d+;\d+H|\n)*))?"
    r"\x1b\[(?P<attributes>(?:[1-9];)*)(?P<colour>38;2;\d+;\d+;\d+);(?P<ground>48;2;\d+;\d+;\d+)m"
    r"|\x1b\[[\d;]*m"
)
"""A whole style, mostly right behind the end of the one before; or any other change of style."""
Style = tuple[str, str, str]
"""Attributes, colour and ground as they are written."""
PLAIN: Style = ("", "", "")


def compact(data: str) -> str:
    """The same for the eye: each style names only what differs from the style before it.

    Textual ends every style and writes the next one in full: half of what a table costs. It leaves nothing in force
    at the end of what it writes, so nothing is at the beginning.
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
    """The style in force behind a change; None where that is not known."""
    if not match["colour"]:
        return PLAIN if match[0] == RESET else None
    # Without an end before it a style leaves attributes in force that it does not name.
    return (match["attributes"], match["colour"], match["ground"]) if match["reset"] or before == PLAIN else None


@cache
def make_compact_driver(driver: type[Driver]) -> type[Driver]:
    """A driver that writes the same with fewer bytes."""

    def write(self: Driver, data: str) -> None:
        driver.write(self, compact(data))

    return type(f"Lean{driver.__name__}", (driver,), {"write": write})
