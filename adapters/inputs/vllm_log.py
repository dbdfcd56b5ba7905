"""Inputs of kind `vllm-log`: the log of a vLLM server, of which the lines of statistics each 10 s are read.

Its stamps have no year: `log_times.ShortDates` says where the year comes from.
"""

import re
from collections.abc import Mapping
from typing import BinaryIO

from skewscope.adapters.formats.log_lines import decode_head, read_lines
from skewscope.adapters.formats.log_times import ASSUMED_YEAR, MAX_STAMP_COLUMN, ShortDates
from skewscope.adapters.inputs.file_origin import check_size, find_server, join_notes
from skewscope.adapters.inputs.labelled import LabelledSeries, SeriesCollector, artefact_reader
from skewscope.adapters.inputs.messages import with_messages
from skewscope.kb.problems import InputError, Problem

STATISTICS = "Avg prompt throughput: "
ENGINE = re.compile(r"Engine (?P<engine>\d{1,6}): Avg prompt")
MODEL = re.compile(r"engine \(v\S+\) with config: model='(?P<model>[^']{1,200})'")
SERVED = re.compile(r"served_model_name=(?P<model>[^,\s\[\]]{1,200})")
FIELD = re.compile(r"(?:^|, )(?P<name>[A-Z][A-Za-z ]{2,40}): (?P<number>\d+(?:\.\d+)?)(?P<unit>%| tokens/s| reqs)?")
METRICS = {
    "Avg prompt throughput": ("skewscope_serve_prompt_throughput", 1.0),
    "Avg generation throughput": ("skewscope_serve_gen_throughput", 1.0),
    "Running": ("vllm:num_requests_running", 1.0),
    "Waiting": ("vllm:num_requests_waiting", 1.0),
    "Pending": ("vllm:num_requests_waiting", 1.0),
    "GPU KV cache usage": ("vllm:kv_cache_usage_perc", 0.01),
    "Prefix cache hit rate": ("skewscope_serve_prefix_hit_rate", 0.01),
}
"""By what a line calls it: metric and factor. Before version 1, `Pending` are the requests that wait."""
MAX_COLUMNS = MAX_STAMP_COLUMN * 4
"""Characters of a line that are read."""
ASSUMED = f"its times have no year: {ASSUMED_YEAR} is assumed; give the input the label year, such as '2026'"
EXAMPLE = "`INFO 11-22 10:00:00 [loggers.py:273] Engine 000: Avg prompt throughput: 12.3 tokens/s, ...`"
HINT = "Start the server without --disable-log-stats; it logs statistics each 10 s while it works."


def recognise(head: bytes, _name: str) -> bool:
    """Returns whether the first bytes of a file are the log of a vLLM server."""
    return any(STATISTICS in line or MODEL.search(line) for line in decode_head(head))


@with_messages
def read_series(file: BinaryIO, name: str, labels: Mapping[str, str]) -> list[LabelledSeries]:
    """Returns the series of each engine of the server.

    Raises:
        InputError: no line has statistics, or one has no time.
    """
    dates, model, lines = ShortDates(labels, name), "", []
    for number, text in read_lines(file, name):
        dates.learn_year(text)
        if STATISTICS in (begin := _cut(text)):
            lines.append((number, begin))
            check_size(len(lines), name, number)
        elif match := SERVED.search(text) or MODEL.search(text):
            model = match["model"]
    if not lines:
        raise InputError([Problem(name, 0, "", "no line of statistics", f"lines such as {EXAMPLE}", HINT)])
    server, unnamed = find_server(labels, name)
    collector = SeriesCollector(name, join_notes("" if dates.year else ASSUMED, unnamed))
    place = {"model_name": model, **server}
    for number, text in lines:
        _read_statistics((number, text), place, dates, collector)
    return collector.series()


def _cut(text: str) -> str:
    """Returns a line up to a bound, without a field that would be cut in two."""
    return text if len(text) <= MAX_COLUMNS else text[:MAX_COLUMNS].rpartition(",")[0]


def _read_statistics(
    line: tuple[int, str], place: Mapping[str, str], dates: ShortDates, collector: SeriesCollector
) -> None:
    number, text = line
    time = dates.find(text)
    if time is None:
        raise InputError([Problem(collector.file, number, "", f"{text!r:.60}", "a line that begins with its time")])
    engine = ENGINE.search(text)
    own = {**place, "engine": str(int(engine["engine"])) if engine else ""}
    for match in FIELD.finditer(text[text.index(STATISTICS) :]):
        # What newer versions add has names of its own, which no signal has.
        stem = "vllm_log_" + match["name"].lower().replace(" ", "_")
        metric, factor = METRICS.get(match["name"], (stem, 1.0))
        collector.add(metric, own, time, float(match["number"]) * factor, number)


READER = artefact_reader(
    "vLLM server log",
    read_series,
    recognise,
    exporter="vllm",
    placed_by_name=True,
    is_yearless=True,
    log_marks=(b"Avg prompt throughput: ", b"with config: model="),
)
