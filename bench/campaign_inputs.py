"""Gives damaged inputs to every reader, and says which end otherwise than with data or with a clear error.

Each input is a sample of its kind, damaged in a few places: bytes changed, cut out, repeated or put in, or another
sample put in. Input N of a seed is the same in each run.
"""

import random
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from bench.campaign_samples import build_samples
from skewscope.kb.problems import InputError, NothingKnownError

LIMIT_S = 60
"""Seconds that one input may take."""
MEMORY_LIMIT_MIB = 2048
"""Memory of the process at most while it reads one input."""
RESET_PEAK = "5"
"""What Linux is written so that it measures the peak of memory anew."""
NAMES = ("NaN", "-Inf", "1e999", "-1", "0", "9" * 400, "1e-400", "0x10", "1_000", "\u00b2", "18446744073709551616")
NESTED = ("[" * 5000, '{"a":' * 3000, "{" * 50, "}" * 50, "&a *a", "<<: *a", "!!python/object:os.system", "# EOF\n")
LONG = ("x" * 100_000, "a{b=" * 2000, ",,,,", "| " * 500)
TIMES = ("2026-13-45 25:61:61", "1970-01-01 00:00:00", "99999999999")
BYTES = (
    b"\x00",
    b"\xff" * 9,
    b"\x80\x04",
    b"\x1b[2J",
    b"\r",
    b"\n\n",
    b"\xe2\x80\xae",
    b"\xed\xa0\x80",
    b"'",
    b'"',
    b"\\",
)
TOKENS = (*BYTES, *(text.encode() for text in (*NAMES, *NESTED, *LONG, *TIMES)))
"""What is put into inputs."""


def damage(content: bytes, other: bytes, chance: random.Random) -> bytes:
    """Returns content with one to four damages."""
    found = bytearray(content)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(found) + 1)
        end = min(len(found), at + chance.choice((1, 2, 8, 64, 1000)))
        way = chance.randrange(7)
        if way == 0 and found:
            found[min(at, len(found) - 1)] ^= 1 << chance.randrange(8)
        elif way == 1:
            del found[at:end]
        elif way == 2:
            found[at:at] = found[at:end] * chance.choice((1, 2, 50))
        elif way == 3:
            found[at:at] = chance.choice(TOKENS)
        elif way == 4:
            found[at:end] = chance.choice(TOKENS)
        elif way == 5:
            del found[at:]
        else:
            begin = chance.randrange(len(other) + 1)
            found[at:end] = other[begin : begin + chance.choice((4, 100, 5000))]
    return bytes(found)


@dataclass
class InputCounts:
    """What became of the inputs."""

    read: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    slowest: tuple[float, int, str] = (0.0, 0, "")
    largest: tuple[float, int, str] = (0.0, 0, "")
    """Peak of memory in MiB, number and kind of the input that took most."""


@contextmanager
def time_limit() -> Iterator[None]:
    """Raises TimeoutError in what takes longer than the limit."""

    def stop(*_: object) -> None:
        raise TimeoutError(f"no end within {LIMIT_S} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(LIMIT_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def lost_errors(faults: list[str]) -> Iterator[None]:
    """Adds errors that Python could only print, such as those of callbacks, to a list."""
    before = sys.unraisablehook
    sys.unraisablehook = lambda lost: faults.append(f"an error that was lost: {lost.exc_value!r} {lost.object!r}")
    try:
        yield
    finally:
        sys.unraisablehook = before


def reset_peak() -> None:
    """Lets `peak_mib` measure anew, where the system can."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text(RESET_PEAK)


def peak_mib() -> float:
    """Returns the most memory that this process had since `reset_peak`, in MiB."""
    text = Path("/proc/self/status").read_text()
    return int(text.partition("VmHWM:")[2].split()[0]) / 1024


def judge_memory(counts: InputCounts, number: int, kind: str, mib: float) -> None:
    """Notes the peak of memory of an input, and a fault where it is over the limit."""
    counts.largest = max(counts.largest, (mib, number, kind))
    if mib > MEMORY_LIMIT_MIB:
        counts.faults.append(f"input {number} ({kind}): {mib:.0f} MiB of memory, at most {MEMORY_LIMIT_MIB}")


def run_inputs(count: int, seed: int, first: int = 0) -> InputCounts:
    """Gives so many inputs to the readers in turn; prints what became of them."""
    samples, counts = build_samples(), InputCounts()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for sample in samples:
            # A sample in which nothing is wrong is read all the same.
            with suppress(NothingKnownError):
                sample.read(sample.content, folder)
        for number in range(first, first + count):
            sample = samples[number % len(samples)]
            chance = random.Random(f"{seed} {number}")
            content = damage(sample.content, chance.choice(samples).content, chance)
            reset_peak()
            begun = time.monotonic()
            try:
                with time_limit(), lost_errors(counts.faults):
                    sample.read(content, folder)
                counts.read[sample.kind] += 1
            except InputError:
                counts.refused[sample.kind] += 1
            except Exception:  # noqa: BLE001 - any other error is what is looked for
                last = traceback.format_exc().strip().splitlines()
                counts.faults.append(f"input {number} ({sample.kind}): {last[-1]} {' '.join(last[-4:-1]).strip()}")
            counts.slowest = max(counts.slowest, (time.monotonic() - begun, number, sample.kind))
            judge_memory(counts, number, sample.kind, peak_mib())
    _print_counts(counts, count)
    return counts


def _print_counts(counts: InputCounts, count: int) -> None:
    (seconds, number, kind), (mib, most, largest) = counts.slowest, counts.largest
    each = (counts.read + counts.refused).values()
    print(
        f"inputs: {count} of {len(each)} kinds, {min(each)} to {max(each)} of each, {counts.read.total()} read, "
        f"{counts.refused.total()} refused with an error that says why, {len(counts.faults)} faults; "
        f"the slowest took {seconds:.1f} s (input {number}, {kind}), memory at most "
        f"{mib:.0f} MiB (input {most}, {largest})",
        flush=True,
    )
