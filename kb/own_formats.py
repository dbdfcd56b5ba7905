"""Formats of a user: a folder of files, or one file, read beside those of the catalogue.

They are files of others, so number and size are bounded; the language of patterns bounds the time of a match.
"""

from itertools import islice
from pathlib import Path

from skewscope.kb.entry_store import read_entry
from skewscope.kb.format_samples import compare_samples, find_pattern_problems, find_signal_problems
from skewscope.kb.model import Catalogue, Format
from skewscope.kb.problems import InputError, Problem

ENDINGS = (".yaml", ".yml")
MAX_FORMATS = 500
"""Formats of a user: each is compared with the begin of each text."""
MAX_TOTAL = 8 << 20
"""Bytes of all of them."""
MAX_LISTED = 10_000
"""Files of a folder that are looked at, of whatever kind."""
HINT = "kb/schema/format.md says what a format holds; `skewscope kb new format ID` writes an empty one."


def read_formats(place: Path, known: Catalogue) -> tuple[Format, ...]:
    """Returns the formats in a folder, or that of a file, in the order of their ids.

    Args:
        place: the folder; other files than those of formats are ignored in it.
        known: the catalogue, whose signals they name; a format with an id of it stands in place of that one.

    Raises:
        InputError: all problems of all formats.
    """
    problems: list[Problem] = []
    found: dict[str, Format] = {}
    for path in _format_paths(place):
        one, wrong = open_format(path, known)
        problems += wrong
        if one and one.id in found:
            expected = f"an id of its own: {found[one.id].file} has it as well"
            problems.append(Problem(str(path), 1, "id", repr(one.id), expected))
        elif one:
            found[one.id] = one
    if problems:
        raise InputError(problems)
    return tuple(found[id_] for id_ in sorted(found))


def open_format(path: Path, known: Catalogue) -> tuple[Format | None, tuple[Problem, ...]]:
    """Returns the format in a file, None where nothing can be read by it, and its problems.

    One whose samples alone are wrong can be tried on a text.
    """
    problems: list[Problem] = []
    entry = read_entry(path, "formats", str(path), problems)
    if entry is None:
        return None, tuple(problems)
    assert isinstance(entry.value, Format)
    kinds = sorted({one.kind for one in known.formats.values()} - {""})
    if entry.value.kind and entry.value.kind not in kinds:
        expected = f"none, or one of {', '.join(kinds)}"
        problems.append(entry.document.problem(("kind",), repr(entry.value.kind), expected))
    problems += [*find_pattern_problems(entry), *find_signal_problems(entry, known.signals)]
    if problems:
        return None, tuple(problems)
    return entry.value, tuple(compare_samples(entry, known.signals))


def _format_paths(place: Path) -> list[Path]:
    """Returns the files of formats in a folder, sorted.

    Raises:
        InputError: there are none, or too many.
    """
    expected = f"a folder with files ending in {ENDINGS[0]}, or such a file"
    try:
        if not place.is_dir():
            return [place]
        listed = list(islice(place.iterdir(), MAX_LISTED + 1))
        found = [path for path in listed if path.suffix in ENDINGS and path.name[0] != "." and path.is_file()]
    except OSError as error:
        raise InputError([Problem(str(place), 0, "", str(error.strerror), expected, HINT)]) from None
    if len(listed) > MAX_LISTED:
        raise InputError([Problem(str(place), 0, "", f"more than {MAX_LISTED} files", f"at most {MAX_LISTED}")])
    if len(found) > MAX_FORMATS:
        raise InputError([Problem(str(place), 0, "", f"{len(found)} formats", f"at most {MAX_FORMATS}")])
    if not found:
        raise InputError([Problem(str(place), 0, "", "no format", expected, HINT)])
    if (total := sum(path.stat().st_size for path in found)) > MAX_TOTAL:
        raise InputError([Problem(str(place), 0, "", f"{total} bytes of formats", f"at most {MAX_TOTAL}")])
    return sorted(found)
