"""Inputs of kind `collectd-csv`: files of collectd's csv plugin, `host/plugin-instance/type-2026-11-20`.

The folders say the host and the device, the name of the file what is measured. Counters are written as they stand, or
as rates where the plugin stores rates.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

import numpy as np

from skewscope.adapters.formats.log_lines import read_lines
from skewscope.adapters.inputs.cell_values import to_number, to_time
from skewscope.adapters.inputs.labelled import LabelledSeries, artefact_reader
from skewscope.engine.model.arrays import F64
from skewscope.kb.loader import catalogue
from skewscope.kb.problems import InputError, Problem

HEADER = re.compile(rb"epoch(?:,[a-z]\w{0,40}){1,16}\r?\n")
FILE = re.compile(r"(?P<type>[a-z_]+(?:-[\w.-]+?)?)-\d{4}-\d\d-\d\d")
SIGNALS: Mapping[tuple[str, str, str], tuple[str, float]] = {
    ("interface", "if_octets", "rx"): ("port.rx_netdev_bytes", 1.0),
    ("interface", "if_octets", "tx"): ("port.tx_netdev_bytes", 1.0),
    ("interface", "if_packets", "rx"): ("port.rx_netdev_packets", 1.0),
    ("interface", "if_packets", "tx"): ("port.tx_netdev_packets", 1.0),
    ("interface", "if_errors", "rx"): ("port.rx_netdev_errors", 1.0),
    ("interface", "if_errors", "tx"): ("port.tx_netdev_errors", 1.0),
    ("interface", "if_dropped", "rx"): ("port.rx_netdev_drops", 1.0),
    ("interface", "if_dropped", "tx"): ("port.tx_netdev_drops", 1.0),
    ("cpu", "percent-wait", "value"): ("host.iowait", 0.01),
    ("cpu", "percent-steal", "value"): ("host.steal", 0.01),
    ("memory", "percent-used", "value"): ("host.mem_util", 0.01),
    ("gpu_nvidia", "temperature", "value"): ("gpu.temperature", 1.0),
    ("gpu_nvidia", "percent-gpu_used", "value"): ("gpu.util", 1.0),
    ("gpu_nvidia", "power", "value"): ("gpu.power", 1.0),
    ("gpu_nvidia", "frequency-multiprocessor", "value"): ("gpu.sm_clock", 1.0),
}
"""Signal and factor by plugin, type and column."""
PLACES = {"interface": "device", "gpu_nvidia": "gpu"}
"""Label of what the instance of a plugin is."""
EXPECTED = "a file such as node-7/interface-eth0/if_dropped-2026-11-20 of collectd's csv plugin, with its folders"


def recognise(head: bytes, name: str) -> bool:
    """Returns whether a file has such a header and such a name."""
    return bool(HEADER.match(head)) and bool(FILE.fullmatch(name.partition(".")[0]))


def read_series(file: BinaryIO, name: str, labels: Mapping[str, str]) -> list[LabelledSeries]:
    """Returns the series of the columns that are known.

    Raises:
        InputError: there are none.
    """
    path = Path(name).resolve()
    plugin, _, instance = path.parent.name.partition("-")
    match = FILE.fullmatch(path.name.partition(".")[0])
    kind = match["type"] if match else ""
    rows = [text.split(",") for _, text in read_lines(file, name)]
    place = {"node": labels.get("node") or path.parent.parent.name}
    if (label := PLACES.get(plugin, "")) and instance:
        place[label] = instance.partition("-")[0] if label == "gpu" else instance
    series = []
    for column, header in enumerate(rows[0] if rows else []):
        signal, factor = SIGNALS.get((plugin, kind, header.strip()), ("", 1.0))
        times, values = _column(rows[1:], column)
        if signal and len(times):
            values = _counts(times, values) if catalogue().signals[signal].type == "counter" else values * factor
            metric = "skewscope_" + signal.replace(".", "_")
            series.append(LabelledSeries(metric, tuple(sorted(place.items())), times, values))
    if not series:
        raise InputError([Problem(name, 0, "", f"nothing that is known of {plugin}, {kind}", EXPECTED)])
    return series


def _column(rows: list[list[str]], column: int) -> tuple[F64, F64]:
    """Returns the times and the values of a column, in the order of time."""
    cells = [
        (time, value)
        for row in rows
        if len(row) > column and (time := to_time(row[0])) is not None and (value := to_number(row[column])) is not None
    ]
    pairs = np.array(sorted(cells), np.float64).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]


def _counts(times: F64, values: F64) -> F64:
    """Returns what a counter stood at: the values where they only grow, else the sum of the rates that they are."""
    if (np.diff(values) >= 0).mean() > MOSTLY if len(values) > 1 else True:
        return values
    sums: F64 = np.cumsum(values * np.diff(times, prepend=times[0]))
    return sums


MOSTLY = 0.9
"""Share of steps in which a counter grows: a restart is one fall, rates go up and down."""

READER = artefact_reader("CSV of collectd", read_series, recognise, placed_by_name=True)
