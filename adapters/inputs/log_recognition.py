"""Recognition of logs whose first line of a known kind lies far behind their begin, as after what servers print first.

Readers of logs name in `log_marks` texts of which each line that they know has one: most of a log is passed over fast.
"""

import re
from dataclasses import dataclass
from typing import BinaryIO

from skewscope.adapters.formats.log_envelope import unwrap_record
from skewscope.adapters.formats.log_lines import decode_head, is_binary
from skewscope.adapters.inputs.reader import InputReader
from skewscope.adapters.inputs.recording import input_readers

BLOCK_BYTES = 1 << 16
"""As many as are enough for `recognise`."""
MAX_LOG_BYTES = 8 << 20
"""Bytes of a file that are looked at."""
MAX_FALLBACK_BYTES = 1 << 20
"""The same, once it is known that its kind may be one that counts if no other one does."""
MAX_OVERLAP = 1 << 14
"""Bytes of a line that the end of a block cuts."""
LOG_HEAD = re.compile(
    r"\b(?:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR)\b|\blevel=|^[IWEF]\d{4} \d\d:\d\d:"
    r"|\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d|\d/\d+ \[\d+:\d\d|^\{'\w+': "
)
MAX_LOG_HEAD = 100
"""Characters of a line in which its date, its level, the time of a progress bar or the begin of a record stands."""
MIN_LOG_LINES = 3


@dataclass
class LookAhead:
    """Bytes that are still looked at behind the first ones of files: a folder may hold many logs of no known kind."""

    left: int = 256 << 20


def find_log_kind(stream: BinaryIO, head: bytes, name: str, ahead: LookAhead, fallback: str = "") -> str:
    """Returns the kind of a log by what follows its first bytes; `fallback` for none.

    Args:
        stream: the file, behind its first bytes.
        head: those bytes.
        name: name of the file.
        ahead: what may be read; less afterwards.
        fallback: the kind that counts if no other one does; then less is looked at.
    """
    if len(head) < BLOCK_BYTES or is_binary(head):
        return fallback
    readers = {kind: reader for kind, reader in input_readers().items() if reader.log_marks}
    held, blocks = head, 0
    while blocks < (MAX_FALLBACK_BYTES if fallback else MAX_LOG_BYTES) // BLOCK_BYTES:
        blocks += 1
        held = held[held.rfind(b"\n") + 1 :][-MAX_OVERLAP:]
        more = stream.read(BLOCK_BYTES - len(held)) if ahead.left > 0 else b""
        ahead.left -= len(more)
        held += more
        if not more or is_binary(more):
            break
        looked = ((kind, reader) for kind, reader in readers.items() if not (fallback and reader.is_fallback))
        fitting = [kind for kind, reader in looked if _is_log(reader, held, name)]
        if kind := next((kind for kind in fitting if not readers[kind].is_fallback), ""):
            return kind
        fallback = fallback or next(iter(fitting), "")
    return fallback


def _is_log(reader: InputReader, block: bytes, name: str) -> bool:
    return any(mark in block for mark in reader.log_marks) and bool(reader.recognise(block, name))


def is_any_log(head: bytes) -> bool:
    """Returns whether most lines begin with a date, a level, a progress bar or a record of Python, as logs do."""
    lines = [] if is_binary(head) else [unwrap_record(line) for line in decode_head(head)]
    marked = sum(bool(LOG_HEAD.search(line, 0, MAX_LOG_HEAD)) for line in lines)
    return marked >= MIN_LOG_LINES and 2 * marked > len(lines)
