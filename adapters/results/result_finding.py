"""What results of benchmarks show, as findings that name an event of the catalogue."""

import math
from dataclasses import dataclass

LEAST = 0.1
"""The least difference between runs that is judged: a tenth, as nccl-tests compares with an expected bandwidth."""
SIGMAS = 3.0
"""Standard errors beyond which a difference is no chance."""
UNITS: tuple[tuple[float, str], ...] = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"))


@dataclass(frozen=True, slots=True)
class ResultFinding:
    """One statement about results, with the place that it is about."""

    event: str
    """Id of the event in the catalogue."""
    text: str
    """The whole statement."""
    nodes: tuple[str, ...] = ()
    """The nodes that it is about; () where it is about a server."""


def format_time(seconds: float) -> str:
    """Returns a time in the unit of its size, with three digits."""
    scale, unit = next((pair for pair in UNITS if seconds >= pair[0]), UNITS[-1])
    return f"{format_number(seconds / scale)} {unit}"


def format_number(number: float) -> str:
    """Returns a number with three digits, without an exponent."""
    digits = max(0, 2 - math.floor(math.log10(abs(number)))) if number else 0
    text = f"{number:.{min(digits, 6)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def format_ratio(ratio: float) -> str:
    """Returns how many times as much something is."""
    return f"{format_number(ratio)} times"
