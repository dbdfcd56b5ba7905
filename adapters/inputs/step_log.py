"""Inputs of kind `step-log`: logs of trainers that print the time of a step in one line, each in its own words.

Where a line says no more than a mean since its epoch began, or no time at all, the time between two dates is taken.
Means without dates are taken apart.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import BinaryIO

from skewscope.adapters.formats.log_lines import decode_head
from skewscope.adapters.formats.log_times import ShortDates
from skewscope.adapters.inputs.labelled import LabelledSeries, artefact_reader
from skewscope.adapters.inputs.messages import with_messages
from skewscope.adapters.inputs.training_steps import LogLine, StepReader, read_steps

EXAMPLE = "`step: 10  loss: 2.5 ... tps: 7,282 ...` or `Epoch: [0][10/99] Time 0.412 (0.987) ...`"
SECONDS, WINDOW, MEAN, DATED = "seconds", "window", "mean", "dated"
"""What a line says: the time of a step, or of some of them; that of the last ones, up to `WINDOW_STEPS`; that of all
since the epoch began; nothing but when it was written."""
WINDOW_STEPS = 20
"""Steps of which torchvision's references, and what was made from them, print the mean."""
TIMES_ERROR = 10.0
"""A sample is so many times as long as a date or a mean of few digits may be wrong by: it is right to a tenth."""
MOST_GROWTH = 1.2
"""No longer than until there were so many times the steps of the sample before: what comes ever more seldom would pass
for a job that stops."""
DIGIT_S = 1e-3
"""Least part of a second that dates say, if any."""
LATE_LINES = 3
"""Lines in a row, each with a later step than the one before, that say that a job began anew at an earlier step; fewer
are those of another process."""
MAX_COLUMN = 16_384
"""Characters of a line that are looked at; verl prints some thousands."""

NUMBER = r"\d{1,12}(?:\.\d{1,12})?"
STEP = r"(?P<step>\d{1,15})"
IN_EPOCH = r"\[ *(?P<epoch>\d{1,9})(?:/\d{1,9})?\]\s*\[ *(?P<step>\d{1,12})/(?P<length>\d{1,12})\]"
RANK = re.compile(r"^\[(?:rank|default)(\d{1,7})\]:")
EVALUATED = r"(?:val|valid|validate|validation|test|eval|evaluation)"
NO_TRAINING = re.compile(rf"\b{EVALUATED}[ :]{{0,3}}$", re.IGNORECASE)
"""Directly in front of what has the form of a line of training."""
BEFORE = 20
"""Characters in front of it that are looked at."""
EVALUATION = re.compile(rf"\b{EVALUATED}\b[^\[]{{0,20}}(?:\[ *\d{{1,9}}\])?\[ *\d{{1,12}}/\d{{1,12}}\b", re.IGNORECASE)
"""How far an evaluation is."""
EVALUATION_COLUMN = 200
"""Characters of a line in which that stands."""


@dataclass(frozen=True, slots=True)
class LineForm:
    """How one trainer writes a line: two patterns, of which the second one is sought behind the first.

    One of both would try each place where the first part fits with all that follows.
    """

    trainer: str
    mark: str
    """Text that each such line has."""
    head: re.Pattern[str]
    """Has the groups of the step, its epoch and the length of that."""
    tail: re.Pattern[str]
    """Has the group of the time."""
    meaning: str
    unlike: re.Pattern[str] | None = None
    """In a step that is no sample, since it contains more."""
    pause: re.Pattern[str] | None = None
    """In a line of something else than training; with a group `step`, where that ended."""


def _form(trainer: str, mark: str, head: str, tail: str, meaning: str = SECONDS, **more: str) -> LineForm:
    others = {name: re.compile(text) for name, text in more.items()}
    return LineForm(trainer, mark, re.compile(head), re.compile(tail), meaning, **others)


FORMS = (
    _form(
        "torchtitan",
        "step: ",
        rf"(?<!validate )\bstep: +{STEP}  loss: ",
        r"\btps: [\d,]{1,20}\b",
        DATED,
        pause=rf"\bvalidate step: +{STEP}  loss: ",
    ),
    _form("MaxText", "completed step: ", rf"completed step: {STEP}, ", rf"\bseconds: (?P<s>{NUMBER})"),
    _form(
        "verl",
        "timing_s/step:",
        rf"\bstep:{STEP} - ",
        rf"\btiming_s/step:(?P<s>{NUMBER})",
        unlike=r"\btiming_s/(?:testing|save_checkpoint):",
    ),
    _form("Lingua", "  iter: ", rf"\bstep: {STEP}  ", rf"  iter: +(?P<s>{NUMBER})  data: +{NUMBER}"),
    _form(
        "nanotron",
        "elapsed_time_per_iteration_ms: ",
        rf"\biteration: {STEP} / \d{{1,12}} \|",
        rf"\belapsed_time_per_iteration_ms: (?P<ms>{NUMBER})(?P<factor>[KM]?)",
    ),
    _form(
        "OpenMMLab",
        "data_time: ",
        rf"\b(?:Epoch(?:\(train\))? *{IN_EPOCH}|Iter(?:\(train\))? *\[ *(?P<iter>\d{{1,12}})/\d{{1,12}}\])\s",
        rf"\btime: (?P<s>{NUMBER})\b",
        pause=r"\b(?:Epoch|Iter)\(val\) {0,9}\[",
    ),
    _form("detectron2", " last_time: ", rf"\biter: {STEP}  ", rf"\blast_time: (?P<s>{NUMBER}) "),
    _form(
        "detectron2 before 0.7",
        "  data_time: ",
        rf"\biter: {STEP}  ",
        rf"  time: {NUMBER}  data_time: {NUMBER}",
        DATED,
        pause=r"\bInference done \d|\bd2\.evaluation\.",
    ),
    _form(
        "references of torchvision",
        "  time: ",
        rf"\bEpoch: {IN_EPOCH}  eta: ",
        rf"  time: (?P<s>{NUMBER})  data: {NUMBER}",
        WINDOW,
    ),
    _form(
        "timm",
        "%)]  Loss: ",
        r"\bTrain: (?P<epoch>\d{1,9}) \[ *(?P<step>\d{1,12})/(?P<length>\d{1,12}) \( *\d+%\)\]  Loss: ",
        rf"  Time: {NUMBER}s, +[\d.]{{1,20}}/s +\( *(?P<s>{NUMBER})s, ",
        MEAN,
    ),
    _form(
        "examples of PyTorch",
        "ime ",
        rf"\b(?:Epoch|Train):? {IN_EPOCH}\s",
        rf"\b[Tt]ime +{NUMBER} +\( *(?P<s>{NUMBER})\)",
        MEAN,
    ),
)


@dataclass(frozen=True, slots=True)
class Step:
    """What a line says of a step."""

    number: int
    """Since the job began."""
    epoch: int
    in_epoch: int
    seconds: str
    """As the line says it; '' where it does not."""
    factor: float
    """To seconds."""

    @property
    def time(self) -> float:
        """The seconds that the line says."""
        return float(self.seconds) * self.factor


@dataclass
class StepOrder:
    """Which lines go on, where several processes write into one file, or a job begins anew at an earlier step."""

    newest: int = -1
    is_another_run: bool = False
    """Whether the newest line that follows is of a job that began anew where the first one had begun, or before."""
    _time: float | None = None
    """Date of the newest line that follows."""
    _first: int | None = None
    _late: int = -1
    """Step of the newest line that came late."""
    _late_first: int = -1
    """Step of the first one of those in a row."""
    _late_lines: int = 0

    def follow(self, step: int, time: float | None) -> bool:
        """Returns whether a line is of the next step; `time` is its date, if it has one."""
        self._first = step if self._first is None else self._first
        self.is_another_run = False
        if step <= self.newest:
            if time is not None and self._time is not None and time <= self._time:
                return False
            if self._late_lines == 0 or step <= self._late:
                self._late_first, self._late_lines = step, 0
            self._late, self._late_lines = step, self._late_lines + 1
            if self._late_lines < LATE_LINES:
                return False
            self.is_another_run = self._late_first <= self._first
        self.newest, self._time, self._late_lines = step, time, 0
        return True


@dataclass
class StepLogParser:
    """Finds the lines of the form that the first one has."""

    dates: ShortDates
    form: LineForm | None = None
    _rank: str | None = None
    """Rank whose lines are read, where lines say one."""
    _order: StepOrder = field(default_factory=StepOrder)
    _epoch: int = -1
    _first: int = 0
    """How many steps are done at a line of step 0: some count from 0, others from 1."""
    _last: tuple[int, float] = (0, 0.0)
    """Steps of the epoch that were done at the newest sample, and their seconds."""
    _has_fractions: bool = False
    """Whether dates say more than whole seconds."""

    def read_line(self, line: LogLine, steps: StepReader) -> None:
        """Adds what a line says of the steps."""
        form = self.form or find_form(line.text)
        if form is None or self._is_of_another(line.text):
            return
        step = read_step(line.text, form)
        if step is None:
            self._read_pause(line, form, steps)
            return
        self.form, line = form, self._date(line)
        if not self._order.follow(step.number, line.time):
            if step.number == steps.step and line.time is not None and form.meaning in (DATED, MEAN):
                # A job that goes back by one line: what passed is no time of the next step.
                steps.skip_steps(line, step.number, 0.0)
            return
        if self._order.is_another_run:
            self._epoch = -1
            steps.begin_run()
        begins, self._epoch = step.epoch != self._epoch, step.epoch
        if form.meaning == SECONDS:
            self._add(line, step, form, steps)
        elif form.meaning == WINDOW or (form.meaning == MEAN and line.time is None):
            self._add_mean(line, step, form, steps, begins=begins)
        else:
            self._add_dated(line, step, steps, begins=begins)

    def finish(self, steps: StepReader) -> None:
        """Adds nothing: each line stands for itself."""

    def _read_pause(self, line: LogLine, form: LineForm, steps: StepReader) -> None:
        pause = form.pause.search(line.text[:MAX_COLUMN]) if form.pause else None
        if pause:
            line = self._date(line)
        if pause and "step" in pause.groupdict():
            steps.note_evaluation(line, is_last=True)
            steps.skip_steps(line, max(int(pause["step"]), steps.step or 0), 0.0)
        elif pause or EVALUATION.search(line.text[:EVALUATION_COLUMN]):
            steps.note_evaluation(line)

    def _date(self, line: LogLine) -> LogLine:
        """Returns a line with its date, also if that has no year."""
        return line if line.time is not None else line._replace(time=self.dates.find(line.text))

    def _is_of_another(self, text: str) -> bool:
        match = RANK.search(text)
        if match and self._rank is None:
            self._rank = match[1]
        return match is not None and match[1] != self._rank

    def _add(self, line: LogLine, step: Step, form: LineForm, steps: StepReader) -> None:
        if form.unlike and form.unlike.search(line.text):
            steps.skip_steps(line, step.number, step.time)
        else:
            steps.add_step(line, step.number, step.time)

    def _add_mean(self, line: LogLine, step: Step, form: LineForm, steps: StepReader, *, begins: bool) -> None:
        """Adds the mean time of the steps since the newest sample; the first line of an epoch is none.

        What reads the input begins with each epoch, and takes its time.
        """
        if begins:
            self._first = step.in_epoch == 0
        done = step.in_epoch + self._first
        elapsed, (since, before) = step.time * done, self._last
        is_window = form.meaning == WINDOW and done > WINDOW_STEPS
        error = smallest_part(step.seconds) * done
        if begins or done <= since:
            steps.skip_steps(line, step.number, elapsed if begins else 0.0)
        elif is_window:
            steps.add_step(line, step.number, step.time)
        elif elapsed > before and (elapsed - before >= TIMES_ERROR * error or done >= MOST_GROWTH * since):
            steps.add_step(line, step.number, (elapsed - before) / (done - since))
        else:
            return
        self._last = done, elapsed

    def _add_dated(self, line: LogLine, step: Step, steps: StepReader, *, begins: bool) -> None:
        """Adds the mean time of the steps since the newest sample by the dates, which may be of whole seconds."""
        self._has_fractions = self._has_fractions or (line.time is not None and line.time % 1 != 0)
        least = TIMES_ERROR * (DIGIT_S if self._has_fractions else 1.0)
        if (begins and step.epoch >= 0) or steps.is_evaluating:
            steps.skip_steps(line, step.number, 0.0)
        elif line.time is None or steps.step is None or line.time - steps.time >= least:
            steps.add_progress(line, step.number)


def find_form(text: str) -> LineForm | None:
    """Returns the form of a line of training; None for other lines."""
    return next((form for form in FORMS if form.mark in text and read_step(text, form)), None)


def read_step(text: str, form: LineForm) -> Step | None:
    """Returns what a line of a form says; None for lines of other forms, and those of evaluations."""
    if form.mark not in text:
        return None
    text = text[:MAX_COLUMN]
    head = form.head.search(text)
    # The two spaces between both are a part of either.
    tail = form.tail.search(text, head.end() - 2) if head else None
    if head is None or tail is None or NO_TRAINING.search(text[max(head.start() - BEFORE, 0) : head.start()]):
        return None
    parts = {**head.groupdict(), **tail.groupdict()}
    epoch, in_epoch = int(parts.get("epoch") or -1), int(parts.get("iter") or parts["step"])
    number = in_epoch + max(epoch, 0) * int(parts.get("length") or 0)
    if parts.get("ms"):
        return Step(number, epoch, in_epoch, parts["ms"], {"": 1e-3, "K": 1.0, "M": 1e3}[parts["factor"]])
    return Step(number, epoch, in_epoch, parts.get("s") or "", 1.0)


def smallest_part(number: str) -> float:
    """Returns what the last digit of a decimal number stands for."""
    return float(10.0 ** -len(number.partition(".")[2]))


def recognise(head: bytes, _name: str) -> bool:
    """Returns whether the first bytes of a file have a line of one of these trainers."""
    return any(find_form(line) for line in decode_head(head))


@with_messages
def read_series(file: BinaryIO, name: str, labels: Mapping[str, str]) -> list[LabelledSeries]:
    """Returns the step times of the job.

    Raises:
        InputError: no two lines are of steps, or a label has no valid value.
    """
    return read_steps(file, name, labels, StepLogParser(ShortDates(labels, name)), EXAMPLE)


READER = artefact_reader(
    "training log of torchtitan, MaxText, verl, OpenMMLab, detectron2, timm or examples of PyTorch",
    read_series,
    recognise,
    placed_by_name=True,
    is_yearless=True,
    log_marks=tuple(form.mark.encode() for form in FORMS),
)
