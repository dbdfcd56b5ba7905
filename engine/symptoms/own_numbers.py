"""What findings call a series: a number of `other.*` by the name that its program has for it, others with their part.

The parts are those that say of what the series is where its place says less: one processor of a host, one model of a
server, one connection.
"""

import re
from dataclasses import replace

from skewscope.kb.model import OTHER_AREA, Signal

NAME_LABEL = "metric="
NOISE = ("uid=", "namespace=", "job=", "instance=", "team=")
"""Begins of parts of a selector that say little of what a series is."""
PART = re.compile(r"(cpu(?=\d)|model(?==)|remote(?==))=?(.+)")
"""Parts of a selector that say of what a series is."""
STEM = re.compile(r"(?:[-._:/#]?[^-._:/#]+|\d+)$")
"""What tells apart the members of a set that have one name: a number, or what stands behind the last sign."""


def name_signal(signal: Signal, selector: str) -> Signal:
    """Returns a signal under the name that a program has for this series of it, or with the part that it is of."""
    if not signal.id.startswith(OTHER_AREA):
        own = [f"{match[1]} {match[2]}" for part in selector.split(",") if (match := PART.fullmatch(part))]
        return replace(signal, name=f"{signal.name} ({', '.join(own)})"[:100]) if own else signal
    parts = [part.replace("%2C", ",").replace("%25", "%") for part in selector.split(",")]
    name = own_name(selector)
    rest = [part for part in parts if "=" in part and not part.startswith((NAME_LABEL, *NOISE))]
    shown = f"{name} ({', '.join(rest[:2])})" if rest else name
    return replace(signal, name=shown[:100]) if name else signal


def own_name(selector: str) -> str:
    """Returns the name in the selector of a series, '' where it has none."""
    part = next((part for part in selector.split(",") if part.startswith(NAME_LABEL)), "")
    return part.removeprefix(NAME_LABEL).replace("%2C", ",").replace("%25", "%")


def stem(name: str) -> str:
    """Returns what the names of the members of a set have in common, by one of them."""
    return STEM.sub("", name)
