"""Texts of other encodings as UTF-8, as far as their first bytes state the encoding.

Windows PowerShell writes what `>` redirects as UTF-16 with a byte order mark, and many editors begin UTF-8 with one.
No binary format that is read here begins like that.
"""

import codecs
from collections.abc import Iterator
from itertools import chain

UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
SAMPLE_BYTES = 64
"""First bytes of a file by which UTF-16 without a mark is recognised, as where a paste begins in the middle."""
PRINTABLE = frozenset((*b"\t\r\n", *range(32, 127)))


def convert_to_utf8(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Yields the bytes of a file, none of them empty: text with a byte order mark as UTF-8 without one.

    Characters that are damaged are replaced by U+FFFD.
    """
    head = b""
    for chunk in chunks:
        head += chunk
        if len(head) >= SAMPLE_BYTES:
            break
    rest = chain([head], chunks)
    if head.startswith(UTF_16):
        yield from _convert_utf16(rest, "utf-16")
        return
    if encoding := _find_bare_utf16(head[:SAMPLE_BYTES]):
        yield from _convert_utf16(rest, encoding)
        return
    yield from filter(None, chain([head.removeprefix(codecs.BOM_UTF8)], chunks))


def _find_bare_utf16(head: bytes) -> str:
    """Returns the encoding of UTF-16 without a mark that begins with printable ASCII only; '' for everything else."""
    for encoding, zeros, others in (("utf-16-le", head[1::2], head[::2]), ("utf-16-be", head[::2], head[1::2])):
        if len(head) >= SAMPLE_BYTES and not any(zeros) and PRINTABLE.issuperset(others):
            return encoding
    return ""


def _convert_utf16(chunks: Iterator[bytes], encoding: str) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    for chunk in chunks:
        if text := decoder.decode(chunk):
            yield text.encode()
    if text := decoder.decode(b"", final=True):
        yield text.encode()
