"""More kinds of field than `kb.fields` reads."""

from skewscope.kb.fields import Fields, finite
from skewscope.kb.yamlfile import Path_, kind_of


def number(fields: Fields, at: Path_, default: float, bounds: tuple[float, float]) -> float:
    """The number at a path; the default where it is missing or faulty."""
    value = fields.at(at)
    if value is None:
        return default
    least, most = bounds
    if not finite(value) or not least <= value <= most:
        fields.fault(at, f"{kind_of(value)} ({value!r:.40})", f"a number from {least:g} to {most:g}")
        return default
    return float(value)


def yes(fields: Fields, at: Path_) -> bool:
    """Whether yes stands at a path; no where nothing does."""
    value = fields.at(at)
    if value is not None and not isinstance(value, bool):
        fields.fault(at, f"{kind_of(value)} ({value!r:.40})", "true or false")
    return value is True
