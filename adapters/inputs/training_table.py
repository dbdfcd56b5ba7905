"""Inputs of kind `training-table`: a table with a row for a step of a training job, whose columns are no known metrics.

The pace follows from what the row says of it: a rate (`tokens_per_sec`, `it/s`, `mfu`), or the time of the row beside
that of the row before. Rows are those of CSV, or objects of JSON in a line each; MLflow stores each metric in a file of
lines with a time, a value and a step.
"""

import csv
import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import BinaryIO

from skewscope.adapters.formats.bounds import LINES
from skewscope.adapters.formats.log_lines import decode_head
from skewscope.adapters.inputs.cell_values import find_separator, split_cells, to_number, to_time
from skewscope.adapters.inputs.labelled import LabelledSeries, SeriesCollector, artefact_reader
from skewscope.adapters.inputs.request_table import is_request_header
from skewscope.adapters.inputs.series_names import find_titled_signal, is_known_metric
from skewscope.adapters.inputs.table_layout import LABEL_COLUMNS, is_time_name
from skewscope.adapters.inputs.training_steps import LogLine, StepReader, find_job
from skewscope.adapters.mapping.column_names import find_label, find_pace, is_elapsed, is_epoch, split_name
from skewscope.adapters.mapping.scales import UNITS
from skewscope.kb.problems import InputError, Problem

STEP_NAMES = frozenset(
    (
        *("step", "_step", "global_step", "global step", "trainer/global_step", "train_step", "train/step"),
        *("iteration", "iter", "iterations", "train/iteration", "train/global_step", "update", "updates"),
    )
)
SAMPLE_RATE, ALLOC_RETRIES = "step.sample_rate", "step.alloc_retries"
OWN_TIMES = frozenset((frozenset(("dt",)), frozenset(("duration",)), frozenset(("delta", "time"))))
"""Words of the time that a step took, in a table of steps."""
STORED = re.compile(r"\d{13} [-+\d.eEnaif]{1,32} \d{1,12}")
"""A line of a metric as MLflow stores it: milliseconds since 1970, value, step."""
STORED_COLUMNS = ("timestamp", "", "step")
MAX_HEADER = 1 << 16
MAX_COLUMNS = 512
MAX_RECORD = 1 << 16
LINES_LOOKED_AT = 20
EXPECTED = "a column of steps, and a column of times or of a pace, such as tokens_per_sec"


@dataclass(frozen=True, slots=True)
class TrainingColumns:
    """Which columns of a table of steps are what; -1 for none."""

    step: int
    time: int
    elapsed: int
    pace: int
    duration: int
    """What a step took."""
    is_steps_pace: bool
    """Whether the pace counts steps, so that a step took its reciprocal."""
    duration_scale: float = 1.0
    """Factor from what a step took to seconds."""
    retries: int = -1
    """Allocations of memory that were tried again since the begin."""

    def settle(self, rows: Sequence[Sequence[object]]) -> "TrainingColumns":
        """Returns the columns by the cells of some rows: a time that does not grow is what each step took."""
        for place in (self.time, self.elapsed):
            numbers = [number for row in rows if place >= 0 and (number := to_number(row[place])) is not None]
            if numbers != sorted(numbers):
                return replace(self, time=-1, elapsed=-1, duration=place)
        return self


def find_columns(names: Sequence[str]) -> TrainingColumns | None:
    """Returns which column is what; None where the table is not one of steps, or its names say what its columns are."""
    step = next((place for place, name in enumerate(names) if name.strip().lower() in STEP_NAMES), -1)
    others = [(place, name.strip()) for place, name in enumerate(names) if place != step]
    if step < 0 or not others or any(_is_read_by_name(name) for _, name in others) or is_request_header(list(names)):
        return None
    time = next((place for place, name in others if is_time_name(name) and not is_epoch(name)), -1)
    elapsed = next((place for place, name in others if is_elapsed(name)), -1)
    paces = sorted((rank, place) for place, name in others if (rank := _rank_pace(name)) is not None)
    pace = paces[0][1] if paces else -1
    is_steps = bool(paces) and split_name(_own_name(names[pace])).words <= {"step", "it", "batches", "batch"}
    durations = (place for place, name in others if split_name(name).words in OWN_TIMES and not is_elapsed(name))
    duration = next(durations, -1)
    scale = UNITS[split_name(names[duration]).unit or "s"][1] if duration >= 0 else 1.0
    retries = next((place for place, name in others if find_titled_signal(_last_part(name)) == ALLOC_RETRIES), -1)
    found = TrainingColumns(step, time, elapsed, pace, duration, is_steps, scale, retries)
    return found if max(time, elapsed, pace, duration) >= 0 else None


def _is_read_by_name(name: str) -> bool:
    signal = find_titled_signal(name)
    is_placed = name in LABEL_COLUMNS or bool(find_label(split_name(name)))
    return is_placed or is_known_metric(name) or signal not in ("", SAMPLE_RATE, ALLOC_RETRIES)


def _rank_pace(name: str) -> int | None:
    """Returns how much a pace says of the time of a step, less for more; None where the column is none."""
    if find_titled_signal(name) == SAMPLE_RATE:
        return 1
    return find_pace(_own_name(name))


def _last_part(name: str) -> str:
    return name.rpartition(" - ")[2].rpartition("/")[2]


def _own_name(name: str) -> str:
    """Returns the name of a metric without those of the run and of the parts that hold it, such as `train/device/`."""
    own = name.rpartition(" - ")[2]
    parts = own.split("/")
    # A unit may have the sign that divides parts.
    starts = (n for n in range(len(parts) - 1, 0, -1) if find_pace("/".join(parts[n:])) is not None)
    start = next(starts, 0)
    return "/".join(parts[start:])


def recognise(head: bytes, _name: str) -> bool:
    """Returns whether the first bytes of a file are of a table of steps."""
    lines = [line for line in decode_head(head[:MAX_HEADER])[:LINES_LOOKED_AT] if line.strip()]
    if len(lines) < 2:
        return False
    # The last line of a head may be cut.
    whole = lines[:-1] if 2 < len(lines) < LINES_LOOKED_AT and len(head) >= MAX_HEADER else lines
    if all(map(STORED.fullmatch, whole)):
        return True
    if lines[0].startswith("{"):
        records = [_read_record(line) for line in whole]
        names = _list_names(records)
        columns = find_columns(names) if all(records) else None
        return columns is not None and _grows([(one or {}).get(names[columns.step]) for one in records])
    separator = find_separator(lines[0])
    names = split_cells(lines[0], separator)
    columns = find_columns(names) if len(names) == len(set(names)) <= MAX_COLUMNS else None
    if columns is None:
        return False
    rows = [split_cells(line, separator) for line in whole[1:]]
    return all(len(row) == len(names) for row in rows) and _grows([row[columns.step] for row in rows])


def _grows(cells: Sequence[object]) -> bool:
    """Returns whether steps are numbers that grow; a row may be of no step."""
    filled = [cell for cell in cells if cell not in ("", None)]
    numbers = [number for cell in filled if (number := to_number(cell)) is not None]
    return (
        len(numbers) == len(filled) > 0
        and numbers == sorted(numbers)
        and (numbers[0] < numbers[-1] or len(filled) == 1)
    )


def _read_record(line: str) -> dict[str, object] | None:
    """Returns an object of JSON of plain values; None for anything else."""
    if not line.startswith("{") or len(line) > MAX_RECORD:
        return None
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def _list_names(records: Sequence[Mapping[str, object] | None]) -> list[str]:
    return list(dict.fromkeys(chain.from_iterable(one or () for one in records)))[:MAX_COLUMNS]


def read_series(file: BinaryIO, name: str, labels: Mapping[str, str]) -> list[LabelledSeries]:
    """Returns the steps of the job of a table.

    Raises:
        InputError: it has no such columns, or no two steps.
    """
    text = io.TextIOWrapper(file, "utf-8-sig", "replace", newline="")
    try:
        names, rows = _open_rows(text, name)
        columns = find_columns(names)
        if columns is None and names != list(STORED_COLUMNS):
            shown = f"the columns {', '.join(names)[:200]}" if names else "an empty file"
            raise InputError([Problem(name, 1, "", shown, EXPECTED)])
        columns = columns or TrainingColumns(2, 0, -1, -1, -1, is_steps_pace=False)
        steps = StepReader(SeriesCollector(name), labels.get("group") or find_job(labels, name))
        first = [*islice(rows, LINES_LOOKED_AT)]
        _read_rows(chain(first, rows), columns.settle([row for _, row in first]), steps)
    except csv.Error as error:
        raise InputError([Problem(name, 0, "", f"no readable table ({error!s:.100})", EXPECTED)]) from None
    finally:
        text.detach()
    series = steps.list_series()
    if not series:
        raise InputError([Problem(name, 1, "", "no two steps with a time or a pace", EXPECTED)])
    return series


def _open_rows(text: io.TextIOWrapper, name: str) -> tuple[list[str], Iterator[tuple[int, Sequence[object]]]]:
    """Returns the names of the columns, and each row with its line."""
    first = text.readline(MAX_HEADER)
    if STORED.fullmatch(first.strip()):
        return list(STORED_COLUMNS), _bounded(chain([first.split()], map(str.split, text)), name)
    if first.startswith("{"):
        records = (one for line in chain([first], text) if (one := _read_record(line.strip())))
        head = [*islice(records, LINES_LOOKED_AT)]
        names = _list_names(head)
        return names, _bounded(([one.get(each) for each in names] for one in chain(head, records)), name)
    separator = find_separator(first)
    names = split_cells(first, separator)
    return names, _bounded((row for row in csv.reader(text, delimiter=separator) if len(row) == len(names)), name)


def _bounded(rows: Iterator[Sequence[object]], name: str) -> Iterator[tuple[int, Sequence[object]]]:
    most = LINES.limit()
    for number, row in enumerate(rows, 1):
        if number > most:
            raise InputError([LINES.problem(name)])
        yield number, row


def _read_rows(rows: Iterator[tuple[int, Sequence[object]]], columns: TrainingColumns, steps: StepReader) -> None:
    """Adds the steps of the rows; cells that are empty, as where a row has other metrics, say nothing."""
    for number, row in rows:
        if len(row) <= columns.step:
            continue
        step = to_number(row[columns.step])
        if step is not None:
            line = LogLine(number, "", _read_time(row, columns))
            _add_step(line, int(step), row, columns, steps)


def _add_step(line: LogLine, step: int, row: Sequence[object], columns: TrainingColumns, steps: StepReader) -> None:
    pace, seconds = _positive(row, columns.pace), _positive(row, columns.duration)
    seconds = seconds * columns.duration_scale if seconds else None
    if columns.is_steps_pace and pace:
        seconds, pace = seconds or 1.0 / pace, None
    if seconds:
        steps.add_step(line, step, seconds)
    elif line.time is not None:
        steps.add_progress(line, step)
    elif pace:
        steps.count_step(line, step)
    if pace:
        steps.add_rate(line, pace)
    retries = to_number(row[columns.retries]) if columns.retries >= 0 else None
    if retries is not None:
        steps.add_total(ALLOC_RETRIES, line, retries)


def _positive(row: Sequence[object], place: int) -> float | None:
    """Returns the number of a cell; None where it is none, or not above zero."""
    number = to_number(row[place]) if place >= 0 else None
    return number if number and number > 0 else None


def _read_time(row: Sequence[object], columns: TrainingColumns) -> float | None:
    """Returns the time of a row in seconds since 1970, or since the job began where it says only that."""
    if columns.time >= 0:
        return to_time(row[columns.time])
    return to_number(row[columns.elapsed]) if columns.elapsed >= 0 else None


READER = artefact_reader("table with a row for each step of a training job", read_series, recognise)
