"""Units under their names in the rule language: `3*ms`, `10*MB/s`, `5*packets`, `20*percent`."""

import re
from collections.abc import Mapping
from functools import lru_cache

from skewscope.kb.units import NAMED_UNITS, Dimension, Unit, format_dimension, parse_unit

NUMBER: Dimension = ()
SECOND: Dimension = (("s", 1),)
SPEED: Dimension = (("By", 1), ("s", -1))

# Names that differ from UCUM: min is a function, a bit is mostly something counted.
_UNIT_NAMES: Mapping[str, str] = {
    **{name: name for name in NAMED_UNITS if name.isidentifier() and name not in {"min", "h", "d", "bit"}},
    "one": "1",
    "percent": "%",
    "minute": "min",
    "hour": "h",
    "kB": "kBy",
    "MB": "MBy",
    "GB": "GBy",
    "KiB": "KiBy",
    "MiB": "MiBy",
    "GiB": "GiBy",
    "per_s": "1/s",
}
_BASES = frozenset({"s", "By", "J", "Cel", "dBm"})
_COUNTED = re.compile(r"\{([a-z_]+)\}")


def product(a: Dimension, b: Dimension, power: int = 1) -> Dimension:
    """Returns the dimension of a product; of a quotient with `power=-1`."""
    return (Unit(a) * Unit(b) ** power).dimension


def without_counts(dimension: Dimension) -> Dimension:
    """The dimension without counted things: packets per second become 1/s."""
    return tuple((base, power) for base, power in dimension if base in _BASES)


@lru_cache(maxsize=16)
def expression_units(texts: frozenset[str]) -> Mapping[str, Unit]:
    """Returns every unit that an expression may name, given the units of the signals. Counted things have a plural."""
    found = {name: parse_unit(text) for name, text in _UNIT_NAMES.items()}
    counted = {thing for text in texts for thing in _COUNTED.findall(text)} | {"packet", "request"}
    for thing in sorted(counted):
        for name in (thing, plural(thing)):
            found.setdefault(name, Unit(((thing, 1),)))
    return found


def describe_unit(dimension: Dimension) -> str:
    """Returns the unit of a number for an error message; one without unit would read like the number 1."""
    return format_dimension(dimension) if dimension else "a number without unit"


def describe_number(dimension: Dimension) -> str:
    """Returns `a number in s`, or `a number without unit`."""
    return f"a number in {format_dimension(dimension)}" if dimension else "a number without unit"


def unit_suffix(dimension: Dimension) -> str:
    """Returns the factor that gives a number this dimension in the language: `*By/s`."""
    up = "".join(f"*{_base_name(base)}" * n for base, n in dimension if n > 0)
    return up + "".join(f"/{_base_name(base)}" * -n for base, n in dimension if n < 0)


def plural(thing: str) -> str:
    """Returns the plural of a counted thing."""
    return thing + ("es" if thing.endswith(("s", "x", "ch")) else "s")


def _base_name(base: str) -> str:
    return base if base in _BASES else plural(base)
