"""Texts of other encodings as UTF-8, as far as their first bytes state the encoding.

Windows PowerShell writes what `>` redirects as UTF-16 with a byte order mark, and many editors begin UTF-8 with one.
No binary format that is read here begins like that.
"""

import codecs
from collections.abc import Iterator
from itertools import chain

UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def convert_to_utf8(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Yields the bytes of a file, none of them empty: text with a byte order mark as UTF-8 without one.

    Characters that are damaged are replaced by U+FFFD.
    """
    head = b""
    for chunk in chunks:
        head += chunk
        if len(head) >= len(codecs.BOM_UTF8):
            break
    rest = chain([head], chunks)
    if head.startswith(UTF_16):
        yield from _convert_utf16(rest)
        return
    yield from filter(None, chain([head.removeprefix(codecs.BOM_UTF8)], chunks))


def _convert_utf16(chunks: Iterator[bytes]) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder("utf-16")("replace")
    for chunk in chunks:
        if text := decoder.decode(chunk):
            yield text.encode()
    if text := decoder.decode(b"", final=True):
        yield text.encode()
