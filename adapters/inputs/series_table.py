"""Inputs of kind `series-table`: CSV in which people export charts: of Grafana, Weights & Biases and MLflow.

A column is a series whose header is a legend or the name of a run and of a metric, or a row is a sample of a series
that it names. The title of a panel in the name of the file says what plain legends are of.
"""

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import BinaryIO, NamedTuple

import numpy as np

from skewscope.adapters.formats.bounds import SAMPLES, SERIES
from skewscope.adapters.formats.log_lines import is_binary
from skewscope.adapters.inputs import training_table
from skewscope.adapters.inputs.cell_values import find_separator, split_cells, to_number, to_time
from skewscope.adapters.inputs.file_origin import own_time
from skewscope.adapters.inputs.labelled import LabelledSeries, artefact_reader
from skewscope.adapters.inputs.series_names import (
    LEGEND,
    NamedSeries,
    SeriesContext,
    find_parts,
    find_titled_signal,
    is_known_metric,
    name_series,
    seconds_per_step,
    to_series,
)
from skewscope.adapters.inputs.table_layout import LABEL_COLUMNS, is_time_name
from skewscope.adapters.inputs.training_steps import find_job
from skewscope.adapters.mapping.column_names import find_signal_at_end, is_epoch
from skewscope.adapters.mapping.number_words import find_number
from skewscope.engine.model.arrays import F64
from skewscope.kb.problems import InputError, Problem

MAX_HEADER = 1 << 18
MAX_COLUMNS = 4096
SEPARATOR_LINE = re.compile(r'"?sep=(.)"?\s*')
"""First line of what Grafana exports for Excel."""
TIME_COLUMNS = (
    "time",
    "timestamp",
    "_timestamp",
    "wall time",
    "wall_time",
    "relative time (wall)",
    "relative time (process)",
    "datetime",
    "date",
)
STEP_COLUMNS = ("step", "_step", "global_step", "trainer/global_step")
NAME_COLUMNS = ("series", "key", "metric", "metric name", "metric_key", "tag")
VALUE_COLUMNS = ("value", "metric value")
RUN_COLUMNS = ("run", "run name", "run_name", "run_id", "run id")
EXTREMES = ("__MIN", "__MAX")
"""Ends of the names of columns with the least and the largest of several values."""
TITLE = re.compile(
    r"(?:.*[/\\])?(?P<title>.+?)-data-[^/\\]*\d{4}-\d\d-\d\d[^/\\]*|.*-tag-(?P<tag>[^/\\]+?)(?:\.csv.*)?"
)
"""Names of files that Grafana and TensorBoard give to what they export."""
VALUE = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*([^\d\s]{0,12})")
SUFFIXES = {
    "": 1.0,
    "%": 1.0,
    "°C": 1.0,
    "W": 1.0,
    "K": 1e3,
    "Mil": 1e6,
    "Bil": 1e9,
    "s": 1.0,
    "ms": 1e-3,
    "µs": 1e-6,
    "min": 60.0,
}
"""Units of values that a panel formats, and what they stand for."""
UNITS_OF = {"%": "%", "s": "s", "ms": "s", "µs": "s", "min": "s", "W": "W", "°C": "Cel"}
"""Units of what they stand for."""
EXPECTED = "a column of times, and columns whose headers are legends, or rows with the name of a series and a value"
HINT = "Export with the legend {{__name__}}{{instance}} (Grafana), or `Wall Time` as the x axis (Weights & Biases)."


class TableForm(NamedTuple):
    """Which column of a table is what; -1 for none."""

    time: int
    step: int
    series: int
    """Of names, where a row is a sample of one series."""
    value: int
    run: int


def find_title(file: str) -> str:
    """Returns the title of a panel, or the tag, in the name that a tool gave to its export; '' for none."""
    match = TITLE.fullmatch(file)
    if match is None:
        return ""
    # TensorBoard writes the parts of a tag with the same sign as its words.
    end = find_signal_at_end(match["tag"].replace("_", "/")) if match["tag"] else None
    title = match["tag"][len(end.begin) :] if match["tag"] and end else match["title"] or match["tag"] or ""
    return title.replace("_", " ").strip()


def find_form(names: Sequence[str]) -> TableForm:
    """Returns which column of a header is what."""
    lower = [name.lower() for name in names]

    def first(words: Sequence[str]) -> int:
        return next((lower.index(word) for word in words if word in lower), -1)

    value = first(VALUE_COLUMNS)
    series = first(NAME_COLUMNS) if value >= 0 else -1
    return TableForm(first(TIME_COLUMNS), first(STEP_COLUMNS), series, value if series >= 0 else -1, first(RUN_COLUMNS))


def recognise(head: bytes, name: str) -> bool:
    """Returns whether the header of a table is one of an exported chart."""
    if is_binary(head) or training_table.recognise(head, name):
        return False
    first, _, rest = head[:MAX_HEADER].decode("utf-8-sig", "replace").partition("\n")
    is_for_excel = SEPARATOR_LINE.fullmatch(first.rstrip("\r"))
    line = rest.partition("\n")[0] if is_for_excel else first
    names = split_cells(line, is_for_excel[1] if is_for_excel else find_separator(line))
    form = find_form(names)
    # An epoch beside a step is that of a training.
    has_time = any(is_time_name(each) and not is_epoch(each) for each in names)
    if form.time < 0 and (form.step < 0 or has_time):
        return False
    others = [each for place, each in enumerate(names) if place not in (form.time, form.step)]
    if form.time < 0:
        return form.series < 0 and any(each.endswith(EXTREMES) or _find_signal(each) for each in others)
    if not others:
        return False
    return bool(is_for_excel) or _is_chart(names, others, form) or _is_titled(others, name)


def _is_chart(names: Sequence[str], others: Sequence[str], form: TableForm) -> bool:
    is_long = form.series >= 0 and (form.run >= 0 or names[form.series].lower() == "series")
    is_legend = any(LEGEND.fullmatch(each) for each in others)
    is_run = any(each.endswith(EXTREMES) or (" - " in each and _find_signal(each)) for each in others)
    is_history = "_timestamp" in names and not any(each in LABEL_COLUMNS for each in others)
    is_placed = all(find_parts(each) or each.endswith(EXTREMES) for each in others)
    return is_long or is_legend or is_run or is_history or is_placed


def _find_signal(name: str) -> str:
    """Returns the signal that the name of a column means, behind that of a run; '' for none."""
    run, _, own = name.rpartition(" - ")
    return find_titled_signal(own) if run or own else ""


def _is_titled(others: Sequence[str], file: str) -> bool:
    """Returns whether the name of the file says what plain legends are of."""
    plain = not any(is_known_metric(each) or find_titled_signal(each) or each in LABEL_COLUMNS for each in others)
    title = find_title(file)
    return plain and bool(find_titled_signal(title) or find_number(title))


@dataclass
class _ChartReader:
    """Collects the samples of a table by the names of its series."""

    file: str
    names: Sequence[str]
    form: TableForm
    samples: dict[tuple[str, str], tuple[list[float], list[float], list[float]]] = field(default_factory=dict)
    """Times, steps and values by run and name."""
    units: dict[tuple[str, str], str] = field(default_factory=dict)
    """The unit of each series whose values are written with it."""
    left_out: int = 0
    """Rows without a time."""
    _count: int = 0

    def add(self, cells: Sequence[str]) -> None:
        """Adds a row.

        Raises:
            InputError: there are too many samples or series.
        """
        form = self.form
        step = to_number(cells[form.step]) if form.step >= 0 else None
        # Without times the number of the step stands for them until all rows are read.
        time = to_time(cells[form.time]) if form.time >= 0 else step
        if time is None:
            self.left_out += 1
            return
        run = cells[form.run] if form.run >= 0 and form.series >= 0 else ""
        pairs = (
            [(cells[form.series], cells[form.value])]
            if form.series >= 0
            else [(name, cells[place]) for place, name in self._columns()]
        )
        for name, text in pairs:
            value = read_value(text)
            if value is None:
                continue
            if (unit := find_value_unit(text)) and (run, name) not in self.units:
                self.units[run, name] = unit
            self._count += 1
            if self._count % 1000 == 0:
                SAMPLES.check(self.file, self._count, "Export less.")
            if (run, name) not in self.samples:
                SERIES.check(self.file, len(self.samples) + 1, "Export less.")
                self.samples[run, name] = ([], [], [])
            for held, number in zip(self.samples[run, name], (time, step or 0.0, value), strict=True):
                held.append(number)

    def _columns(self) -> Iterator[tuple[int, str]]:
        taken = {self.form.time, self.form.step, self.form.run}
        for place, name in enumerate(self.names):
            if place not in taken and name and not name.endswith(EXTREMES):
                yield place, name


def read_value(text: str) -> float | None:
    """Returns the number of a cell, also one with a unit behind it; None for anything else."""
    match = VALUE.fullmatch(text.strip())
    factor = SUFFIXES.get(match[2].strip()) if match else None
    return float(match[1]) * factor if match and factor is not None else None


def find_value_unit(text: str) -> str:
    """Returns the unit in which `read_value` gives the number of a cell, where the cell says it; '' for none."""
    match = VALUE.fullmatch(text.strip())
    return UNITS_OF.get(match[2].strip(), "") if match else ""


def read_series(file: BinaryIO, name: str, labels: Mapping[str, str]) -> list[LabelledSeries]:
    """Returns the series of a table.

    Raises:
        InputError: it has a column of neither times nor steps, or is damaged.
    """
    text = io.TextIOWrapper(file, "utf-8-sig", "replace", newline="")
    line = text.readline(MAX_HEADER)
    mark = SEPARATOR_LINE.fullmatch(line)
    line = text.readline(MAX_HEADER) if mark else line
    separator = mark[1] if mark else find_separator(line)
    names = split_cells(line, separator)
    form = find_form(names)
    if (form.time < 0 and form.step < 0) or len(names) > MAX_COLUMNS:
        text.detach()
        what = f"the columns {', '.join(names)[:200]}" if names else "an empty file"
        raise InputError([Problem(name, 1, "", what, EXPECTED, HINT)])
    reader = _ChartReader(name, names, form)
    try:
        for cells in csv.reader(text, delimiter=separator):
            if len(cells) == len(names):
                reader.add(cells)
    except csv.Error as error:
        raise InputError([Problem(name, 0, "", f"no readable table ({error!s:.100})", EXPECTED)]) from None
    finally:
        text.detach()
    return _list_named(reader, labels)


def _list_named(reader: _ChartReader, labels: Mapping[str, str]) -> list[LabelledSeries]:
    """Returns the series of what was collected.

    Raises:
        InputError: there are none.
    """
    title = find_title(reader.file)
    pairs: list[tuple[NamedSeries, F64, F64]] = []
    clock, note = _StepClock.of(reader) if reader.form.time < 0 else (None, "")
    for (run, name), columns in reader.samples.items():
        times, steps, values = (np.array(each, np.float64) for each in columns)
        times = clock.place(run, name, steps) if clock else times
        order = np.argsort(times, kind="stable")
        unit = reader.units.get((run, name), "")
        context = SeriesContext(title, seconds_per_step(times[order], steps[order]), unit)
        named = name_series(f"{run} - {name}" if run else name, values, context)
        if named.metric.startswith("skewscope_step_") and "group" not in named.labels:
            named = replace(named, labels={"group": labels.get("group") or find_job(labels, reader.file)})
        pairs.append((named, times[order], values[order]))
    if not pairs:
        raise InputError([Problem(reader.file, 0, "", "no sample", EXPECTED, HINT)])
    return to_series(pairs, f"{reader.left_out} rows without a time are left out" if reader.left_out else "", note)


@dataclass(frozen=True, slots=True)
class _StepClock:
    """When the steps of the runs of a table without times were, as far as it says how long they took."""

    end: float
    """Seconds since 1970 of the last step: when the file was written."""
    known: Mapping[str, tuple[F64, F64]]
    """By run: numbers of steps that grow, and the seconds from the first one to each."""

    @classmethod
    def of(cls, reader: _ChartReader) -> "tuple[_StepClock, str]":
        """Returns the times of all steps, and what is assumed of them."""
        known: dict[str, tuple[F64, F64]] = {}
        for (run, name), (_, steps, values) in reader.samples.items():
            if _find_signal(name) != "step.duration":
                continue
            named = name_series(name, np.array(values), SeriesContext())
            order = np.argsort(steps, kind="stable")
            numbers, seconds = np.array(steps)[order], np.array(values)[order] * named.scale
            known.setdefault(_run_of(run, name), (numbers, np.cumsum(np.diff(numbers, prepend=numbers[0]) * seconds)))
        what = (
            "its times follow from those of its steps" if known else "a step is taken as a second: its pace is unknown"
        )
        return cls(
            own_time(reader.file), known
        ), f"it has steps and no times: {what}; the last one was when the file was written"

    def place(self, run: str, name: str, steps: F64) -> F64:
        """Returns the times of steps of a run, seconds since 1970."""
        numbers, seconds = self.known.get(_run_of(run, name), (steps, steps))
        order = np.argsort(numbers, kind="stable")
        since: F64 = np.interp(steps, numbers[order], seconds[order])
        times: F64 = np.maximum(self.end - seconds.max(initial=0.0) + since, 0.0)
        return times


def _run_of(run: str, name: str) -> str:
    return run or name.rpartition(" - ")[0]


READER = artefact_reader(
    "CSV of a chart, as Grafana, Weights & Biases and MLflow export it",
    read_series,
    recognise,
    has_metrics=True,
)
