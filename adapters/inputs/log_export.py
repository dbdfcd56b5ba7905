"""Inputs of kind `log-export`: lines of logs as stores of logs give them out.

Loki and logcli answer with streams, Elasticsearch and OpenSearch with hits, and their consoles export tables with a row
for each line. The lines of each host or pod are read as its log, in the order of their times.
"""

import csv
import datetime as dt
import io
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, BinaryIO, NamedTuple

from skewscope.adapters.formats.bounds import JSON_BYTES
from skewscope.adapters.formats.log_lines import decode_head, is_binary
from skewscope.adapters.inputs.cell_values import find_separator, split_cells, to_time
from skewscope.adapters.inputs.file_origin import check_size
from skewscope.adapters.inputs.known_formats import KIND, known_formats
from skewscope.adapters.inputs.labelled import LabelledSeries, artefact_reader
from skewscope.adapters.inputs.text import read_kind
from skewscope.kb.problems import InputError, NothingKnownError, Problem

MESSAGES = ("message", "msg", "log", "line", "event.original", "@message", "_raw", "body", "textpayload")
TIMES = ("@timestamp", "timestamp", "time", "_time", "date", "@time", "ts", "tsns", "timestamp_ns")
NODES = (
    *("host", "hostname", "host.name", "node", "nodename", "node_name", "kubernetes.node.name", "kubernetes.host"),
    *("kubernetes.node_name", "_hostname", "resource.labels.node_name", "instance"),
)
PODS = (
    *("pod", "pod_name", "kubernetes.pod.name", "kubernetes.pod_name", "k8s.pod.name", "k8s_pod_name"),
    *("resource.labels.pod_name", "container_name", "container"),
)
"""Fields of a line, in small letters: its text, its time, and whose it is."""
KIBANA_TIME = re.compile(
    r"(?P<month>[A-Z][a-z]{2}) (?P<day>\d{1,2}), (?P<year>\d{4}) @ (?P<clock>\d\d:\d\d:\d\d(?:\.\d+)?)"
)
STREAMS, HITS = '"streams"', '"hits"'
MIN_WORDS = 3
"""Words of a cell that is a line of a log."""
MAX_LINE = 20_000
EXPECTED = "streams of Loki, hits of Elasticsearch, or a table with a time and a message in each row"
Origin = tuple[tuple[str, str], ...]


class ExportedLine(NamedTuple):
    """One line of a log."""

    origin: Origin
    """Labels of the host or pod that wrote it."""
    time: float
    """Seconds since 1970."""
    text: str


def recognise(head: bytes, _name: str) -> bool:
    """Returns whether the first bytes of a file are lines of logs that a store gave out."""
    if is_binary(head):
        return False
    text = head.decode("utf-8-sig", "replace")
    if text.lstrip()[:1] in ("{", "["):
        compact = re.sub(r"\s", "", text[:1000])
        return '"resultType":"streams"' in compact or ('"_source"' in text and HITS in text)
    lines = decode_head(head)[:20]
    names = _names(lines[0]) if lines else []
    message, time = _place(names, MESSAGES), _place(names, TIMES)
    if message < 0 or time < 0:
        return False
    try:
        rows = list(csv.reader(lines[1:], delimiter=find_separator(lines[0])))
    except csv.Error:
        return False
    cells = [row[message] for row in rows if len(row) == len(names)]
    return any(len(cell.split()) >= MIN_WORDS for cell in cells)


def read_series(file: BinaryIO, name: str, labels: Mapping[str, str]) -> list[LabelledSeries]:
    """Returns the series and messages of the logs of all hosts and pods.

    Raises:
        InputError: it is damaged, or has no line that is known.
    """
    by_origin: dict[Origin, list[ExportedLine]] = defaultdict(list)
    for number, line in enumerate(_list_lines(file, name)):
        check_size(number, name, number)
        by_origin[line.origin].append(line)
    if not by_origin:
        raise InputError([Problem(name, 0, "", "no line of a log with a time", EXPECTED)])
    series: list[LabelledSeries] = []
    refusals: list[InputError] = []
    for origin, lines in sorted(by_origin.items()):
        try:
            series += _read_log(dict(origin), sorted(lines, key=lambda line: line.time), name, labels)
        except InputError as refusal:
            refusals.append(refusal)
    if not series:
        raise NothingKnownError([problem for refusal in refusals for problem in refusal.problems][:1])
    return series


def _read_log(
    own: Mapping[str, str], lines: Sequence[ExportedLine], name: str, labels: Mapping[str, str]
) -> Iterator[LabelledSeries]:
    """Yields the series of the log of one host or pod, with its labels."""
    text = "".join(f"{_stamp(line.time)} {line.text}\n" for line in lines).encode()
    chosen = known_formats().choose(text[: 1 << 16])
    kind = chosen.kind or KIND if chosen else KIND
    for one in read_kind(kind, io.BytesIO(text), name, {**labels, **own}):
        yield replace(one, labels=tuple(sorted({**own, **dict(one.labels)}.items())))


def _stamp(time: float) -> str:
    return dt.datetime.fromtimestamp(time, dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _list_lines(file: BinaryIO, name: str) -> Iterator[ExportedLine]:
    data = file.read(JSON_BYTES.limit() + 1)
    JSON_BYTES.check(name, len(data), "Export less.")
    text = data.decode("utf-8-sig", "replace")
    if text.lstrip()[:1] not in ("{", "["):
        try:
            yield from _list_rows(text)
        except csv.Error as error:
            raise InputError([Problem(name, 0, "", f"a damaged table ({error})", EXPECTED)]) from None
        return
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError([Problem(name, 0, "", f"damaged JSON ({error})", EXPECTED)]) from None
    yield from _list_streams(document)
    yield from _list_hits(document)


def _list_rows(text: str) -> Iterator[ExportedLine]:
    head, _, _ = text.partition("\n")
    names = _names(head)
    rows = csv.reader(io.StringIO(text), delimiter=find_separator(head))
    next(rows, None)
    for row in rows:
        if len(row) == len(names) and (line := _to_line(dict(zip(names, row, strict=True)))):
            yield line


def _list_streams(document: Any) -> Iterator[ExportedLine]:
    """Yields the lines of an answer of Loki."""
    data = document.get("data", document) if isinstance(document, dict) else {}
    for stream in data.get("result") or data.get("streams") or () if isinstance(data, dict) else ():
        given = stream.get("stream") if isinstance(stream, dict) else None
        labels = {str(name).lower(): str(value) for name, value in given.items()} if isinstance(given, dict) else {}
        for pair in stream.get("values") or () if isinstance(stream, dict) else ():
            if isinstance(pair, list) and len(pair) >= 2:
                fields = {**labels, "timestamp": str(pair[0]), "message": str(pair[1])}
                if line := _to_line(fields):
                    yield line


def _list_hits(document: Any) -> Iterator[ExportedLine]:
    """Yields the lines of an answer of Elasticsearch, or of a list of its hits."""
    hits = document.get("hits") if isinstance(document, dict) else document
    hits = hits.get("hits") if isinstance(hits, dict) else hits
    for hit in hits if isinstance(hits, list) else ():
        source = hit.get("_source") if isinstance(hit, dict) else None
        if isinstance(source, dict) and (line := _to_line(dict(_flatten(source)))):
            yield line


def _flatten(value: Mapping[str, Any], begin: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yields the members of an object by their paths, as consoles name them."""
    for name, each in value.items():
        path = f"{begin}{name}".lower()
        if isinstance(each, dict):
            if depth < 5:
                yield from _flatten(each, f"{path}.", depth + 1)
        elif isinstance(each, str | int | float):
            yield path, str(each)


def _to_line(fields: Mapping[str, str]) -> ExportedLine | None:
    """Returns the line of a record; None where it has no text or no time."""
    text = next((fields[name] for name in MESSAGES if fields.get(name)), "")
    time = next((time for name in TIMES if (time := _read_time(fields.get(name, ""))) is not None), None)
    if not text.strip() or time is None:
        return None
    pod = next((fields[name] for name in PODS if fields.get(name)), "")
    node = next((fields[name] for name in NODES if fields.get(name)), "")
    # A pod of which no node is known stands for itself.
    own = {"pod": pod, "node": node, "instance": "" if node else pod}
    origin = tuple(sorted((label, value) for label, value in own.items() if value))
    return ExportedLine(origin, time, " ".join(text[:MAX_LINE].split("\n")))


def _read_time(text: str) -> float | None:
    if match := KIBANA_TIME.search(text):
        written = f"{match['day']} {match['month']} {match['year']} {match['clock']}".partition(".")
        try:
            whole = dt.datetime.strptime(written[0], "%d %b %Y %H:%M:%S").replace(tzinfo=dt.UTC)
        except ValueError:
            return None
        return whole.timestamp() + float(f"0.{written[2] or 0}")
    return to_time(text)


def _names(line: str) -> list[str]:
    return [name.strip().lower() for name in split_cells(line, find_separator(line))]


def _place(names: Sequence[str], wanted: Sequence[str]) -> int:
    return next((names.index(name) for name in wanted if name in names), -1)


READER = artefact_reader(
    "lines of logs as Loki, Elasticsearch and their consoles give them out",
    read_series,
    recognise,
    placed_by_name=True,
)
