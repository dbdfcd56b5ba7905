"""Inputs of kind `nvidia-smi-dmon`: the output of `nvidia-smi dmon`, best with `-o DT` for dates and times."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import BinaryIO

from skewscope.adapters.formats.log_lines import decode_head, read_lines
from skewscope.adapters.inputs.file_origin import join_notes
from skewscope.adapters.inputs.labelled import LabelledSeries, SeriesCollector, artefact_reader
from skewscope.adapters.inputs.monitor_rows import RoundTimes, parse_number
from skewscope.kb.problems import InputError, Problem

HEADER = re.compile(r"^# ?(?P<names>(?:Date\s+)?(?:Time\s+)?gpu\s.*)$")
EXAMPLE = "`# gpu    pwr  gtemp  ...` and rows such as `    0    631     63`"
METRICS = {
    "pwr": ("nvidia_smi_power_draw_watts", 1.0),
    "temp": ("nvidia_smi_temperature_gpu", 1.0),
    "gtemp": ("nvidia_smi_temperature_gpu", 1.0),
    "mtemp": ("nvidia_smi_temperature_memory", 1.0),
    "sm": ("nvidia_smi_utilization_gpu_ratio", 0.01),
    "mem": ("nvidia_smi_utilization_memory_ratio", 0.01),
    "mclk": ("nvidia_smi_clocks_current_memory_clock_hz", 1e6),
    "pclk": ("nvidia_smi_clocks_current_sm_clock_hz", 1e6),
    "fb": ("nvidia_smi_memory_used_bytes", 2.0**20),
    "dbecc": ("nvidia_smi_ecc_errors_uncorrected_volatile_total", 1.0),
    "rxpci": ("skewscope_gpu_pcie_rx", 1e6),
    "txpci": ("skewscope_gpu_pcie_tx", 1e6),
}
"""By column: the name of the exporter that reads nvidia-smi, or the canonical one, and the factor."""

VIOLATIONS = {"pviol": ("DCGM_FI_DEV_POWER_VIOLATION", 0.01), "tviol": ("DCGM_FI_DEV_THERMAL_VIOLATION", 1.0)}
"""By column: the counter of the time, in ns, that a GPU was held down, and the share of an interval of each value: of
heat the column only says whether it was."""


@dataclass
class HeldTimes:
    """The times that GPUs were held down, as counters of what the columns say of each interval."""

    _last: dict[tuple[str, str], float] = field(default_factory=dict)
    _sum: dict[tuple[str, str], float] = field(default_factory=dict)

    def add(self, gpu: str, column: str, time: float, share: float) -> float:
        """Returns the counter of a column at a time, in ns."""
        key = gpu, column
        elapsed = time - self._last.get(key, time)
        self._last[key] = time
        self._sum[key] = self._sum.get(key, 0.0) + share * elapsed * 1e9
        return self._sum[key]


def recognise(head: bytes, _name: str) -> bool:
    """Returns whether the first bytes of a file are output of nvidia-smi dmon."""
    return any((match := HEADER.match(line)) and METRICS.keys() & match["names"].split() for line in decode_head(head))


def read_series(file: BinaryIO, name: str, labels: Mapping[str, str]) -> list[LabelledSeries]:
    """Returns the series, one for each column of each GPU.

    Raises:
        InputError: it is no such output, or a row is damaged.
    """
    collector, times = SeriesCollector(name), RoundTimes(name, labels)
    columns: list[str] = []
    held = HeldTimes()
    broken: Problem | None = None
    for number, text in read_lines(file, name):
        if header := HEADER.match(text):
            columns = header["names"].split()
        elif text.strip() and not text.startswith("#"):
            if broken:
                raise InputError([broken])
            broken = _read_row(text.split(), number, columns, times, held, collector)
    if broken and not times.rounds:
        raise InputError([broken])
    if not times.rounds:
        raise InputError([Problem(name, 0, "", "no row of a GPU", EXAMPLE)])
    cut = f"ends inside a row (line {broken.line}), which is left out" if broken else ""
    collector.note = join_notes(times.describe(), cut, times.unnamed)
    return collector.series()


def _read_row(
    cells: list[str],
    number: int,
    columns: list[str],
    times: RoundTimes,
    held: HeldTimes,
    collector: SeriesCollector,
) -> Problem | None:
    """Adds the samples of a row; returns what is wrong with one that is cut, which only the last may be."""
    if not columns:
        raise InputError([Problem(collector.file, number, "", "a row before any header", EXAMPLE)])
    if len(cells) != len(columns):
        return Problem(collector.file, number, "", f"{len(cells)} values", f"{len(columns)}, as in the header")
    row = dict(zip(columns, cells, strict=True))
    gpu = row["gpu"]
    if not (gpu.isdecimal() and len(gpu) < 5):
        raise InputError([Problem(collector.file, number, "gpu", f"{gpu!r:.40}", "the index of a GPU")])
    time = times.place(gpu, _join_stamp(row))
    for column, cell in row.items():
        value = None if column in ("gpu", "Date", "Time") else parse_number(cell)
        if value is not None and column in VIOLATIONS:
            metric, share = VIOLATIONS[column]
            total = held.add(gpu, column, time, value * share)
            collector.add(metric, {"node": times.node, "gpu": gpu}, time, total, number)
        elif value is not None:
            metric, factor = METRICS.get(column, (f"nvidia_smi_dmon_{column}", 1.0))
            collector.add(metric, {"node": times.node, "gpu": gpu}, time, value * factor, number)
    return None


def _join_stamp(row: Mapping[str, str]) -> str:
    """Returns date and time of a row as a stamp, the time alone where it has no date; '' where it has none."""
    date, clock = row.get("Date", ""), row.get("Time", "")
    is_date = len(date) == 8 and date.isdecimal() and bool(clock)
    return f"{date[:4]}-{date[4:6]}-{date[6:]} {clock}" if is_date else clock


READER = artefact_reader(
    "nvidia-smi dmon log",
    read_series,
    recognise,
    exporter="dcgm",
    placed_by_name=True,
)
