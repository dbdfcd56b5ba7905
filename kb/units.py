"""Parses units of signals (`By/s`, `{packet}`, `ms`) into dimension and factor.

Counted things are dimensions of their own: packets are not requests, and neither is a plain number. Seconds, bytes,
joules, degrees Celsius and dBm are the other bases; a watt is a joule per second, a hertz one per second.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from skewscope.kb.problems import suggest_name

Dimension = tuple[tuple[str, int], ...]
"""Powers of base units in alphabetical order: `(('By', 1), ('s', -1))` is bytes per second."""

MAX_TEXT = 64
MAX_CACHED = 1024
"""Number of parsed units that are cached."""


def _multiply(a: Dimension, b: Dimension, sign: int) -> Dimension:
    powers = dict(a)
    for name, n in b:
        powers[name] = powers.get(name, 0) + sign * n
    return tuple(sorted((name, n) for name, n in powers.items() if n))


@dataclass(frozen=True, slots=True)
class Unit:
    """The dimension of a unit, and its size in base units."""

    dimension: Dimension = ()
    factor: float = 1.0

    def __mul__(self, other: "Unit") -> "Unit":
        return Unit(_multiply(self.dimension, other.dimension, 1), self.factor * other.factor)

    def __truediv__(self, other: "Unit") -> "Unit":
        return Unit(_multiply(self.dimension, other.dimension, -1), self.factor / other.factor)

    def __pow__(self, power: int) -> "Unit":
        powers = tuple((name, n * power) for name, n in self.dimension) if power else ()
        return Unit(powers, self.factor**power)

    def factor_to(self, other: "Unit") -> float:
        """Returns the factor that converts a number in this unit to `other`.

        Raises:
            ValueError: the dimensions differ.
        """
        if self.dimension != other.dimension:
            raise ValueError(f"{self} cannot become {other}")
        return self.factor / other.factor

    def __str__(self) -> str:
        factor = "" if self.factor == 1.0 else f"{self.factor:.12g}."
        return factor + format_dimension(self.dimension)


ONE = Unit()

_second, _byte, _joule = Unit((("s", 1),)), Unit((("By", 1),)), Unit((("J", 1),))


def _scaled_units(base: Unit, **factors: float) -> dict[str, Unit]:
    return {name: Unit(base.dimension, factor) for name, factor in factors.items()}


NAMED_UNITS: Mapping[str, Unit] = {
    "1": ONE,
    "%": Unit((), 0.01),
    **_scaled_units(_second, s=1.0, ms=1e-3, us=1e-6, ns=1e-9, min=60.0, h=3600.0, d=86400.0),
    **_scaled_units(_byte, By=1.0, kBy=1e3, MBy=1e6, GBy=1e9, TBy=1e12, KiBy=2.0**10, MiBy=2.0**20, GiBy=2.0**30),
    **_scaled_units(_byte, bit=0.125, kbit=125.0, Mbit=125e3, Gbit=125e6),
    **_scaled_units(ONE / _second, Hz=1.0, kHz=1e3, MHz=1e6, GHz=1e9),
    **_scaled_units(_joule, J=1.0, mJ=1e-3, kJ=1e3),
    **_scaled_units(_joule / _second, W=1.0, mW=1e-3, kW=1e3),
    "Cel": Unit((("Cel", 1),)),
    "dBm": Unit((("dBm", 1),)),
    "GT": Unit((("transfer", 1),), 1e9),
}
"""All named units. Counted things are written in braces and need not be listed."""

_BASES = frozenset({"s", "By", "J", "Cel", "dBm"})
_COUNTED = re.compile(r"\{([a-z][a-z_]{0,30})\}")
_POWER = re.compile(r"(?P<name>\{[a-z_]+\}|[A-Za-z%]+|1)(?P<power>-?[1-9][0-9]?)?")


@lru_cache(MAX_CACHED)
def parse_unit(text: str) -> Unit:
    """Parses a unit like `By/s`, `{packet}`, `J.s2` or `1/s`.

    Raises:
        ValueError: the text is no unit; the message says why, and suggests one.
    """
    if not text or len(text) > MAX_TEXT:
        raise ValueError(f"{text[:MAX_TEXT]!r} is no unit")
    over, *under = text.split("/")
    try:
        found = _parse_product(over)
        for part in under:
            found = found / _parse_product(part)
    except (OverflowError, ZeroDivisionError):
        found = Unit((), 0.0)
    if not 0.0 < found.factor < math.inf:
        raise ValueError(f"{text!r} is a unit beyond measure")
    return found


def is_unit(text: str) -> bool:
    """Returns whether a text is a unit."""
    try:
        parse_unit(text)
    except ValueError:
        return False
    return True


def _parse_product(text: str) -> Unit:
    found = ONE
    for part in text.split("."):
        found = found * _parse_factor(part)
    return found


def _parse_factor(text: str) -> Unit:
    match = _POWER.fullmatch(text)
    found = _lookup_unit(match["name"]) if match else None
    if match is None or found is None:
        hint = suggest_name(text, NAMED_UNITS)
        raise ValueError(f"{text!r} is no unit.{' ' + hint if hint else ''}")
    return found ** int(match["power"] or 1)


def _lookup_unit(name: str) -> Unit | None:
    counted = _COUNTED.fullmatch(name)
    return Unit(((counted[1], 1),)) if counted else NAMED_UNITS.get(name)


def format_dimension(dimension: Dimension) -> str:
    """Formats a dimension as a unit: `By/s`, `{packet}/s`, `1`."""
    over = ".".join(_format_power(name, n) for name, n in dimension if n > 0)
    under = "".join("/" + _format_power(name, -n) for name, n in dimension if n < 0)
    return (over or "1") + under


def _format_power(name: str, power: int) -> str:
    text = name if name in _BASES else f"{{{name}}}"
    return text if power == 1 else f"{text}{power}"
