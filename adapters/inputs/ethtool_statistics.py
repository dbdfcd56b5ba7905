"""Inputs of kind `ethtool-statistics`: dumps of `ethtool -S DEVICE` with a line of time before each."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import BinaryIO

import numpy as np

from skewscope.adapters.formats.log_lines import decode_head
from skewscope.adapters.inputs.counter_dumps import UNNAMED_DEVICE, Counter, find_place, host_in_name, read_dumps
from skewscope.adapters.inputs.labelled import LabelledSeries, Labels, artefact_reader
from skewscope.adapters.mapping.counter_names import find_counter, find_pause
from skewscope.adapters.mapping.names import build_index, ethtool_metric
from skewscope.engine.model.arrays import F64
from skewscope.kb.loader import catalogue

COMMAND = re.compile(r"\bethtool (?:-S|--statistics) (?P<device>[\w@.-]{1,40})")
TITLE = re.compile(r"^[=#* -]{0,8}(?P<device>[a-zA-Z][\w@.-]{1,39})(?::|[=#* -]{1,8})$")
HEADER = "NIC statistics:"
VALUE = re.compile(r"^ {2,8}(?P<name>\S[^:]{0,80}?(?:: [a-z]\S{0,60})?): (?P<number>-?\d{1,20})$")
PART = "part"
"""Label of a counter that is taken by its words: how much of the device it is of."""
QUEUE = re.compile(r"\[(?P<bnxt>\d{1,4})\]: (?P<counter>\w+)|queue_(?P<ena>\d{1,4})_(?P<name>(?:rx|tx)_\w+)")
"""A counter of one queue, as bnxt_en and ena write it: the counters of a device are sums over its queues."""


class EthtoolParser:
    """Finds the statistics of devices; a device is named by the command, by a title, or for the whole file."""

    command = "ethtool -S eth0"
    may_repeat = False

    def __init__(self, place: Mapping[str, str]) -> None:
        """Takes the node and device that hold for all of the file."""
        self._place = place
        self._device, self._inside = place["device"], False

    def read_line(self, text: str, number: int) -> list[Counter]:
        """Returns the counter of a line."""
        if match := COMMAND.search(text) or TITLE.match(text):
            self._device, self._inside = match["device"], False
        elif text.strip() == HEADER:
            self._inside = True
        elif self._inside and (match := VALUE.match(text)):
            queue = QUEUE.fullmatch(match["name"])
            name = (queue["counter"] or queue["name"]) if queue else match["name"]
            metric = re.sub(r"\W", "_", ethtool_metric(name))
            place = {"node": self._place["node"], "device": self._device or UNNAMED_DEVICE}
            place |= {"queue": queue["bnxt"] or queue["ena"]} if queue else {}
            if metric in build_index(catalogue()):
                pass
            elif pause := find_pause(match["name"]):
                metric = ethtool_metric(pause)
            elif meaning := find_counter(match["name"]):
                metric, place = meaning.metric, place | {PART: str(meaning.part), "counter": match["name"]}
            return [Counter(match["name"], metric, place, float(match["number"]), number)]
        return []


def recognise(head: bytes, _name: str) -> bool:
    """Returns whether the first bytes of a file are a dump of ethtool -S."""
    lines = decode_head(head)
    return any(line.strip() == HEADER for line in lines) and any(map(VALUE.match, lines))


def read_series(file: BinaryIO, name: str, labels: Mapping[str, str]) -> list[LabelledSeries]:
    """Returns the series of all statistics of each device.

    Raises:
        InputError: it is no such dump.
    """
    return list(_sum_parts(read_dumps(file, name, labels, EthtoolParser(find_place(labels, name)))))


def _sum_parts(series: Iterable[LabelledSeries]) -> Iterator[LabelledSeries]:
    """Yields the series with one for all of those that count parts of the same.

    What is counted for the device, by cause and by queue is the same: the first of them that counted anything is taken.
    """
    parts: dict[tuple[str, Labels], dict[str, list[LabelledSeries]]] = defaultdict(lambda: defaultdict(list))
    for item in series:
        labels = dict(item.labels)
        if part := labels.pop(PART, ""):
            labels.pop("counter")
            parts[item.metric, tuple(labels.items())][part].append(item)
        else:
            yield item
    for (_, place), by_part in sorted(parts.items()):
        sums = [_sum_series(by_part[part], place) for part in sorted(by_part)]
        yield next((item for item in sums if item.values.max() > 0), sums[0])


def _sum_series(series: Sequence[LabelledSeries], labels: Labels) -> LabelledSeries:
    """Returns the sum of counters, where each has its last value at the times at which others have one."""
    times: F64 = np.unique(np.concatenate([item.times for item in series]))
    values: F64 = np.zeros(len(times))
    for item in series:
        values += item.values[np.clip(np.searchsorted(item.times, times, side="right") - 1, 0, None)]
    return replace(series[0], labels=labels, times=times, values=values)


READER = artefact_reader(
    "ethtool -S dump",
    read_series,
    recognise,
    exporter="node_exporter",
    placed_by_name=True,
    host_in_name=host_in_name,
    keeps_prompts=True,
)
