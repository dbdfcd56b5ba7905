"""Encoding of view snapshots for remote consoles: one compressed message per poll.

A message is a length (`<I`), a header as JSON of that length, and the arrays of the frame end to end, the whole
compressed by zstandard. Series are sent once: a console names the index it has, and how many rows of it.
"""

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from typing import Any

import numpy as np
import zstandard

from skewscope.adapters.view.snapshot import (
    EvidenceRow,
    RuleHealth,
    SeriesIndex,
    SeriesInfo,
    SignalView,
    SourceState,
    ViewFrame,
    ViewSnapshot,
)
from skewscope.engine.model.incident import Incident, parse_incident
from skewscope.engine.model.topology import Topology
from skewscope.kb.problems import SkewscopeError

CONTENT_TYPE = "application/vnd.skewscope.scene.v1+zstd"
MAX_BYTES = 64 << 20
"""Limit on a message after decompression."""
MAX_ROWS = 200_000
_LENGTH = struct.Struct("<I")
_FLOAT_COLUMNS = ("value", "baseline", "deviation", "peer_median", "peer_spread", "age")
"""Columns of a frame, sent as float32 in this order; `stale` follows as bytes."""
_ROW_BYTES = len(_FLOAT_COLUMNS) * 4 + 1


@dataclass(frozen=True, slots=True)
class ViewUpdate:
    """The view of one tick; `series_index_id` identifies the list of series, which only grows."""

    series_index_id: str
    snapshot: ViewSnapshot
    frame: ViewFrame


class InvalidViewMessageError(SkewscopeError):
    """The message is damaged or exceeds the limits."""


def encode_view(update: ViewUpdate, index_id: str = "", rows: int = 0) -> bytes:
    """Encodes a message for a console that already has the first `rows` series of an index."""
    snapshot, frame = update.snapshot, update.frame
    series = snapshot.signals.series_index.series[: len(frame.value)]
    first = min(rows, len(series)) if index_id == update.series_index_id else 0
    header = {
        "roster": update.series_index_id,
        "first": first,
        "series": [astuple(info) for info in series[first:]],
        "rows": len(frame.value),
        "time": snapshot.time,
        "start": snapshot.start,
        "end": snapshot.end,
        "incidents": [_incident_to_json(incident) for incident in snapshot.incidents],
        "sources": [astuple(source) for source in snapshot.sources],
        "missing": snapshot.missing,
        "silenced": dict(snapshot.silenced),
        "acknowledged": dict(snapshot.acknowledged),
        "unplaced": {source: dict(reasons) for source, reasons in snapshot.unplaced.items()},
        "rules": [astuple(rule) for rule in snapshot.rules],
        "terms": dict(snapshot.evidence_names) if not first else None,
        "said": [[*key, *astuple(row)] for key, row in frame.evidence.items()],
    }
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    arrays = [np.ascontiguousarray(getattr(frame, name), "<f4").tobytes() for name in _FLOAT_COLUMNS]
    whole = b"".join((_LENGTH.pack(len(text)), text, *arrays, frame.stale.astype(np.uint8).tobytes()))
    return zstandard.ZstdCompressor(level=1).compress(whole)


def _incident_to_json(incident: Incident) -> Mapping[str, Any]:
    return incident.as_json() | {"flaps": incident.flaps, "history": incident.history}


@dataclass
class ViewReceiver:
    """Decodes messages and keeps the series that were sent before."""

    topology: Topology = field(default_factory=Topology)
    series_index_id: str = ""
    """Identifies the list in `series`."""
    series: tuple[SeriesInfo, ...] = ()
    _evidence_names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    _series_index: SeriesIndex = field(default_factory=SeriesIndex)

    def apply(self, message: bytes) -> tuple[ViewSnapshot, ViewFrame]:
        """Returns the snapshot of a message, without its frames, and its frame.

        Raises:
            InvalidViewMessageError: the message is damaged, or does not continue the known series.
        """
        head, arrays = _decode_message(message)
        try:
            frame = _parse_frame(head, arrays)
            self._update_series(head)
            if len(self.series) != len(frame.value):
                raise InvalidViewMessageError(f"{len(frame.value)} values of {len(self.series)} series")
            return self._build_snapshot(head), frame
        except (KeyError, TypeError, ValueError, IndexError, OverflowError, AttributeError) as error:
            raise InvalidViewMessageError(f"the controller's view cannot be decoded: {error!r}"[:200]) from None

    def _update_series(self, head: Mapping[str, Any]) -> None:
        first = int(head["first"])
        if first and (head["roster"] != self.series_index_id or first > len(self.series)):
            raise InvalidViewMessageError("the series do not continue the known ones")
        new = tuple(map(_parse_series, head["series"]))
        if not first:
            self._evidence_names = {str(rule): tuple(map(str, names)) for rule, names in head["terms"].items()}
        if new or not first:
            self.series = (*self.series[:first], *new)
            self._series_index = SeriesIndex(self.series)
        self.series_index_id = str(head["roster"])

    def _build_snapshot(self, head: Mapping[str, Any]) -> ViewSnapshot:
        return ViewSnapshot(
            float(head["time"]),
            float(head["start"]),
            float(head["end"]),
            self.topology,
            tuple(map(_parse_incident, head["incidents"])),
            tuple(SourceState(*fields) for fields in head["sources"]),
            tuple(map(str, head["missing"])),
            tuple(map(_parse_rule_health, head["rules"])),
            SignalView(self._series_index, ()),
            frozenset(self._series_index.by_signal),
            self._evidence_names,
            {str(incident): str(silence) for incident, silence in head.get("silenced", {}).items()},
            {str(incident): str(who) for incident, who in head.get("acknowledged", {}).items()},
            {str(source): _parse_counts(reasons) for source, reasons in head.get("unplaced", {}).items()},
        )


def _decode_message(message: bytes) -> tuple[Mapping[str, Any], bytes]:
    """Returns the header and the arrays of a message."""
    try:
        with zstandard.ZstdDecompressor(max_window_size=MAX_BYTES).stream_reader(message) as reader:
            whole = reader.read(MAX_BYTES + 1)
        if len(whole) > MAX_BYTES:
            raise InvalidViewMessageError(f"the view exceeds {MAX_BYTES} bytes")
        end = _LENGTH.size + _LENGTH.unpack_from(whole)[0]
        head = json.loads(whole[_LENGTH.size : end])
    except (zstandard.ZstdError, struct.error, ValueError, RecursionError):
        raise InvalidViewMessageError("the controller's view cannot be decoded: not a message") from None
    if not isinstance(head, dict):
        raise InvalidViewMessageError("the controller's view cannot be decoded: not a JSON object")
    return head, whole[end:]


def _parse_frame(head: Mapping[str, Any], arrays: bytes) -> ViewFrame:
    rows = int(head["rows"])
    if not 0 <= rows <= MAX_ROWS or len(arrays) != rows * _ROW_BYTES:
        raise InvalidViewMessageError(f"{len(arrays)} bytes for {rows} rows")
    floats = (
        np.frombuffer(arrays, "<f4", rows * len(_FLOAT_COLUMNS)).reshape(len(_FLOAT_COLUMNS), rows).astype(np.float32)
    )
    stale = np.frombuffer(arrays, np.uint8, rows, rows * len(_FLOAT_COLUMNS) * 4) != 0
    value, baseline, deviation, median, spread, age = floats
    evidence = dict(map(_parse_evidence, head["said"]))
    return ViewFrame(float(head["time"]), value, baseline, deviation, median, spread, age, stale, evidence)


def _parse_series(fields: Sequence[Any]) -> SeriesInfo:
    signal, kind, entity, selector, unit, group = fields
    return SeriesInfo(str(signal), str(kind), str(entity), str(selector), str(unit), int(group))


def _parse_counts(reasons: Mapping[str, Any]) -> dict[str, int]:
    return {str(reason): int(count) for reason, count in reasons.items()}


def _parse_rule_health(fields: Sequence[Any]) -> RuleHealth:
    rule, condition, judged, firing, suppressed, unknown, missing = fields
    return RuleHealth(rule, condition, judged, firing, suppressed, unknown, tuple(map(str, missing)))


def _parse_evidence(fields: Sequence[Any]) -> tuple[tuple[str, str, str], EvidenceRow]:
    rule, kind, name, score, coverage, verdicts, values = fields
    return (str(rule), str(kind), str(name)), EvidenceRow(score, coverage, tuple(verdicts), tuple(values))


def _parse_incident(data: Mapping[str, Any]) -> Incident:
    history = tuple((float(t), str(what)) for t, what in data["history"])
    return replace(parse_incident(data), flaps=int(data["flaps"]), history=history)
