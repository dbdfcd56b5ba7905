"""Inputs of kind `nanogpt-log`: the output of nanoGPT, modded-nanogpt, llm.c, nanochat and scripts that began as one.

nanoGPT, llm.c and nanochat print the time of a step. modded-nanogpt prints the time that all steps took, which stands
still while it evaluates, and whose mean would hide a change: its steps are the differences of that time.
"""

import re
from collections.abc import Mapping
from typing import BinaryIO

from skewscope.adapters.formats.log_lines import decode_head
from skewscope.adapters.inputs.elapsed_steps import ElapsedSteps, Progress
from skewscope.adapters.inputs.labelled import LabelledSeries, artefact_reader
from skewscope.adapters.inputs.messages import with_messages
from skewscope.adapters.inputs.training_steps import LogLine, StepReader, read_steps

EXAMPLE = "`iter 100: loss 3.1234, time 123.45ms, mfu 30.12%` or `step:100/5100 train_time:12345ms`"
NUMBER = r"\d{1,12}(?:\.\d{1,9})?"
STEP_TIMES = (
    re.compile(rf"\biter (?P<step>\d{{1,15}}): loss \S{{1,20}}, time (?P<ms>{NUMBER})ms"),
    re.compile(rf"\bstep +(?P<step>\d{{1,15}})/\d{{1,15}} \|.{{1,160}}?\| \(?(?P<ms>{NUMBER}) ms \|.{{1,40}}? tok/s"),
    re.compile(
        rf"\bstep +(?P<step>\d{{1,15}})/\d{{1,15}}: train loss \S{{1,20}} \((?P<ms>{NUMBER}) ms, \S{{1,20}} tok/s"
    ),
    re.compile(rf"\bstep (?P<step>\d{{1,15}})(?:/\d{{1,15}})? .{{0,160}}?\| dt: (?P<ms>{NUMBER})ms \|"),
    re.compile(rf"\bstep (?P<step>\d{{1,15}}) \|.{{0,160}}?\| dt_ms (?P<ms>{NUMBER})\b"),
)
"""Lines of nanoGPT, of llm.c in its three forms, of nanochat, and of one that began as it (nanoswe)."""
TRAIN_TIME = re.compile(
    rf"\bstep:(?P<step>\d{{1,15}})/\d{{1,15}} .{{0,200}}?\btrain_time:(?P<time>{NUMBER})(?P<unit>m?s)\b"
)
EVALUATION = re.compile(r"\bstep (?P<step>\d{1,15}): train loss ")
"""Of nanoGPT, before the line of the step whose time contains it."""
FIRST_STEP = 1
"""From this one on, steps are those of another run: scripts train several models in turn, or one in several stages."""
LEAST_S = 1.0
"""The program does not wait for the GPUs at each line, so single steps are printed too early or too late."""


class NanogptParser:
    """Finds steps by their times, or by the time of all."""

    def __init__(self, file: str, labels: Mapping[str, str]) -> None:
        """Reads the labels.

        Raises:
            InputError: `start` is no time.
        """
        self._clock = ElapsedSteps(file, labels, LEAST_S, 0.0)
        self._evaluated: int | None = None
        """Step before which an evaluation was."""
        self._usual = 0.0
        """Seconds of the newest step without one."""
        self._last = 0
        self._first: tuple[LogLine, int, float] | None = None
        """A first step after others: of another run if the next one follows it, else a late line of another process."""

    def read_line(self, line: LogLine, steps: StepReader) -> None:
        """Adds what a line says of the steps."""
        self._last = line.number
        if match := TRAIN_TIME.search(line.text):
            seconds = float(match["time"]) / (1.0 if match["unit"] == "s" else 1e3)
            self._clock.add(line, Progress(int(match["step"]), seconds), steps)
        elif match := EVALUATION.search(line.text):
            self._evaluated = int(match["step"])
        elif found := find_step_time(line.text):
            self._add_step(line, *found, steps)

    def finish(self, steps: StepReader) -> None:
        """Says what is assumed of the times."""
        if self._clock.read:
            steps.collector.note = self._clock.describe(self._last, f"lines such as {EXAMPLE}")

    def _add_step(self, line: LogLine, step: int, seconds: float, steps: StepReader) -> None:
        first, self._first = self._first, None
        if first and steps.step is not None and step <= steps.step:
            steps.begin_run()
            steps.add_step(*first)
        elif steps.step is not None and step <= FIRST_STEP < steps.step:
            self._first = line, step, seconds
            return
        if steps.step is None or step != self._evaluated:
            self._usual = seconds
            steps.add_step(line, step, seconds)
        elif step > steps.step:
            steps.skip_steps(line, step, seconds + (step - steps.step - 1) * self._usual)


def find_step_time(text: str) -> tuple[int, float] | None:
    """Returns number and seconds of the step that a line is of; None for other lines."""
    match = next(filter(None, (pattern.search(text) for pattern in STEP_TIMES)), None)
    return (int(match["step"]), float(match["ms"]) / 1e3) if match else None


def recognise(head: bytes, _name: str) -> bool:
    """Returns whether the first bytes of a file are a log of one of these programs."""
    return any(TRAIN_TIME.search(line) or find_step_time(line) for line in decode_head(head))


@with_messages
def read_series(file: BinaryIO, name: str, labels: Mapping[str, str]) -> list[LabelledSeries]:
    """Returns the step times of the job.

    Raises:
        InputError: no line is of a step.
    """
    return read_steps(file, name, labels, NanogptParser(name, labels), EXAMPLE)


READER = artefact_reader(
    "nanoGPT or llm.c training log",
    read_series,
    recognise,
    placed_by_name=True,
    log_marks=(b": loss ", b" train_time:", b" tok/s", b" | dt: ", b" | dt_ms "),
)
