"""Inputs of kind `tensorboard`: event files, as TensorBoard's writers and the trainers that use them leave them.

The scalars of a run are series that are named by their tags; times are those of the clock when a scalar was written.
"""

import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import PurePosixPath
from typing import BinaryIO, NamedTuple

import numpy as np

from skewscope.adapters.formats.bounds import EVENTS, SAMPLES, SERIES
from skewscope.adapters.formats.protobuf import (
    ProtobufError,
    WireValue,
    iter_fields,
    to_bytes,
    to_double,
    to_int64,
    to_text,
    to_varint,
)
from skewscope.adapters.inputs.labelled import LabelledSeries, artefact_reader
from skewscope.adapters.inputs.series_names import NamedSeries, SeriesContext, name_series, seconds_per_step, to_series
from skewscope.adapters.inputs.training_steps import find_job
from skewscope.engine.model.arrays import F64
from skewscope.kb.problems import InputError, Problem

VERSION = b"brain.Event:"
"""In the first record of each file."""
HEADER, CHECKSUM_BYTES = struct.Struct("<QI"), 4
MAX_RECORD = 16 << 20
"""Bytes of a record that is read: images and graphs may be larger and are passed over."""
HOST_IN_NAME = re.compile(r"tfevents\.\d+\.([A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?)\.\d+\.\d+(?:$|\.)")
FLOATS = {1: "<f", 2: "<d", 3: "<i", 9: "<q"}
"""By number of a tensor's type: float, double, int32, int64."""
EXPECTED = "records of summaries, as TensorBoard reads them"


class TaggedValue(NamedTuple):
    """A number of an event."""

    tag: str
    value: float


def recognise(head: bytes, _name: str) -> bool:
    """Returns whether a file begins as an event file."""
    return VERSION in head[:64]


def read_series(file: BinaryIO, name: str, labels: Mapping[str, str]) -> list[LabelledSeries]:
    """Returns the series of all scalars.

    Raises:
        InputError: there are none, or the file is damaged.
    """
    samples: dict[str, tuple[list[float], list[float], list[float]]] = {}
    count, most = 0, SAMPLES.limit()
    note = ""
    for record in _iter_records(file, name):
        if record is None:
            note = "ends inside an event, which is left out"
            break
        try:
            time, step, values = parse_event(memoryview(record))
        except ProtobufError as error:
            raise InputError([Problem(name, 0, "", f"a damaged event ({error})", EXPECTED)]) from None
        for scalar in values:
            count += 1
            if count > most:
                raise InputError([SAMPLES.problem(name, hint="Log less.")])
            if scalar.tag not in samples:
                SERIES.check(name, len(samples) + 1, "Log less.")
                samples[scalar.tag] = ([], [], [])
            for column, number in zip(samples[scalar.tag], (time, float(step), scalar.value), strict=True):
                column.append(number)
    if not samples:
        raise InputError([Problem(name, 0, "", note or "no scalar", EXPECTED)])
    return _name_scalars(samples, name, labels, note)


def _name_scalars(
    samples: Mapping[str, tuple[list[float], list[float], list[float]]],
    name: str,
    labels: Mapping[str, str],
    cut: str,
) -> list[LabelledSeries]:
    """Returns the series of scalars by their tags."""
    job = labels.get("group") or PurePosixPath(name).parent.name or find_job(labels, name)
    host = HOST_IN_NAME.search(name)
    pairs: list[tuple[NamedSeries, F64, F64]] = []
    for tag, columns in samples.items():
        times, steps, values = (np.array(each, np.float64) for each in columns)
        order = np.argsort(times, kind="stable")
        named = name_series(tag, values, SeriesContext(seconds=seconds_per_step(times[order], steps[order])))
        if named.metric.startswith("skewscope_step_"):
            named = replace(named, labels={"group": job})
        elif named.note and host:
            named = replace(named, labels={"node": host[1], **named.labels})
        pairs.append((named, times[order], values[order]))
    return to_series(pairs, cut)


def _iter_records(file: BinaryIO, name: str) -> Iterator[bytes | None]:
    """Yields the data of each record; None where the file ends inside one.

    Raises:
        InputError: there are too many.
    """
    count, most = 0, EVENTS.limit()
    while header := file.read(HEADER.size):
        count += 1
        if count > most:
            raise InputError([EVENTS.problem(name, hint="Log less.")])
        size = HEADER.unpack(header)[0] if len(header) == HEADER.size else 1 << 63
        if size > MAX_RECORD and count == 1:
            raise InputError([Problem(name, 0, "", "no event file", EXPECTED)])
        data = file.read(min(size, MAX_RECORD))
        left = size - len(data) + CHECKSUM_BYTES
        while left > 0 and (passed := file.read(min(left, 1 << 20))):
            left -= len(passed)
        if left > 0:
            yield None
            return
        if size <= MAX_RECORD:
            yield data


def parse_event(data: memoryview) -> tuple[float, int, list[TaggedValue]]:
    """Returns the time in seconds since 1970, the step and the numbers of an event.

    Raises:
        ProtobufError: it is damaged.
    """
    time, step, values = 0.0, 0, list[TaggedValue]()
    for number, value in iter_fields(data):
        if number == 1:
            time = to_double(value)
        elif number == 2:
            step = to_int64(to_varint(value))
        elif number == 5:
            for part, each in iter_fields(to_bytes(value)):
                if part == 1 and (scalar := _parse_value(to_bytes(each))):
                    values.append(scalar)
    return (time, step, values) if 0 <= time < 1e11 else (0.0, step, [])


def _parse_value(data: memoryview) -> TaggedValue | None:
    """Returns a value of a summary; None for what is no single number."""
    tag, value = "", None
    for number, each in iter_fields(data):
        if number == 1:
            tag = to_text(each)
        elif number == 2:
            value = _unpack("<f", each)
        elif number == 8:
            value = _parse_tensor(to_bytes(each))
    return TaggedValue(tag, value) if tag and value is not None else None


def _parse_tensor(data: memoryview) -> float | None:
    """Returns the number of a tensor that holds only one; None for others."""
    kind, value = 0, None
    for number, each in iter_fields(data):
        if number == 1:
            kind = to_varint(each)
        elif number == 4:
            value = _unpack(FLOATS.get(kind, ""), each)
        elif number in (5, 6):
            value = _unpack("<f" if number == 5 else "<d", each)
        elif number in (7, 10) and isinstance(each, int):
            value = float(to_int64(each))
    return value


def _unpack(form: str, value: WireValue) -> float | None:
    """Returns a number of so many bytes; None for others."""
    fits = bool(form) and not isinstance(value, int) and len(value) == struct.calcsize(form)
    return float(struct.unpack(form, to_bytes(value))[0]) if fits else None


READER = artefact_reader(
    "event file of TensorBoard",
    read_series,
    recognise,
)
