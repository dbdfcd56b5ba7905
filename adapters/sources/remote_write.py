"""Sources of kind `remote-write`: a Prometheus, or whatever speaks as one, pushes its samples here.

Versions 1 and 2 of the protocol are read. Times are the samples' own; native histograms are left out, for no signal of
the catalogue comes in them.
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
from skewscope.adapters.sources.pushed import About, Headers, Pushed, Read, Reply, Settings, UnfitError, settings
from skewscope.adapters.sources.samples import Rows, Series
from skewscope.kb.fields import Fields
from skewscope.kb.yamlfile import Path_

PATH = "/api/v1/write"
SECOND = "io.prometheus.write.v2.Request"
ABOUT = About("Samples of a Prometheus (remote write, both versions).", ("application/x-protobuf",))
SAMPLE = 10
"""Bytes of a sample before its time, as everybody writes it: a tag, a double, a tag."""
ONE = b"\x12\x10\x09"
ONE_SIZE = 18
"""How a sample begins whose time takes six bytes, as all do from 2004 to 2109; and its size with tag and length."""
Samples = list[tuple[float, float]]


def read(fields: Fields, at: Path_, name: str) -> Settings:
    """The settings of one source; faults are noted."""
    return settings(fields, at, name, PATH)


def build(wanted: Settings, world: World) -> Pushed:
    """The source."""
    return Pushed(wanted, world, taken, ABOUT)


def taken(body: bytes, headers: Headers, wanted: Settings, series: Series) -> Read:
    """What a body holds.

    Raises:
        UnfitError: it is none.
    """
    second = SECOND in headers.get("content-type", "")
    data = memoryview(unpacked(body, wanted.most))
    rows = Rows()
    written = 0
    try:
        for key, named, samples in _second(data) if second else _first(data, series, rows):
            targets = series.targets(key, _name, named)
            written += len(samples)
            for time, value in samples if targets else ():
                rows.put(targets, time, value)
    except ProtobufError as error:
        raise UnfitError(f"no write request: {error}") from None
    # The short way counts none: only the second version is told how many were taken.
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


Found = tuple[Hashable, Iterable[tuple[str, str]], Samples]
"""What says that a series is the same, its labels, and its samples."""


def _first(data: memoryview, series: Series, rows: Rows) -> Iterator[Found]:
    """The series of a request of version 1, but for those that took the short way into `rows`."""
    for number, value in fields(data):
        if number != 1:
            continue
        one = bytes(part(value))
        if _short(one, series, rows):
            continue
        end = _labels_end(memoryview(one))
        labels: list[memoryview] = []
        samples: Samples = []
        others, late = False, False
        for what, inner in fields(memoryview(one)):
            if what == 1:
                late = late or others
                labels.append(part(inner))
            elif what == 2:
                samples.append(_sample(part(inner)))
            others = others or what != 1
        # The bytes of its labels are what a series is known by, where they stand together as everybody writes them.
        yield (tuple(map(bytes, labels)) if late else one[:end]), _Pairs(labels), samples


def _short(one: bytes, series: Series, rows: Rows) -> bool:
    """Takes the only sample of a series whose labels were met before; whether it is one."""
    if one[-ONE_SIZE:-15] != ONE or one[-7] != 0x10 or one[-1] > 127 or min(one[-6:-1]) < 128:
        return False
    targets = series.known(one[:-ONE_SIZE])
    if targets:
        time, _ = varint(memoryview(one), len(one) - 6)
        rows.put(targets, time / 1e3, DOUBLE.unpack_from(one, len(one) - 15)[0])
    return targets is not None


def _labels_end(one: memoryview) -> int:
    """Where the labels at the beginning of a series end."""
    at = 0
    while at < len(one) and one[at] == 0x0A:
        size, at = varint(one, at + 1)
        at += size
    return at


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
            for what, inner in fields(part(value)):
                if what == 1:
                    refs += packed(inner)
                elif what == 2:
                    samples.append(_sample(part(inner)))
            if len(refs) % 2 or any(ref >= len(symbols) for ref in refs):
                raise ProtobufError("labels that are not in the table")
            names = tuple(symbols[ref] for ref in refs)
            yield names, zip(names[::2], names[1::2], strict=True), samples


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
