"""Pages of several servers in one text, each behind the command that asked for it: `$ curl prefill-0:9090/metrics`."""

import io
import re
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from skewscope.adapters.formats.openmetrics_grammar import is_prompt

ASKED = re.compile(
    rb"\b(?:curl|wget|http)\b[^\n|>]*?[\s/'\"](?P<server>[A-Za-z0-9][\w.-]{0,250}:\d{2,5})(?=[/\s'\"]|$)"
)
MIN_SERVERS = 2
"""Of fewer, the name of the file or the labels of its series say what a page is of."""
MAX_SECTIONS = 1000


class PageSection(NamedTuple):
    """A part of a text."""

    server: str
    """Where it is from; '' where no command says it."""
    stream: io.BufferedReader


def split_page(stream: BinaryIO) -> Iterator[PageSection]:
    """Yields the pages of a text, bounded in size by its stream; all of it as one where no two servers were asked."""
    text = stream.read()
    starts = [
        (match.start(), match["server"].decode())
        for match in ASKED.finditer(text)
        if is_prompt(text[text.rfind(b"\n", 0, match.start()) + 1 : match.end()])
    ][:MAX_SECTIONS]
    if len({server for _, server in starts}) < MIN_SERVERS:
        starts = []
    ends = [*(text.rfind(b"\n", 0, at) + 1 for at, _ in starts), len(text)]
    yield from (_section("", text[: ends[0]]),) if text[: ends[0]].strip() or not starts else ()
    for (_, server), begin, end in zip(starts, ends, ends[1:], strict=False):
        yield _section(server, text[begin:end])


def _section(server: str, text: bytes) -> PageSection:
    return PageSection(server, io.BufferedReader(io.BytesIO(text)))
