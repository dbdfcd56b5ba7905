"""Inputs of kind `tqdm-log`: what a job prints whose progress is bars of tqdm, such as the Trainer of Hugging Face.

A log may have many bars. The one that ran longest is taken for the steps; what passes while another one advances, such
as an evaluation, is no time of a step. Its clock counts whole seconds. A bar of each epoch begins anew.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import BinaryIO, NamedTuple

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


class Mark(NamedTuple):
    """A state of a bar."""

    line: LogLine
    bar: tuple[str, int]
    """Its name and its total."""
    now: Progress
    late: int = UNKNOWN
    """Steps since the state before: the second of the clock began within them. A pause among them, of a checkpoint, may
    be counted in part to the sample before or after."""


def find_marks(line: LogLine) -> list[Mark]:
    """Returns the states of bars in a line."""
    found = []
    for match in BAR.finditer(line.text) if "%|" in line.text else ():
        words = WORDS.search(line.text[max(match.start() - NAME_COLUMNS, 0) : match.start()])
        bar = (words[0].strip() if words else "", int(match["total"]))
        # The text is not needed any more: a log has many such lines.
        found.append(Mark(line._replace(text=""), bar, Progress(int(match["done"]), read_seconds(match))))
    return found


def choose_bar(marks: Iterable[Mark], least_span: float = LEAST_SPAN_S) -> tuple[str, int] | None:
    """Returns the bar that ran longest, and for `least_span` seconds; None without one of steps."""
    by_bar: dict[tuple[str, int], list[Progress]] = {}
    for mark in marks:
        if mark.bar[1] >= LEAST_TOTAL and not mark.bar[0].startswith(SERVING):
            by_bar.setdefault(mark.bar, []).append(mark.now)
    spans = Counter({bar: _span(found) for bar, found in by_bar.items() if len(found) >= LEAST_MARKS})
    found, span = max(spans.items(), key=lambda one: (one[1], one[0]), default=(None, 0.0))
    return found if span >= least_span else None


def _span(found: Sequence[Progress]) -> int:
    """Returns the seconds in which a bar advanced."""
    return int(sum(max(after.elapsed - before.elapsed, 0.0) for before, after in pairwise(found)))


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
            self.least = self._choose_least(mark, self.last or newest)
            self.add(mark.line, now, steps)
            self.read -= 1
        if self.last is now:
            self._late = UNKNOWN if is_passed else mark.late

    def _choose_least(self, mark: Mark, last: Progress) -> float:
        """Returns the least time of a sample that ends at a state: the more often a bar is drawn, the less."""
        each = (mark.now.elapsed - last.elapsed) / (mark.now.step - last.step)
        # The clocks of several processes differ by parts of a second.
        late = UNKNOWN if self.others else max(mark.late, self._late)
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
        self._marks: list[Mark] = []
        self._most = BAR_STATES.limit()
        self._seconds: dict[tuple[str, int], float] = {}
        """Newest time of each bar."""
        self._steps: dict[tuple[str, int], int] = {}
        """Newest step of each bar."""
        self._last = 0

    def read_line(self, line: LogLine, steps: StepReader) -> None:  # noqa: ARG002 - that of all parsers
        """Keeps the bars of a line, each if it is the first one of its kind in its second.

        Raises:
            InputError: there are too many.
        """
        self._last = line.number
        for mark in find_marks(line):
            late = mark.now.step - self._steps.get(mark.bar, 0)
            self._steps[mark.bar] = mark.now.step
            if self._seconds.get(mark.bar) == mark.now.elapsed:
                continue
            if len(self._marks) >= self._most:
                raise InputError([BAR_STATES.problem(self._file, hint="Split it.")])
            self._marks.append(mark._replace(late=late) if late > 0 else mark)
            self._seconds[mark.bar] = mark.now.elapsed

    def finish(self, steps: StepReader) -> None:
        """Adds the steps.

        Raises:
            InputError: there are too many samples, or a time is none.
        """
        found = list(_join(self._marks, choose_bar(self._marks, self._least_span)))
        # Of another thing that is printed in the same line, a time is none of the bar.
        is_dated = all(mark.line.time is not None for mark, _ in found)
        for mark, is_interrupted in found:
            one = mark if is_dated else mark._replace(line=mark.line._replace(time=None))
            self._clock.add_state(one, steps, is_interrupted=is_interrupted)
        if self._clock.read:
            steps.collector.note = self._clock.describe(self._last, f"lines such as {EXAMPLE}")


def _join(marks: Iterable[Mark], bar: tuple[str, int] | None) -> Iterator[tuple[Mark, bool]]:
    """Yields the states of a bar, and whether one of another length has advanced since the state before.

    Processes that do the same show bars of the same length.
    """
    newest: dict[tuple[str, int], int] = {}
    is_interrupted = False
    for mark in marks:
        if mark.bar == bar:
            yield mark, is_interrupted
            is_interrupted = False
        elif bar is not None and mark.bar[1] != bar[1]:
            is_interrupted = is_interrupted or mark.now.step != newest.get(mark.bar, mark.now.step)
            newest[mark.bar] = mark.now.step


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
