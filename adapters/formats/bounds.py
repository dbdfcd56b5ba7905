"""Declared bounds on what one command reads, so that any input gets an answer; the environment raises each of them.

The numbers are what one core of a cloud machine and 2 GiB of memory manage in a minute (`bench/hostile_inputs.py`).
"""

import os
from dataclasses import dataclass

from skewscope.kb.problems import InputError, Problem

PREFIX = "SKEWSCOPE_MAX_"
HIGHEST = 10**15


@dataclass(frozen=True, slots=True)
class Bound:
    """The largest number of something that is read without being asked to."""

    name: str
    most: int
    what: str
    """What is counted, in the plural."""

    @property
    def variable(self) -> str:
        """The environment variable that sets another number."""
        return PREFIX + self.name

    def limit(self) -> int:
        """Returns the number that counts now.

        Raises:
            InputError: the environment variable is no whole number.
        """
        text = os.environ.get(self.variable, "")
        if not text:
            return self.most
        if text.isascii() and text.isdigit() and len(text) < 16 and int(text):
            return int(text)
        expected = f"a whole number from 1 to {HIGHEST - 1}"
        raise InputError([Problem(f"environment variable {self.variable}", 0, "", f"{text[:40]!r}", expected)])

    def check(self, file: str, count: int, hint: str = "") -> None:
        """Raises InputError where more is found than the bound allows."""
        if count > self.limit():
            raise InputError([self.problem(file, count, hint)])

    def problem(self, file: str, count: int = 0, hint: str = "", times: int = 1) -> Problem:
        """Returns the problem of a file above `times` the bound; a count of 0 was not counted to its end."""
        limit = times * self.limit()
        found = f"{count} {self.what}" if count else f"more than {limit} {self.what}"
        raised = f"{self.variable}={max(count, 2 * limit) // times} allows more."
        return Problem(file, 0, "", found, f"at most {limit}", f"{hint} {raised}".strip())


INPUTS = Bound("INPUTS", 10_000, "inputs")
"""2 ms each."""
BYTES = Bound("BYTES", 1 << 30, "bytes")
"""Of one stream when decompressed, and of all inputs as they are stored: text is parsed at 20 to 100 MB/s."""
LINES = Bound("LINES", 10_000_000, "lines")
"""Of one text: 4 µs each, with its samples; comments and blank lines count, or a few kB of them could take for ever."""
SAMPLES = Bound("SAMPLES", 20_000_000, "samples")
"""Of one input: 60 bytes each while they are sorted."""
SERIES = Bound("SERIES", 1_000_000, "series")
"""Of one input, known or not: 20 µs and 1 kB each."""
KNOWN_SERIES = Bound("KNOWN_SERIES", 250_000, "series of known signals")
"""Of all inputs: 120 µs and 5 kB each."""
KEY_BYTES = Bound("KEY_BYTES", 1 << 28, "bytes of metric names and labels")
"""Of one input: each is held twice."""
JSON_BYTES = Bound("JSON_BYTES", 1 << 27, "bytes of JSON")
"""Of a text that is parsed as a whole: as characters it takes up to four times as much."""
PARTS = Bound("PARTS", 5_000_000, "parts of JSON or of a pickle")
"""Values of a text, or of an element of one that is read in pieces: up to 1 µs and 200 bytes each, in one call."""
OBJECTS = Bound("OBJECTS", 1_000_000, "objects of a cluster")
"""Of one list: 5 to 50 µs each."""
EVENTS = Bound("EVENTS", 10_000_000, "events of a trace")
"""Of one trace: 5 µs each."""
BAR_STATES = Bound("BAR_STATES", 5_000_000, "states of progress bars")
"""Of one log, at most one of a bar in a second: 44 bytes each."""
CAPTURE_SECONDS = Bound("CAPTURE_SECONDS", 7 * 86_400, "seconds of a capture")
"""From its first packet to its last, without silences: 15 µs each."""
CAPTURE_PACKETS = Bound("CAPTURE_PACKETS", 4_000_000, "packets in five seconds")
"""60 bytes each, held twice."""
WORK_SECONDS = Bound("SECONDS", 55, "seconds of work")
"""Of a command, by an estimate before it diagnoses and by what its processes took."""
REPLAY_TIMES = 10
"""`replay` judges each second of a recording, with a progress bar, and may take so many times as long."""
MEMORY_MIB = Bound("MEMORY_MIB", 1800, "MiB of memory")
"""Of a command with its reader processes; with what grows between two looks it stays below 2 GiB."""
