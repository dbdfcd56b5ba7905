"""Years of logs whose times have none: by the times of other files beside them, else by when the file was written."""

import datetime as dt
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePath

from skewscope.adapters.discovery.draft import GUESS, Assumption
from skewscope.adapters.formats.compression import open_stream
from skewscope.adapters.formats.log_lines import decode_head
from skewscope.adapters.formats.log_times import DATED_NAME, find_stamp
from skewscope.adapters.inputs.recording import Input, Recording, reader_of
from skewscope.adapters.inputs.text_times import find_short_day, has_year
from skewscope.kb.problems import InputError

HEAD_BYTES = 1 << 16
MAX_FILES = 200
"""Other files that are looked at for a time."""
UNIX_TIME = re.compile(r"(?<![\w.])1\d{9}(?:\.\d+)?(?![\w.])")
MARGIN_S = 86_400.0
"""A file may have been written in another time zone than that of its lines."""


def find_years(recording: Recording) -> tuple[Recording, list[Assumption]]:
    """Returns the recording with a label `year` on each log that lacks one, and what was assumed.

    A log's year is the one in which its first line is nearest to the first time in the other inputs. Where none has
    times, it is the last year in which that line is not younger than the file.
    """
    found: list[Input] = []
    assumptions: list[Assumption] = []
    for source in recording.inputs:
        day = _yearless_day(source, recording)
        if day is None:
            found.append(source)
            continue
        year, basis = _choose_year(day, source, recording)
        found.append(replace(source, labels=tuple(sorted([*source.labels, ("year", str(year))]))))
        assumptions.append(Assumption(f"the year {year} of {source.path}", basis, GUESS))
    return replace(recording, inputs=tuple(found)), assumptions


def _yearless_day(source: Input, recording: Recording) -> tuple[int, int] | None:
    """Returns month and day of the first line of a log, where neither its lines, name nor labels say the year."""
    if not reader_of(source).is_yearless or dict(source.labels).get("year"):
        return None
    lines = _first_lines(source.path, recording)
    if DATED_NAME.search(PurePath(source.path).name) or any(map(has_year, lines)):
        return None
    return next(filter(None, map(find_short_day, lines)), None)


def _choose_year(day: tuple[int, int], source: Input, recording: Recording) -> tuple[int, str]:
    others = [each for each in recording.inputs if each != source][:MAX_FILES]
    for other in others:
        time = _first_time(other, recording)
        if time is not None:
            year = min(_years_around(time), key=lambda year: abs(_seconds(year, day) - time))
            return year, f"the times of {other.path}"
    written = recording.resolve_path(source.path).stat().st_mtime
    years = [year for year in _years_around(written) if _seconds(year, day) <= written + MARGIN_S]
    return max(years), "when the file was written"


def _years_around(time: float) -> Sequence[int]:
    year = dt.datetime.fromtimestamp(time, dt.UTC).year
    return (year - 1, year, year + 1)


def _seconds(year: int, day: tuple[int, int]) -> float:
    """Returns the time of a day, in seconds since 1970; a 29 February that a year lacks is its 28th."""
    month, number = day
    try:
        return dt.datetime(year, month, number, tzinfo=dt.UTC).timestamp()
    except ValueError:
        return dt.datetime(year, min(max(month, 1), 12), min(max(number, 1), 28), tzinfo=dt.UTC).timestamp()


def _first_time(source: Input, recording: Recording) -> float | None:
    """Returns the first time in the first bytes of an input, else that in the name of its first file."""
    paths = [f"{source.path}/{name}" for name in source.files[:1]] or [source.path]
    for line in _first_lines(paths[0], recording):
        if (stamp := find_stamp(line)) is not None:
            return stamp
        if match := UNIX_TIME.search(line):
            return float(match[0])
    match = UNIX_TIME.match(PurePath(paths[0]).stem)
    return float(match[0]) if match else None


def _first_lines(path: str, recording: Recording) -> list[str]:
    """Returns the first lines of a text file; none of another one, or one that cannot be read."""
    try:
        with open_stream(recording.resolve_path(path)) as stream:
            return decode_head(stream.read(HEAD_BYTES))
    except InputError:
        return []
