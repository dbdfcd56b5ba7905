"""Lines of logs, bounded in length and number, without control sequences; each state of a progress bar is a line."""

import codecs
import re
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import BinaryIO

from skewscope.adapters.formats.bounds import LINES
from skewscope.kb.problems import InputError, Problem

STEP = 1 << 16
BLOCK = 1 << 20
"""Bytes that are looked at together."""
MAX_LINE = 1 << 16
"""Bytes of a line that are read; the rest of a longer one is left out."""
MAX_WHOLE_LINE = 1 << 24
"""Bytes of a line that is not cut."""
LINES_HINT = "Cut it into shorter ones."
MAX_ZEROS = 0.05
"""Share of zero bytes that a text may have; of UTF-16 about half are."""
CONTINUATIONS = bytes(range(0x80, 0xC0))
"""Bytes that are no first one of a character."""
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def read_lines(stream: BinaryIO, file: str) -> Iterator[tuple[int, str]]:
    """Yields (line number, text) of a log; parts that a carriage return divides share the number.

    Raises:
        InputError: there are too many lines.
    """
    number, held, most = 1, b"", LINES.limit()
    while piece := stream.readline(STEP):
        if number > most:
            raise InputError([LINES.problem(file, hint=LINES_HINT)])
        *parts, held = (held + piece).split(b"\r")
        for part in parts:
            yield number, decode_line(part)
        if held.endswith(b"\n"):
            yield number, decode_line(held)
            number, held = number + 1, b""
        held = held[:MAX_LINE]
    if held:
        yield number, decode_line(held)


def read_block_lines(stream: BinaryIO, file: str, head: bytes = b"") -> Iterator[tuple[int, str]]:
    """Yields (line number, text) of a log as `read_lines` does, faster; arguments and errors as of `read_blocks`."""
    for numbers, texts in read_blocks(stream, file, head):
        yield from zip(numbers, texts, strict=True)


def read_blocks(stream: BinaryIO, file: str, head: bytes = b"") -> Iterator[tuple[Sequence[int], list[str]]]:
    """Yields (line numbers, texts) of the lines of a log, many at a time.

    Args:
        stream: the log.
        file: its name, for messages.
        head: bytes that were read of the stream before.

    Raises:
        InputError: there are too many lines.
    """
    number, held, most = 1, b"", LINES.limit()
    for more in chain([head], iter(lambda: stream.read(BLOCK), b"")):
        block = held + more
        end = max(block.rfind(b"\n"), block.rfind(b"\r")) + 1
        if not end:
            held = block[:MAX_LINE]
            continue
        whole, held = block[:end].replace(b"\r\n", b"\n"), block[end:]
        yield _number_lines(whole, number)
        number += whole.count(b"\n")
        if number > most:
            raise InputError([LINES.problem(file, hint=LINES_HINT)])
    if held:
        yield [number], [decode_line(held)]


def _number_lines(block: bytes, number: int) -> tuple[Sequence[int], list[str]]:
    """Returns numbers and texts of the lines in a block of whole lines, the first of which has a number."""
    texts = block.decode("utf-8", "replace").split("\n")
    if not texts[-1]:
        texts.pop()
    if b"\x1b" in block:
        texts = [CONTROL.sub("", text) for text in texts]
    numbers: Sequence[int] = range(number, number + len(texts))
    if b"\r" in block:
        parts = [(at, part) for at, text in zip(numbers, texts, strict=True) for part in text.split("\r")]
        numbers, texts = [at for at, _ in parts], [part for _, part in parts]
    return numbers, [text[:MAX_LINE].rstrip() for text in texts]


def read_whole_lines(stream: BinaryIO, file: str) -> Iterator[tuple[int, str]]:
    """Yields (line number, text) of a text whose long lines matter as a whole.

    Raises:
        InputError: there are too many lines, or one is too long.
    """
    most = LINES.limit()
    for number, line in enumerate(iter(lambda: stream.readline(MAX_WHOLE_LINE + 1), b""), 1):
        if number > most:
            raise InputError([LINES.problem(file, hint=LINES_HINT)])
        if len(line) > MAX_WHOLE_LINE:
            expected = f"lines of at most {MAX_WHOLE_LINE} bytes"
            raise InputError([Problem(file, number, "", "a longer line", expected, "Is it the right file?")])
        yield number, line.decode("utf-8", "replace").rstrip("\r\n")


def decode_line(raw: bytes) -> str:
    """Returns the text of a line without colours and blanks at its end; invalid bytes are replaced."""
    text = raw[:MAX_LINE].decode("utf-8", "replace")
    return (CONTROL.sub("", text) if "\x1b" in text else text).rstrip()


def is_binary(data: bytes) -> bool:
    """Returns whether bytes are no text.

    A log may hold some zero bytes, as in a prompt. Else it is UTF-8 then, of which the first and the last character may
    be cut.
    """
    if not (zeros := data.count(0)):
        return False
    rest = data.replace(b"\0", b"")
    try:
        codecs.getincrementaldecoder("utf-8")().decode(rest[:3].lstrip(CONTINUATIONS) + rest[3:])
    except UnicodeDecodeError:
        return True
    return zeros > MAX_ZEROS * len(data)


def decode_head(head: bytes) -> list[str]:
    """Returns the lines in the first bytes of a file, by which its kind is recognised; none for binary data."""
    if is_binary(head):
        return []
    return [decode_line(line) for line in re.split(rb"[\r\n]+", head[:STEP]) if line]


def file_stem(file: str) -> str:
    """Returns the name of a file without its folder and endings."""
    return file.replace("\\", "/").rpartition("/")[2].partition(".")[0]
