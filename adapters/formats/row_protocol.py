"""What agents push: series announced once, then one compact row of numbers a tick.

A body is frames end to end, as a whole compressed by zstandard. Each frame is a head (`<BI`: kind, length of what
follows) and its payload:

* **hello** (0), first in each body: JSON `{"node", "boot", "version"}`; `boot` is new at each start of an agent, so
  that what was sent twice is known by (node, boot, sequence).
* **series** (1): JSON `{"table", "first", "series": [[signal, kind, entity, selector], ...]}`: columns `first`... of
  a table. Series with the same rhythm share a table, so that rows have few gaps; tables only grow.
* **row** (2): `<QdII` sequence, time (seconds since 1970), table, count; then that many little-endian float64, NaN
  for a gap. A row may be shorter than its table.

The receiver keeps what was announced by (node, boot); a row of a table that it does not know is refused whole, and the
agent announces again. It answers with the highest sequence that it has taken, up to which the agent forgets.
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

from skewscope.engine.ingest.feed import F64, SeriesKey

CONTENT_TYPE = "application/vnd.skewscope.rows.v1+zstd"
ROWS_PATH = "/api/v1/rows"
MAX_BYTES = 16 << 20
"""Of a body, unpacked."""
MAX_PACKED_BYTES = 4 << 20
MAX_COLUMNS = 1 << 16
MAX_TABLES = 256
MAX_TEXT = 512
"""Characters of a name."""
HELLO, SERIES, ROW = range(3)
_HEAD = struct.Struct("<BI")
_ROW = struct.Struct("<QdII")
_KEY_PARTS = 4


class BadRowsError(ValueError):
    """A body that no agent of ours sends."""


@dataclass(frozen=True, slots=True)
class HelloFrame:
    """Who sends."""

    node: str
    boot: str
    version: str


@dataclass(frozen=True, slots=True)
class SeriesFrame:
    """What the columns of a table are, from `first` on."""

    table: int
    first: int
    series: tuple[SeriesKey, ...]


@dataclass(frozen=True, slots=True)
class RowFrame:
    """The values of a table at one time, s since 1970."""

    sequence: int
    time: float
    table: int
    values: F64


WireFrame = HelloFrame | SeriesFrame | RowFrame


def encode(frames: Iterable[WireFrame]) -> bytes:
    """A body."""
    return zstandard.ZstdCompressor(level=1).compress(b"".join(_encode_frame(frame) for frame in frames))


def _encode_frame(frame: WireFrame) -> bytes:
    if isinstance(frame, RowFrame):
        values = np.ascontiguousarray(frame.values, "<f8")
        payload = _ROW.pack(frame.sequence, frame.time, frame.table, len(values)) + values.tobytes()
        return _HEAD.pack(ROW, len(payload)) + payload
    told: dict[str, object]
    if isinstance(frame, HelloFrame):
        kind, told = HELLO, {"node": frame.node, "boot": frame.boot, "version": frame.version}
    else:
        series = [[key.signal, key.kind, key.entity, key.selector] for key in frame.series]
        kind, told = SERIES, {"table": frame.table, "first": frame.first, "series": series}
    payload = json.dumps(told, separators=(",", ":"), ensure_ascii=False).encode()
    return _HEAD.pack(kind, len(payload)) + payload


def decode(body: bytes) -> Iterator[WireFrame]:
    """The frames of a body, the hello first.

    Raises:
        BadRowsError: it is none, or larger than any agent sends.
    """
    rest = memoryview(_decompress(body))
    first = True
    while rest or first:
        if len(rest) < _HEAD.size:
            raise BadRowsError(f"{len(rest)} bytes after the last frame")
        kind, length = _HEAD.unpack_from(rest)
        payload = rest[_HEAD.size : _HEAD.size + length]
        if len(payload) != length:
            raise BadRowsError(f"a frame of {length} bytes is cut short after {len(payload)}")
        if first != (kind == HELLO):
            raise BadRowsError("a body begins with one hello")
        first = False
        yield _decode_frame(kind, payload)
        rest = rest[_HEAD.size + length :]


def _decompress(body: bytes) -> bytes:
    if len(body) > MAX_PACKED_BYTES:
        raise BadRowsError(f"{len(body)} bytes, more than {MAX_PACKED_BYTES}")
    try:
        size = zstandard.frame_content_size(body)
        unpacker = zstandard.ZstdDecompressor(max_window_size=MAX_BYTES)
        if 0 < size <= MAX_BYTES:
            # Said beforehand, as our agents do: nothing has to be held ready for the largest body there may be.
            return unpacker.decompress(body)
        with unpacker.stream_reader(body) as reader:
            found = reader.read(MAX_BYTES + 1)
    except zstandard.ZstdError as error:
        raise BadRowsError(f"not compressed by zstandard: {error}") from None
    if len(found) > MAX_BYTES:
        raise BadRowsError(f"more than {MAX_BYTES} bytes when unpacked")
    return found


def _decode_frame(kind: int, payload: memoryview) -> WireFrame:
    if kind == ROW:
        return _decode_row(payload)
    if kind not in (HELLO, SERIES):
        raise BadRowsError(f"a frame of kind {kind}")
    try:
        told = json.loads(bytes(payload))
    except (ValueError, RecursionError):
        raise BadRowsError("a frame whose JSON cannot be read") from None
    if not isinstance(told, dict):
        raise BadRowsError("a frame that is no JSON object")
    if kind == HELLO:
        return HelloFrame(
            _parse_text(told.get("node")), _parse_text(told.get("boot")), _parse_text(told.get("version"))
        )
    series = told.get("series")
    if not isinstance(series, list):
        raise BadRowsError("series that are no list")
    table, first = _parse_bounded_int(told.get("table"), MAX_TABLES), _parse_bounded_int(told.get("first"), MAX_COLUMNS)
    if first + len(series) > MAX_COLUMNS:
        raise BadRowsError(f"a table of {first + len(series)} columns, more than {MAX_COLUMNS}")
    return SeriesFrame(table, first, _parse_keys(series))


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
    """All series of an announcement; one look at all texts together tells that nothing is amiss."""
    if all(type(parts) is list and len(parts) == _KEY_PARTS for parts in series):
        lists = cast("list[list[str]]", series)
        texts = [text for parts in lists for text in parts]
        with suppress(TypeError):
            if "".join(texts).isprintable() and max(map(len, texts), default=0) <= MAX_TEXT:
                return tuple(SeriesKey(*parts) for parts in lists)
    # Something is wrong: told by who looks at each alone.
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
