"""The lints of the catalogue. Each is a function whose first line says what every good catalogue has."""

from skewscope.kb.lints import conditions, findings, likeness, links, mitigations, signals, sources, words

__all__ = ["conditions", "findings", "likeness", "links", "mitigations", "signals", "sources", "words"]
