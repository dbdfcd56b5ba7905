"""More kinds of field than `kb.field_reader` reads."""

from pathlib import Path

from skewscope.kb.field_reader import FieldReader, is_finite_number
from skewscope.kb.yamlfile import FieldPath, type_label


def read_number(fields: FieldReader, at: FieldPath, default: float, bounds: tuple[float, float]) -> float:
    """The number at a path; the default where it is missing or faulty."""
    value = fields.value_at(at)
    if value is None:
        return default
    least, most = bounds
    if not is_finite_number(value) or not least <= value <= most:
        fields.add_problem(at, f"{type_label(value)} ({value!r:.40})", f"a number from {least:g} to {most:g}")
        return default
    return float(value)


def read_bool(fields: FieldReader, at: FieldPath) -> bool:
    """Whether yes stands at a path; no where nothing does."""
    value = fields.value_at(at)
    if value is not None and not isinstance(value, bool):
        fields.add_problem(at, f"{type_label(value)} ({value!r:.40})", "true or false")
    return value is True


def read_path(fields: FieldReader, at: FieldPath) -> str:
    """The path of a file that is named from the folder of the config; '' where none is, or it is not there."""
    name = fields.text(at)
    path = Path(fields.document.file).parent / name
    if name and not path.is_file():
        fields.add_problem(
            at, f"no file {name!r}", "a file that can be read", "Paths are told from the folder of this file."
        )
        return ""
    return str(path) if name else ""
