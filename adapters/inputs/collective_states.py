"""Inputs of kind `collective-states`: a text that says what ranks do, as stacks of processes or lines of a watchdog.

Several of them in a folder, as a log or a stack of each rank, are one input of kind `rank-states`: who is missing shows
in all of them together.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import BinaryIO

from skewscope.adapters.collectives.rank_state import RankState, judge_states
from skewscope.adapters.collectives.ras_status import is_ras_status, list_ras_lines
from skewscope.adapters.collectives.stack_dumps import StackDumps, is_stack_line
from skewscope.adapters.collectives.state_lines import StateLines
from skewscope.adapters.formats.log_envelope import unwrap_record
from skewscope.adapters.formats.log_lines import decode_head, read_lines
from skewscope.adapters.inputs.file_origin import own_time
from skewscope.adapters.inputs.labelled import LabelledSeries, artefact_reader
from skewscope.adapters.inputs.messages import MessageReader
from skewscope.adapters.inputs.missing_ranks import list_missing
from skewscope.adapters.inputs.text_times import LineTimes
from skewscope.adapters.inputs.training_steps import find_job
from skewscope.kb.problems import InputError, NothingKnownError, Problem

SET_KIND = "rank-states"
HEAD_LINES = 2000
MIN_STACK_LINES = 2
"""Lines that begin a process or a thread: one alone may be part of a trace."""


@dataclass
class RankTexts:
    """What one or several texts say of ranks."""

    states: list[RankState] = field(default_factory=list)
    size: int = 0
    messages: list[LabelledSeries] = field(default_factory=list)


def recognise(head: bytes, _name: str) -> bool:
    """Returns whether the first bytes of a file have stacks of processes, or states of ranks."""
    if is_ras_status(head):
        return True
    lines = decode_head(head)[:HEAD_LINES]
    if sum(map(is_stack_line, lines)) >= MIN_STACK_LINES:
        return True
    known = StateLines()
    for line in lines:
        known.read_line(line, 0.0)
    return bool(known.states)


def add_text(found: RankTexts, file: BinaryIO, name: str, labels: Mapping[str, str]) -> None:
    """Adds what the lines of a file say.

    Raises:
        InputError: there are too many lines.
    """
    times = LineTimes(labels, name, own_time(name))
    lines, stacks = StateLines(), StackDumps(name, own_time(name))
    messages = MessageReader(name, labels, times, finds_missing=False)
    numbered = [(number, unwrap_record(text)) for number, text in _lines(file, name)]
    wanted = set(messages.select([text for _, text in numbered]))
    for place, (number, line) in enumerate(numbered):
        lines.read_line(line, times.read(line))
        stacks.read_line(line)
        if place in wanted:
            messages.read_line(number, line)
    found.states += [*lines.states, *stacks.finish()]
    found.size = max(found.size, lines.size)
    found.messages += messages.series()


def _lines(file: BinaryIO, name: str) -> Iterator[tuple[int, str]]:
    """Yields the lines of a text, or those that a status of RAS would have as text."""
    lines = list(read_lines(file, name))
    if lines and lines[0][1].startswith("{") and is_ras_status("".join(text for _, text in lines[:200]).encode()):
        try:
            lines = list(enumerate(list_ras_lines("\n".join(text for _, text in lines)), 1))
        except ValueError as error:
            raise InputError([Problem(name, 1, "", str(error), "the answer of `ncclras -f json`")]) from None
    yield from lines


def list_series(found: RankTexts, name: str, group: str) -> list[LabelledSeries]:
    """Returns who is missing, and the messages.

    Raises:
        NothingKnownError: neither says that anything is wrong.
    """
    series = [*list_missing(judge_states(found.states, found.size), group, name), *found.messages]
    if not series:
        ranks = sorted({state.rank for state in found.states})
        waiting = {state.rank for state in found.states if state.is_waiting}
        what = f"states of {len(ranks)} rank{'s' * (len(ranks) != 1)}, and none of them waits for another that is known"
        expected = "stacks or logs of all ranks of the job, in one folder"
        if waiting and len(ranks) > 1 and all(state.looks for state in found.states):
            what = (
                f"stacks of {len(ranks)} ranks, of which {len(waiting)} wait: at one moment ranks at work look the same"
            )
            expected = "the stacks some seconds later as well, in the same folder"
        raise NothingKnownError([Problem(name, 0, "", what, expected)])
    return series


def read_series(file: BinaryIO, name: str, labels: Mapping[str, str]) -> list[LabelledSeries]:
    """Returns what a text says of ranks.

    Raises:
        InputError: nothing in it says that anything is wrong.
    """
    found = RankTexts()
    add_text(found, file, name, labels)
    return list_series(found, name, labels.get("group") or find_job(labels, name))


READER = artefact_reader(
    "stacks of ranks (py-spy, faulthandler, gdb), or a log of their watchdog",
    read_series,
    recognise,
    set_kind=SET_KIND,
    keeps_prompts=True,
    placed_by_name=True,
    is_fallback=True,
    is_yearless=True,
)
