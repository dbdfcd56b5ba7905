"""The lints of the catalogue. Each is a function whose first line says what every good catalogue has."""

from skewscope.kb.lints import conditions, findings, links, mitigations, prose, signals, similarity, sources

__all__ = ["conditions", "findings", "links", "mitigations", "prose", "signals", "similarity", "sources"]
