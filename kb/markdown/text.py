"""Formats untrusted text as Markdown: CommonMark with the tables of GFM."""

import re
from collections.abc import Iterable
from urllib.parse import quote

_special = re.compile(r"([\\`*\[\]<>|~$&])|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
_block_start = re.compile(r"[#+\-=>:(%{@!]|\d+[.)]")
"""Characters that would begin a heading, a list, a quotation or a directive."""


def escape_text(text: str) -> str:
    """Escapes a text for Markdown: one line without marks, tags or cell ends."""
    one = _special.sub(lambda found: "\\" + found[0], " ".join(text.split()))
    if not (start := _block_start.match(one)):
        return one
    # A backslash makes a mark of punctuation only: a digit keeps it away from the point after it.
    return one[: start.end() - 1] + "\\" + one[start.end() - 1 :]


def code(text: str) -> str:
    """Formats a text as code, for names and ids."""
    one = " ".join(text.split()).replace("|", "\\|")
    fence = "`" * (max(map(len, re.findall("`+", one)), default=0) + 1)
    pad = " " if one.startswith("`") or one.endswith("`") else ""
    return f"{fence}{pad}{one}{pad}{fence}" if one else ""


def code_block(text: str) -> str:
    """Formats one line as a block of code, to be copied as it is."""
    one = " ".join(text.split())
    fence = "`" * max(3, max(map(len, re.findall("`+", one)), default=0) + 1)
    # Without a language: colours of variables are too pale to be read by everybody.
    return f"{fence}text\n{one}\n{fence}"


def link(text: str, target: str) -> str:
    """Formats a link; only its text where the address is not allowed."""
    if re.match(r"[a-z][a-z0-9+.-]*:", target, re.IGNORECASE) and not target.startswith(("https://", "http://")):
        return escape_text(text)
    address = quote(target, safe=_URL_SAFE)
    return (
        f"[{escape_text(text)}](<{address}>)"
        if "(" in address or ")" in address
        else f"[{escape_text(text)}]({address})"
    )


_URL_SAFE = ":/?#@!$&'()*+,;=%-._~"
"""Characters that an address keeps; none of them ends a link in Markdown."""


def strong(text: str) -> str:
    """Formats a text in bold."""
    return f"**{escape_text(text)}**" if text.strip() else ""


def heading(level: int, text: str) -> str:
    """Formats a heading."""
    # Number signs at the end would be taken for those that may close a heading.
    told = re.sub(r"(?<!\\)#(?=#*$)", r"\\#", escape_text(text))
    return f"{'#' * level} {told}"


def bullets(items: Iterable[str]) -> str:
    """Formats a list of Markdown items."""
    return "\n".join(f"- {item}" for item in items)


def table(titles: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Formats a table of Markdown cells; '' without rows."""
    body = [f"| {' | '.join(row)} |" for row in rows]
    if not body:
        return ""
    heads = list(titles)
    return "\n".join([f"| {' | '.join(heads)} |", f"|{' --- |' * len(heads)}", *body])


def page(parts: Iterable[str]) -> str:
    """Joins the parts that are not empty, with an empty line between them."""
    return "\n\n".join(part for part in parts if part) + "\n"


def section(title: str, *body: str, level: int = 2) -> str:
    """Formats a heading with its content; '' without content."""
    return page([heading(level, title), *body]).rstrip("\n") if any(body) else ""
