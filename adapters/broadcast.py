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

from skewscope.adapters.scene import Frame, Roster, RuleHealth, Scene, Series, Signals, SourceState, Spoken
from skewscope.engine.incident import Incident, incident_of
from skewscope.engine.topology import Topology
from skewscope.kb.problems import SkewscopeError

CONTENT_TYPE = "application/vnd.skewscope.scene.v1+zstd"
MOST_BYTES = 64 << 20
"""Of a message, unpacked."""
MOST_ROWS = 200_000
_LENGTH = struct.Struct("<I")
_FLOATS = ("value", "usual", "deviation", "peers", "spread", "age")
"""Arrays of a frame, as float32 and in this order; `stale` follows them as bytes."""
_ROW = len(_FLOATS) * 4 + 1


@dataclass(frozen=True, slots=True)
class Shot:
    """What a camera saw in one tick; `roster` names its list of series, which only grows."""

    roster: str
    scene: Scene
    frame: Frame


class BadSceneError(SkewscopeError):
    """A message that is none, or more than a console takes."""


def encoded(shot: Shot, roster: str = "", rows: int = 0) -> bytes:
    """A message for a console that has so many rows of a roster already."""
    scene, frame = shot.scene, shot.frame
    series = scene.signals.roster.series[: len(frame.value)]
    first = min(rows, len(series)) if roster == shot.roster else 0
    head = {
        "roster": shot.roster,
        "first": first,
        "series": [astuple(one) for one in series[first:]],
        "rows": len(frame.value),
        "time": scene.time,
        "start": scene.start,
        "end": scene.end,
        "incidents": [_told(incident) for incident in scene.incidents],
        "sources": [astuple(source) for source in scene.sources],
        "missing": scene.missing,
        "silenced": dict(scene.silenced),
        "rules": [astuple(rule) for rule in scene.rules],
        "terms": dict(scene.terms) if not first else None,
        "said": [[*key, *astuple(spoken)] for key, spoken in frame.said.items()],
    }
    text = json.dumps(head, separators=(",", ":"), ensure_ascii=False).encode()
    arrays = [np.ascontiguousarray(getattr(frame, name), "<f4").tobytes() for name in _FLOATS]
    whole = b"".join((_LENGTH.pack(len(text)), text, *arrays, frame.stale.astype(np.uint8).tobytes()))
    return zstandard.ZstdCompressor(level=1).compress(whole)


def _told(incident: Incident) -> Mapping[str, Any]:
    return incident.as_json() | {"flaps": incident.flaps, "history": incident.history}


@dataclass
class Onlooker:
    """What a console knows of a fleet elsewhere."""

    topology: Topology = field(default_factory=Topology)
    roster: str = ""
    """The name of the list of series that it has."""
    series: tuple[Series, ...] = ()
    _terms: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    _known: Roster = field(default_factory=Roster)

    def take(self, message: bytes) -> tuple[Scene, Frame]:
        """The scene of a message, without its frames, and its frame.

        Raises:
            BadSceneError: it is no message, or its series do not go on where those that are known end.
        """
        head, arrays = _parts(message)
        try:
            frame = _frame(head, arrays)
            self._learn(head)
            if len(self.series) != len(frame.value):
                raise BadSceneError(f"{len(frame.value)} values of {len(self.series)} series")
            return self._scene(head), frame
        except (KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
            raise BadSceneError(f"what the controller shows cannot be read: {error!r}"[:200]) from None

    def _learn(self, head: Mapping[str, Any]) -> None:
        first = int(head["first"])
        if first and (head["roster"] != self.roster or first > len(self.series)):
            raise BadSceneError("series that go on from others than those that are known")
        new = tuple(map(_series, head["series"]))
        if not first:
            self._terms = {str(rule): tuple(map(str, names)) for rule, names in head["terms"].items()}
        if new or not first:
            self.series = (*self.series[:first], *new)
            self._known = Roster(self.series)
        self.roster = str(head["roster"])

    def _scene(self, head: Mapping[str, Any]) -> Scene:
        return Scene(
            float(head["time"]),
            float(head["start"]),
            float(head["end"]),
            self.topology,
            tuple(_incident(told) for told in head["incidents"]),
            tuple(SourceState(*one) for one in head["sources"]),
            tuple(map(str, head["missing"])),
            tuple(map(_health, head["rules"])),
            Signals(self._known, ()),
            frozenset(self._known.by_signal),
            self._terms,
            {str(incident): str(silence) for incident, silence in head.get("silenced", {}).items()},
        )


def _parts(message: bytes) -> tuple[Mapping[str, Any], bytes]:
    """Head and arrays of a message."""
    try:
        with zstandard.ZstdDecompressor(max_window_size=MOST_BYTES).stream_reader(message) as reader:
            whole = reader.read(MOST_BYTES + 1)
        if len(whole) > MOST_BYTES:
            raise BadSceneError(f"more than {MOST_BYTES} bytes to show")
        end = _LENGTH.size + _LENGTH.unpack_from(whole)[0]
        head = json.loads(whole[_LENGTH.size : end])
    except (zstandard.ZstdError, struct.error, ValueError, RecursionError):
        raise BadSceneError("what the controller shows cannot be read: no message") from None
    if not isinstance(head, dict):
        raise BadSceneError("what the controller shows cannot be read: no object")
    return head, whole[end:]


def _frame(head: Mapping[str, Any], arrays: bytes) -> Frame:
    rows = int(head["rows"])
    if not 0 <= rows <= MOST_ROWS or len(arrays) != rows * _ROW:
        raise BadSceneError(f"{len(arrays)} bytes for {rows} rows")
    floats = np.frombuffer(arrays, "<f4", rows * len(_FLOATS)).reshape(len(_FLOATS), rows).astype(np.float32)
    stale = np.frombuffer(arrays, np.uint8, rows, rows * len(_FLOATS) * 4) != 0
    value, usual, deviation, peers, spread, age = floats
    said = dict(map(_spoken, head["said"]))
    return Frame(float(head["time"]), value, usual, deviation, peers, spread, age, stale, said)


def _series(told: Sequence[Any]) -> Series:
    signal, kind, entity, selector, unit, group = told
    return Series(str(signal), str(kind), str(entity), str(selector), str(unit), int(group))


def _health(told: Sequence[Any]) -> RuleHealth:
    rule, condition, judged, firing, suppressed, unknown, lacking = told
    return RuleHealth(rule, condition, judged, firing, suppressed, unknown, tuple(map(str, lacking)))


def _spoken(told: Sequence[Any]) -> tuple[tuple[str, str, str], Spoken]:
    rule, kind, name, score, coverage, verdicts, values = told
    return (str(rule), str(kind), str(name)), Spoken(score, coverage, tuple(verdicts), tuple(values))


def _incident(told: Mapping[str, Any]) -> Incident:
    history = tuple((float(t), str(what)) for t, what in told["history"])
    return replace(incident_of(told), flaps=int(told["flaps"]), history=history)
