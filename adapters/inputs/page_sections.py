"""Pages of several servers in one text, each behind the command that asked for it: `$ curl prefill-0:9090/metrics`."""

import io
import re
from collections.abc import Iterator
from itertools import islice
from typing import BinaryIO, NamedTuple

from skewscope.adapters.formats.openmetrics_grammar import is_prompt

COMMAND = re.compile(rb"\b(?:curl|wget)\b")
SERVER = re.compile(rb"[\s/'\"](?P<server>[A-Za-z0-9][\w.-]{0,250}:\d{2,5})(?=[/\s'\"]|$)")
MAX_PROMPT, MAX_COMMAND = 300, 1000
"""Bytes of a line in which a command begins, and in which it names the server."""
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
    starts = [*islice(_find_commands(text), MAX_SECTIONS)]
    if len({server for _, server in starts}) < MIN_SERVERS:
        starts = []
    ends = [*(begin for begin, _ in starts), len(text)]
    yield from (_section("", text[: ends[0]]),) if text[: ends[0]].strip() or not starts else ()
    for (_, server), begin, end in zip(starts, ends, ends[1:], strict=False):
        yield _section(server, text[begin:end])


def _find_commands(text: bytes) -> Iterator[tuple[int, str]]:
    """Yields where a line with a command for a server begins, and the server. Each line is looked at once."""
    begin = 0
    # Most pages have no command, and need not be divided into lines.
    for line in text.splitlines(keepends=True) if COMMAND.search(text) else ():
        command = COMMAND.search(line, 0, MAX_PROMPT)
        asked = SERVER.search(line.rstrip(), command.end(), MAX_COMMAND) if command else None
        if asked and is_prompt(line[: asked.end()]):
            yield begin, asked["server"].decode()
        begin += len(line)


def _section(server: str, text: bytes) -> PageSection:
    return PageSection(server, io.BufferedReader(io.BytesIO(text)))
