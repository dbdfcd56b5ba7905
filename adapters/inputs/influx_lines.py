r"""Inputs of kind `influx-lines`: line protocol of InfluxDB, as Telegraf's `outputs.file` writes it.

`measurement,tag=text,... field=1i,other=2.5,text="x" 1795341600000000000`: each field that is a number is a metric,
named after measurement and field, and tags are its labels. Blanks, commas and equals signs of names are written with a
backslash.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import BinaryIO, NamedTuple

from skewscope.adapters.formats.log_lines import decode_head, read_lines
from skewscope.adapters.inputs.file_origin import join_notes
from skewscope.adapters.inputs.labelled import LabelledSeries, SeriesCollector, read_artefact
from skewscope.adapters.inputs.recording import Input, Recording
from skewscope.adapters.inputs.text import OWN_TIME, own_time
from skewscope.adapters.mapping.names import MetricResolver, SeriesRegistry, ethtool_metric
from skewscope.engine.ingest.feed import Block
from skewscope.kb.problems import InputError, Problem

LABEL = "Influx line protocol, as Telegraf writes it"
ESCAPED = r"(?:[^\s,=\\]|\\.)"
MEASUREMENT = re.compile(r"(?:[^\s,=\\#]|\\.)(?:[^\s,=\\]|\\.)*")
TAG = re.compile(rf",({ESCAPED}+)=({ESCAPED}*)")
FIELD = re.compile(rf'({ESCAPED}+)=(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))(,|(?=\s|$))')
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
PLAIN_FIELDS = ("gauge", "counter", "value", "untyped")
"""Fields of a measurement that is itself named as the metric."""
EXPECTED = "`measurement,tag=text field=1 1795341600000000000`"
MAX_DAMAGED = 0.01
"""Share of lines that are left out with a note; with more, the file is no line protocol."""


class Point(NamedTuple):
    """One line: a measurement with its tags and the fields that are numbers."""

    measurement: str
    tags: dict[str, str]
    fields: dict[str, float]
    time: float | None
    """Seconds since 1970; None where the line has none."""


def parse_point(text: str) -> Point | None:
    """Returns the point of a line; None where it is none."""
    match = MEASUREMENT.match(text)
    if match is None:
        return None
    tags, at = {}, match.end()
    while tag := TAG.match(text, at):
        tags[unescape(tag[1])] = unescape(tag[2])
        at = tag.end()
    if text[at : at + 1] != " ":
        return None
    fields, at = _parse_fields(text, at + len(text[at:]) - len(text[at:].lstrip(" ")))
    rest = text[at:]
    time = TIME.fullmatch(rest)
    if fields is None or (rest.strip() and time is None):
        return None
    return Point(unescape(match[0]), tags, fields, _to_seconds(int(time[1])) if time else None)


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


def list_metrics(point: Point) -> Iterator[tuple[str, dict[str, str], float]]:
    """Yields name, labels and value of each metric of a point, as exporters and the catalogue call them."""
    labels = _to_labels(point)
    is_histogram = {"sum", "count"} <= point.fields.keys()
    for name, value in point.fields.items():
        if is_histogram and (name == "+Inf" or NUMBER.fullmatch(name)):
            yield f"{point.measurement}_bucket", {**labels, "le": name}, value
            continue
        metric = f"{point.measurement}_{name}"
        if point.measurement == "ethtool":
            metric = ethtool_metric(name)
        elif point.measurement == "prometheus":
            metric = name
        elif name in PLAIN_FIELDS:
            metric = point.measurement
        if metric != IDLE:
            yield metric, labels, value
        elif labels.get("cpu", "cpu-total") == "cpu-total":
            yield BUSY, {label: text for label, text in labels.items() if label != "cpu"}, 1 - value / 100


def _to_labels(point: Point) -> dict[str, str]:
    """Returns the tags as labels: the GPU by its usual name, the scraped address in place of Telegraf's own host."""
    labels = dict(point.tags)
    if tag := GPU_TAGS.get(point.measurement, ""):
        labels["gpu"] = labels.pop(tag, "").removeprefix("card")
        labels.pop("name", "")
    if address := labels.pop("url", "").rpartition("//")[2].partition("/")[0]:
        labels.pop("host", "")
        labels.setdefault("instance", address)
    return labels


def recognise(head: bytes, _name: str) -> bool:
    """Returns whether the first lines of a file are line protocol with tags or times."""
    lines = [line for line in decode_head(head)[:5] if line and not line.startswith("#")]
    points = [parse_point(line) for line in (lines[:-1] or lines)]
    return bool(points) and all(each and each.fields and (each.time or each.tags) for each in points)


def read_series(file: BinaryIO, name: str, _labels: Mapping[str, str]) -> list[LabelledSeries]:
    """Returns the series of all fields that are numbers.

    Raises:
        InputError: it is no line protocol.
    """
    reader = PointReader(name, SeriesCollector(name))
    for number, text in read_lines(file, name):
        if text and not text.startswith("#"):
            reader.read_line(number, text)
    return reader.series()


@dataclass
class PointReader:
    """Reads the lines of one file."""

    file: str
    collector: SeriesCollector
    points: int = 0
    untimed: int = 0
    damaged: list[tuple[int, str]] = field(default_factory=list)
    """Line and text of each line that is no point."""
    last_line: int = 0

    def __post_init__(self) -> None:
        self._own_time = own_time(self.file)

    def read_line(self, number: int, text: str) -> None:
        """Adds the samples of a line."""
        self.last_line = number
        point = parse_point(text)
        if point is None:
            self.damaged.append((number, text))
            return
        self.points += 1
        self.untimed += point.time is None
        time = self._own_time if point.time is None else point.time
        for metric, labels, value in list_metrics(point):
            self.collector.add(metric, labels, time, value, number)

    def series(self) -> list[LabelledSeries]:
        """Returns all series.

        Raises:
            InputError: there are none, or too many lines are no points.
        """
        cut = self.damaged.pop() if self.damaged and self.damaged[-1][0] == self.last_line else None
        if not self.points or len(self.damaged) > MAX_DAMAGED * self.points:
            line, text = next(iter(self.damaged), cut or (0, "no line"))
            raise InputError([Problem(self.file, line, "", f"{text!r:.60}", EXPECTED)])
        damage = (
            f"{len(self.damaged)} damaged lines are left out, first line {self.damaged[0][0]}" if self.damaged else ""
        )
        self.collector.note = join_notes(
            f"ends inside a line ({cut[0]}), which is left out" if cut else "",
            damage,
            f"{self.untimed} lines have no time: that of the file is taken" if 0 < self.untimed < self.points else "",
            OWN_TIME if self.untimed == self.points else "",
        )
        series = self.collector.series()
        if not series:
            raise InputError([Problem(self.file, self.last_line, "", "no field that is a number", EXPECTED)])
        return series


def read(source: Input, recording: Recording, registry: SeriesRegistry, names: MetricResolver) -> Block:
    """Returns the samples of the lines.

    Raises:
        InputError: it is no line protocol.
    """
    return read_artefact(read_series, source, recording, (registry, names))
