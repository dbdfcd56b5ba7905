r"""Inputs of kind `influx-lines`: line protocol of InfluxDB, as Telegraf's `outputs.file` writes it.

`measurement,tag=text,... field=1i,other=2.5,text="x" 1795341600000000000`: each field that is a number is a metric,
named after measurement and field, and tags are its labels. Blanks, commas and equals signs of names are written with a
backslash.
"""

import re
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import BinaryIO, NamedTuple, TypeVar

import numpy as np

from skewscope.adapters.formats.bounds import SAMPLES, SERIES
from skewscope.adapters.formats.log_lines import decode_head, read_block_lines
from skewscope.adapters.inputs.file_origin import OWN_TIME, join_notes, own_time
from skewscope.adapters.inputs.labelled import LabelledSeries, artefact_reader
from skewscope.adapters.mapping.names import ethtool_metric
from skewscope.engine.model.arrays import F64
from skewscope.kb.problems import InputError, Problem

ESCAPED = r"(?:[^\s,=\\]++|\\.)"
KEY = re.compile(r"((?:[^\s\\]++|\\.)++) +")
MEASUREMENT = re.compile(r"(?:[^\s,=\\#]|\\.)(?:[^\s,=\\]|\\.)*")
TAG = re.compile(rf",({ESCAPED}++)=({ESCAPED}*+)")
FIELD = re.compile(rf'({ESCAPED}++)=(?:"((?:[^"\\]++|\\.)*+)"|([^\s,"]++))(,|(?=\s|$))')
NUMBER = re.compile(r"([+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)[iu]?")
TIME = re.compile(r"\s+(\d{1,19})\s*")
BACKSLASH = re.compile(r"\\([,= \\])")
TRUTHS = {
    **dict.fromkeys(("t", "T", "true", "True", "TRUE"), 1.0),
    **dict.fromkeys(("f", "F", "false", "False", "FALSE"), 0.0),
}
PER_SECOND = ((1e11, 1.0), (1e14, 1e3), (1e17, 1e6), (1e20, 1e9))
"""By the size of a time: how many of its units a second has. Seconds reach 1e11 in the year 5138."""
GPU_TAGS = {"nvidia_smi": "index", "amd_rocm_smi": "name"}
"""By measurement: the tag that says which GPU it is."""
IDLE, BUSY = "cpu_usage_idle", "skewscope_host_cpu_util"
"""Share of time that is idle, in percent, and the metric of the rest."""
ALL_CORES = "cpu-total"
PLAIN_FIELDS = ("gauge", "counter", "value", "untyped")
"""Fields of a measurement that is itself named as the metric."""
EXPECTED = "`measurement,tag=text field=1 1795341600000000000`"
MAX_SHOWN = 60
MAX_DAMAGED = 0.01
"""Share of lines that are left out with a note; with more, the file is no line protocol."""


Number = TypeVar("Number", float, F64)


class SeriesName(NamedTuple):
    """What a line measures."""

    measurement: str
    tags: Mapping[str, str]


class Point(NamedTuple):
    """One line."""

    key: str
    """The text of measurement and tags."""
    fields: dict[str, float]
    """Those that are numbers."""
    time: float | None
    """Seconds since 1970; None where the line has none."""


def parse_name(key: str) -> SeriesName | None:
    """Returns the measurement and the tags of a key; None where it is none."""
    match = MEASUREMENT.match(key)
    if match is None:
        return None
    tags, at = {}, match.end()
    while tag := TAG.match(key, at):
        tags[unescape(tag[1])] = unescape(tag[2])
        at = tag.end()
    return SeriesName(unescape(match[0]), tags) if at == len(key) else None


def parse_point(text: str) -> Point | None:
    """Returns the point of a line, whose key is not checked; None where it is none."""
    match = KEY.match(text)
    if match is None:
        return None
    fields, at = _parse_fields(text, match.end())
    rest = text[at:]
    time = TIME.fullmatch(rest)
    if fields is None or (rest.strip() and time is None):
        return None
    return Point(match[1], fields, _to_seconds(int(time[1])) if time else None)


def _parse_fields(text: str, at: int) -> tuple[dict[str, float] | None, int]:
    """Returns the fields that are numbers from a place on, None where there are no fields, and the place after them."""
    fields: dict[str, float] = {}
    while match := FIELD.match(text, at):
        at = match.end()
        if (value := match[3]) is not None:
            number = NUMBER.fullmatch(value)
            if number is None and value not in TRUTHS:
                return None, at
            fields[unescape(match[1])] = float(number[1]) if number else TRUTHS[value]
        if not match[4]:
            return fields, at
    return None, at


def _to_seconds(time: int) -> float:
    return next(time / units for limit, units in PER_SECOND if time < limit)


def unescape(text: str) -> str:
    """Returns a name without the backslashes before its signs."""
    return BACKSLASH.sub(r"\1", text) if "\\" in text else text


def map_field(name: SeriesName, field_name: str, *, is_histogram: bool) -> tuple[str, dict[str, str]]:
    """Returns metric and labels of a field, as exporters and the catalogue call them; no metric for one without use."""
    labels = _to_labels(name)
    if is_histogram and (field_name == "+Inf" or NUMBER.fullmatch(field_name)):
        return f"{name.measurement}_bucket", {**labels, "le": field_name}
    if name.measurement == "ethtool":
        return ethtool_metric(field_name), labels
    if name.measurement == "prometheus":
        return field_name, labels
    if field_name in PLAIN_FIELDS:
        return name.measurement, labels
    metric = f"{name.measurement}_{field_name}"
    if metric != IDLE:
        return metric, labels
    return (BUSY, labels) if labels.pop("cpu", ALL_CORES) == ALL_CORES else ("", {})


def convert_value(metric: str, value: Number) -> Number:
    """Returns a value, or values, of a field in the unit of the metric that `map_field` gives it."""
    return 1 - value / 100 if metric == BUSY else value


def _to_labels(name: SeriesName) -> dict[str, str]:
    """Returns the tags as labels: the GPU by its usual name, the scraped address in place of Telegraf's own host."""
    labels = dict(name.tags)
    if tag := GPU_TAGS.get(name.measurement, ""):
        labels["gpu"] = labels.pop(tag, "").removeprefix("card")
        labels.pop("name", "")
    if address := labels.pop("url", "").rpartition("//")[2].partition("/")[0]:
        labels.pop("host", "")
        labels.setdefault("instance", address)
    return labels


def recognise(head: bytes, _name: str) -> bool:
    """Returns whether the first lines of a file are line protocol with tags or times."""
    lines = [line for line in decode_head(head)[:5] if line and not line.startswith("#")]
    return bool(lines) and all(map(_is_clear, lines[:-1] or lines))


def _is_clear(line: str) -> bool:
    point = parse_point(line)
    name = parse_name(point.key) if point else None
    return bool(point and name and point.fields and (point.time or name.tags))


def read_series(file: BinaryIO, name: str, _labels: Mapping[str, str]) -> list[LabelledSeries]:
    """Returns the series of all fields that are numbers.

    Raises:
        InputError: it is no line protocol.
    """
    reader = PointReader(name)
    for number, text in read_block_lines(file, name):
        if text and not text.startswith("#"):
            reader.read_line(number, text)
    return reader.series()


@dataclass
class PointReader:
    """Reads the lines of one file."""

    file: str
    points: int = 0
    untimed: int = 0
    damaged: list[tuple[int, str]] = field(default_factory=list)
    """Line and text of each line that is no point."""
    last_line: int = 0
    _names: dict[str, SeriesName | None] = field(default_factory=dict)
    _samples: "dict[tuple[str, str], tuple[array[float], array[float]]]" = field(default_factory=dict)
    """Times and values, by key and field."""
    _count: int = 0

    def __post_init__(self) -> None:
        self._own_time = own_time(self.file)
        self._most = SAMPLES.limit()

    def read_line(self, number: int, text: str) -> None:
        """Adds the samples of a line.

        Raises:
            InputError: there are too many.
        """
        self.last_line = number
        point = parse_point(text)
        if point is None or not self._is_named(point.key):
            self.damaged.append((number, text[:MAX_SHOWN]))
            return
        self._add(point)

    def read_point(self, number: int, name: SeriesName, fields: dict[str, float], time: float | None) -> None:
        """Adds the samples of a point that is written otherwise; `time` is in seconds since 1970, None for none.

        Raises:
            InputError: there are too many.
        """
        self.last_line = number
        key = repr((name.measurement, sorted(name.tags.items())))
        self._names.setdefault(key, name)
        SERIES.check(self.file, len(self._names), "Split it.")
        self._add(Point(key, fields, time))

    def _add(self, point: Point) -> None:
        self.points += 1
        self.untimed += point.time is None
        time = self._own_time if point.time is None else point.time
        self._count += len(point.fields)
        if self._count > self._most:
            raise InputError([SAMPLES.problem(self.file, hint="Split it.")])
        for name, value in point.fields.items():
            samples = self._samples.get((point.key, name))
            if samples is None:
                samples = self._samples[point.key, name] = array("d"), array("d")
            samples[0].append(time)
            samples[1].append(value)

    def _is_named(self, key: str) -> bool:
        if key not in self._names:
            SERIES.check(self.file, len(self._names) + 1, "Split it.")
            self._names[key] = parse_name(key)
        return self._names[key] is not None

    def series(self) -> list[LabelledSeries]:
        """Returns all series.

        Raises:
            InputError: there are none, or too many lines are no points.
        """
        cut = self.damaged.pop() if self.damaged and self.damaged[-1][0] == self.last_line else None
        if not self.points or len(self.damaged) > MAX_DAMAGED * self.points:
            line, text = next(iter(self.damaged), cut or (0, "no line"))
            raise InputError([Problem(self.file, line, "", f"{text!r}", EXPECTED)])
        many = (
            f"{len(self.damaged)} damaged lines are left out, first line {self.damaged[0][0]}" if self.damaged else ""
        )
        note = join_notes(
            f"ends inside a line ({cut[0]}), which is left out" if cut else "",
            many,
            f"{self.untimed} lines have no time: that of the file is taken" if 0 < self.untimed < self.points else "",
            OWN_TIME if self.untimed == self.points else "",
        )
        series = list(self._list_series(note))
        if not series:
            raise InputError([Problem(self.file, self.last_line, "", "no field that is a number", EXPECTED)])
        return series

    def _list_series(self, note: str) -> Iterator[LabelledSeries]:
        for (key, field_name), (times, values) in self._samples.items():
            name = self._names[key]
            assert name is not None
            is_histogram = (key, "sum") in self._samples and (key, "count") in self._samples
            metric, labels = map_field(name, field_name, is_histogram=is_histogram)
            if metric:
                time, value = np.array(times, np.float64), np.array(values, np.float64)
                order = np.argsort(time, kind="stable")
                own = tuple(sorted((label, text) for label, text in labels.items() if text))
                yield LabelledSeries(metric, own, time[order], convert_value(metric, value[order]), note)


READER = artefact_reader(
    "Influx line protocol, as Telegraf writes it",
    read_series,
    recognise,
    has_metrics=True,
)
