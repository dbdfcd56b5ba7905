"""Inputs of kind `llamafactory-log`: the file trainer_log.jsonl of LLaMA-Factory.

A line has the number of steps and the time since the training began, in whole seconds; the time that remains, or the
tokens by those of a second, says more of it. What an evaluation takes is no time of a step: its line follows that of
the step before it.
"""

import re
from collections.abc import Mapping
from typing import BinaryIO

from skewscope.adapters.formats.log_lines import decode_head
from skewscope.adapters.inputs.elapsed_steps import ElapsedSteps, Progress, read_seconds
from skewscope.adapters.inputs.labelled import LabelledSeries, artefact_reader
from skewscope.adapters.inputs.messages import with_messages
from skewscope.adapters.inputs.training_steps import LogLine, StepReader, read_steps

EXAMPLE = '`{"current_steps": 10, "total_steps": 99, "loss": 1.2, ..., "elapsed_time": "0:01:10", ...}`'
MARK = '"current_steps": '
STEP = re.compile(r'"current_steps": (?P<step>\d{1,15})[,}]')
TOTAL = re.compile(r'"total_steps": (?P<steps>\d{1,15})[,}]')
CLOCK = r'"(?:(?P<days>\d{1,6}) days?, )?(?P<hours>\d{1,6}):(?P<minutes>\d\d):(?P<seconds>\d\d)(?:\.\d{1,9})?"'
ELAPSED, REMAINING = re.compile(r'"elapsed_time": ' + CLOCK), re.compile(r'"remaining_time": ' + CLOCK)
TOKENS = re.compile(r'"throughput": "?(?P<rate>\d{1,12}(?:\.\d{1,9})?)"?, "total_tokens": (?P<tokens>\d{1,18})[,}]')
LOSS = re.compile(r'"loss": (?!null)')
EVALUATION = re.compile(r'"(?:eval|predict)_\w{1,40}": (?!null)')
LEAST_S = 10.0
"""Whole seconds then are right to a tenth."""
LAG_S = 120.0


class LlamafactoryParser:
    """Finds the lines of steps and of evaluations."""

    def __init__(self, file: str, labels: Mapping[str, str]) -> None:
        """Reads the labels.

        Raises:
            InputError: `start` is no time.
        """
        self._clock = ElapsedSteps(file, labels, LEAST_S, LAG_S)
        self._trains = False
        """Whether a line has a loss: one without it then only ends a part."""
        self._last = 0

    def read_line(self, line: LogLine, steps: StepReader) -> None:
        """Adds what a line says of the steps."""
        self._last = line.number
        if MARK not in line.text:
            return
        step, elapsed = STEP.search(line.text), ELAPSED.search(line.text)
        # A path in it may hold a date.
        line = line._replace(time=None)
        if not (step and elapsed and line.text.endswith("}")):
            self._clock.count_damage(line)
            return
        number = int(step["step"])
        now = Progress(number, find_age(line.text, number, read_seconds(elapsed)))
        has_loss = bool(LOSS.search(line.text))
        self._trains = self._trains or has_loss
        if EVALUATION.search(line.text):
            self._clock.skip(line, now, steps)
        elif has_loss or not self._trains:
            self._clock.add(line, now, steps)

    def finish(self, steps: StepReader) -> None:
        """Says what is assumed of the times.

        Raises:
            InputError: too many lines are damaged.
        """
        steps.collector.note = self._clock.describe(self._last, f"lines such as {EXAMPLE}")


def find_age(text: str, step: int, whole: float) -> float:
    """Returns the seconds since the training began that a line says, as exactly as it does.

    Args:
        text: the line.
        step: its number of steps.
        whole: those seconds, cut to whole ones.
    """
    tokens = TOKENS.search(text)
    rate = float(tokens["rate"]) if tokens else 0.0
    if tokens and rate > 0 and whole <= (exact := int(tokens["tokens"]) / rate) < whole + 1.0:
        return exact
    total, remaining = TOTAL.search(text), REMAINING.search(text)
    left = int(total["steps"]) - step if total else 0
    if not remaining or left <= 0:
        return whole
    # What remains is the mean time of a step by the steps that are left, cut to whole seconds as well.
    ratio, rest = step / left, read_seconds(remaining)
    low, high = max(whole, rest * ratio), min(whole + 1.0, (rest + 1.0) * ratio)
    return (low + high) / 2 if low < high else whole


def recognise(head: bytes, _name: str) -> bool:
    """Returns whether the first bytes of a file are a log of LLaMA-Factory."""
    return any(STEP.search(line) and ELAPSED.search(line) for line in decode_head(head) if MARK in line)


@with_messages
def read_series(file: BinaryIO, name: str, labels: Mapping[str, str]) -> list[LabelledSeries]:
    """Returns the step times of the job.

    Raises:
        InputError: no two lines are of steps, or too many are damaged.
    """
    return read_steps(file, name, labels, LlamafactoryParser(name, labels), EXAMPLE)


READER = artefact_reader(
    "LLaMA-Factory training log",
    read_series,
    recognise,
    placed_by_name=True,
    log_marks=(b'"current_steps": ',),
)
