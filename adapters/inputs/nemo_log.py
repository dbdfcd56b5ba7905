"""Inputs of kind `nemo-log`: the output of NeMo, with lines of steps or with a progress bar."""

import re
from collections.abc import Mapping
from typing import BinaryIO

from skewscope.adapters.formats.log_lines import decode_head
from skewscope.adapters.inputs.labelled import LabelledSeries, read_artefact
from skewscope.adapters.inputs.recording import Input, Recording
from skewscope.adapters.inputs.training_steps import LogLine, StepReader, read_steps
from skewscope.adapters.mapping.names import MetricResolver, SeriesRegistry
from skewscope.engine.ingest.feed import Block

LABEL = "NeMo training log"
EXAMPLE = "`iteration 10/99 | ... global_step: 10 | ... train_step_timing in s: 2.345`"
NUMBER = r"(?P<number>\d{1,15}(?:\.\d*)?(?:e[+-]?\d\d?)?)"
TIMING = re.compile(r"train_step_timing in s[:=] ?" + NUMBER)
STEP = re.compile(r"global_step[:=] ?" + NUMBER)
BATCH = re.compile(r"global_batch_size[:=] ?" + NUMBER)
BAR = re.compile(r"\| (?P<done>\d{1,15})/\d+ \[(?:(?P<hours>\d{1,6}):)?(?P<minutes>\d{1,6}):(?P<seconds>\d\d)<")
MAX_EXACT_STEP = 999
"""Progress bars print larger steps rounded: 2e+3."""


class NemoParser:
    """Finds the steps of NeMo; a progress bar's own clock tells pauses between them."""

    def __init__(self) -> None:
        self._bar_start: float | None = None

    def read_line(self, line: LogLine, steps: StepReader) -> None:
        """Adds what a line says of the steps."""
        timing = TIMING.search(line.text)
        if timing is None:
            return
        bar, step, batch = BAR.search(line.text), STEP.search(line.text), BATCH.search(line.text)
        number = int(float(step["number"])) if step else None
        if bar and (number is None or number > MAX_EXACT_STEP):
            number = int(bar["done"])
        if number is None or number == steps.step:
            return
        seconds = float(timing["number"])
        steps.add_step(
            self._place(line, bar, seconds, steps), number, seconds, float(batch["number"]) if batch else None
        )

    def finish(self, steps: StepReader) -> None:
        """Adds nothing: each line stands for itself."""

    def _place(self, line: LogLine, bar: re.Match[str] | None, seconds: float, steps: StepReader) -> LogLine:
        """Returns a line with the time that the progress bar says, which counts whole seconds."""
        if bar is None or line.time is not None:
            return line
        elapsed = int(bar["hours"] or 0) * 3600.0 + int(bar["minutes"]) * 60.0 + int(bar["seconds"])
        if self._bar_start is None or steps.time > self._bar_start + elapsed + seconds + 1.0:
            # The bar starts anew with each epoch.
            self._bar_start = max(steps.time if steps.step is not None else (steps.stamp or 0.0) - elapsed, 0.0)
        low = self._bar_start + elapsed
        return line._replace(time=min(max(steps.time + seconds, low), max(low + 1.0, steps.time + 1e-3)))


def recognise(head: bytes, _name: str) -> bool:
    """Returns whether the first bytes of a file are a log of NeMo."""
    return any(TIMING.search(line) for line in decode_head(head))


def read_series(file: BinaryIO, name: str, labels: Mapping[str, str]) -> list[LabelledSeries]:
    """Returns the step times of the job, and its rate where the log says the batch size.

    Raises:
        InputError: no line has the time of a step.
    """
    return read_steps(file, name, labels, NemoParser(), EXAMPLE)


def read(source: Input, recording: Recording, registry: SeriesRegistry, names: MetricResolver) -> Block:
    """Returns the samples of the log.

    Raises:
        InputError: no line has the time of a step.
    """
    return read_artefact(read_series, source, recording, (registry, names))
