"""Steps of a training job from its log: what the readers of the logs of several frameworks share.

A step has the time of its line, else that of the newest stamp before it. Without any stamp times begin at 0 and grow by
the time of each step, so pauses between steps are not seen; the series say so. Where other lines have stamps, what
passed besides the steps before one, such as evaluations, is spread over them: where it was is not known. The first step
of a log is not a sample: it includes compilation and the set-up of collectives.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import BinaryIO, NamedTuple, Protocol

import numpy as np

from skewscope.adapters.formats.log_lines import file_stem, read_block_lines
from skewscope.adapters.formats.log_times import find_stamp, parse_offset
from skewscope.adapters.inputs.file_origin import ORIGIN_LABEL, join_notes
from skewscope.adapters.inputs.labelled import LabelledSeries, SeriesCollector
from skewscope.adapters.inputs.regular_pauses import find_pause_shares
from skewscope.engine.model.arrays import F64
from skewscope.kb.loader import catalogue
from skewscope.kb.problems import InputError, Problem

STEP_DURATION = "skewscope_step_duration"
SAMPLE_RATE = "skewscope_step_sample_rate"
EVALUATION = "skewscope_step_evaluation"
PAUSE_SHARE = "skewscope_step_pause_share"
NO_TIMES: F64 = np.empty(0)
RANK_IN_NAME = re.compile(r"[-_.]?rank[-_]?\d+", re.IGNORECASE)
RELATIVE = "the log has no times: they begin at 0 s and grow by the time of each step"
COUNTED = "the log has no times, nor does it say how long steps take: each counts as one second"
PARTLY = "some steps have no time: theirs is that of the step before, and the time they took"
MAX_SPREAD = 2.0
"""Times as long as steps took, in which they are spread over what passed; more is a pause after them (judgement)."""
SOON_S = 1e-3
"""Seconds after a step at which an evaluation may begin."""
EVERY_S = 300.0
"""Seconds between two samples of an evaluation whose lines are further apart; so many of them at most."""
MAX_FILLED = 300
NEW_VALUE = 1e-9
"""Part of itself by which a sample is made longer that equals the one before it, which would pass for one sample."""
MAX_RUNS = 64
"""Runs of one log that are judged apart: each one is a group, of which a topology has some thousands."""


class LogLine(NamedTuple):
    """One line of a log."""

    number: int
    text: str
    time: float | None
    """Seconds since 1970, where the line says so."""


@dataclass
class StepReader:
    """Collects the steps of one job."""

    collector: SeriesCollector
    group: str
    """Name of the job's group."""
    time: float = 0.0
    """Seconds since 1970 of the newest step."""
    step: int | None = None
    """Number of the newest step."""
    stamp: float | None = None
    """Newest time in the log that no step has used."""
    has_stamps: bool = False
    """Whether some step has the time of a line."""
    _has_guesses: bool = False
    _is_counted: bool = False
    """Whether some steps count as a second, since nothing says how long they took."""
    _guessed_since: float | None = None
    """Time of the last step that a stamp gave its time, if steps without one have followed it."""
    _runs: int = 1
    """Runs of the job so far."""
    missing: int = 0
    """Steps since the newest one of which a line should be and none is: a gap in the log."""
    _evaluated_at: float = 0.0
    """Time of the newest line of an evaluation, seconds since 1970."""
    is_evaluating: bool = False
    """Whether the newest line with a time was of an evaluation."""

    def __post_init__(self) -> None:
        self._job = self.group

    def begin_run(self) -> None:
        """Begins another run of the job, which may do other work at another pace: it is a group of its own.

        What follows the last of MAX_RUNS is part of it.
        """
        self._runs = min(self._runs + 1, MAX_RUNS)
        # No name that is made of a file's has a point.
        self.group, self.step, self.is_evaluating = f"{self._job}.{self._runs}", None, False

    def add_step(self, line: LogLine, step: int, seconds: float, samples: float | None = None) -> None:
        """Adds a step, unless its number is that of the step before: progress bars show each several times.

        Args:
            line: where the step ends.
            step: its number.
            seconds: mean time of the steps since the last one.
            samples: samples in each of them.
        """
        if step == self.step or seconds <= 0:
            return
        is_first, before = self.step is None, self.time
        passed = step - self.step if self.step is not None and step > self.step else 1
        missing, self.missing = min(self.missing, passed - 1), 0
        # Without times, steps that no line is of, as in a paste with a gap, have taken none.
        self._advance(line, seconds * (passed - missing if line.time is None else passed))
        self.step = step
        if is_first:
            return
        if line.time is not None and missing:
            self._fill_gap(line, before, self.time - seconds, (passed, missing))
        self._add(STEP_DURATION, seconds, line)
        if samples:
            self._add(SAMPLE_RATE, samples / seconds, line)

    @property
    def is_steady(self) -> bool:
        """Whether all steps so far have the times of their lines, or none has, and nothing is known of the next one."""
        is_timed = self.has_stamps or self.stamp is None
        return is_timed and self._guessed_since is None and not self.missing and not self.is_evaluating

    def add_steady(self, times: F64, seconds: F64, samples: F64 | None, newest: int, passed: int) -> F64:
        """Adds steps that follow one another, as `add_step` does each.

        Args:
            times: [step] seconds since 1970, none before that of the newest step; NaN where lines have none.
            seconds: [step] that each took.
            samples: [step] samples in each of them.
            newest: number of the last one.
            passed: steps from each one to the next.

        Returns:
            [step] seconds since 1970.
        """
        if not self.has_stamps:
            times, self._has_guesses = np.add.accumulate(np.append(self.time, seconds * passed))[1:], True
        labels = {"group": self.group}
        self.collector.add_many(STEP_DURATION, labels, times, seconds)
        if samples is not None:
            has_some = np.isfinite(samples) & (samples != 0)
            self.collector.add_many(SAMPLE_RATE, labels, times[has_some], (samples / seconds)[has_some])
        self.time, self.step, self.stamp = float(times[-1]), newest, None
        return times

    def note_evaluation(self, line: LogLine, *, is_last: bool = False) -> None:
        """Says that the job evaluates at a line with a time, the last one or not, and has done so since its step."""
        if line.time is None or self.step is None or self._guessed_since is not None:
            return
        begin = self.time + SOON_S
        if not self.is_evaluating:
            self._add(EVALUATION, 1.0, line, begin)
        # Some programs say nothing before the end of an evaluation.
        since = max(self._evaluated_at, begin) if self.is_evaluating else begin
        for n in range(1, min(int((line.time - since) / EVERY_S) + 1, MAX_FILLED)):
            self._add(EVALUATION, 1.0, line, since + n * EVERY_S)
        self._evaluated_at = max(line.time, begin)
        if not is_last and line.time > begin:
            self._add(EVALUATION, 1.0, line, line.time)
        self.is_evaluating = True

    def add_evaluation(self, line: LogLine, begin: float, end: float) -> None:
        """Says at the line behind it that the job evaluated between a step and an end, in seconds since 1970."""
        for n in range(min(int((end - begin) / EVERY_S) + 1, MAX_FILLED)):
            self._add(EVALUATION, 1.0, line, begin + SOON_S + n * EVERY_S)
        self._add(EVALUATION, 0.0, line, end)

    def skip_steps(self, line: LogLine, step: int, seconds: float) -> None:
        """Passes over steps that took so many seconds with something else: they are no samples."""
        self._advance(line, seconds)
        self.step = step

    def count_step(self, line: LogLine, step: int) -> None:
        """Passes over the steps since the last line, in a log that says neither their time nor when they were."""
        self._advance(line, 1.0)
        self.step, self._is_counted = step, True

    def add_progress(self, line: LogLine, step: int) -> None:
        """Adds the mean time of the steps since the last one, by the times of their lines."""
        if line.time is None or step == self.step or (self.has_stamps and line.time == self.time):
            # Stamps of whole seconds may be those of several lines.
            return
        missing, self.missing = self.missing, 0
        if self.step is not None and step > self.step and line.time > self.time:
            passed = step - self.step
            if missing:
                self._fill_gap(line, self.time, line.time, (passed, missing))
            self._add(STEP_DURATION, (line.time - self.time) / passed, line, line.time)
        self._advance(line, 0.0)
        self.step = step

    def add_rate(self, line: LogLine, samples: float) -> None:
        """Adds samples per second at the time of a line, else at that of the newest step."""
        time = self.time if line.time is None else line.time
        self.collector.add(SAMPLE_RATE, {"group": self.group}, time, samples, line.number)

    def add_total(self, signal: str, line: LogLine, value: float) -> None:
        """Adds what a counter of the job has come to at a line."""
        self._add(catalogue().signals[signal].metric, value, line, line.time)

    def list_series(self) -> list[LabelledSeries]:
        """Returns all series, with what regular pauses took, and with a note where times are not from the log."""
        if self._has_guesses:
            kind = PARTLY if self.has_stamps else COUNTED if self._is_counted else RELATIVE
            self.collector.note = join_notes(self.collector.note, kind)
        series = self.collector.series()
        return series + list(_list_pause_shares(series))

    def _add(self, metric: str, value: float, line: LogLine, time: float | None = None) -> None:
        """Adds a sample of the job, at the time of the newest step if at no other."""
        self.collector.add(metric, {"group": self.group}, self.time if time is None else time, value, line.number)

    def _fill_gap(self, line: LogLine, begin: float, end: float, steps: tuple[int, int]) -> None:
        """Adds the mean time of steps that no line is of: the job took them, so it did not stand still.

        A mean that is much longer than the newest step may hide a pause.

        Args:
            line: the line behind the gap.
            begin: when the step before the gap ended, in seconds since 1970.
            end: when the last step without a line ended.
            steps: those between both lines, and how many of them are missing.
        """
        passed, missing = steps
        mean = (end - begin) / passed
        newest = self.collector.newest(STEP_DURATION, {"group": self.group})
        if newest is None or not 0 < mean <= MAX_SPREAD * newest:
            return
        lines = min(passed // (passed - missing), MAX_FILLED)
        for n in range(1, lines):
            self._add(STEP_DURATION, mean * (1.0 + n * NEW_VALUE), line, begin + n * (end - begin) / lines)

    def _advance(self, line: LogLine, seconds: float) -> None:
        """Moves to the time of a step that took so many seconds."""
        stamp = self.stamp if line.time is None else line.time
        self.stamp = None
        if stamp is not None and (stamp > self.time or not self.has_stamps):
            self._spread_guesses(stamp - seconds)
            self.time, self.has_stamps = stamp, True
        elif stamp is None:
            if self.has_stamps and self._guessed_since is None:
                self._guessed_since = self.time
            self.time, self._has_guesses = self.time + seconds, True
        if self.is_evaluating:
            self._add(EVALUATION, 0.0, line, self.time)
            self.is_evaluating = False

    def _spread_guesses(self, until: float) -> None:
        """Spreads the steps whose times were guessed over the time until the next one began, in seconds."""
        begin, self._guessed_since = self._guessed_since, None
        if begin is not None and self.time < until <= begin + MAX_SPREAD * (self.time - begin):
            self.collector.stretch(begin, (until - begin) / (self.time - begin))


def _list_pause_shares(series: Sequence[LabelledSeries]) -> Iterator[LabelledSeries]:
    """Yields what regular pauses took of the time of each job."""
    evaluations = {one.labels: one.times for one in series if one.metric == EVALUATION}
    for one in series:
        if one.metric == STEP_DURATION:
            ends, shares = find_pause_shares(one.times, evaluations.get(one.labels, NO_TIMES))
            if len(ends):
                yield replace(one, metric=PAUSE_SHARE, times=ends, values=shares)


class LogParser(Protocol):
    """Finds the steps in the lines of one framework."""

    def read_line(self, line: LogLine, steps: StepReader) -> None:
        """Adds what a line says of the steps."""

    def finish(self, steps: StepReader) -> None:
        """Adds what is left at the end of the log."""


def read_steps(
    file: BinaryIO,
    name: str,
    labels: Mapping[str, str],
    parser: LogParser,
    example: str,
) -> list[LabelledSeries]:
    """Returns the series of a training log.

    Args:
        file: the log.
        name: its name, for messages and for the job's group.
        labels: those of the input; `group` names the job's group, `utc_offset` the clock's.
        parser: finds the steps.
        example: a line of such a log, for messages.

    Raises:
        InputError: no line is of a step.
    """
    offset = parse_offset(labels, name)
    steps = StepReader(SeriesCollector(name), labels.get("group") or find_job(labels, name))
    number = 0
    for number, text in read_block_lines(file, name):
        time = find_stamp(text, offset)
        if time is not None:
            steps.stamp = time
        parser.read_line(LogLine(number, text, time), steps)
    parser.finish(steps)
    series = steps.list_series()
    if not series:
        if steps.step is None:
            found, hint = "no step", "Is the log cut before its first step, or of another framework?"
        else:
            found, hint = "no time between two steps", "Is the log cut after its first step?"
        raise InputError([Problem(name, number, "", f"{found} in {number} lines", f"lines such as {example}", hint)])
    return series


def find_job(labels: Mapping[str, str], file: str) -> str:
    """Returns the name of the job of a log: by its file's name, and by its folder where that tells logs apart."""
    return "-".join(filter(None, (labels.get(ORIGIN_LABEL, ""), job_name(file))))


def job_name(file: str) -> str:
    """Returns the name of a job by that of its log: without folder, endings and a rank."""
    stem = file_stem(file)
    return RANK_IN_NAME.sub("", stem) or stem or "job"
