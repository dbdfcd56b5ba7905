"""Inputs of kind `named-numbers`: numbers with names that no other reader reads, as programs print them.

Names are known, or are taken by their words as those of unknown exporters are. What gives no number that can be judged
is too little, and says what is missing.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from io import BufferedReader

import numpy as np

from skewscope.adapters.formats.bounded_json import count_parts
from skewscope.adapters.formats.bounds import JSON_BYTES, PARTS
from skewscope.adapters.formats.log_lines import decode_head, is_binary
from skewscope.adapters.inputs.counter_dumps import READING_S, Counter, read_dumps
from skewscope.adapters.inputs.file_origin import OWN_TIME, own_time
from skewscope.adapters.inputs.labelled import LabelledSeries, SeriesCollector, artefact_reader
from skewscope.adapters.inputs.number_lines import NumberLines
from skewscope.adapters.inputs.number_rows import list_records
from skewscope.adapters.inputs.series_names import SeriesContext, name_series
from skewscope.kb.document_lines import JSON_BEGIN, parse_documents
from skewscope.kb.problems import InputError, Problem

HEAD_BYTES, HEAD_LINES = 1 << 16, 400
MIN_NUMBERS = 2
EXPECTED = "pairs, tables or records of numbers with names"
CODE, GPU = "code", "gpu"
"""Labels."""


def recognise(head: bytes, _name: str) -> bool:
    """Returns whether most of what a text begins with are numbers with names."""
    if is_binary(head):
        return False
    if _is_json(head):
        return sum(map(len, _find_records(head))) >= MIN_NUMBERS
    parser = NumberLines()
    count = sum(len(parser.read_line(line, number)) for number, line in enumerate(decode_head(head)[:HEAD_LINES]))
    return count >= MIN_NUMBERS and 2 * parser.fitting >= parser.lines


def _is_json(head: bytes) -> bool:
    return JSON_BEGIN.match(head.decode("utf-8", "replace")) is not None


def _find_records(data: bytes) -> list[list[Counter]]:
    """Returns the numbers of each document in a text of JSON."""
    return [list(list_records(each)) for each in parse_documents(data.decode("utf-8", "replace"))]


def _read_records(data: bytes, name: str) -> list[LabelledSeries]:
    """Returns the series of documents that follow one another: each is a reading where it says no times."""
    collector, readings = SeriesCollector(name), 0
    for counters in _find_records(data):
        seen = set[tuple[str, ...]]()
        for counter in counters:
            key = (counter.metric, *counter.labels.values())
            time = own_time(name) + READING_S * readings if counter.time is None else counter.time
            collector.note = OWN_TIME if counter.time is None else collector.note
            if counter.time is not None or key not in seen:
                collector.add(counter.metric, counter.labels, time, counter.value)
            seen.add(key)
        readings += bool(counters)
    return collector.series(keeps_newest=True)


def read_series(file: BufferedReader, name: str, labels: Mapping[str, str]) -> list[LabelledSeries]:
    """Returns the series of all numbers.

    Raises:
        InputError: there are none, or too many.
    """
    head = file.peek(HEAD_BYTES)[:HEAD_BYTES]
    if not recognise(head, name):
        raise InputError([Problem(name, 0, "", "a text without numbers that have names", EXPECTED)])
    if _is_json(head):
        data = file.read(JSON_BYTES.limit() + 1)
        JSON_BYTES.check(name, len(data))
        PARTS.check(name, count_parts(data))
        series = _read_records(data, name)
    else:
        series = read_dumps(file, name, labels, NumberLines())
    return list(_name_gpu_numbers(_drop_statuses(series)))


def _drop_statuses(series: Iterable[LabelledSeries]) -> Iterator[LabelledSeries]:
    """Yields the series without responses of one status, where there are those of its class."""
    codes = [(one, dict(one.labels).get(CODE, "")) for one in series]
    classes = {(one.metric, code[0]) for one, code in codes if code[1:] == "xx"}
    yield from (one for one, code in codes if code[1:] == "xx" or (one.metric, code[:1]) not in classes)


def _name_gpu_numbers(series: Iterable[LabelledSeries]) -> Iterator[LabelledSeries]:
    """Yields the series; what a number of a GPU is may be known by the size of all values of its name."""
    by_name: dict[str, list[LabelledSeries]] = defaultdict(list)
    for one in series:
        is_of_gpu = GPU in dict(one.labels)
        by_name[one.metric if is_of_gpu else ""].append(one)
    yield from by_name.pop("", [])
    for name, some in by_name.items():
        named = name_series(name, np.concatenate([one.values for one in some]), SeriesContext())
        for one in some:
            yield replace(one, metric=named.metric, values=one.values * named.scale) if named.note else one


READER = artefact_reader(
    "numbers with names, as programs print them",
    read_series,
    recognise,
    is_last=True,
    keeps_prompts=True,
    placed_by_name=True,
    has_metrics=True,
)
