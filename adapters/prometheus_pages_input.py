"""Inputs of kind `prometheus-pages`: a folder with one page of text per scrape, each named by its unix time."""

import re
from pathlib import Path

from skewscope.adapters.compressed import open_stream
from skewscope.adapters.names import Intake, Names
from skewscope.adapters.openmetrics import MOST_FAULTS, MOST_SAMPLES, MOST_SECONDS, Exposition, joined_as_read
from skewscope.adapters.recording import Input, Recording
from skewscope.engine.feed import Block
from skewscope.kb.problems import InputError, Problem

MOST_PAGE_BYTES = 256 << 20
PAGE = re.compile(r"(?P<time>\d+(?:\.\d+)?)(?:\.[a-z]+)*", re.ASCII)
FOLDER = True
"""An input of this kind is a folder."""


def read(source: Input, recording: Recording, intake: Intake, names: Names) -> Block:
    """The samples of all pages; a line without a time has its page's.

    Raises:
        InputError: a file is no page, or its name is no time.
    """
    exposition = Exposition(names.known(dict(source.labels), intake))
    blocks: list[Block] = []
    problems: list[Problem] = []
    samples = 0
    for time, name in pages(recording, source):
        shown = f"{source.path}/{name}"
        try:
            with open_stream(recording.file(shown), MOST_PAGE_BYTES) as stream:
                blocks.append(exposition.read(stream, recording.shown(shown), time))
                samples += len(blocks[-1])
        except InputError as error:
            problems += error.problems
        if samples > MOST_SAMPLES:
            hint = "Cut the recording into shorter ones."
            problems.append(Problem(recording.shown(shown), 0, "", f"more than {MOST_SAMPLES} samples", "fewer", hint))
        if len(problems) >= MOST_FAULTS or samples > MOST_SAMPLES:
            break
    if problems:
        raise InputError(problems)
    return joined_as_read(blocks)


def pages(recording: Recording, source: Input) -> list[tuple[float, str]]:
    """Time and file name of each page, in the order of time."""
    found: dict[float, str] = {}
    problems: list[Problem] = []
    for name in recording.names(source.path):
        file = recording.shown(f"{source.path}/{name}")
        time = page_time(name)
        if time is None:
            hint = "A page's name is the time of its scrape."
            problems.append(Problem(file, 0, "", f"the name {name!r:.60}", "one such as 1795177354.075.prom", hint))
        elif time in found:
            problems.append(Problem(file, 0, "", f"a second page of {time}", f"one, and {found[time]!r} is there", ""))
        else:
            found[time] = name
    if problems:
        raise InputError(problems[:MOST_FAULTS])
    return sorted(found.items())


def page_time(name: str) -> float | None:
    """The unix time that a file's name tells, in seconds; None where it is none."""
    match = PAGE.fullmatch(Path(name).name)
    if match is None or len(match["time"]) > 32:
        return None
    time = float(match["time"])
    # Names made from a clock in milliseconds are thousands of years away in seconds.
    return time / 1e3 if time > MOST_SECONDS else time
