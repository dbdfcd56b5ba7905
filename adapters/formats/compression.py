"""Byte streams of plain and compressed files, text in UTF-8 and clean, with a limit on the decompressed size.

The first bytes of a file determine its format; its name must agree. Errors are `InputError` with the byte offset,
raised when the reader gets there.
"""

import gzip
import io
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, cast

import zstandard

from skewscope.adapters.formats.bounds import BYTES
from skewscope.adapters.formats.stray_text import clean_text
from skewscope.adapters.formats.text_encoding import convert_to_utf8
from skewscope.kb.problems import InputError, Problem

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

# A block of a zstd frame has at least 4 bytes and decompresses to at most 128 KiB: this much input never decompresses
# to more than 64 MiB at once. Smaller steps cost time, larger ones memory.
ZSTD_STEP = 2048
ZSTD_WINDOW = 1 << 27
STEP = 1 << 20
REPORT_BYTES = 1 << 20
"""Decompressed bytes between two reports of how much of a file is read."""
_observer: ContextVar[Callable[[int], None] | None] = ContextVar("observer", default=None)

ZSTD, GZIP, PLAIN = "zstd", "gzip", "plain"
suffixes = {".zst": ZSTD, ".gz": GZIP}


@contextmanager
def observe_bytes(observer: Callable[[int], None]) -> Iterator[None]:
    """Calls `observer` with numbers of stored bytes, as streams that are opened in the block read them."""
    token = _observer.set(observer)
    try:
        yield
    finally:
        _observer.reset(token)


def report_bytes(count: int) -> None:
    """Tells the observer, if there is one, of bytes that were read without a stream of this module."""
    if observer := _observer.get():
        observer(count)


def open_argument(path: Path) -> io.BufferedReader:
    """Opens a file as `open_stream` does, or standard input for `-`."""
    if str(path) != "-":
        return open_stream(path)
    return _unpack(path, io.BufferedReader(cast("io.RawIOBase", sys.stdin.buffer)), None)


def open_stream(path: Path, most_bytes: int | None = None, *, keep_prompts: bool = False) -> io.BufferedReader:
    """Opens a `.zst`, `.gz` or plain file for reading decompressed bytes, at most `most_bytes` (None: `BYTES`).

    What was copied along with a text is left out; `keep_prompts` keeps what was typed at a shell.
    """
    try:
        file = path.open("rb")
    except OSError as error:
        raise input_error(path, None, _reason(error), "a file that can be read") from error
    return _unpack(path, file, most_bytes, keep_prompts=keep_prompts)


def _unpack(
    path: Path, file: io.BufferedReader, most_bytes: int | None, *, keep_prompts: bool = False
) -> io.BufferedReader:
    """Returns the decompressed bytes of an open file; `path` is its name in messages."""
    try:
        head = file.peek(4)[:4]
    except OSError as error:
        raise input_error(path, None, _reason(error), "a file that can be read") from error
    kind = _detect_compression(head)
    promised = suffixes.get(path.suffix.lower())
    if promised and kind != promised:
        file.close()
        found = f"bytes {head.hex(' ')}" if head else "an empty file"
        raise input_error(
            path, 0, found, f"a {promised} stream, as the name says", "Was it cut off, or renamed by mistake?"
        )
    limit = BYTES.limit() if most_bytes is None else most_bytes
    hint = f"{BYTES.variable}={2 * limit} allows more." if most_bytes is None else ""
    chunks = clean_text(convert_to_utf8(unpackers[kind](file)), str(path), keep_prompts=keep_prompts)
    return io.BufferedReader(_DecompressedStream(path, file, chunks, limit, hint), STEP)


def input_error(path: Path, offset: int | None, found: str, expected: str, hint: str = "") -> InputError:
    """Returns the error of a binary file at a byte offset."""
    place = "" if offset is None else f"byte {offset}"
    return InputError([Problem(str(path), 0, place, found, expected, hint)])


def _detect_compression(head: bytes) -> str:
    """Returns the format that the first four bytes of a file determine."""
    # 184D2A50 to 184D2A5F start a skippable frame, which parallel compressors write first.
    if head == b"\x28\xb5\x2f\xfd" or (head[1:] == b"\x2a\x4d\x18" and head[0] & 0xF0 == 0x50):
        return ZSTD
    return GZIP if head[:2] == b"\x1f\x8b" else PLAIN


def _read_plain(file: io.BufferedReader) -> Iterator[bytes]:
    """Yields the bytes of a plain file."""
    while chunk := file.read(STEP):
        yield chunk


def _gunzip(file: io.BufferedReader) -> Iterator[bytes]:
    """Yields the decompressed bytes of all members of a gzip file."""
    with gzip.GzipFile(fileobj=file) as unpacked:
        while chunk := unpacked.read(STEP):
            yield chunk


def _unzstd(file: io.BufferedReader) -> Iterator[bytes]:
    """Yields the decompressed bytes of all frames of a zstd file."""
    # zstandard's stream_reader accepts a truncated frame as the end of the data; only a decompressobj detects it.
    frames = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW)
    frame = None
    while step := file.read(ZSTD_STEP):
        while step:
            frame = frame or frames.decompressobj()
            if chunk := frame.decompress(step):
                yield chunk
            step = frame.unused_data if frame.eof else b""
            frame = None if frame.eof else frame
    if frame:
        raise EOFError("a zstd frame that stops before its end")


unpackers: dict[str, Callable[[io.BufferedReader], Iterator[bytes]]] = {
    PLAIN: _read_plain,
    GZIP: _gunzip,
    ZSTD: _unzstd,
}


class _DecompressedStream(io.RawIOBase):
    """Raw stream over decompressed chunks, with a size limit and errors as `InputError`."""

    def __init__(
        self, path: Path, file: io.BufferedReader, chunks: Iterator[bytes], most_bytes: int, hint: str
    ) -> None:
        self._hint = hint
        self._path, self._file, self._chunks = path, file, chunks
        self._remaining = self._max_bytes = most_bytes
        self._pending = memoryview(b"")
        self._unreported = self._reported = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int:
        if not self._pending:
            self._pending = memoryview(self._next_chunk())
        target = memoryview(buffer).cast("B")
        count = min(len(target), len(self._pending))
        target[:count] = self._pending[:count]
        self._pending = self._pending[count:]
        return count

    def close(self) -> None:
        self._file.close()
        super().close()

    def _next_chunk(self) -> bytes:
        """Returns the next chunk, b'' at the end."""
        try:
            chunk = next(self._chunks, b"")
        except (zstandard.ZstdError, zlib.error, EOFError, OSError) as error:
            raise self._error_here(_reason(error), "an undamaged stream", "Copy or record the file again.") from error
        self._remaining -= len(chunk)
        self._unreported += len(chunk)
        if self._unreported >= REPORT_BYTES or not chunk:
            self._report()
        if self._remaining < 0:
            hint = f"Split the file, or check that it is the right one. {self._hint}".strip()
            raise self._error_here("more bytes than are allowed", f"at most {self._max_bytes} bytes", hint)
        return chunk

    def _report(self) -> None:
        """Tells the observer of the stored bytes since the last report."""
        self._unreported = 0
        if _observer.get() and self._file.seekable():
            place = self._file.tell()
            report_bytes(place - self._reported)
            self._reported = place

    def _error_here(self, found: str, expected: str, hint: str) -> InputError:
        """Returns an error at the current offset in the compressed file."""
        offset = self._file.tell() if self._file.seekable() else None
        return input_error(self._path, offset, found, expected, hint)


def _reason(error: Exception) -> str:
    """Returns the message of a library's error, in one line."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return " ".join(text.split()).rstrip(".") or type(error).__name__
