"""Inputs of kind `step-log`: logs of trainers that print the time of a step in one line, each in its own words.

Of a mean since the begin of an epoch the steps between two lines are taken apart. Where lines have no time of a step
but are dated, it is the time between two of them.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import BinaryIO

from skewscope.adapters.formats.log_lines import decode_head
from skewscope.adapters.inputs.labelled import LabelledSeries, read_artefact
from skewscope.adapters.inputs.recording import Input, Recording
from skewscope.adapters.inputs.training_steps import LogLine, StepReader, read_steps
from skewscope.adapters.mapping.names import MetricResolver, SeriesRegistry
from skewscope.engine.ingest.feed import Block

LABEL = "training log with a line for each step"
PLACED_BY_NAME = True
EXAMPLE = "`step: 10  loss: 2.5 ... tps: 7,282 ...` or `Epoch: [0][10/99] Time 0.412 (0.987) ...`"
SECONDS, WINDOW, MEAN, DATED = "seconds", "window", "mean", "dated"
"""What a line says: the time of a step, or of some of them; that of the last ones, up to `WINDOW_STEPS`; that of all
since the epoch began; nothing but when it was written."""
WINDOW_STEPS = 20
"""Steps of which torchvision's references, and what was made from them, print the mean."""
TIMES_ERROR = 10.0
"""A sample is so many times as long as a mean of few digits may be wrong by: it is right to a tenth."""
LATE_LINES = 3
"""Lines in a row, each with a later step than the one before, that say that a job began anew at an earlier step; fewer
are those of another process."""

NUMBER = r"\d{1,12}(?:\.\d{1,12})?"
STEP = r"(?P<step>\d{1,15})"
IN_EPOCH = r"\[ *(?P<epoch>\d{1,9})(?:/\d{1,9})?\]\s*\[ *(?P<step>\d{1,12})/(?P<length>\d{1,12})\]"
RANK = re.compile(r"^\[(?:rank|default)(\d{1,7})\]:")
EVALUATED = r"(?:val|valid|validate|validation|test|eval|evaluation)"
NO_TRAINING = re.compile(rf"\b{EVALUATED}\b", re.IGNORECASE)
"""In front of a line that has the form of one of training."""
EVALUATION = re.compile(rf"\b{EVALUATED}\b[^\[]{{0,20}}(?:\[ *\d{{1,9}}\])?\[ *\d{{1,12}}/\d{{1,12}}\b", re.IGNORECASE)
"""How far an evaluation is."""
MAX_COLUMN = 200
"""Characters of a line in which that stands."""


@dataclass(frozen=True, slots=True)
class LineForm:
    """How one trainer writes a line."""

    trainer: str
    mark: str
    """Text that each such line has."""
    pattern: re.Pattern[str]
    """Has the group `step`, and those of a value, an epoch and its length where there are any."""
    meaning: str
    unlike: re.Pattern[str] | None = None
    """In a step that is no sample, since it contains more."""
    pause: re.Pattern[str] | None = None
    """A line with the group `step` at which something else than training has ended."""


FORMS = (
    LineForm(
        "torchtitan",
        "step: ",
        re.compile(rf"(?<!validate )\bstep: +{STEP}  loss: .*?\btps: [\d,]+"),
        DATED,
        pause=re.compile(rf"\bvalidate step: +{STEP}  loss: "),
    ),
    LineForm("MaxText", "completed step: ", re.compile(rf"completed step: {STEP}, seconds: (?P<s>{NUMBER})"), SECONDS),
    LineForm(
        "verl",
        "timing_s/step:",
        re.compile(rf"\bstep:{STEP} - .*?\btiming_s/step:(?P<s>{NUMBER})"),
        SECONDS,
        unlike=re.compile(r"\btiming_s/(?:testing|save_checkpoint):"),
    ),
    LineForm(
        "Lingua", "  iter: ", re.compile(rf"\bstep: {STEP}  .*?  iter: +(?P<s>{NUMBER})  data: +{NUMBER}"), SECONDS
    ),
    LineForm(
        "nanotron",
        "elapsed_time_per_iteration_ms: ",
        re.compile(
            rf"\biteration: {STEP} / \d+ \| .*?\belapsed_time_per_iteration_ms: (?P<ms>{NUMBER})(?P<factor>[KM]?)"
        ),
        SECONDS,
    ),
    LineForm(
        "OpenMMLab",
        "data_time: ",
        re.compile(
            rf"\b(?:Epoch(?:\(train\))? *{IN_EPOCH}|Iter(?:\(train\))? *\[ *(?P<iter>\d{{1,12}})/\d{{1,12}}\])\s"
            rf".*?\btime: (?P<s>{NUMBER}),? +data_time: {NUMBER}"
        ),
        SECONDS,
    ),
    LineForm("detectron2", " last_time: ", re.compile(rf"\biter: {STEP}  .*?\blast_time: (?P<s>{NUMBER}) "), SECONDS),
    LineForm(
        "references of torchvision",
        "  time: ",
        re.compile(rf"\bEpoch: {IN_EPOCH}  eta: .*?  time: (?P<s>{NUMBER})  data: {NUMBER}"),
        WINDOW,
    ),
    LineForm(
        "timm",
        "%)]  Loss: ",
        re.compile(
            rf"\bTrain: (?P<epoch>\d{{1,9}}) \[ *(?P<step>\d{{1,12}})/(?P<length>\d{{1,12}}) \( *\d+%\)\]  Loss: "
            rf".*?  Time: {NUMBER}s, +[\d.]+/s +\( *(?P<s>{NUMBER})s, "
        ),
        MEAN,
    ),
    LineForm(
        "examples of PyTorch",
        "ime ",
        re.compile(rf"\b(?:Epoch|Train):? {IN_EPOCH}\s.*?\b[Tt]ime +{NUMBER} +\( *(?P<s>{NUMBER})\)"),
        MEAN,
    ),
)
LOG_MARKS = tuple(form.mark.encode() for form in FORMS)


@dataclass
class StepOrder:
    """Which lines go on, where several processes write into one file, or a job begins anew at an earlier step."""

    newest: int = -1
    is_another_run: bool = False
    """Whether the newest line that follows is of a job that began anew where the first one had begun, or before."""
    _first: int | None = None
    _late: int = -1
    """Step of the newest line that came late."""
    _late_first: int = -1
    """Step of the first one of those in a row."""
    _late_lines: int = 0

    def follow(self, step: int) -> bool:
        """Returns whether a line is of the next step."""
        self._first = step if self._first is None else self._first
        self.is_another_run = False
        if step <= self.newest:
            if self._late_lines == 0 or step <= self._late:
                self._late_first, self._late_lines = step, 0
            self._late, self._late_lines = step, self._late_lines + 1
            if self._late_lines < LATE_LINES:
                return False
            self.is_another_run = self._late_first <= self._first
        self.newest, self._late_lines = step, 0
        return True


@dataclass
class StepLogParser:
    """Finds the lines of the form that the first one has."""

    form: LineForm | None = None
    _rank: str | None = None
    """Rank whose lines are read, where lines say one."""
    _order: StepOrder = field(default_factory=StepOrder)
    _epoch: int = -1
    _first: int = 0
    """How many steps are done at a line of step 0: some count from 0, others from 1."""
    _last: tuple[int, float] = (0, 0.0)
    """Steps of the epoch that were done at the newest sample, and their seconds."""

    def read_line(self, line: LogLine, steps: StepReader) -> None:
        """Adds what a line says of the steps."""
        form = self.form or find_form(line.text)
        match = form.pattern.search(line.text) if form and form.mark in line.text else None
        if form is None or match is None or NO_TRAINING.search(line.text[: match.start()]):
            self._read_evaluation(line, steps)
            return
        if self._is_of_another(line.text):
            return
        self.form = form
        number = read_step(match)
        if not self._order.follow(number):
            return
        if self._order.is_another_run:
            self._epoch = -1
            steps.begin_run()
        if form.meaning == DATED:
            steps.add_progress(line, number)
        elif form.meaning == SECONDS:
            self._add(line, number, read_time(match), steps)
        else:
            self._add_mean(line, number, match, steps)

    def finish(self, steps: StepReader) -> None:
        """Adds nothing: each line stands for itself."""

    def _read_evaluation(self, line: LogLine, steps: StepReader) -> None:
        pause = self.form.pause.search(line.text) if self.form and self.form.pause else None
        if pause:
            steps.note_evaluation(line, is_last=True)
            steps.skip_steps(line, int(pause["step"]), 0.0)
        elif self.form and EVALUATION.search(line.text[:MAX_COLUMN]):
            steps.note_evaluation(line)

    def _is_of_another(self, text: str) -> bool:
        match = RANK.search(text)
        if match and self._rank is None:
            self._rank = match[1]
        return match is not None and match[1] != self._rank

    def _add(self, line: LogLine, number: int, seconds: float, steps: StepReader) -> None:
        assert self.form is not None
        if self.form.unlike and self.form.unlike.search(line.text):
            steps.skip_steps(line, number, seconds)
        else:
            steps.add_step(line, number, seconds)

    def _add_mean(self, line: LogLine, number: int, match: re.Match[str], steps: StepReader) -> None:
        """Adds the mean time of the steps since the newest sample; the first line of an epoch is none.

        What reads the input begins with each epoch, and takes its time.
        """
        assert self.form is not None
        epoch, step, seconds = int(match["epoch"]), int(match["step"]), read_time(match)
        begins = epoch != self._epoch
        if begins:
            self._epoch, self._first = epoch, step == 0
        done = step + self._first
        elapsed = seconds * done
        since, before = self._last
        is_window = self.form.meaning == WINDOW and done > WINDOW_STEPS
        if begins or done <= since or (elapsed < before and not is_window):
            self._last = done, elapsed
            steps.skip_steps(line, number, elapsed)
        elif is_window:
            self._last = done, elapsed
            steps.add_step(line, number, seconds)
        elif elapsed - before >= TIMES_ERROR * done * smallest_part(match["s"]):
            self._last = done, elapsed
            steps.add_step(line, number, (elapsed - before) / (done - since))


def find_form(text: str) -> LineForm | None:
    """Returns the form of a line of training; None for other lines."""
    return next((form for form in FORMS if form.mark in text and form.pattern.search(text)), None)


def read_step(match: re.Match[str]) -> int:
    """Returns the number of steps since the job began that a line says."""
    parts = match.groupdict()
    if parts.get("iter"):
        return int(parts["iter"])
    return int(parts["step"]) + int(parts.get("epoch") or 0) * int(parts.get("length") or 0)


def read_time(match: re.Match[str]) -> float:
    """Returns the seconds that a line says."""
    parts = match.groupdict()
    if parts.get("ms"):
        return float(parts["ms"]) * {"": 1e-3, "K": 1.0, "M": 1e3}[parts["factor"]]
    return float(parts["s"])


def smallest_part(number: str) -> float:
    """Returns what the last digit of a decimal number stands for."""
    return float(10.0 ** -len(number.partition(".")[2]))


def recognise(head: bytes, _name: str) -> bool:
    """Returns whether the first bytes of a file have a line of one of these trainers."""
    return any(find_form(line) for line in decode_head(head))


def read_series(file: BinaryIO, name: str, labels: Mapping[str, str]) -> list[LabelledSeries]:
    """Returns the step times of the job.

    Raises:
        InputError: no two lines are of steps.
    """
    return read_steps(file, name, labels, StepLogParser(), EXAMPLE)


def read(source: Input, recording: Recording, registry: SeriesRegistry, names: MetricResolver) -> Block:
    """Returns the samples of the log.

    Raises:
        InputError: no two lines are of steps.
    """
    return read_artefact(read_series, source, recording, (registry, names))
