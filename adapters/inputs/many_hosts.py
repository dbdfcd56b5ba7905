"""Inputs of kind `many-hosts`: what one command printed on many hosts, each part read as a file of its own.

Parallel shells write the host before each line (pdsh and clush: "gpu07: text") or above its lines (dshbak, clush -b,
Ansible, a loop that echoes "== $h").
"""

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import BinaryIO

from skewscope.adapters.formats.bounds import INPUTS
from skewscope.adapters.formats.log_lines import decode_head
from skewscope.adapters.inputs.file_origin import join_notes
from skewscope.adapters.inputs.known_formats import KIND as TEXT
from skewscope.adapters.inputs.known_formats import known_formats
from skewscope.adapters.inputs.labelled import LabelledSeries, artefact_reader
from skewscope.adapters.inputs.reader import InputReader
from skewscope.adapters.inputs.recording import find_reader, input_readers
from skewscope.kb.problems import InputError, join_names

HOST = r"(?P<host>[A-Za-z](?:[\w-]{0,40}[A-Za-z_-])?\d{1,6}[a-z]?(?:\.[\w.-]{1,80})?)"
"""A name with a number in it, as those of machines of a cluster have."""
BEFORE = re.compile(rf"{HOST}: ?")
ABOVE = re.compile(rf"[-=#*>\[ ]*{HOST}(?:[-=#*<\]: ]*| \(\d+\)| \| \w+!? \| rc=\d+ >>)")
DEVICE = re.compile(
    r"(?:eth|en[opsx]|ib|mlx\d?_|bond|hsn|swp|gpu|rank|cpu|nvme|slot|port|nvidia|card)(?:0|[1-9]\d*)", re.IGNORECASE
)
"""What has a number as well and is no host; hosts of such a name have leading zeros."""
NODE, JOB = "node", "group"
"""Labels of a host, and of a job."""
MIN_HOSTS = 2
MOST_LINES = 0.75
"""Part of the lines that have a host before them; the others were typed, or are of the shell (judgement)."""
MAX_BYTES = 64 << 20
SHOWN = 3


def recognise(head: bytes, name: str) -> bool:
    """Returns whether the first bytes of a file are parts of several hosts, the first of which is of a known kind.

    The log of a job has headings too, such as "== epoch1", and goes on behind them.
    """
    parts = split_hosts(decode_head(head))
    if not parts:
        return False
    first = next(iter(parts.values())).encode()
    return _find_part_reader(first, name) is not None and not _is_of_job(first, name)


def split_hosts(lines: Sequence[str]) -> dict[str, str]:
    """Returns the text of each host, without its name; {} where the lines are not of several."""
    before = [
        match if (match := BEFORE.match(line)) and not DEVICE.fullmatch(match["host"]) else None for line in lines
    ]
    filled = sum(bool(line.strip()) for line in lines)
    if sum(map(bool, before)) >= MOST_LINES * max(filled, 1):
        pairs = zip(before, lines, strict=True)
        named = [(match["host"], line[match.end() :]) for match, line in pairs if match]
    else:
        named = [*_list_below(lines)]
    parts: dict[str, list[str]] = {}
    for host, line in named:
        parts.setdefault(host, []).append(line)
    return {host: "\n".join(some) + "\n" for host, some in parts.items()} if len(parts) >= MIN_HOSTS else {}


def _list_below(lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yields host and text of the lines that stand below the name of a host."""
    host = ""
    for line in lines:
        heading = ABOVE.fullmatch(line.rstrip())
        if heading and not DEVICE.fullmatch(heading["host"]):
            host = heading["host"]
        elif host:
            yield host, line


def _is_of_job(text: bytes, name: str) -> bool:
    """Returns whether what is read of a text is of a job and not of a host."""
    try:
        return any(JOB in dict(one.labels) for one in _read_part(text, name, {NODE: "host"}))
    except InputError:
        return False


def _find_part_reader(head: bytes, name: str) -> InputReader | None:
    """Returns the reader of the part of a host; None where it is of no known kind."""
    if own := known_formats().choose_own(head):
        return find_reader(own.kind or TEXT)
    readers = [one for one in input_readers().values() if one.read_series is not None and not one.is_folder]
    readers.sort(key=lambda one: (one.is_last, one.is_fallback))
    return next((one for one in readers if one is not READER and one.recognise(head, name)), None)


def read_series(stream: BinaryIO, name: str, labels: Mapping[str, str]) -> list[LabelledSeries]:
    """Returns the series of all hosts.

    Raises:
        InputError: no part can be read, or there are too many.
    """
    parts = split_hosts(stream.read(MAX_BYTES).decode("utf-8", "replace").splitlines())
    INPUTS.check(name, len(parts))
    found: list[LabelledSeries] = []
    problems: list[InputError] = []
    unread: list[str] = []
    for host, text in parts.items():
        try:
            own = _read_part(text.encode(), name, {NODE: host, **labels})
        except InputError as error:
            own = []
            problems.append(error)
        found += own
        unread += [] if own else [host]
    if problems and not found:
        raise problems[0]
    left = f"nothing is known of what {join_names(unread, SHOWN)} printed" if unread else ""
    return [replace(one, note=join_notes(one.note, left)) for one in found]


def _read_part(text: bytes, name: str, labels: Mapping[str, str]) -> list[LabelledSeries]:
    reader = _find_part_reader(text, name)
    if reader is None or reader.read_series is None:
        return []
    series = reader.read_series(io.BufferedReader(io.BytesIO(text)), name, labels)
    return [replace(one, labels=tuple(sorted({NODE: labels[NODE], **dict(one.labels)}.items()))) for one in series]


READER = artefact_reader(
    "outputs of one command on many hosts", read_series, recognise, MAX_BYTES, is_first=True, is_yearless=True
)
