"""Inputs of kind `sglang-log`: the log of an SGLang server, of which the lines of prefill and decode batches are read.

Several batches of one second are one sample, the last of them: the stamps count whole seconds. Requests that were
thrown out of the batch (retracted) are counted from lines of their own, from 0 at the first line of a batch.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import BinaryIO

from skewscope.adapters.formats.log_lines import decode_head, read_lines
from skewscope.adapters.formats.log_times import DayTimes, find_stamp, parse_offset
from skewscope.adapters.inputs.file_origin import check_size, find_server, join_notes
from skewscope.adapters.inputs.labelled import LabelledSeries, SeriesCollector, artefact_reader
from skewscope.adapters.inputs.messages import with_messages
from skewscope.kb.problems import InputError, Problem

BATCH = re.compile(r"\b(?P<kind>Decode|Prefill) batch(?: \[[^\]]{1,40}\])?[.,] (?P<fields>#.*)")
ACTOR = re.compile(r"^\(SGLangEngine pid=(?P<pid>\d{1,10})(?:, ip=(?P<ip>[^,)\s]{1,60}))?\)")
"""Before the lines of several engines that Ray runs and whose output it joins."""
FIELD = re.compile(
    r"(?:^|, )(?P<name>#?[a-zA-Z][\w -]*(?: \(token/s\))?): (?P<number>\d+(?:\.\d+)?)(?P<unit>%)?(?=,|\s*$)"
)
RANK = re.compile(r"\b(?P<kind>DP|TP|PP)(?P<rank>\d{1,5})\b(?=[ \]DTPE\d]*\])")
CLOCK = re.compile(r"\[(?P<clock>\d\d:\d\d:\d\d)[ \]]")
RETRACTED = re.compile(r"#retracted_reqs: (?P<number>\d{1,6})\b")
RETRACTIONS = "sglang:num_retracted_requests_total"
MODEL = re.compile(r"served_model_name='(?P<model>[^']{1,200})'")
METRICS = {
    "#running-req": "sglang:num_running_reqs",
    "#queue-req": "sglang:num_queue_reqs",
    "token usage": "sglang:token_usage",
    "full token usage": "sglang:token_usage",
    "gen throughput (token/s)": "sglang:gen_throughput",
    "input throughput (token/s)": "skewscope_serve_prompt_throughput",
    "cache hit rate": "sglang:cache_hit_rate",
}
DATELESS = "its times have no date: days are counted from 1970-01-01"
EXAMPLE = "`[2026-11-22 10:00:00 TP0] Decode batch, #running-req: 8, #token: 62531, ..., #queue-req: 0`"

Samples = dict[tuple[str, tuple[str, str], float], tuple[float, int]]
"""By metric, data-parallel rank with engine, and time: value and line of the newest sample."""


def recognise(head: bytes, _name: str) -> bool:
    """Returns whether the first bytes of a file are the log of an SGLang server."""
    return any(BATCH.search(line) for line in decode_head(head))


@with_messages
def read_series(file: BinaryIO, name: str, labels: Mapping[str, str]) -> list[LabelledSeries]:
    """Returns the series of each data-parallel rank of the server.

    Raises:
        InputError: no line is of a batch, or one has no time.
    """
    offset, days, model = parse_offset(labels, name), DayTimes(), ""
    newest: Samples = {}
    retracted: Counter[tuple[str, str]] = Counter()
    note = ""
    for number, text in read_lines(file, name):
        batch, lost = BATCH.search(text), RETRACTED.search(text)
        if (found := batch or lost) is None:
            model = match["model"] if (match := MODEL.search(text)) else model
            continue
        ranks = {match["kind"]: match["rank"] for match in RANK.finditer(text, 0, found.start())}
        if ranks.get("TP", "0") != "0" and "DP" not in ranks:
            # All ranks of a tensor-parallel group compute the same batches.
            continue
        source = ranks.get("DP", ""), _find_engine(text)
        if batch is None:
            retracted[source] += int(found["number"])
            continue
        time = find_stamp(text, offset)
        if time is None:
            note, time = DATELESS, _read_clock(text, number, name, days)
        for metric, value in (*_read_fields(batch), (RETRACTIONS, float(retracted[source]))):
            newest[metric, source, time] = value, number
        check_size(len(newest), name, number)
    if not newest:
        raise InputError([Problem(name, 0, "", "no line of a batch", f"lines such as {EXAMPLE}")])
    server, unnamed = find_server(labels, name)
    collector = SeriesCollector(name, join_notes(note, unnamed))
    for (metric, (rank, engine), time), (value, number) in newest.items():
        place = {"dp_rank": rank, "model_name": model, **server, "engine": engine}
        collector.add(metric, place, time, value, number)
    return collector.series()


def _find_engine(text: str) -> str:
    """Returns what tells the engine of a line from others in the file; '' where the file has one."""
    match = ACTOR.match(text)
    return "-".join(filter(None, (match["ip"], match["pid"]))) if match else ""


def _read_clock(text: str, number: int, name: str, days: DayTimes) -> float:
    match = CLOCK.search(text)
    if match is None:
        raise InputError([Problem(name, number, "", f"{text!r:.60}", "a line that begins with its time")])
    return days.place(match["clock"])


def _read_fields(batch: re.Match[str]) -> Iterator[tuple[str, float]]:
    """Yields metric and value of each number of a batch; what no signal has keeps a name of its own."""
    fields = {
        match["name"]: float(match["number"]) * (0.01 if match["unit"] else 1.0)
        for match in FIELD.finditer(batch["fields"])
    }
    for name, value in fields.items():
        yield METRICS.get(name) or "sglang_log_" + re.sub(r"\W+", "_", name).strip("_"), value
    cached, new = fields.get("#cached-token"), fields.get("#new-token")
    if "cache hit rate" not in fields and cached is not None and new is not None and cached + new > 0:
        yield METRICS["cache hit rate"], cached / (cached + new)


READER = artefact_reader(
    "SGLang server log",
    read_series,
    recognise,
    exporter="sglang",
    placed_by_name=True,
    log_marks=(b"Decode batch", b"Prefill batch"),
)
