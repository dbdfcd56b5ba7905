"""What a piece of evidence measured, by itself. Pure."""

import re
from dataclasses import dataclass

from skewscope.engine.model.incident import IncidentEvidence
from skewscope.kb.loader import catalogue
from skewscope.tui.render import expression_text, units

PAST_RATIOS = frozenset({"drift", "change"})
"""Functions whose value is a relative change against the past."""
MIN_BITS = 16
"""A whole number from which on a value without unit may be a sum of bits: as a share it would be 1,600 %."""


SIGNAL = re.compile(r"[a-z]+\.[a-z0-9_]+")


def mask_signals() -> frozenset[str]:
    """Returns the ids of the signals whose values are sums of bits."""
    return frozenset(name for name, signal in catalogue().signals.items() if signal.type == "bitmask")


@dataclass(frozen=True, slots=True)
class SeriesReading:
    """What the series behind a piece of evidence shows."""

    text: str
    """`12.9 ms, peers 0.2 ms (65×)`; '' where the series does not show what the evidence says."""
    curve: str = ""
    """Its sparkline."""


def is_one_message(item: IncidentEvidence) -> bool:
    """Returns whether an item is a message that came once, so that neither its value nor its curve says more."""
    return item.unit == "{event}" and item.value == 1


def format_evidence(item: IncidentEvidence) -> str:
    """Returns the value of an item by itself: `12.9 ms`, `2.4× normal`; '' where several values decided."""
    if item.value is None:
        return "" if item.verdict != "unknown" else units.format_value(None, item.unit)
    if item.reference is not None:
        share = units.is_share(item.expr)
        return units.format_comparison(item.value, item.reference, item.unit, item.compared, share=share)
    measure = expression_text.decisive_function(item.expr)
    if item.unit == "1" and measure in PAST_RATIOS and item.value > -1:
        return f"{units.format_factor(1 + item.value)} normal"
    if item.unit == "1" and measure == "peer_ratio":
        return f"{units.format_factor(item.value)} its peers"
    # An item that compares shares as well as bits may be decided by bits, such as 64: no quantity, and no share.
    is_bits = item.value >= MIN_BITS and item.value == round(item.value)
    if is_bits and not mask_signals().isdisjoint(SIGNAL.findall(item.expr)):
        return ""
    is_share = "percent" in item.expr or all(map(units.is_share, SIGNAL.findall(item.expr) or [""]))
    return units.format_value(item.value, item.unit, share=is_share and not is_bits)
