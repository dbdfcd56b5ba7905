"""Scale of a metric by the unit in its name."""

# Suffixes of metric names, and units, as (base unit, factor).
UNIT_SUFFIXES = {
    **dict.fromkeys(("seconds",), ("s", 1.0)),
    **dict.fromkeys(("ms", "milliseconds"), ("s", 1e-3)),
    **dict.fromkeys(("us", "microseconds"), ("s", 1e-6)),
    **dict.fromkeys(("ns", "nanoseconds"), ("s", 1e-9)),
    "bytes": ("By", 1.0),
    "bytes_per_second": ("By/s", 1.0),
    "ratio": ("1", 1.0),
    "hz": ("Hz", 1.0),
    "watts": ("W", 1.0),
    "joules": ("J", 1.0),
}
UNITS = {
    "s": ("s", 1.0),
    "ms": ("s", 1e-3),
    "us": ("s", 1e-6),
    "ns": ("s", 1e-9),
    "By": ("By", 1.0),
    "kBy": ("By", 1e3),
    "MBy": ("By", 1e6),
    "GBy": ("By", 1e9),
    "KiBy": ("By", 2.0**10),
    "MiBy": ("By", 2.0**20),
    "GiBy": ("By", 2.0**30),
    "By/s": ("By/s", 1.0),
    "GBy/s": ("By/s", 1e9),
    "bit/s": ("By/s", 0.125),
    "Gbit/s": ("By/s", 1.25e8),
    "1": ("1", 1.0),
    "%": ("1", 0.01),
    "Hz": ("Hz", 1.0),
    "kHz": ("Hz", 1e3),
    "MHz": ("Hz", 1e6),
    "GHz": ("Hz", 1e9),
    "W": ("W", 1.0),
    "kW": ("W", 1e3),
    "mW": ("W", 1e-3),
    "J": ("J", 1.0),
    "mJ": ("J", 1e-3),
    "Cel": ("Cel", 1.0),
}


def implied_scale(name: str, unit: str) -> float:
    """Returns the factor from the unit in a metric's name to `unit`; 1 where either is unknown."""
    bare = name.removesuffix("_total").removesuffix("_histogram")
    found = next(
        (UNIT_SUFFIXES[s] for s in sorted(UNIT_SUFFIXES, key=len, reverse=True) if bare.endswith("_" + s)), None
    )
    wanted = UNITS.get(unit)
    return found[1] / wanted[1] if found and wanted and found[0] == wanted[0] else 1.0
