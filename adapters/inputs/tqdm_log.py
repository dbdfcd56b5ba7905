"""Inputs of kind `tqdm-log`: what a job prints whose progress is bars of tqdm, such as the Trainer of Hugging Face.

A log may have many bars. The one that ran longest is taken for the steps; what passes while another one advances, such
as an evaluation, is no time of a step. Its clock counts whole seconds. A bar of each epoch begins anew.
"""

import math
import re
from array import array
from collections.abc import Iterator, Mapping
from typing import BinaryIO, NamedTuple

import numpy as np

from skewscope.adapters.formats.bounds import BAR_STATES
from skewscope.adapters.formats.log_lines import decode_head
from skewscope.adapters.inputs.elapsed_steps import ElapsedSteps, Progress, read_seconds
from skewscope.adapters.inputs.labelled import LabelledSeries, SeriesCollector, artefact_reader
from skewscope.adapters.inputs.log_recognition import BLOCK_BYTES
from skewscope.adapters.inputs.messages import with_messages
from skewscope.adapters.inputs.training_steps import LogLine, StepReader, read_steps
from skewscope.kb.problems import InputError

EXAMPLE = "` 12%|#2   | 120/1000 [03:20<24:26,  1.67s/it]`"
BAR = re.compile(
    r"\d{1,3}%\|[^|]{0,200}\|\s{0,3}(?P<done>\d{1,12})/(?P<total>\d{1,12}) "
    r"\[(?:(?P<days>\d{1,4}) days?, )?(?:(?P<hours>\d{1,6}):)?(?P<minutes>\d{1,2}):(?P<seconds>\d\d)<[^\]]{1,30}"
    r"(?:s/it|it/s)"
)
NAME_COLUMNS = 60
WORDS = re.compile(r"[A-Za-z][A-Za-z _/-]*(?=:?\s*$)")
"""Of so many characters before a bar, what is its name: without a time, or the number of an epoch."""
MAX_ERROR = 0.1
"""Share of the time of a sample by which it may be wrong, since the clock counts whole seconds."""
CLOCK_S = 1.0
UNKNOWN = 1 << 40
"""In place of a number of steps: more than any job takes."""
FIRST_STEP = 1
"""A bar of which the steps fall to this begins anew."""
LEAST_TOTAL, LEAST_MARKS, LEAST_SPAN_S = 30, 8, 60.0
"""Steps, states and seconds from which on a bar is one of steps: shards that are loaded are fewer."""
DENSE_SPAN_S = 10.0
"""Seconds that are enough in a whole block of a file, where bars are drawn often."""
LEAST_SAMPLES = 3
"""Samples in a part of a file from which on it is one of steps."""
SERVING = ("Processed prompts", "Capturing", "Loading", "DeepGEMM")
"""Begins of the names of bars that engines show."""
LOSS = re.compile(r"loss\b", re.IGNORECASE)
"""What a job that trains prints: pieces of other work, such as questions that are answered, are not alike."""


Bar = tuple[str, int]
"""Its name and its total."""


class Mark(NamedTuple):
    """A state of a bar."""

    line: LogLine
    bar: Bar
    now: Progress
    late: int = UNKNOWN
    """Steps since the state before: the second of the clock began within them. A pause among them, of a checkpoint, may
    be counted in part to the sample before or after."""


class BarStates:
    """States of the bars of a log, in order, as columns: a long one has millions."""

    def __init__(self) -> None:
        self.bars: dict[Bar, int] = {}
        """Number of each bar."""
        self._numbers = array("q")
        self.lines = array("q")
        self.times = array("d")
        """Seconds since 1970; NaN where the line has no time."""
        self.steps = array("q")
        self.elapsed = array("d")
        self.late = array("q")

    def __len__(self) -> int:
        return len(self.lines)

    def add(self, line: LogLine, bar: Bar, now: Progress, late: int) -> None:
        """Adds a state; `late` as of `Mark`."""
        self._numbers.append(self.bars.setdefault(bar, len(self.bars)))
        self.lines.append(line.number)
        self.times.append(math.nan if line.time is None else line.time)
        self.steps.append(now.step)
        self.elapsed.append(now.elapsed)
        self.late.append(late)

    def mark(self, place: int, bar: Bar, *, is_dated: bool) -> Mark:
        """Returns a state, with the time of its line where lines are dated."""
        line = LogLine(self.lines[place], "", self.times[place] if is_dated else None)
        return Mark(line, bar, Progress(self.steps[place], self.elapsed[place]), self.late[place])

    def choose(self, least_span: float) -> Bar | None:
        """Returns the bar that ran longest, and for `least_span` seconds; None without one of steps."""
        numbers, elapsed = np.array(self._numbers), np.array(self.elapsed)
        spans = {}
        for bar, number in self.bars.items():
            own = elapsed[numbers == number] if bar[1] >= LEAST_TOTAL and not bar[0].startswith(SERVING) else ()
            if len(own) >= LEAST_MARKS:
                spans[bar] = int(np.maximum(np.diff(own), 0.0).sum())
        found, span = max(spans.items(), key=lambda one: (one[1], one[0]), default=(None, 0.0))
        return found if span >= least_span else None

    def list_of(self, bar: Bar) -> Iterator[tuple[int, bool]]:
        """Yields the places of the states of a bar, and whether one of another length advanced since the one before.

        Processes that do the same show bars of the same length.
        """
        own, totals = self.bars[bar], [total for _, total in self.bars]
        newest: dict[int, int] = {}
        is_interrupted = False
        for place, number in enumerate(self._numbers):
            if number == own:
                yield place, is_interrupted
                is_interrupted = False
            elif totals[number] != bar[1]:
                step = self.steps[place]
                is_interrupted = is_interrupted or step != newest.get(number, step)
                newest[number] = step


class BarClock(ElapsedSteps):
    """Adds the steps between the states of one bar."""

    _is_fresh = False
    """Whether the bar has just begun: how long its first step takes says nothing, and it may begin after many."""
    _is_interrupted = False
    """Whether another bar has advanced since the newest state."""
    _late = 0
    """Steps within which the second began in which the newest sample ends."""

    def add_state(self, mark: Mark, steps: StepReader, *, is_interrupted: bool) -> None:
        """Adds the mean time of the steps since a state before."""
        self.read += 1
        self.undated = self.undated or mark.line.time is None
        self._is_interrupted |= is_interrupted
        now, newest = mark.now, self.newest
        is_passed = self._is_fresh or self._is_interrupted
        if newest is None or (now.step <= FIRST_STEP < newest.step and now.elapsed < newest.elapsed):
            self.restarts += newest is not None
            self._start += newest.elapsed if newest else 0.0
            self.last, self.newest, self._is_fresh = now, now, True
            self._newest_at = self.place(mark.line, now)
        elif now.step < newest.step or now.elapsed < newest.elapsed:
            self.others += 1
        elif now.step > newest.step and is_passed:
            self._pass_over(mark, newest, steps)
        elif now.step > newest.step:
            self.least = self._choose_least(mark.now, mark.late, self.last or newest)
            self.add(mark.line, now, steps)
            self.read -= 1
        if self.last is now:
            self._late = UNKNOWN if is_passed else mark.late

    def add_early(self, states: BarStates, place: int, *, is_dated: bool, is_interrupted: bool) -> bool:
        """Takes a state at which no sample ends yet, as most are; returns whether it is one."""
        newest, last = self.newest, self.last
        if newest is None or last is None or is_interrupted or self._is_fresh or self._is_interrupted:
            return False
        step, elapsed = states.steps[place], states.elapsed[place]
        if step <= newest.step or elapsed < newest.elapsed:
            return False
        least = self._choose_least(Progress(step, elapsed), states.late[place], last)
        if elapsed - last.elapsed >= least:
            return False
        self.read, self.undated, self.least = self.read + 1, self.undated or not is_dated, least
        self._seen = max(self._seen, elapsed)
        self.newest = Progress(step, elapsed)
        self._newest_at = states.times[place] if is_dated else self._start + elapsed
        return True

    def _choose_least(self, now: Progress, late: int, last: Progress) -> float:
        """Returns the least time of a sample that ends at a state: the more often a bar is drawn, the less."""
        each = (now.elapsed - last.elapsed) / (now.step - last.step)
        # The clocks of several processes differ by parts of a second.
        late = UNKNOWN if self.others else max(late, self._late)
        return max(min(CLOCK_S, late * each) / MAX_ERROR, CLOCK_S)

    def _pass_over(self, mark: Mark, newest: Progress, steps: StepReader) -> None:
        """Passes over steps and what else the job did between two states: the clock stands still meanwhile."""
        now = mark.now
        if self._is_interrupted:
            self._say_pause(mark.line, now, steps)
        if "start" not in self.labels:
            self._start -= now.elapsed - newest.elapsed
            self.skipped += now.elapsed - newest.elapsed
        self.last = self.newest = now
        self._newest_at = self.place(mark.line, now)
        self._is_fresh = self._is_interrupted = False


class TqdmParser:
    """Keeps all bars until it is known which one is that of the steps."""

    def __init__(self, file: str, labels: Mapping[str, str], least_span: float = LEAST_SPAN_S) -> None:
        """Reads the labels; `least_span` are the seconds from which on a bar is one of steps.

        Raises:
            InputError: `start` is no time.
        """
        self._clock = BarClock(file, labels, CLOCK_S, 0.0)
        self._file, self._least_span = file, least_span
        self._states = BarStates()
        self._most = BAR_STATES.limit()
        self._seconds: dict[Bar, float] = {}
        """Newest time of each bar."""
        self._steps: dict[Bar, int] = {}
        """Newest step of each bar."""
        self._last = 0

    def read_line(self, line: LogLine, steps: StepReader) -> None:  # noqa: ARG002 - that of all parsers
        """Keeps the bars of a line, each if it is the first one of its kind in its second.

        Raises:
            InputError: there are too many.
        """
        self._last = line.number
        for match in BAR.finditer(line.text) if "%|" in line.text else ():
            begin = match.start()
            words = WORDS.search(line.text[max(begin - NAME_COLUMNS, 0) : begin]) if begin else None
            bar = words[0].strip() if words else "", int(match["total"])
            step, elapsed = int(match["done"]), read_seconds(match)
            late, self._steps[bar] = step - self._steps.get(bar, 0), step
            if self._seconds.get(bar) == elapsed:
                continue
            if len(self._states) >= self._most:
                raise InputError([BAR_STATES.problem(self._file, hint="Split it.")])
            self._states.add(line, bar, Progress(step, elapsed), late if late > 0 else UNKNOWN)
            self._seconds[bar] = elapsed

    def finish(self, steps: StepReader) -> None:
        """Adds the steps.

        Raises:
            InputError: there are too many samples, or a time is none.
        """
        states, bar = self._states, self._states.choose(self._least_span)
        if bar is None:
            return
        found, clock = list(states.list_of(bar)), self._clock
        # Of another thing that is printed in the same line, a time is none of the bar.
        is_dated = not any(math.isnan(states.times[place]) for place, _ in found)
        for place, is_interrupted in found:
            if not clock.add_early(states, place, is_dated=is_dated, is_interrupted=is_interrupted):
                clock.add_state(states.mark(place, bar, is_dated=is_dated), steps, is_interrupted=is_interrupted)
        if self._clock.read:
            steps.collector.note = self._clock.describe(self._last, f"lines such as {EXAMPLE}")


def recognise(head: bytes, name: str) -> bool:
    """Returns whether the first bytes of a file, or others of it, have a bar of a training that gives samples."""
    lines = decode_head(head)
    if not any(map(LOSS.search, lines)):
        return False
    # A part of a file in which a bar is drawn many times a second is a short time.
    least_span = DENSE_SPAN_S if len(head) >= BLOCK_BYTES else LEAST_SPAN_S
    parser, steps = TqdmParser(name, {}, least_span), StepReader(SeriesCollector(name), "")
    try:
        for number, text in enumerate(lines, 1):
            parser.read_line(LogLine(number, text, None), steps)
        parser.finish(steps)
    except InputError:
        return False
    return any(len(one.times) >= LEAST_SAMPLES for one in steps.list_series())


@with_messages
def read_series(file: BinaryIO, name: str, labels: Mapping[str, str]) -> list[LabelledSeries]:
    """Returns the step times of the job.

    Raises:
        InputError: no bar is one of steps.
    """
    return read_steps(file, name, labels, TqdmParser(name, labels), EXAMPLE)


READER = artefact_reader(
    "log with progress bars of tqdm",
    read_series,
    recognise,
    placed_by_name=True,
    is_fallback=True,
    log_marks=(b"s/it", b"it/s"),
)
