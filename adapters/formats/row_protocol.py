"""Push protocol of the agents: series are announced once, then each tick sends one row of numbers.

A body is a sequence of frames, compressed as a whole by zstandard. Each frame is a header (`<BI`: kind, length of the
payload) and its payload:

* **hello** (0), first in each body: JSON `{"node", "boot", "version"}`; `boot` is new at each start of an agent, so
  that repeated rows are recognised by (node, boot, sequence).
* **series** (1): JSON `{"table", "first", "series": [[signal, kind, entity, selector], ...]}`: columns `first`... of
  a table. Series with the same sampling period share a table, so that rows have few gaps; tables only grow. Many series
  take several frames, so that none takes long to read.
* **row** (2): `<QdII` sequence, time (seconds since 1970), table, count; then that many little-endian float64, NaN
  for a gap. A row may be shorter than its table.

The receiver keeps announcements by (node, boot). It refuses a body with a row of an unknown table, and the agent then
announces again. It answers with the highest sequence received, up to which the agent drops its rows.
"""

import json
import math
import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import cast

import numpy as np
import zstandard

from skewscope.engine.ingest.feed import SeriesKey
from skewscope.engine.model.arrays import F64

CONTENT_TYPE = "application/vnd.skewscope.rows.v1+zstd"
ROWS_PATH = "/api/v1/rows"
MAX_BYTES = 16 << 20
"""Limit on a body after decompression."""
MAX_PACKED_BYTES = 4 << 20
MAX_COLUMNS = 1 << 16
MAX_TABLES = 256
MAX_FRAMES = 1 << 13
"""Limit on the frames of a body: more than an agent's largest batch holds, however short its rows are."""
SERIES_A_FRAME = 2048
"""Series that are announced in one frame."""
MAX_SERIES_A_FRAME = 2 * SERIES_A_FRAME
MAX_JSON_BYTES = 1 << 22
"""Limit on a JSON frame, which is parsed without a pause: as many series with the longest names."""
SIGNS_A_SERIES = {b'"': 12, b",": 12, b"[": 2, b"{": 1}
"""Limits on signs in JSON for each series that a frame or a body may have: somewhat more than an announcement has, with
names that hold such signs. Checked before it is parsed: many small parts take a hundred times their size in memory, and
a processor that nothing else gets meanwhile."""
MAX_HELLO_BYTES = 1 << 14
"""Limit on a hello: three names, each character escaped."""
MAX_TEXT = 512
"""Limit on the characters of a name."""
HELLO, SERIES, ROW = range(3)
_HEAD = struct.Struct("<BI")
_ROW = struct.Struct("<QdII")
_KEY_PARTS = 4


class BadRowsError(ValueError):
    """The body does not follow the protocol."""


@dataclass(frozen=True, slots=True)
class HelloFrame:
    """Identifies the sender."""

    node: str
    boot: str
    version: str


@dataclass(frozen=True, slots=True)
class SeriesFrame:
    """Series of the columns of a table, from `first` on."""

    table: int
    first: int
    series: tuple[SeriesKey, ...]


@dataclass(frozen=True, slots=True)
class RowFrame:
    """Values of a table at one time in seconds since 1970; `values` is [column] float64, NaN for a gap."""

    sequence: int
    time: float
    table: int
    values: F64


WireFrame = HelloFrame | SeriesFrame | RowFrame


def encode(frames: Iterable[WireFrame]) -> bytes:
    """Encodes a body."""
    parts = (_encode_frame(part) for frame in frames for part in _split(frame))
    return zstandard.ZstdCompressor(level=1).compress(b"".join(parts))


def _split(frame: WireFrame) -> Iterator[WireFrame]:
    """Yields an announcement as frames that a receiver takes; another frame as it is."""
    if not isinstance(frame, SeriesFrame) or len(frame.series) <= SERIES_A_FRAME:
        yield frame
        return
    for start in range(0, len(frame.series), SERIES_A_FRAME):
        yield SeriesFrame(frame.table, frame.first + start, frame.series[start : start + SERIES_A_FRAME])


def _encode_frame(frame: WireFrame) -> bytes:
    if isinstance(frame, RowFrame):
        values = np.ascontiguousarray(frame.values, "<f8")
        payload = _ROW.pack(frame.sequence, frame.time, frame.table, len(values)) + values.tobytes()
        return _HEAD.pack(ROW, len(payload)) + payload
    data: dict[str, object]
    if isinstance(frame, HelloFrame):
        kind, data = HELLO, {"node": frame.node, "boot": frame.boot, "version": frame.version}
    else:
        series = [[key.signal, key.kind, key.entity, key.selector] for key in frame.series]
        kind, data = SERIES, {"table": frame.table, "first": frame.first, "series": series}
    payload = json.dumps(data, separators=(",", ":"), ensure_ascii=False).encode()
    return _HEAD.pack(kind, len(payload)) + payload


def decode(body: bytes) -> Iterator[WireFrame]:
    """Yields the frames of a body, the hello first.

    Raises:
        BadRowsError: the body does not follow the protocol, or exceeds its limits.
    """
    return decode_frames(unpack(body))


def decode_frames(unpacked: bytes) -> Iterator[WireFrame]:
    """Yields the frames of an unpacked body, the hello first; each is read when it is asked for.

    Raises:
        BadRowsError: the body does not follow the protocol, or exceeds its limits.
    """
    rest = memoryview(unpacked)
    first, signs = True, dict.fromkeys(SIGNS_A_SERIES, 0)
    frames = series = 0
    while rest or first:
        frames += 1
        if frames > MAX_FRAMES:
            raise BadRowsError(f"more than {MAX_FRAMES} frames")
        if len(rest) < _HEAD.size:
            raise BadRowsError(f"{len(rest)} bytes after the last frame")
        kind, length = _HEAD.unpack_from(rest)
        payload = rest[_HEAD.size : _HEAD.size + length]
        if len(payload) != length:
            raise BadRowsError(f"a frame of {length} bytes is cut short after {len(payload)}")
        if first != (kind == HELLO):
            raise BadRowsError("a body begins with one hello")
        first = False
        frame = _decode_row(payload) if kind == ROW else _decode_json(kind, payload, signs)
        series += len(frame.series) if isinstance(frame, SeriesFrame) else 0
        if series > MAX_COLUMNS:
            raise BadRowsError(f"more than {MAX_COLUMNS} series in one body")
        yield frame
        rest = rest[_HEAD.size + length :]


def unpacked_size(body: bytes) -> int:
    """Returns the bytes of the frames of a body as it declares them, at most `MAX_BYTES`; that where it does not."""
    try:
        size = zstandard.frame_content_size(body)
    except zstandard.ZstdError:
        return len(body)
    return size if 0 <= size <= MAX_BYTES else MAX_BYTES


def unpack(body: bytes) -> bytes:
    """Returns the frames of a body, as bytes.

    Raises:
        BadRowsError: it is not packed as it should be, or exceeds its limits.
    """
    if len(body) > MAX_PACKED_BYTES:
        raise BadRowsError(f"{len(body)} bytes, more than {MAX_PACKED_BYTES}")
    try:
        size = zstandard.frame_content_size(body)
        unpacker = zstandard.ZstdDecompressor(max_window_size=MAX_BYTES)
        if 0 < size <= MAX_BYTES:
            # Agents declare the size, so that no buffer for the largest body is needed.
            return unpacker.decompress(body)
        with unpacker.stream_reader(body) as reader:
            found = reader.read(MAX_BYTES + 1)
    except zstandard.ZstdError as error:
        raise BadRowsError(f"not compressed by zstandard: {error}") from None
    if len(found) > MAX_BYTES:
        raise BadRowsError(f"more than {MAX_BYTES} bytes when unpacked")
    return found


def _decode_json(kind: int, payload: memoryview, signs: dict[bytes, int]) -> HelloFrame | SeriesFrame:
    """Returns a hello or an announcement; `signs` counts those of all frames of the body."""
    if kind not in (HELLO, SERIES):
        raise BadRowsError(f"a frame of kind {kind}")
    most = MAX_HELLO_BYTES if kind == HELLO else MAX_JSON_BYTES
    if len(payload) > most:
        raise BadRowsError(
            f"{'a hello' if kind == HELLO else 'a series frame'} of {len(payload)} bytes, more than {most}"
        )
    text = bytes(payload)
    _check_signs(text, signs)
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        raise BadRowsError("a frame whose JSON cannot be read") from None
    if not isinstance(data, dict):
        raise BadRowsError("a frame that is no JSON object")
    if kind == HELLO:
        return HelloFrame(
            _parse_text(data.get("node")), _parse_text(data.get("boot")), _parse_text(data.get("version"))
        )
    series = data.get("series")
    if not isinstance(series, list):
        raise BadRowsError("series that are no list")
    if len(series) > MAX_SERIES_A_FRAME:
        raise BadRowsError(f"{len(series)} series in one frame, more than {MAX_SERIES_A_FRAME}")
    table, first = _parse_bounded_int(data.get("table"), MAX_TABLES), _parse_bounded_int(data.get("first"), MAX_COLUMNS)
    if first + len(series) > MAX_COLUMNS:
        raise BadRowsError(f"a table of {first + len(series)} columns, more than {MAX_COLUMNS}")
    return SeriesFrame(table, first, _parse_keys(series))


def _check_signs(text: bytes, signs: dict[bytes, int]) -> None:
    """Checks the parts of a JSON frame; `signs` counts those of all frames of the body."""
    for sign, each in SIGNS_A_SERIES.items():
        found = text.count(sign)
        signs[sign] += found
        bounds = (("a JSON frame", found, MAX_SERIES_A_FRAME), ("JSON frames", signs[sign], MAX_COLUMNS))
        for where, many, series in bounds:
            if many > each * series:
                raise BadRowsError(f"{where} with more than {each * series} times {sign.decode()}")


def _decode_row(payload: memoryview) -> RowFrame:
    if len(payload) < _ROW.size:
        raise BadRowsError("a row without its head")
    sequence, time, table, count = _ROW.unpack_from(payload)
    if len(payload) != _ROW.size + 8 * count:
        raise BadRowsError(f"a row of {count} values in {len(payload)} bytes")
    if not math.isfinite(time):
        raise BadRowsError("a row without a time")
    return RowFrame(sequence, time, table, np.frombuffer(payload, "<f8", count, _ROW.size))


def _parse_keys(series: list[object]) -> tuple[SeriesKey, ...]:
    """Parses all series of an announcement; the texts are checked together first, which is fast."""
    if all(type(parts) is list and len(parts) == _KEY_PARTS for parts in series):
        lists = cast("list[list[str]]", series)
        texts = [text for parts in lists for text in parts]
        with suppress(TypeError):
            if "".join(texts).isprintable() and max(map(len, texts), default=0) <= MAX_TEXT:
                return tuple(SeriesKey(*parts) for parts in lists)
    # Check each alone, to report the error.
    return tuple(map(_parse_key, series))


def _parse_key(parts: object) -> SeriesKey:
    if not isinstance(parts, Sequence) or isinstance(parts, str) or len(parts) != _KEY_PARTS:
        raise BadRowsError("a series that is not signal, kind, entity, selector")
    signal, kind, entity, selector = map(_parse_text, parts)
    return SeriesKey(signal, kind, entity, selector)


def _parse_text(found: object) -> str:
    if not isinstance(found, str) or len(found) > MAX_TEXT or not found.isprintable():
        raise BadRowsError(f"a name that is no printable text of at most {MAX_TEXT} characters")
    return found


def _parse_bounded_int(found: object, limit: int) -> int:
    if not isinstance(found, int) or isinstance(found, bool) or not 0 <= found < limit:
        raise BadRowsError(f"a number from 0 to {limit - 1} was expected")
    return found
