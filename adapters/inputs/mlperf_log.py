"""Inputs of kind `mlperf-log`: the result of an MLPerf training run, lines of `:::MLLOG` with JSON.

Statistics (`tracked_stats`) give samples a second and the time of a step; without the latter it is
`global_batch_size` by samples a second. Up to round 2.1, samples a second have an event of their own (`throughput`),
which counts where no statistics give them. Where a run has neither, both follow from the samples between `block_start`
and `block_stop`.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

from skewscope.adapters.formats.log_lines import decode_head
from skewscope.adapters.inputs import megatron_log, nemo_log
from skewscope.adapters.inputs.labelled import LabelledSeries, read_artefact
from skewscope.adapters.inputs.recording import Input, Recording
from skewscope.adapters.inputs.training_steps import STEP_DURATION, LogLine, StepReader, read_steps
from skewscope.adapters.mapping.names import MetricResolver, SeriesRegistry
from skewscope.engine.ingest.feed import Block
from skewscope.kb.problems import InputError, Problem

LABEL = "MLPerf training log"
PLACED_BY_NAME = True
LOG_MARKS = (b":::MLLOG ",)
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
            self._read_stats(value, LogLine(line.number, "", time), steps)
        elif key == "throughput" and not self.tracked and (rate := positive_number(value)):
            self._hold_rate(LogLine(line.number, "", time), rate, steps)
        elif key in ("block_start", "block_stop"):
            self._read_block(event, LogLine(line.number, "", time), steps)

    def finish(self, steps: StepReader) -> None:
        """Adds the rate of the last block or event, where no statistics gave it."""
        if last := self.held or self.derived:
            self._add_rate(*last, steps)
        self.held = self.derived = None

    def _hold_rate(self, line: LogLine, rate: float, steps: StepReader) -> None:
        if self.held:
            self._add_rate(*self.held, steps)
        self.held, self.derived, self.block = (line, rate), None, None

    def _read_stats(self, stats: dict[str, Any], line: LogLine, steps: StepReader) -> None:
        seconds = next((found for name in STEP_TIMES if (found := positive_number(stats.get(name)))), None)
        if seconds is not None and line.time is not None:
            # The first step is the set-up as well.
            if self.timed:
                steps.collector.add(STEP_DURATION, {"group": steps.group}, line.time, seconds, line.number)
            self.timed, self.derived, self.block = True, None, None
        if rate := positive_number(stats.get("throughput")):
            self.held = self.derived = self.block = None
            self.tracked = True
            self._add_rate(line, rate, steps)

    def _read_block(self, event: dict[str, Any], line: LogLine, steps: StepReader) -> None:
        metadata = event.get("metadata")
        samples = metadata.get("samples_count") if isinstance(metadata, dict) else None
        done = 0.0 if samples == 0 else positive_number(samples) or math.nan
        if event["key"] == "block_start":
            self.finish(steps)
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
        megatron_log.recognise(head, "") or nemo_log.recognise(head, "")
    )


def read_series(file: BinaryIO, name: str, labels: Mapping[str, str]) -> list[LabelledSeries]:
    """Returns the rate of the job, and its step time where the batch size is known.

    Raises:
        InputError: an event is damaged, or no rate is in the log.
    """
    return read_steps(file, name, labels, MlperfParser(name), EXAMPLE)


def read(source: Input, recording: Recording, registry: SeriesRegistry, names: MetricResolver) -> Block:
    """Returns the samples of the log.

    Raises:
        InputError: an event is damaged, or no rate is in the log.
    """
    return read_artefact(read_series, source, recording, (registry, names))
