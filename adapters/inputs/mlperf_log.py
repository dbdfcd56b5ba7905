"""Inputs of kind `mlperf-log`: the result of an MLPerf training run, lines of `:::MLLOG` with JSON.

Statistics (`tracked_stats`) give samples a second and the time of a step; without the latter it is
`global_batch_size` by samples a second. Up to round 2.1, samples a second have an event of their own (`throughput`),
which counts where no statistics give them. Where a run has neither, both follow from the samples between `block_start`
and `block_stop`. Rates that are means since the run began (Mask R-CNN) are taken apart.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from skewscope.adapters.formats.log_lines import decode_head
from skewscope.adapters.inputs import nemo_log
from skewscope.adapters.inputs.labelled import LabelledSeries, artefact_reader
from skewscope.adapters.inputs.messages import with_messages
from skewscope.adapters.inputs.running_means import RateMark, split_running_means
from skewscope.adapters.inputs.text import is_of_kind
from skewscope.adapters.inputs.training_steps import STEP_DURATION, LogLine, StepReader, read_steps
from skewscope.kb.problems import InputError, Problem

EXAMPLE = '`:::MLLOG {..., "key": "tracked_stats", "value": {"throughput": 2.1}, ...}`'
MARK = ":::MLLOG "
MAX_NUMBER = 1e18
STEP_TIMES = ("train_step_time", "train_step_timing in s")
"""Statistics that are the seconds of a step."""


@dataclass
class MlperfParser:
    """Finds the rates in the events of a run."""

    file: str
    batch: float = 0.0
    """Samples in a step; 0 until it is known."""
    block: tuple[float, float] | None = None
    """Seconds since 1970 and samples at the begin of the block that is running."""
    derived: tuple[LogLine, float] | None = None
    """End and rate of the last block, until it is known that no statistics give its rate."""
    held: tuple[LogLine, float] | None = None
    """Line and rate of the last event that is a rate, until it is known that no statistics give it."""
    tracked: bool = False
    """Whether statistics give the rate."""
    timed: bool = False
    """Whether the run tracks the time of its steps."""
    stepped: list[tuple[LogLine, RateMark]] = field(default_factory=list)
    """Statistics that give a rate and the number of steps, until it is known whether it is a mean of all of them."""

    def read_line(self, line: LogLine, steps: StepReader) -> None:
        """Adds the rate of an event.

        Raises:
            InputError: the event is damaged.
        """
        event = self._parse_event(line)
        if event is None:
            return
        key, value, time = event.get("key"), event.get("value"), float(event["time_ms"]) / 1e3
        if key == "global_batch_size":
            self.batch = positive_number(value) or self.batch
        elif key == "tracked_stats" and isinstance(value, dict):
            self._read_stats(event, value, LogLine(line.number, "", time), steps)
        elif key == "throughput" and not self.tracked and (rate := positive_number(value)):
            self._hold_rate(LogLine(line.number, "", time), rate, steps)
        elif key in ("block_start", "block_stop"):
            self._read_block(event, LogLine(line.number, "", time), steps)

    def finish(self, steps: StepReader) -> None:
        """Adds the rates that were held."""
        self._add_held(steps)
        marks = [mark for _, mark in self.stepped]
        split = split_running_means(marks, self.batch) if self.batch else None
        # Of means since the begin, the first says nothing of the steps before it alone.
        rates = [mark.rate for mark in marks] if split is None else [math.nan, *split]
        for (line, _), rate in zip(self.stepped, rates, strict=True):
            if not math.isnan(rate):
                self._add_rate(line, rate, steps)
        self.stepped = []

    def _add_held(self, steps: StepReader) -> None:
        """Adds the rate of the last block or event, where no statistics gave it."""
        if last := self.held or self.derived:
            self._add_rate(*last, steps)
        self.held = self.derived = None

    def _hold_rate(self, line: LogLine, rate: float, steps: StepReader) -> None:
        if self.held:
            self._add_rate(*self.held, steps)
        self.held, self.derived, self.block = (line, rate), None, None

    def _read_stats(self, event: dict[str, Any], stats: dict[str, Any], line: LogLine, steps: StepReader) -> None:
        seconds = next((found for name in STEP_TIMES if (found := positive_number(stats.get(name)))), None)
        if seconds is not None and line.time is not None:
            # The first step is the set-up as well.
            if self.timed:
                steps.collector.add(STEP_DURATION, {"group": steps.group}, line.time, seconds, line.number)
            self.timed, self.derived, self.block = True, None, None
        if rate := positive_number(stats.get("throughput")):
            self.held = self.derived = self.block = None
            self.tracked = True
            step = positive_number(metadata_of(event).get("step"))
            if step is None or self.timed or line.time is None:
                self._add_rate(line, rate, steps)
            else:
                self.stepped.append((line, RateMark(line.time, step, rate)))

    def _read_block(self, event: dict[str, Any], line: LogLine, steps: StepReader) -> None:
        samples = metadata_of(event).get("samples_count")
        done = 0.0 if samples == 0 else positive_number(samples) or math.nan
        if event["key"] == "block_start":
            self._add_held(steps)
            self.block = line.time or 0.0, done
        elif self.block:
            began, before = self.block
            if done > before and line.time is not None and line.time > began:
                self.derived = line, (done - before) / (line.time - began)
            self.block = None

    def _add_rate(self, line: LogLine, rate: float, steps: StepReader) -> None:
        steps.add_rate(line, rate)
        if self.batch and not self.timed and line.time is not None:
            steps.collector.add(STEP_DURATION, {"group": steps.group}, line.time, self.batch / rate, line.number)

    def _parse_event(self, line: LogLine) -> dict[str, Any] | None:
        """Returns the event of a line; None where it has none."""
        _, mark, text = line.text.partition(MARK)
        if not mark:
            return None
        try:
            event, _ = json.JSONDecoder().raw_decode(text)
        except (ValueError, RecursionError):
            hint = "Is the file cut off, or a line of another process in the middle of it?"
            raise InputError([Problem(self.file, line.number, "", f"{text!r:.60}", "a JSON object", hint)]) from None
        if not isinstance(event, dict) or not positive_number(event.get("time_ms")):
            raise InputError([Problem(self.file, line.number, "time_ms", f"{text!r:.60}", "milliseconds since 1970")])
        return event


def metadata_of(event: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns what an event says of itself; nothing where that is no object."""
    metadata = event.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def positive_number(value: object) -> float | None:
    """Returns a value of JSON that is a number above 0; None for any other."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < MAX_NUMBER:
        return None
    return float(value)


def recognise(head: bytes, _name: str) -> bool:
    """Returns whether the first bytes of a file are a result of MLPerf.

    A log that shows each step as well is one of its framework.
    """
    lines = decode_head(head)
    return any(MARK in line for line in lines) and not (
        is_of_kind("megatron-log", head) or nemo_log.recognise(head, "")
    )


@with_messages
def read_series(file: BinaryIO, name: str, labels: Mapping[str, str]) -> list[LabelledSeries]:
    """Returns the rate of the job, and its step time where the batch size is known.

    Raises:
        InputError: an event is damaged, or no rate is in the log.
    """
    return read_steps(file, name, labels, MlperfParser(name), EXAMPLE)


READER = artefact_reader(
    "MLPerf training log",
    read_series,
    recognise,
    placed_by_name=True,
    log_marks=(b":::MLLOG ",),
)
