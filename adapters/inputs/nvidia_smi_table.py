"""Inputs of kind `nvidia-smi-table`: the tables that `nvidia-smi` prints, again and again (`-l`, `watch`, a loop).

A table begins with its time, by the clock of the host. Of each GPU the row with its numbers is read, in the layouts of
all drivers: columns are told by their units.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import BinaryIO

from skewscope.adapters.formats.log_lines import decode_head, read_lines
from skewscope.adapters.inputs.counter_dumps import DAYS, parse_time_line
from skewscope.adapters.inputs.file_origin import join_notes
from skewscope.adapters.inputs.labelled import LabelledSeries, SeriesCollector, artefact_reader
from skewscope.adapters.inputs.monitor_rows import RoundTimes
from skewscope.adapters.inputs.nvidia_smi import MAX_DAMAGED, MAX_SHOWN, MESSAGE
from skewscope.kb.problems import InputError, Problem

LEAST_SHARE = 0.75
"""Share of lines that are of tables: the log of a job may begin with one."""
GPU = re.compile(
    r"^\|\s+(?P<gpu>\d{1,4})\s+\S[^|]*\|\s+(?:[0-9A-Fa-f]{4,8}:)?[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d\s[^|]*\|"
)
"""First row of a GPU: index, name and bus."""
CELLS = 5
"""Parts of its second row between and outside of the bars."""
EXAMPLE = "tables with rows such as `| N/A   65C    P0   250W / 300W |  30000MiB / 32768MiB |  98%  Default |`"
HINT = "Take it with `nvidia-smi -l 1`; `nvidia-smi --query-gpu=timestamp,index,... --format=csv -l 1` has more."
VALUES = (
    (1, re.compile(r"\s(?P<number>\d{1,3})C\s"), "nvidia_smi_temperature_gpu", 1.0),
    (1, re.compile(r"\s(?P<number>\d{1,5}(?:\.\d{1,3})?)W\s*/"), "nvidia_smi_power_draw_watts", 1.0),
    (1, re.compile(r"/\s*(?P<number>\d{1,5}(?:\.\d{1,3})?)W\s"), "nvidia_smi_power_limit_watts", 1.0),
    (1, re.compile(r"^\s*(?P<number>\d{1,3})%\s"), "nvidia_smi_fan_speed_ratio", 0.01),
    (2, re.compile(r"^\s*(?P<number>\d{1,9})MiB\s*/"), "nvidia_smi_memory_used_bytes", 2.0**20),
    (2, re.compile(r"/\s*(?P<number>\d{1,9})MiB\s"), "nvidia_smi_memory_total_bytes", 2.0**20),
    (3, re.compile(r"^\s*(?P<number>\d{1,3})%\s"), "nvidia_smi_utilization_gpu_ratio", 0.01),
)
"""By cell of the second row: what is searched, the name of the exporter that reads nvidia-smi, and the factor."""


@dataclass
class TableReader:
    """Reads the rows of the tables in a file."""

    times: RoundTimes
    collector: SeriesCollector
    stamp: float | None = None
    """Time of the table that is read."""
    gpu: str = ""
    """GPU whose first row was read; '' where the next row is of none."""
    rows: int = 0
    damaged: list[int] = field(default_factory=list)
    """Lines of GPUs without their second row."""
    messages: int = 0
    first_message: str = ""

    def read_line(self, number: int, text: str) -> None:
        """Reads a time, a row or a message."""
        if self.gpu:
            self._read_values(number, text)
        elif match := GPU.match(text):
            self.gpu = str(int(match["gpu"]))
        elif (time := find_time(text, self.times.offset)) is not None:
            self.stamp = time
        elif MESSAGE.match(text):
            self.messages += 1
            self.first_message = self.first_message or f"{text[:MAX_SHOWN]!r} (line {number})"

    def note(self, last: int) -> str:
        """Returns what is assumed of the tables, or wrong with them.

        Args:
            last: number of the last line, which may be cut.

        Raises:
            InputError: there is no row, or too many are damaged.
        """
        file = self.collector.file
        cut = bool(self.gpu) or self.damaged[-1:] == [last]
        damaged = self.damaged[:-1] if self.damaged[-1:] == [last] else self.damaged
        if not self.rows:
            raise InputError([Problem(file, last if cut else 0, "", "no row of a GPU", EXAMPLE, HINT)])
        if len(damaged) > MAX_DAMAGED * self.rows:
            found = f"a GPU without its second row, and {len(damaged) - 1} more"
            raise InputError([Problem(file, damaged[0], "", found, EXAMPLE, HINT)])
        lines = f"messages in place of tables: {self.messages}, first {self.first_message}"
        return join_notes(
            self.times.describe(),
            "ends inside a table" if cut else "",
            f"damaged rows that are left out: {len(damaged)}, first line {damaged[0]}" if damaged else "",
            f"{lines}; nothing is known of its GPUs then" if self.messages else "",
            self.times.unnamed,
        )

    def _read_values(self, number: int, text: str) -> None:
        gpu, self.gpu = self.gpu, ""
        cells = text.split("|")
        if len(cells) != CELLS:
            self.damaged.append(number)
            return
        self.rows += 1
        time = self.times.place_at(gpu, self.stamp)
        place = {"node": self.times.node, "gpu": gpu}
        for cell, pattern, metric, factor in VALUES:
            if match := pattern.search(cells[cell]):
                self.collector.add(metric, place, time, float(match["number"]) * factor, number)


def find_time(text: str, offset: float) -> float | None:
    """Returns the time of a line that holds nothing else, or of the title of `watch`; None for other lines."""
    if text.startswith("Every "):
        begin = max(text.rfind(f" {day} ") for day in DAYS)
        text = text[begin + 1 :] if begin >= 0 else ""
    return parse_time_line(text, offset)


def recognise(head: bytes, _name: str) -> bool:
    """Returns whether the first bytes of a file are tables that nvidia-smi prints."""
    lines = list(filter(None, decode_head(head)))
    drawn = sum(line[0] in "|+" for line in lines)
    # Tables of other makers are drawn alike; only here is memory in MiB.
    return drawn > LEAST_SHARE * len(lines) and any(map(GPU.match, lines)) and b"MiB" in head


def read_series(file: BinaryIO, name: str, labels: Mapping[str, str]) -> list[LabelledSeries]:
    """Returns the series, one for each number of each GPU.

    Raises:
        InputError: there is no row of a GPU, or too many are damaged.
    """
    reader = TableReader(RoundTimes(name, labels), SeriesCollector(name))
    number = 0
    for number, text in read_lines(file, name):
        if text:
            reader.read_line(number, text)
    reader.collector.note = reader.note(number)
    return reader.collector.series()


READER = artefact_reader(
    "printed tables of nvidia-smi",
    read_series,
    recognise,
    exporter="dcgm",
    placed_by_name=True,
)
