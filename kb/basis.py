"""What a statement rests on: `literature`, `source: <id>, <id>; <what of it>` or `judgement: <reason>`."""

import re

_pattern = re.compile(r"literature|source: (?P<sources>[a-z0-9_]+(, [a-z0-9_]+)*)(; .{10,})?|judgement: .{10,}")


def is_basis(text: str) -> bool:
    """Whether a text says what something rests on."""
    return bool(_pattern.fullmatch(text))


def cited_sources(text: str) -> tuple[str, ...]:
    """The ids of the sources that a basis names."""
    match = _pattern.fullmatch(text)
    return tuple(match["sources"].split(", ")) if match and match["sources"] else ()
