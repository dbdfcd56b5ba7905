"""More kinds of field than `kb.fields` reads."""

from pathlib import Path

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


def file(fields: Fields, at: Path_) -> str:
    """The path of a file that is named from the folder of the config; '' where none is, or it is not there."""
    name = fields.text(at)
    path = Path(fields.document.file).parent / name
    if name and not path.is_file():
        fields.fault(at, f"no file {name!r}", "a file that can be read", "Paths are told from the folder of this file.")
        return ""
    return str(path) if name else ""
