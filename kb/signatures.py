"""Relates the items of signatures to what the detector can find in a signal."""

from collections.abc import Mapping

from skewscope.kb.model import Signal, SignatureItem

BAD_DIRECTIONS: Mapping[str, frozenset[str]] = {
    "up": frozenset(("up", "both", "begins")),
    "begins": frozenset(("up", "both", "begins")),
    "down": frozenset(("down", "both", "stops")),
    "stops": frozenset(("down", "both", "stops")),
    "uneven": frozenset(("up", "down", "both")),
}
"""By direction of an item: the bad directions of a signal that can show it."""


def is_detectable(item: SignatureItem, signal: Signal) -> bool:
    """Returns whether the judgement of a signal can show an item of a signature.

    A signal that is normal speaks against a condition only where this holds: a rate that is never compared with its
    own past says nothing about an item against the past. Any series can fall silent.
    """
    judged = signal.judged
    if item.direction == "silent":
        return True
    return judged is not None and judged.bad in BAD_DIRECTIONS[item.direction] and item.against in judged.against
