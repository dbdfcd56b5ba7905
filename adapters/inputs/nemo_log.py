"""Inputs of kind `nemo-log`: the output of NeMo, with lines of steps or with a progress bar.

Before version 1.21 the bar does not give the time of a step: it is the time between two states of the bar, whose clock
counts whole seconds.
"""

import re
from collections.abc import Mapping
from typing import BinaryIO

from skewscope.adapters.formats.log_lines import decode_head
from skewscope.adapters.inputs.labelled import LabelledSeries, artefact_reader
from skewscope.adapters.inputs.messages import with_messages
from skewscope.adapters.inputs.training_steps import RELATIVE, LogLine, StepReader, read_steps

EXAMPLE = "`iteration 10/99 | ... global_step: 10 | ... train_step_timing in s: 2.345`"
NUMBER = r"(?P<number>\d{1,15}(?:\.\d*)?(?:e[+-]?\d\d?)?)"
TIMING = re.compile(r"train_step_timing in s[:=] ?" + NUMBER)
STEP = re.compile(r"global_step[:=] ?" + NUMBER)
BATCH = re.compile(r"global_batch_size[:=] ?" + NUMBER)
BAR = re.compile(r"\| (?P<done>\d{1,15})/\d+ \[(?:(?P<hours>\d{1,6}):)?(?P<minutes>\d{1,6}):(?P<seconds>\d\d)<")
UNTIMED = re.compile(r"\breduced_train_loss=[^,\]]{1,20}, .*?global_step=")
"""In a bar of a version that does not give the time of a step."""
MAX_EXACT_STEP = 999
"""Progress bars print larger steps rounded: 2e+3."""


class NemoParser:
    """Finds the steps of NeMo; a progress bar's own clock tells pauses between them."""

    def __init__(self) -> None:
        self._bar_start: float | None = None
        self._bar_elapsed = 0.0

    def read_line(self, line: LogLine, steps: StepReader) -> None:
        """Adds what a line says of the steps."""
        timing = TIMING.search(line.text)
        if timing is None:
            self._read_untimed(line, steps)
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

    def _read_untimed(self, line: LogLine, steps: StepReader) -> None:
        """Adds the time since the last state of a bar that does not give the time of a step."""
        bar = BAR.search(line.text) if UNTIMED.search(line.text) else None
        if bar is None:
            return
        if line.time is None:
            elapsed = _bar_seconds(bar)
            if self._bar_start is None or elapsed < self._bar_elapsed:
                # The bar starts anew with each epoch.
                if steps.step is None and steps.stamp is None:
                    steps.collector.note = RELATIVE
                self._bar_start = steps.time if steps.step is not None else max((steps.stamp or 0.0) - elapsed, 0.0)
            self._bar_elapsed = elapsed
            line = line._replace(time=self._bar_start + elapsed)
        steps.add_progress(line, int(bar["done"]))

    def finish(self, steps: StepReader) -> None:
        """Adds nothing: each line stands for itself."""

    def _place(self, line: LogLine, bar: re.Match[str] | None, seconds: float, steps: StepReader) -> LogLine:
        """Returns a line with the time that the progress bar says, which counts whole seconds."""
        if bar is None or line.time is not None:
            return line
        elapsed = _bar_seconds(bar)
        if self._bar_start is None or steps.time > self._bar_start + elapsed + seconds + 1.0:
            # The bar starts anew with each epoch.
            self._bar_start = max(steps.time if steps.step is not None else (steps.stamp or 0.0) - elapsed, 0.0)
        low = self._bar_start + elapsed
        return line._replace(time=min(max(steps.time + seconds, low), max(low + 1.0, steps.time + 1e-3)))


def _bar_seconds(bar: re.Match[str]) -> float:
    return int(bar["hours"] or 0) * 3600.0 + int(bar["minutes"]) * 60.0 + int(bar["seconds"])


def recognise(head: bytes, _name: str) -> bool:
    """Returns whether the first bytes of a file are a log of NeMo."""
    return any(TIMING.search(line) or (BAR.search(line) and UNTIMED.search(line)) for line in decode_head(head))


@with_messages
def read_series(file: BinaryIO, name: str, labels: Mapping[str, str]) -> list[LabelledSeries]:
    """Returns the step times of the job, and its rate where the log says the batch size.

    Raises:
        InputError: no line has the time of a step.
    """
    return read_steps(file, name, labels, NemoParser(), EXAMPLE)


READER = artefact_reader(
    "NeMo training log",
    read_series,
    recognise,
    placed_by_name=True,
    log_marks=(b"train_step_timing in s", b"reduced_train_loss="),
)
