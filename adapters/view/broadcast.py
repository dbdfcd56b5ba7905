"""A scene on its way to a console far away: one compressed message for each look.

A message is a head as JSON, its length before it (`<I`), and then the arrays of the frame end to end, the whole
compressed by zstandard. What hardly changes is sent once: a console tells which roster it has, and how many rows of it.
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
"""Of a message, unpacked."""
MAX_ROWS = 200_000
_LENGTH = struct.Struct("<I")
_FLOAT_COLUMNS = ("value", "baseline", "deviation", "peer_median", "peer_spread", "age")
"""Arrays of a frame, as float32 and in this order; `stale` follows them as bytes."""
_ROW_BYTES = len(_FLOAT_COLUMNS) * 4 + 1


@dataclass(frozen=True, slots=True)
class ViewUpdate:
    """What a camera saw in one tick; `roster` names its list of series, which only grows."""

    series_index_id: str
    snapshot: ViewSnapshot
    frame: ViewFrame


class InvalidViewMessageError(SkewscopeError):
    """A message that is none, or more than a console takes."""


def encode_view(shot: ViewUpdate, roster: str = "", rows: int = 0) -> bytes:
    """A message for a console that has so many rows of a roster already."""
    scene, frame = shot.snapshot, shot.frame
    series = scene.signals.series_index.series[: len(frame.value)]
    first = min(rows, len(series)) if roster == shot.series_index_id else 0
    head = {
        "roster": shot.series_index_id,
        "first": first,
        "series": [astuple(one) for one in series[first:]],
        "rows": len(frame.value),
        "time": scene.time,
        "start": scene.start,
        "end": scene.end,
        "incidents": [_incident_to_json(incident) for incident in scene.incidents],
        "sources": [astuple(source) for source in scene.sources],
        "missing": scene.missing,
        "silenced": dict(scene.silenced),
        "rules": [astuple(rule) for rule in scene.rules],
        "terms": dict(scene.evidence_names) if not first else None,
        "said": [[*key, *astuple(spoken)] for key, spoken in frame.evidence.items()],
    }
    text = json.dumps(head, separators=(",", ":"), ensure_ascii=False).encode()
    arrays = [np.ascontiguousarray(getattr(frame, name), "<f4").tobytes() for name in _FLOAT_COLUMNS]
    whole = b"".join((_LENGTH.pack(len(text)), text, *arrays, frame.stale.astype(np.uint8).tobytes()))
    return zstandard.ZstdCompressor(level=1).compress(whole)


def _incident_to_json(incident: Incident) -> Mapping[str, Any]:
    return incident.as_json() | {"flaps": incident.flaps, "history": incident.history}


@dataclass
class ViewReceiver:
    """What a console knows of a fleet elsewhere."""

    topology: Topology = field(default_factory=Topology)
    series_index_id: str = ""
    """The name of the list of series that it has."""
    series: tuple[SeriesInfo, ...] = ()
    _evidence_names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    _series_index: SeriesIndex = field(default_factory=SeriesIndex)

    def apply(self, message: bytes) -> tuple[ViewSnapshot, ViewFrame]:
        """The scene of a message, without its frames, and its frame.

        Raises:
            BadSceneError: it is no message, or its series do not go on where those that are known end.
        """
        head, arrays = _decode_message(message)
        try:
            frame = _parse_frame(head, arrays)
            self._update_series(head)
            if len(self.series) != len(frame.value):
                raise InvalidViewMessageError(f"{len(frame.value)} values of {len(self.series)} series")
            return self._build_snapshot(head), frame
        except (KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
            raise InvalidViewMessageError(f"what the controller shows cannot be read: {error!r}"[:200]) from None

    def _update_series(self, head: Mapping[str, Any]) -> None:
        first = int(head["first"])
        if first and (head["roster"] != self.series_index_id or first > len(self.series)):
            raise InvalidViewMessageError("series that go on from others than those that are known")
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
            tuple(_parse_incident(told) for told in head["incidents"]),
            tuple(SourceState(*one) for one in head["sources"]),
            tuple(map(str, head["missing"])),
            tuple(map(_parse_rule_health, head["rules"])),
            SignalView(self._series_index, ()),
            frozenset(self._series_index.by_signal),
            self._evidence_names,
            {str(incident): str(silence) for incident, silence in head.get("silenced", {}).items()},
        )


def _decode_message(message: bytes) -> tuple[Mapping[str, Any], bytes]:
    """Head and arrays of a message."""
    try:
        with zstandard.ZstdDecompressor(max_window_size=MAX_BYTES).stream_reader(message) as reader:
            whole = reader.read(MAX_BYTES + 1)
        if len(whole) > MAX_BYTES:
            raise InvalidViewMessageError(f"more than {MAX_BYTES} bytes to show")
        end = _LENGTH.size + _LENGTH.unpack_from(whole)[0]
        head = json.loads(whole[_LENGTH.size : end])
    except (zstandard.ZstdError, struct.error, ValueError, RecursionError):
        raise InvalidViewMessageError("what the controller shows cannot be read: no message") from None
    if not isinstance(head, dict):
        raise InvalidViewMessageError("what the controller shows cannot be read: no object")
    return head, whole[end:]


def _parse_frame(head: Mapping[str, Any], arrays: bytes) -> ViewFrame:
    rows = int(head["rows"])
    if not 0 <= rows <= MAX_ROWS or len(arrays) != rows * _ROW_BYTES:
        raise InvalidViewMessageError(f"{len(arrays)} bytes for {rows} rows")
    floats = (
        np.frombuffer(arrays, "<f4", rows * len(_FLOAT_COLUMNS)).reshape(len(_FLOAT_COLUMNS), rows).astype(np.float32)
    )
    stale = np.frombuffer(arrays, np.uint8, rows, rows * len(_FLOAT_COLUMNS) * 4) != 0
    value, usual, deviation, peers, spread, age = floats
    said = dict(map(_parse_evidence, head["said"]))
    return ViewFrame(float(head["time"]), value, usual, deviation, peers, spread, age, stale, said)


def _parse_series(told: Sequence[Any]) -> SeriesInfo:
    signal, kind, entity, selector, unit, group = told
    return SeriesInfo(str(signal), str(kind), str(entity), str(selector), str(unit), int(group))


def _parse_rule_health(told: Sequence[Any]) -> RuleHealth:
    rule, condition, judged, firing, suppressed, unknown, lacking = told
    return RuleHealth(rule, condition, judged, firing, suppressed, unknown, tuple(map(str, lacking)))


def _parse_evidence(told: Sequence[Any]) -> tuple[tuple[str, str, str], EvidenceRow]:
    rule, kind, name, score, coverage, verdicts, values = told
    return (str(rule), str(kind), str(name)), EvidenceRow(score, coverage, tuple(verdicts), tuple(values))


def _parse_incident(told: Mapping[str, Any]) -> Incident:
    history = tuple((float(t), str(what)) for t, what in told["history"])
    return replace(parse_incident(told), flaps=int(told["flaps"]), history=history)
