"""The lints of the catalogue. The first line of each function states what must hold."""

from skewscope.kb.lints import (
    commands,
    conditions,
    findings,
    judgements,
    line_texts,
    links,
    mitigations,
    prose,
    signals,
    signatures,
    similarity,
    sources,
)

__all__ = [
    "commands",
    "conditions",
    "findings",
    "judgements",
    "line_texts",
    "links",
    "mitigations",
    "prose",
    "signals",
    "signatures",
    "similarity",
    "sources",
]
