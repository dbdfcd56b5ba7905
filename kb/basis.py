"""The basis of a statement: `literature`, `source: <id>, <id>; <part>` or `judgement: <reason>`."""

import re

_pattern = re.compile(r"literature|source: (?P<sources>[a-z0-9_]+(, [a-z0-9_]+)*)(; .{10,})?|judgement: .{10,}")


def is_basis(text: str) -> bool:
    """Returns whether a text is a basis."""
    return bool(_pattern.fullmatch(text))


def cited_sources(text: str) -> tuple[str, ...]:
    """Returns the ids of the sources that a basis names."""
    match = _pattern.fullmatch(text)
    return tuple(match["sources"].split(", ")) if match and match["sources"] else ()
