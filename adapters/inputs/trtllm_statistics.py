"""Inputs of kind `trtllm-statistics`: iterations of TensorRT-LLM as JSON.

`/metrics` of trtllm-serve answers with a list of them; trtllm-bench writes one in each line.
"""

import re
from collections.abc import Iterator, Mapping
from math import nan
from typing import Any, BinaryIO

from skewscope.adapters.formats.json_stream import CutOffError, JsonReader
from skewscope.adapters.formats.log_times import parse_offset
from skewscope.adapters.inputs.file_origin import check_size
from skewscope.adapters.inputs.labelled import LabelledSeries, artefact_reader
from skewscope.adapters.inputs.trtllm_iterations import Iteration, collect_iterations
from skewscope.adapters.inputs.trtllm_log import find_time
from skewscope.kb.problems import InputError, Problem

BEGIN = re.compile(rb"\s*(?:\[\s*)?\{")
MARKS = (b'"iter"', b'"iterLatencyMS"')
EXPECTED = "objects with iter and iterLatencyMS, as /metrics of trtllm-serve has them"
HINT = "They are kept with enable_iter_perf_stats: true in the options of the engine, and each is given out once."


def recognise(head: bytes, _name: str) -> bool:
    """Returns whether the first bytes of a file are iterations of TensorRT-LLM as JSON."""
    head = head.removeprefix(b"\xef\xbb\xbf")
    return bool(BEGIN.match(head)) and all(mark in head for mark in MARKS)


def read_series(file: BinaryIO, name: str, labels: Mapping[str, str]) -> list[LabelledSeries]:
    """Returns the series of the engine, or of each of its data-parallel ranks.

    Raises:
        InputError: there is no iteration, or the text is damaged.
    """
    offset, found = parse_offset(labels, name), list[Iteration]()
    try:
        for each in _objects(JsonReader(file, name)):
            if isinstance(each, dict) and "iter" in each:
                found.append(_read_iteration(each, offset))
                check_size(len(found), name, 0)
    except CutOffError:
        # The last one of a file that is still written may be incomplete.
        if not found:
            raise
    if not found:
        raise InputError([Problem(name, 0, "", "no iteration", EXPECTED, HINT)])
    return collect_iterations(found, name, labels)


def _objects(reader: JsonReader) -> Iterator[Any]:
    """Yields the elements of lists, and the objects that follow one another."""
    number, held = 0, dict[str, Any]()
    for document, member, value in reader.documents((), ()):
        if member == "":
            yield value
            continue
        if document != number:
            yield held
            number, held = document, {}
        held[member] = value
    yield held


def _read_iteration(each: Mapping[str, Any], offset: float) -> Iteration:
    batch, cache = each.get("inflightBatchingStats"), each.get("kvCacheStats")
    blocks, stamp, rank = _number(cache, "maxNumBlocks"), each.get("timestamp"), each.get("attentionDpRank")
    return Iteration(
        find_time(stamp, offset) if isinstance(stamp, str) else nan,
        _number(each, "iterLatencyMS") / 1000,
        _number(batch, "numCtxTokens"),
        _number(batch, "numGenRequests"),
        _number(each, "numActiveRequests"),
        _number(each, "numQueuedRequests"),
        _number(cache, "usedNumBlocks") / blocks if blocks > 0 else nan,
        str(rank) if isinstance(rank, int) else "",
        counts_tokens=False,
    )


def _number(values: Any, name: str) -> float:
    value = values.get(name) if isinstance(values, dict) else None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else nan


READER = artefact_reader(
    "statistics of iterations of TensorRT-LLM (JSON)",
    read_series,
    recognise,
    exporter="trtllm_serve",
    placed_by_name=True,
)
