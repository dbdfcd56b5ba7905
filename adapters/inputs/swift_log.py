"""Inputs of kind `swift-log`: the file logging.jsonl of ms-swift, or what it prints of each line.

A line has the number of steps, and the time since the training began in whole seconds or by the mean speed so far.
"""

import re
from collections.abc import Mapping
from typing import BinaryIO

from skewscope.adapters.formats.log_lines import decode_head
from skewscope.adapters.inputs.elapsed_steps import ElapsedSteps, Progress, read_seconds
from skewscope.adapters.inputs.labelled import LabelledSeries, artefact_reader
from skewscope.adapters.inputs.messages import with_messages
from skewscope.adapters.inputs.training_steps import LogLine, StepReader, read_steps

EXAMPLE = '`{"loss": 1.2, ..., "global_step/max_steps": "10/99", ..., "elapsed_time": "1m 10s", ...}`'
MARK = re.compile(r"""["'](?:global_step/max_steps|train_speed\((?:iter/s|s/it)\))["']: """)
STEP = re.compile(
    r"""["'](?:global_step/max_steps|iteration|global_step)["']: ["']?(?P<step>\d{1,15})(?:/\d{1,15}["']|[,}])"""
)
ELAPSED = re.compile(
    r"""["']elapsed_time["']: ["'](?=\d)(?:(?P<days>\d{1,6})d ?)?(?:(?P<hours>\d{1,6})h ?)?"""
    r"""(?:(?P<minutes>\d{1,6})m ?)?(?:(?P<seconds>\d{1,6})s)?["']"""
)
SPEED = re.compile(
    r"""["']train_speed\((?P<unit>iter/s|s/it)\)["']: (?P<speed>\d{1,9}(?:\.\d{1,20})?(?:e-\d\d?)?)[,}]"""
)
LOSS = re.compile(r"""["']loss["']: """)
EVALUATION = re.compile(r"""["']eval_\w{1,40}["']: """)
LEAST_S = 10.0
"""Whole seconds then are right to a tenth."""
LAG_S = 120.0
ROUNDED_S = 1.0
"""Most by which a whole second differs from the time that the speed says."""


class SwiftParser:
    """Finds the lines of steps and of evaluations."""

    def __init__(self, file: str, labels: Mapping[str, str]) -> None:
        """Reads the labels.

        Raises:
            InputError: `start` is no time.
        """
        self._clock = ElapsedSteps(file, labels, LEAST_S, LAG_S)
        self._last = 0

    def read_line(self, line: LogLine, steps: StepReader) -> None:
        """Adds what a line says of the steps."""
        self._last = line.number
        if not MARK.search(line.text):
            return
        step = STEP.search(line.text)
        number = int(step["step"]) if step else 0
        elapsed = find_age(line.text, number) if step else None
        # A path in it may hold a date.
        line = line._replace(time=None)
        if elapsed is None or not line.text.endswith("}"):
            self._clock.count_damage(line)
        elif EVALUATION.search(line.text):
            self._clock.skip(line, Progress(number, elapsed), steps)
        elif LOSS.search(line.text):
            self._clock.add(line, Progress(number, elapsed), steps)

    def finish(self, steps: StepReader) -> None:
        """Says what is assumed of the times.

        Raises:
            InputError: too many lines are damaged.
        """
        steps.collector.note = self._clock.describe(self._last, f"lines such as {EXAMPLE}")


def find_age(text: str, step: int) -> float | None:
    """Returns the seconds since the training began that a line says, None without; by its speed where that is exact.

    Args:
        text: the line.
        step: its number of steps, to which the speed is the mean.
    """
    match, speed = ELAPSED.search(text), SPEED.search(text)
    value = float(speed["speed"]) if speed else 0.0
    exact = None
    if speed and value > 0:
        exact = step / value if speed["unit"] == "iter/s" else step * value
    if match is None:
        return exact
    whole = read_seconds(match)
    # A job that was resumed may count its speed from another step.
    return exact if exact is not None and abs(exact - whole) <= ROUNDED_S else whole


def recognise(head: bytes, _name: str) -> bool:
    """Returns whether the first bytes of a file are a log of ms-swift."""
    return any(MARK.search(line) and STEP.search(line) for line in decode_head(head))


@with_messages
def read_series(file: BinaryIO, name: str, labels: Mapping[str, str]) -> list[LabelledSeries]:
    """Returns the step times of the job.

    Raises:
        InputError: no two lines are of steps, or too many are damaged.
    """
    return read_steps(file, name, labels, SwiftParser(name, labels), EXAMPLE)


READER = artefact_reader(
    "ms-swift training log",
    read_series,
    recognise,
    placed_by_name=True,
    log_marks=(b"global_step/max_steps", b"train_speed("),
)
