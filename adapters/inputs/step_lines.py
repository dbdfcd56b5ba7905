"""Steps of a training job from the lines of a format: what a line means for the steps before it.

A line may say the time of its own step, a mean of several, the time since the job began, or nothing but when it was
written. Several processes may write into one file, a job may begin anew at an earlier step, and evaluate in between.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from skewscope.adapters.inputs.elapsed_steps import ElapsedSteps, Progress
from skewscope.adapters.inputs.training_steps import LogLine, StepReader
from skewscope.engine.model.arrays import F64
from skewscope.kb.line_reading import LineReadings, Reading

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
GAP_LINES = 4
"""Usual intervals of lines in which none is missed: the next one is not yet late then."""
LEAST_S = 1.0
"""Seconds of a sample by the time since the job began, at least: programs do not wait for the GPUs at each line."""
LAG_S = 120.0
"""Seconds by which clocks of processes differ that write whole seconds into one file."""
ROUNDED_S = 1.0
"""Most by which whole seconds differ from the time that a mean says."""

RANK = re.compile(r"^\[(?:rank|default)(\d{1,7})\]:")
EVALUATED = r"(?:val|valid|validate|validation|test|eval|evaluation)"
NO_TRAINING = re.compile(rf"\b{EVALUATED}[ :]{{0,3}}$", re.IGNORECASE)
"""Directly in front of what has the form of a line of training."""
BEFORE = 20
"""Characters in front of it that are looked at."""
EVALUATION = re.compile(rf"\b{EVALUATED}\b[^\[]{{0,20}}(?:\[ *\d{{1,9}}\])?\[ *\d{{1,12}}/\d{{1,12}}\b", re.IGNORECASE)
"""How far an evaluation is."""
EVALUATION_MARK = r"\[ *[0-9]+/[0-9]"
"""Each line that it matches has this; without groups and look-arounds."""
EVALUATION_COLUMN = 200
"""Characters of a line in which that stands."""


STEADY_PARTS = frozenset(("number", "duration", "rate", "samples", "epoch", "length", "total"))
"""Parts of lines that may be taken together: the line says the time of its own step."""


class StepLine(NamedTuple):
    """One line of a step."""

    line: LogLine
    parts: Mapping[str, Reading]
    others: tuple[Reading, ...]
    """Its numbers that are no parts of a step."""
    number: int
    """Of the step, since the job began."""
    epoch: int
    """-1 where it has none."""
    in_epoch: int

    def own_seconds(self) -> float:
        """Returns the time of the step that the line says; 0 where it says none."""
        if "duration" in self.parts:
            return self.parts["duration"].value
        rate = self.parts["rate"].value if "rate" in self.parts else 0.0
        return 1.0 / rate if rate > 0 else 0.0


class StepRows(NamedTuple):
    """Lines of steps that follow one another; whole numbers are floats as well."""

    times: F64
    """[step] seconds since 1970; NaN where a line has no time."""
    numbers: F64 | None
    """[step] in the epoch, or since the job began; None where each is the next one."""
    seconds: F64
    """[step] that the step itself took."""
    samples: F64 | None
    """[step] in the step."""
    epochs: F64 | None
    lengths: F64 | None
    """[step] steps of an epoch."""

    def cut(self, begin: int, end: int) -> "StepRows":
        """Returns some of the steps."""
        others = (self.numbers, self.samples, self.epochs, self.lengths)
        numbers, samples, epochs, lengths = (None if each is None else each[begin:end] for each in others)
        return StepRows(self.times[begin:end], numbers, self.seconds[begin:end], samples, epochs, lengths)


@dataclass
class StepOrder:
    """Which lines go on, where several processes write into one file, or a job begins anew at an earlier step."""

    newest: int = -1
    is_another_run: bool = False
    """Whether the newest line that follows is of a job that began anew where the first one had begun, or before."""
    _time: float | None = None
    """Date of the newest line that follows."""
    _first: int | None = None
    _late: list[StepLine] = field(default_factory=list)
    """Lines in a row that came late."""

    @property
    def is_waiting(self) -> bool:
        """Whether lines came late of which it is not known yet whether they go on."""
        return bool(self._late)

    def go_on(self, newest: int, time: float | None) -> None:
        """Takes lines that follow one another, up to one."""
        self.newest, self._time, self.is_another_run = newest, time, False

    def follow(self, one: StepLine) -> tuple[StepLine, ...]:
        """Returns the lines that go on, up to this one: none where it is late."""
        self._first = one.number if self._first is None else self._first
        self.is_another_run = False
        going_on: tuple[StepLine, ...] = (one,)
        if one.number <= self.newest:
            if one.line.time is not None and self._time is not None and one.line.time <= self._time:
                return ()
            if self._late and one.number <= self._late[-1].number:
                self._late = []
            self._late.append(one)
            if len(self._late) < LATE_LINES:
                return ()
            going_on = tuple(self._late)
            self.is_another_run = going_on[0].number <= self._first
        self.newest, self._time, self._late = one.number, one.line.time, []
        return going_on


@dataclass
class StepLines:
    """Adds what the lines of one log say of the steps."""

    file: str
    labels: Mapping[str, str]
    steps: StepReader
    add_number: Callable[[Reading, float, LogLine], None]
    """Adds a number of a line that is no part of a step, at a time."""
    _rank: str | None = None
    """Rank whose lines are read, where lines say one."""
    _order: StepOrder = field(default_factory=StepOrder)
    _clock: ElapsedSteps | None = None
    """Of logs that say the time since the job began."""
    _epoch: int = -1
    _base: int = 0
    """Steps before the epoch, where its length is not known."""
    _first: int = 0
    """How many steps are done at a line of step 0: some count from 0, others from 1."""
    _last: tuple[int, float] = (0, 0.0)
    """Steps of the epoch that were done at the newest sample, and their seconds."""
    _is_mean_of_epoch: bool = False
    """Whether the mean was seen to begin with the epoch."""
    _has_fractions: bool = False
    """Whether dates say more than whole seconds."""
    _newest: int | None = None
    """Step of the newest line."""
    _usual: int = 0
    """Steps from the line before to the newest one; 0 before there were two."""
    _newest_seconds: float = 0.0
    """Newest time that a step of its own says."""
    _given: set[str] = field(default_factory=set)
    """Signals whose number the newest step has."""
    _evaluated: int | None = None
    """Step before whose line an evaluation was: its time contains that."""

    def read(self, line: LogLine, found: LineReadings, parts: Mapping[str, Reading]) -> None:
        """Adds what a line of the format says; `parts` are those of the step."""
        if found.evaluation:
            self._evaluate(line, parts, found.evaluation)
        elif NO_TRAINING.search(line.text, max(found.begin - BEFORE, 0), found.begin):
            self.steps.note_evaluation(line)
        elif not self._is_of_another(line.text):
            others = tuple(one for one in found.readings if one.signal.partition(" ")[2] not in parts)
            self._follow(self._number(line, parts, others))

    @staticmethod
    def may_be_steady(shape: str, parts: Collection[str], begin: int) -> bool:
        """Returns whether lines of a shape that say some parts of a step may be taken together.

        Args:
            shape: that of the lines.
            parts: what they say.
            begin: where that begins in the shape.
        """
        has_seconds = "duration" in parts or ("rate" in parts and "number" in parts)
        has_seconds = has_seconds and ("number" in parts or "epoch" not in parts)
        is_other = RANK.search(shape) or NO_TRAINING.search(shape, max(begin - BEFORE, 0), begin)
        return has_seconds and STEADY_PARTS.issuperset(parts) and not is_other

    def count_steady(self, rows: StepRows) -> int:
        """Returns how many of the first steps simply go on at the usual interval: `read_steady` takes them together."""
        newest = self._newest
        if newest is None or not self._is_steady(newest) or not len(rows.times):
            return 0
        is_next = np.diff(self._numbers(rows), prepend=newest) == self._usual
        # Either all lines have a time, or none has.
        is_later = np.diff(rows.times, prepend=self.steps.time) >= 0 if self.steps.has_stamps else np.isnan(rows.times)
        ends = np.flatnonzero(~(is_next & is_later & (rows.seconds > 0)))
        return int(ends[0]) if len(ends) else len(rows.times)

    def _is_steady(self, newest: int) -> bool:
        """Returns whether the newest step followed the one before it, and nothing else was meanwhile."""
        steps, order = self.steps, self._order
        is_same = steps.step == newest == order.newest and not order.is_waiting and (self._evaluated or 0) <= newest
        return is_same and self._usual > 0 and steps.is_steady

    def _numbers(self, rows: StepRows) -> F64:
        """Returns [step] the numbers since the job began; NaN where another epoch is."""
        if rows.numbers is None:
            return self._order.newest + np.arange(1.0, len(rows.times) + 1)
        if rows.epochs is None:
            return rows.numbers if self._epoch < 0 else np.full(len(rows.numbers), np.nan)
        numbers = rows.numbers + (self._base if rows.lengths is None else rows.epochs * rows.lengths)
        return np.where((rows.epochs == self._epoch) & (rows.epochs >= 0), numbers, np.nan)

    def read_steady(self, rows: StepRows, signals: Iterable[str]) -> F64:
        """Adds steps that `count_steady` counted; `signals` are those of other numbers of theirs.

        Returns:
            [step] the times of the steps, in seconds since 1970.
        """
        newest = int(self._numbers(rows)[-1])
        times = self.steps.add_steady(rows.times, rows.seconds, rows.samples, newest, self._usual)
        if self.steps.has_stamps:
            self._has_fractions = self._has_fractions or bool((times % 1 != 0).any())
        self._order.go_on(newest, float(times[-1]) if self.steps.has_stamps else None)
        self._newest, self._newest_seconds, self._given = newest, float(rows.seconds[-1]), set(signals)
        return times

    def read_other(self, line: LogLine) -> None:
        """Looks for an evaluation in a line that the format does not have."""
        if EVALUATION.search(line.text, 0, EVALUATION_COLUMN):
            self.steps.note_evaluation(line)

    def describe(self, last_line: int, expected: str) -> str:
        """Returns what is to be said of times since the job began; '' of logs without.

        Raises:
            InputError: too many lines are damaged.
        """
        return self._clock.describe(last_line, expected) if self._clock and self._clock.read else ""

    def _is_of_another(self, text: str) -> bool:
        match = RANK.search(text) if text.startswith("[") else None
        if match and self._rank is None:
            self._rank = match[1]
        return match is not None and match[1] != self._rank

    def _number(self, line: LogLine, parts: Mapping[str, Reading], others: tuple[Reading, ...]) -> StepLine:
        """Returns a line with the number of its step since the job began."""
        in_epoch = int(parts["number"].value) if "number" in parts else self._order.newest + 1
        epoch = int(parts["epoch"].value) if "epoch" in parts else -1
        if epoch < 0:
            return StepLine(line, parts, others, in_epoch, -1, in_epoch)
        if "length" in parts:
            return StepLine(line, parts, others, in_epoch + epoch * int(parts["length"].value), epoch, in_epoch)
        if epoch != self._epoch:
            self._base = max(self._order.newest, 0) if epoch > self._epoch else 0
        return StepLine(line, parts, others, self._base + in_epoch, epoch, in_epoch)

    def _follow(self, one: StepLine) -> None:
        if "elapsed" in one.parts or "job_mean" in one.parts or "job_rate" in one.parts:
            self._add_elapsed(one)
            return
        self._has_fractions = self._has_fractions or (one.line.time is not None and one.line.time % 1 != 0)
        following = self._order.follow(one)
        if self._order.is_another_run:
            self._epoch = -1
            self.steps.begin_run()
        for each in following:
            self._given.clear()
            self._add(each)
        if not following and one.number == self.steps.step:
            self._add_again(one)

    def _add_again(self, one: StepLine) -> None:
        """Adds another line of the newest step: it says other things of it, or the job goes back by one line."""
        if any(other.signal not in self._given for other in one.others):
            self._add_others(one.others, one.line)
        elif one.line.time is not None and not one.own_seconds():
            # What passed is no time of the next step.
            self.steps.skip_steps(one.line, one.number, 0.0)

    def _evaluate(self, line: LogLine, parts: Mapping[str, Reading], phase: str) -> None:
        number = int(parts["number"].value) if "number" in parts else None
        if "elapsed" in parts and number is not None:
            self._clock_of(parts).skip(line, Progress(number, elapsed_seconds(parts)), self.steps)
            return
        self.steps.note_evaluation(line, is_last=phase == "end")
        if number is not None and (self.steps.step is None or number > self.steps.step):
            self._evaluated = number
        elif number is not None and phase == "end":
            self.steps.skip_steps(line, max(number, self.steps.step or 0), 0.0)

    def _clock_of(self, parts: Mapping[str, Reading]) -> ElapsedSteps:
        if self._clock is None:
            digit = parts["elapsed"].digit if "elapsed" in parts else 1.0
            lag = LAG_S if digit >= 1.0 else 0.0
            self._clock = ElapsedSteps(self.file, self.labels, max(LEAST_S, TIMES_ERROR * digit), lag)
        return self._clock

    def _add_elapsed(self, one: StepLine) -> None:
        clock, now = self._clock_of(one.parts), Progress(one.number, elapsed_seconds(one.parts))
        clock.add(one.line, now, self.steps)
        self._given.clear()
        self._add_others(one.others, one.line._replace(time=clock.place(one.line, now)))

    def count_damage(self, line: LogLine) -> None:
        """Counts a line of which a part is missing."""
        self._clock_of({}).count_damage(line)

    def _add(self, one: StepLine) -> None:
        begins, self._epoch = one.epoch != self._epoch, one.epoch
        seconds, before = one.own_seconds(), self.steps.step
        passed = one.number - before if before is not None else 0
        self._count_missing(one)
        if one.number == self._evaluated and before is not None:
            self.steps.skip_steps(one.line, one.number, seconds + (passed - 1) * self._newest_seconds)
        elif "window" in one.parts or "mean" in one.parts:
            self._add_mean(one, seconds, begins=begins, is_next=passed == 1)
        elif seconds:
            samples = one.parts["samples"].value if "samples" in one.parts else None
            self.steps.add_step(one.line, one.number, seconds, samples)
        elif one.line.time is None and self.steps.stamp is None and not self.steps.has_stamps:
            self.steps.count_step(one.line, one.number)
        else:
            self._add_dated(one, begins=begins)
        if one.number != self._evaluated:
            self._newest_seconds = seconds
        epoch = (Reading("step.epoch", float(one.epoch)),) if begins and one.epoch >= 0 else ()
        self._add_others((*epoch, *one.others), one.line)

    def _count_missing(self, one: StepLine) -> None:
        """Counts the steps of which a line should be: more than GAP_LINES usual intervals have passed."""
        passed = one.number - self._newest if self._newest is not None and one.number > self._newest else 0
        if self._usual and passed > GAP_LINES * self._usual:
            self.steps.missing += passed - self._usual
        self._newest, self._usual = one.number, passed or self._usual

    def _add_others(self, others: Sequence[Reading], line: LogLine) -> None:
        time = self.steps.time if line.time is None else line.time
        for other in others:
            if other.signal not in self._given:
                self.add_number(other, time, line)
        self._given |= {other.signal for other in others}

    def _add_mean(self, one: StepLine, seconds: float, *, begins: bool, is_next: bool) -> None:
        """Adds a line that says a mean, and perhaps the time of its own step: that counts if it is of the next step.

        Without a date the mean counts only if it was seen to begin with the epoch. The first line of an epoch is no
        sample: what reads the input begins with each epoch, and takes its time.
        """
        mean = one.parts.get("window") or one.parts["mean"]
        if one.in_epoch <= 1 and seconds:
            self._is_mean_of_epoch = abs(mean.value - seconds) <= 2 * mean.digit
        is_own = bool(seconds) and (is_next or not self._is_mean_of_epoch)
        if "window" in one.parts or (one.line.time is None and not is_own):
            self._split_mean(one, mean, begins=begins)
        elif (is_next and seconds) or (is_own and one.line.time is None):
            if begins and one.epoch >= 0:
                self.steps.skip_steps(one.line, one.number, seconds)
            else:
                self.steps.add_step(one.line, one.number, seconds)
            done = one.in_epoch + self._first
            self._last = done, mean.value * done
        else:
            self._add_dated(one, begins=begins)

    def _split_mean(self, one: StepLine, mean: Reading, *, begins: bool) -> None:
        """Adds the mean time of the steps since the newest sample by the means since the epoch began."""
        if begins:
            self._first = one.in_epoch == 0
        done = one.in_epoch + self._first
        elapsed, (since, before) = mean.value * done, self._last
        error = mean.digit * done
        if begins or done <= since:
            self.steps.skip_steps(one.line, one.number, elapsed if begins else 0.0)
        elif "window" in one.parts and done > WINDOW_STEPS:
            self.steps.add_step(one.line, one.number, mean.value)
        elif elapsed > before and (elapsed - before >= TIMES_ERROR * error or done >= MOST_GROWTH * since):
            self.steps.add_step(one.line, one.number, (elapsed - before) / (done - since))
        else:
            return
        self._last = done, elapsed

    def _add_dated(self, one: StepLine, *, begins: bool) -> None:
        """Adds the mean time of the steps since the newest sample by the dates, which may be of whole seconds."""
        line, steps = one.line, self.steps
        least = TIMES_ERROR * (DIGIT_S if self._has_fractions else 1.0)
        if (begins and one.epoch >= 0) or steps.is_evaluating:
            steps.skip_steps(line, one.number, 0.0)
        elif line.time is None or steps.step is None or line.time - steps.time >= least:
            steps.add_progress(line, one.number)


def elapsed_seconds(parts: Mapping[str, Reading]) -> float:
    """Returns the seconds since a job began that a line says, as exactly as it does.

    Whole seconds are made more exact by a mean since the begin that fits them, or by what remains.
    """
    known = {name: one.value for name, one in parts.items()}
    step, whole = known.get("number", 0.0), known.get("elapsed")
    exact = _elapsed_by_mean(known)
    if whole is None:
        return exact or 0.0
    # A job that was resumed may count its mean from another step.
    if exact is not None and abs(exact - whole) <= ROUNDED_S:
        return exact
    left = known.get("total", 0.0) - step
    if "remaining" not in known or left <= 0:
        return whole
    # What remains is the mean time of a step by the steps that are left, cut to whole seconds as well.
    ratio, rest = step / left, known["remaining"]
    low, high = max(whole, rest * ratio), min(whole + 1.0, (rest + 1.0) * ratio)
    return (low + high) / 2 if low < high else whole


def _elapsed_by_mean(known: Mapping[str, float]) -> float | None:
    step = known.get("number", 0.0)
    if "job_mean" in known:
        return step * known["job_mean"]
    if known.get("job_rate", 0.0) > 0:
        return step / known["job_rate"]
    if known.get("throughput", 0.0) > 0 and "processed" in known:
        return known["processed"] / known["throughput"]
    return None
