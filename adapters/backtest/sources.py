"""Where the segments of a recording come from: all of it, or its inputs one after another."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from skewscope.adapters.backtest.telemetry import load_telemetry
from skewscope.adapters.backtest.track import Segment, cut_recording
from skewscope.adapters.inputs.recording import Recording, RecordingData, input_size
from skewscope.adapters.inputs.successive import SuccessiveInputs, may_be_successive
from skewscope.engine.ingest.feed import SeriesKey
from skewscope.engine.model.arrays import Mask
from skewscope.kb.loader import catalogue

READ_SHARE = 0.3
"""Share of the progress of a recording that reading all of it takes."""
MIN_SUCCESSIVE_BYTES = 16 << 20
"""Smaller recordings are read as a whole: that takes no time to speak of."""

Report = Callable[[str, float], None]
"""Receives what is being done ("read", "judge"), and the share of all that is done."""


@dataclass(frozen=True)
class TelemetryPart:
    """Telemetry of which the first segments may be cut: all of a recording, or its first input."""

    recording: Recording
    """With the length of its ticks."""
    keys: tuple[SeriesKey, ...]
    """All series, by number."""
    ends: Mapping[SeriesKey, float] = field(default_factory=dict)
    """When the inputs of series end, where that is known, in seconds since 1970."""


@dataclass(frozen=True)
class TelemetrySummary:
    """What is known of telemetry at its end."""

    start: float
    end: float
    """Seconds since 1970."""
    samples: int
    input_hash: str


class SegmentSource(Protocol):
    """The telemetry of one recording, in order of time."""

    def open(self, report: Report) -> TelemetryPart:
        """Reads as much as the first segment needs.

        Raises:
            InputError: all problems of the inputs.
            NotSuccessiveError: the recording must be read as a whole.
        """

    def cut(self, cuts: int | None, wanted: Mask | None, report: Report) -> Iterator[Segment]:
        """Yields all segments; arguments as of `cut_recording`, errors as of `open`."""

    def summary(self) -> TelemetrySummary:
        """Returns what is known after the last segment."""


@dataclass
class WholeTelemetry:
    """A recording that is read before it is cut."""

    recording: Recording
    workers: int | None
    """Processes that read; None: as many as pay."""
    _loaded: RecordingData | None = None

    def open(self, report: Report) -> TelemetryPart:
        """Reads all of it, if that was not done before."""
        if self._loaded is None:
            read = lambda _what, share: report("read", READ_SHARE * share)  # noqa: E731
            self._loaded, self.recording = load_telemetry(self.recording, read, self.workers)
        loaded = self._loaded
        keys = tuple(loaded.table.keys)
        return TelemetryPart(self.recording, keys, loaded.samples.list_ends(loaded.table))

    def cut(self, cuts: int | None, wanted: Mask | None, report: Report) -> Iterator[Segment]:
        """Yields all segments."""
        assert self._loaded is not None
        loaded = self._loaded
        length = max(loaded.end - loaded.start, 1e-9)
        for segment in cut_recording(loaded, self.recording, cuts, wanted):
            yield segment
            done = min(max((float(segment.ends[-1]) - loaded.start) / length, 0.0), 1.0)
            report("judge", READ_SHARE + (1 - READ_SHARE) * done)

    def summary(self) -> TelemetrySummary:
        """Returns what is known."""
        assert self._loaded is not None
        loaded = self._loaded
        return TelemetrySummary(loaded.start, loaded.end, len(loaded.samples), loaded.input_hash)


@dataclass
class SuccessiveTelemetry:
    """A recording whose inputs are read while those before them are judged."""

    recording: Recording
    workers: int | None
    """Cores of this machine that may be used; None: all."""

    def open(self, report: Report) -> TelemetryPart:
        """Reads the first input."""
        self._inputs = SuccessiveInputs(self.recording, catalogue())
        self._parts = self._inputs.read(self.workers, lambda share: report("judge", share))
        self._first = next(self._parts)
        return TelemetryPart(self.recording, tuple(self._inputs.table.keys))

    def cut(self, cuts: int | None, wanted: Mask | None, report: Report) -> Iterator[Segment]:  # noqa: ARG002
        """Yields all segments, which are as long as fits into memory well."""
        after = None
        part: RecordingData | None = self._first
        del self._first
        while part is not None:
            for segment in cut_recording(part, self.recording, None, wanted, after):
                yield segment
                after = float(segment.ends[-1])
            part = next(self._parts, None)

    def summary(self) -> TelemetrySummary:
        """Returns what is known."""
        inputs = self._inputs
        return TelemetrySummary(inputs.start, inputs.end, inputs.samples, inputs.input_hash)


def choose_source(recording: Recording, workers: int | None, *, successive: bool) -> SegmentSource:
    """Returns the source of a recording; `successive`: whether its inputs may be judged one after another."""
    if successive and may_be_successive(recording):
        size = sum(input_size(recording, source) for source in recording.inputs)
        if size >= MIN_SUCCESSIVE_BYTES:
            return SuccessiveTelemetry(recording, workers)
    return WholeTelemetry(recording, workers)
