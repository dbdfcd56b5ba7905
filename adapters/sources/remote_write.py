"""Sources of kind `remote-write`: samples pushed by Prometheus or a compatible sender.

Supports versions 1 and 2 of the protocol. Times are those of the samples. Native histograms are omitted: no signal of
the catalogue uses them.
"""

from collections.abc import Hashable, Iterable, Iterator

import cramjam

from skewscope.adapters.formats.openmetrics_grammar import MAX_LABELS, Labels
from skewscope.adapters.formats.protobuf import (
    DOUBLE,
    ProtobufError,
    WireValue,
    iter_fields,
    read_varint,
    to_bytes,
    to_double,
    to_int64,
    to_text,
    to_varint,
    to_varints,
)
from skewscope.adapters.sources import SourceContext
from skewscope.adapters.sources.common.push_receiver import (
    Headers,
    InvalidBodyError,
    PushEndpointInfo,
    PushReply,
    PushResult,
    PushSettings,
    PushSource,
    parse_settings,
)
from skewscope.adapters.sources.common.series_mapper import SeriesMapper, SourceBatchBuilder
from skewscope.kb.field_reader import FieldReader
from skewscope.kb.yamlfile import FieldPath

PATH = "/api/v1/write"
V2_CONTENT_TYPE = "io.prometheus.write.v2.Request"
ENDPOINT_INFO = PushEndpointInfo("Samples of Prometheus (remote write, versions 1 and 2).", ("application/x-protobuf",))
SAMPLE_HEAD_SIZE = 10
"""Bytes of a sample before its time in the usual encoding: tag, double, tag."""
SHORT_SAMPLE_PREFIX = b"\x12\x10\x09"
SHORT_SAMPLE_SIZE = 18
"""Head and size, with tag and length, of a sample whose time takes six bytes, as from 2004 to 2109."""
Samples = list[tuple[float, float]]


def read(fields: FieldReader, at: FieldPath, name: str) -> PushSettings:
    """Parses the settings of one source; problems are added to `fields`."""
    return parse_settings(fields, at, name, PATH)


def build(settings: PushSettings, context: SourceContext) -> PushSource:
    """Creates the source."""
    return PushSource(settings, context, read_body, ENDPOINT_INFO)


def read_body(body: bytes, headers: Headers, settings: PushSettings, series: SeriesMapper) -> PushResult:
    """Returns the samples of a body.

    Raises:
        InvalidBodyError: the body is invalid.
    """
    second = V2_CONTENT_TYPE in headers.get("content-type", "")
    data = memoryview(decompress(body, settings.max_bytes))
    rows = SourceBatchBuilder()
    written = 0
    try:
        for key, named, samples in _iter_v2(data) if second else _iter_v1(data, series, rows):
            targets = series.lookup(key, _split_name, named)
            written += len(samples)
            for time, value in samples if targets else ():
                rows.add(targets, time, value)
    except ProtobufError as error:
        raise InvalidBodyError(f"no write request: {error}") from None
    # The fast path does not count samples: only version 2 reports their number.
    reported = (
        ("X-Prometheus-Remote-Write-Samples-Written", str(written)),
        ("X-Prometheus-Remote-Write-Histograms-Written", "0"),
        ("X-Prometheus-Remote-Write-Exemplars-Written", "0"),
    )
    return PushResult(rows.build(series.registry), PushReply(204, b"", reported if second else ()))


def decompress(body: bytes, most: int) -> bytes:
    """Decompresses a snappy block.

    Raises:
        InvalidBodyError: it is broken, or exceeds `most` bytes.
    """
    try:
        size = cramjam.snappy.decompress_raw_len(body)
        if size > most:
            raise InvalidBodyError(f"{size} bytes, of which at most {most} are read")
        return bytes(cramjam.snappy.decompress_raw(body))
    except cramjam.DecompressionError as error:
        raise InvalidBodyError(f"no snappy block ({error!s:.60})") from None


SeriesEntry = tuple[Hashable, Iterable[tuple[str, str]], Samples]
"""Cache key of the series, its labels, its samples."""


def _iter_v1(data: memoryview, series: SeriesMapper, rows: SourceBatchBuilder) -> Iterator[SeriesEntry]:
    """Yields the series of a version 1 request, except those that the fast path added to `rows`."""
    for number, value in iter_fields(data):
        if number != 1:
            continue
        one = bytes(to_bytes(value))
        if _take_short_sample(one, series, rows):
            continue
        end = _labels_end(memoryview(one))
        labels: list[memoryview] = []
        samples: Samples = []
        others, late = False, False
        for what, inner in iter_fields(memoryview(one)):
            if what == 1:
                late = late or others
                labels.append(to_bytes(inner))
            elif what == 2:
                samples.append(_parse_sample(to_bytes(inner)))
            others = others or what != 1
        # The bytes of the labels are the cache key of a series if they are contiguous, as in the usual encoding.
        yield (tuple(map(bytes, labels)) if late else one[:end]), _LazyLabels(labels), samples


def _take_short_sample(one: bytes, series: SeriesMapper, rows: SourceBatchBuilder) -> bool:
    """Adds the only sample of a known series to `rows`; returns whether it did."""
    if one[-SHORT_SAMPLE_SIZE:-15] != SHORT_SAMPLE_PREFIX or one[-7] != 0x10 or one[-1] > 127 or min(one[-6:-1]) < 128:
        return False
    targets = series.lookup_cache(one[:-SHORT_SAMPLE_SIZE])
    if targets:
        time, _ = read_varint(memoryview(one), len(one) - 6)
        rows.add(targets, time / 1e3, DOUBLE.unpack_from(one, len(one) - 15)[0])
    return targets is not None


def _labels_end(one: memoryview) -> int:
    """Returns the offset of the end of the labels at the start of a series."""
    at = 0
    while at < len(one) and one[at] == 0x0A:
        size, at = read_varint(one, at + 1)
        at += size
    return at


class _LazyLabels:
    """The labels of a version 1 series, parsed on demand."""

    def __init__(self, labels: list[memoryview]) -> None:
        self._labels = labels

    def __iter__(self) -> Iterator[tuple[str, str]]:
        for label in self._labels:
            found: dict[int, WireValue] = dict(iter_fields(label))
            yield to_text(found.get(1, memoryview(b""))), to_text(found.get(2, memoryview(b"")))


def _iter_v2(data: memoryview) -> Iterator[SeriesEntry]:
    """Yields the series of a version 2 request, whose texts are in a table."""
    parts = list(iter_fields(data))
    symbols = [to_text(value) for number, value in parts if number == 4]
    for number, value in parts:
        if number == 5:
            refs: list[int] = []
            samples: Samples = []
            for what, inner in iter_fields(to_bytes(value)):
                if what == 1:
                    refs += to_varints(inner)
                elif what == 2:
                    samples.append(_parse_sample(to_bytes(inner)))
            if len(refs) % 2 or any(ref >= len(symbols) for ref in refs):
                raise ProtobufError("labels that are not in the table")
            names = tuple(symbols[ref] for ref in refs)
            yield names, zip(names[::2], names[1::2], strict=True), samples


def _parse_sample(data: memoryview) -> tuple[float, float]:
    """Returns time in seconds, and value."""
    if len(data) > SAMPLE_HEAD_SIZE and data[0] == 0x09 and data[SAMPLE_HEAD_SIZE - 1] == 0x10:
        time, end = read_varint(data, SAMPLE_HEAD_SIZE)
        if end == len(data):
            return to_int64(time) / 1e3, DOUBLE.unpack_from(data, 1)[0]
    found = dict(iter_fields(data))
    return to_int64(to_varint(found.get(2, 0))) / 1e3, to_double(found[1]) if 1 in found else 0.0


def _split_name(pairs: Iterable[tuple[str, str]]) -> tuple[str, Labels]:
    """Returns name and labels of a series."""
    found = dict(pairs)
    name = found.pop("__name__", "")
    if len(found) > MAX_LABELS:
        raise ProtobufError(f"more than {MAX_LABELS} labels")
    return name, tuple((label, value) for label, value in found.items() if value)
