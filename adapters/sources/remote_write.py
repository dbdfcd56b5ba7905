"""Sources of kind `remote-write`: a Prometheus, or whatever speaks as one, pushes its samples here.

Versions 1 and 2 of the protocol are read. Times are the samples' own; native histograms are left out and counted in
the reply, for no signal of the catalogue comes in them.
"""

from collections.abc import Hashable, Iterable, Iterator

import cramjam

from skewscope.adapters.grammar import MOST_LABELS, Labels
from skewscope.adapters.sources import World
from skewscope.adapters.sources.protobuf import (
    DOUBLE,
    ProtobufError,
    Value,
    double,
    fields,
    packed,
    part,
    signed,
    text,
    varint,
    whole,
)
from skewscope.adapters.sources.pushed import Headers, Pushed, Read, Reply, Settings, UnfitError, settings
from skewscope.adapters.sources.samples import Rows, Series
from skewscope.kb.fields import Fields
from skewscope.kb.yamlfile import Path_

PATH = "/api/v1/write"
SECOND = "io.prometheus.write.v2.Request"
SAMPLE = 10
"""Bytes of a sample before its time, as everybody writes it: a tag, a double, a tag."""
Samples = list[tuple[float, float]]


def read(fields: Fields, at: Path_, name: str) -> Settings:
    """The settings of one source; faults are noted."""
    return settings(fields, at, name, PATH)


def build(wanted: Settings, world: World) -> Pushed:
    """The source."""
    return Pushed(wanted, world, taken)


def taken(body: bytes, headers: Headers, wanted: Settings, series: Series) -> Read:
    """What a body holds.

    Raises:
        UnfitError: it is none.
    """
    second = SECOND in headers.get("content-type", "")
    data = memoryview(unpacked(body, wanted.most))
    rows = Rows()
    written = left = 0
    try:
        for key, named, samples, histograms in (_second if second else _first)(data):
            targets = series.targets(key, lambda named=named: _name(named))
            left += histograms
            written += len(samples)
            for time, value in samples if targets else ():
                rows.put(targets, time, value)
    except ProtobufError as error:
        raise UnfitError(f"no write request: {error}") from None
    told = (
        ("X-Prometheus-Remote-Write-Samples-Written", str(written)),
        ("X-Prometheus-Remote-Write-Histograms-Written", "0"),
        ("X-Prometheus-Remote-Write-Exemplars-Written", "0"),
    )
    return Read(rows.batch(series.listing), Reply(204, b"", told if second else ()))


def unpacked(body: bytes, most: int) -> bytes:
    """What a block of snappy holds.

    Raises:
        UnfitError: it is none, or holds more than `most` bytes.
    """
    try:
        size = cramjam.snappy.decompress_raw_len(body)
        if size > most:
            raise UnfitError(f"{size} bytes, of which at most {most} are read")
        return bytes(cramjam.snappy.decompress_raw(body))
    except cramjam.DecompressionError as error:
        raise UnfitError(f"no snappy block ({error!s:.60})") from None


Found = tuple[Hashable, Iterable[tuple[str, str]], Samples, int]
"""What says that a series is the same, its labels, its samples, and how many histograms it has besides."""


def _first(data: memoryview) -> Iterator[Found]:
    """The series of a request of version 1."""
    for number, value in fields(data):
        if number == 1:
            labels: list[memoryview] = []
            samples: Samples = []
            histograms = 0
            for what, inner in fields(part(value)):
                if what == 1:
                    labels.append(part(inner))
                elif what == 2:
                    samples.append(_sample(part(inner)))
                histograms += what == 4
            # Labels are told before anything else is looked at: their bytes are what a series is known by.
            yield b"".join(labels), _Pairs(labels), samples, histograms


class _Pairs:
    """The labels of a series of version 1, read when they are asked for."""

    def __init__(self, labels: list[memoryview]) -> None:
        self._labels = labels

    def __iter__(self) -> Iterator[tuple[str, str]]:
        for label in self._labels:
            found: dict[int, Value] = dict(fields(label))
            yield text(found.get(1, memoryview(b""))), text(found.get(2, memoryview(b"")))


def _second(data: memoryview) -> Iterator[Found]:
    """The series of a request of version 2, whose texts stand in a table."""
    parts = list(fields(data))
    symbols = [text(value) for number, value in parts if number == 4]
    for number, value in parts:
        if number == 5:
            refs: list[int] = []
            samples: Samples = []
            histograms = 0
            for what, inner in fields(part(value)):
                if what == 1:
                    refs += packed(inner)
                elif what == 2:
                    samples.append(_sample(part(inner)))
                histograms += what == 3
            if len(refs) % 2 or any(ref >= len(symbols) for ref in refs):
                raise ProtobufError("labels that are not in the table")
            names = tuple(symbols[ref] for ref in refs)
            yield names, zip(names[::2], names[1::2], strict=True), samples, histograms


def _sample(data: memoryview) -> tuple[float, float]:
    """Time in seconds, and value."""
    if len(data) > SAMPLE and data[0] == 0x09 and data[SAMPLE - 1] == 0x10:
        time, end = varint(data, SAMPLE)
        if end == len(data):
            return signed(time) / 1e3, DOUBLE.unpack_from(data, 1)[0]
    found = dict(fields(data))
    return signed(whole(found.get(2, 0))) / 1e3, double(found[1]) if 1 in found else 0.0


def _name(pairs: Iterable[tuple[str, str]]) -> tuple[str, Labels]:
    """Name and labels of a series."""
    found = dict(pairs)
    name = found.pop("__name__", "")
    if len(found) > MOST_LABELS:
        raise ProtobufError(f"more than {MOST_LABELS} labels")
    return name, tuple((label, value) for label, value in found.items() if value)
