"""Readers of further kinds of fields, beside `kb.field_reader`."""

from pathlib import Path

from skewscope.kb.field_reader import FieldReader, is_finite_number
from skewscope.kb.yamlfile import FieldPath, type_label


def read_number(fields: FieldReader, at: FieldPath, default: float, bounds: tuple[float, float]) -> float:
    """Returns the number at a path; the default where it is missing or invalid."""
    value = fields.value_at(at)
    if value is None:
        return default
    least, most = bounds
    if not is_finite_number(value) or not least <= value <= most:
        fields.add_problem(at, f"{type_label(value)} ({value!r:.40})", f"a number from {least:g} to {most:g}")
        return default
    return float(value)


def read_bool(fields: FieldReader, at: FieldPath) -> bool:
    """Returns the boolean at a path; False where it is missing."""
    value = fields.value_at(at)
    if value is not None and not isinstance(value, bool):
        fields.add_problem(at, f"{type_label(value)} ({value!r:.40})", "true or false")
    return value is True


def read_path(fields: FieldReader, at: FieldPath) -> str:
    """Returns the path of a file relative to the config's folder; '' where it is missing."""
    name = fields.text(at)
    path = Path(fields.document.file).parent / name
    if name and not path.is_file():
        fields.add_problem(
            at, f"no file {name!r}", "a file that can be read", "Paths are relative to the folder of this file."
        )
        return ""
    return str(path) if name else ""
