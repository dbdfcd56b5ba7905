"""Steps of a training log whose lines say the time since the job began, instead of when they were written.

A step has the mean time between two lines. Several processes may write the same lines into one file, and a job that was
resumed counts anew from 0: its parts follow each other without a pause. Time begins at 0 s and stands still in
evaluations; with the label `start` (seconds since 1970) of the input it is that of the clock.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from skewscope.adapters.inputs.file_origin import join_notes
from skewscope.adapters.inputs.monitor_rows import seconds_label
from skewscope.adapters.inputs.training_steps import NEW_VALUE, STEP_DURATION, LogLine, StepReader
from skewscope.kb.problems import InputError, Problem

MAX_DAMAGED = 0.01
"""Share of lines without their step or time that is left out with a note; with more, the file is no such log."""


class Progress(NamedTuple):
    """How far a job was at a line."""

    step: int
    elapsed: float
    """Seconds since its begin."""


@dataclass
class ElapsedSteps:
    """Adds the steps between the lines of one job."""

    file: str
    labels: Mapping[str, str]
    least: float
    """Seconds between two samples at least: a clock of whole seconds says little of shorter times."""
    lag: float
    """Seconds by which the clocks of processes that began together differ; a larger fall is a new begin."""
    last: Progress | None = None
    """Line that ends the newest sample; what evaluations took since then is added to its time."""
    newest: Progress | None = None
    """Newest line of the process whose steps are read."""
    restarts: int = 0
    """New begins at a step that was known."""
    others: int = 0
    """Lines that tell nothing new: those of another process."""
    skipped: float = 0.0
    """Seconds of evaluations in which the clock stands still."""
    read: int = 0
    """Lines that were read."""
    undated: bool = False
    """Whether a line had no time of its own."""
    first_damaged: int = 0
    """Line without its step or time; 0 without any."""
    last_damaged: int = 0
    damaged: int = 0

    def __post_init__(self) -> None:
        self._begin = self._start = seconds_label(self.labels, "start", self.file, 0.0)
        self._seen = 0.0
        """Newest elapsed time, of any line."""
        self._value = 0.0
        """Newest sample, seconds."""
        self._newest_at = math.inf
        """Time of the newest line of steps, seconds since 1970."""

    def add(self, line: LogLine, now: Progress, steps: StepReader) -> None:
        """Adds the mean time of the steps since the last line."""
        if not self._follow(line, now):
            return
        if self.last is None or self.newest is None:
            self.last = self.newest = now
            self._newest_at = self.place(line, now)
        elif now.step <= self.newest.step:
            self.others += now.step < self.newest.step
        else:
            self.newest, self._newest_at = now, self.place(line, now)
            taken = now.elapsed - self.last.elapsed
            if taken >= self.least:
                seconds = taken / (now.step - self.last.step)
                # Whole seconds often give the same time again, which would pass for one that was read twice.
                seconds *= 1.0 + NEW_VALUE if seconds == self._value else 1.0
                self._value = seconds
                steps.collector.add(STEP_DURATION, {"group": steps.group}, self.place(line, now), seconds, line.number)
                self.last = now

    def skip(self, line: LogLine, now: Progress, steps: StepReader) -> None:
        """Passes over what a job did after a step, such as an evaluation: it is no time of the next one."""
        if self._follow(line, now) and self.last and self.newest and now.step == self.newest.step:
            pause = now.elapsed - self.newest.elapsed
            self._say_pause(line, now, steps)
            self.last, self.newest = self.last._replace(elapsed=self.last.elapsed + pause), now
            if "start" not in self.labels:
                # Without it no other input is on this clock, and a pause with a known reason would look like a hang.
                self._start -= pause
                self.skipped += pause

    def count_damage(self, line: LogLine) -> None:
        """Counts a line that lacks its step or its time."""
        self.damaged += 1
        self.first_damaged = self.first_damaged or line.number
        self.last_damaged = line.number

    def describe(self, last_line: int, expected: str) -> str:
        """Returns what is to be said of the times.

        Args:
            last_line: number of the last line of the file, which may be cut.
            expected: what a line should hold.

        Raises:
            InputError: too many lines are damaged.
        """
        cut = self.damaged == 1 and self.last_damaged == last_line
        if self.damaged - cut > MAX_DAMAGED * self.read:
            found = f"{self.damaged} of {self.damaged + self.read} lines without their step or their time"
            hint = "Is the file cut off, or did several processes write into the same line?"
            raise InputError([Problem(self.file, self.first_damaged, "", found, expected, hint)])
        return join_notes(
            self._describe_begin(),
            f"new begins of the job: {self.restarts}; each follows the part before it at once" if self.restarts else "",
            f"lines of another process that are left out: {self.others}" if self.others else "",
            f"ends inside a line ({last_line}), which is left out" if cut else "",
            f"damaged lines that are left out: {self.damaged}, first {self.first_damaged}"
            if self.damaged - cut
            else "",
        )

    def _describe_begin(self) -> str:
        if not self.undated:
            return ""
        hint = "" if "start" in self.labels else "; the label start says when the job began"
        pauses = " without evaluations" if self.skipped else ""
        return f"its lines have no date: times count from {self._begin:.10g} s on{pauses}{hint}"

    def _follow(self, line: LogLine, now: Progress) -> bool:
        """Returns whether a line follows those before it; a new begin moves the start of the clock."""
        self.read += 1
        self.undated = self.undated or line.time is None
        newest = self.newest
        if newest is None or now.elapsed >= newest.elapsed:
            self._seen = max(self._seen, now.elapsed)
            return True
        if now.elapsed >= self._seen - self.lag:
            self.others += 1
            return False
        self.restarts += now.step <= newest.step
        self._start += self._seen
        self._seen, self.last, self.newest = now.elapsed, None, None
        return True

    def _say_pause(self, line: LogLine, now: Progress, steps: StepReader) -> None:
        """Says that the job evaluated since the newest line of steps, where the clock has gone on meanwhile."""
        begin, end = self._newest_at, self.place(line, now)
        if ("start" in self.labels or line.time is not None) and end > begin:
            steps.add_evaluation(line, begin, end)

    def place(self, line: LogLine, now: Progress) -> float:
        """Returns the time of a line, seconds since 1970: its own, else by what has passed since the job began."""
        return self._start + now.elapsed if line.time is None else line.time


def read_seconds(match: re.Match[str]) -> float:
    """Returns the seconds of a match with groups for days, hours, minutes and seconds, each of which may be empty."""
    days, hours, minutes, seconds = match.group("days", "hours", "minutes", "seconds")
    return int(days or 0) * 86_400.0 + int(hours or 0) * 3600.0 + int(minutes or 0) * 60.0 + int(seconds or 0)
