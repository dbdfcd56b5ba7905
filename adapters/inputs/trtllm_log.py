"""Inputs of kind `trtllm-log`: the log of TensorRT-LLM with a line for each iteration, as with `print_iter_log`.

Ranks that compute the same batches are read once. Where attention is data-parallel, each rank has requests of its own.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import nan
from typing import BinaryIO

from skewscope.adapters.formats.log_lines import decode_head, read_lines
from skewscope.adapters.formats.log_times import find_stamp, parse_offset
from skewscope.adapters.inputs.file_origin import check_size
from skewscope.adapters.inputs.labelled import LabelledSeries, artefact_reader
from skewscope.adapters.inputs.messages import with_messages
from skewscope.adapters.inputs.trtllm_iterations import Iteration, collect_iterations
from skewscope.kb.problems import InputError, Problem

LINE = re.compile(r"\biter = (?P<iter>\d{1,12}), (?P<fields>.{1,1000}?)\bstates = \{(?P<states>[^}]{0,1000})\}")
FIELD = re.compile(
    r"\b(?P<name>[a-z_]{1,40})(?: = |: )(?P<number>\d{1,12}(?:\.\d{1,20})?)(?:(?P<unit>ms|s)|/(?P<all>\d{1,12}))?(?=, )"
)
STATE = re.compile(r"'(?P<name>[a-z_]{1,40})': (?P<number>\d{1,12})")
STAMP = re.compile(r"\btimestamp = (?P<stamp>[\d:. /-]{1,40})")
MONTH_FIRST = re.compile(r"(?P<month>\d\d)-(?P<day>\d\d)-(?P<year>20\d\d) ")
UNITS = {"ms": 1e-3, "s": 1.0}
DURATIONS = ("host_step_time", "elapsed_time")
"""Fields with the time of the iteration, the newer first."""
EXAMPLE = "`iter = 1, global_rank = 0, ..., host_step_time = 11.4ms, timestamp = ..., states = {...}`"
HINT = "It is logged with print_iter_log: true in the options of the engine."


def recognise(head: bytes, _name: str) -> bool:
    """Returns whether the first bytes of a file have lines of iterations."""
    return any(LINE.search(line) for line in decode_head(head))


@with_messages
def read_series(file: BinaryIO, name: str, labels: Mapping[str, str]) -> list[LabelledSeries]:
    """Returns the series of the engine, or of each of its data-parallel ranks.

    Raises:
        InputError: no line is of an iteration.
    """
    offset, found, is_parallel = parse_offset(labels, name), list[Iteration](), False
    for number, text in read_lines(file, name):
        if line := LINE.search(text):
            fields = {match["name"]: match for match in FIELD.finditer(line["fields"])}
            found.append(_read_iteration(line, fields, offset))
            # Requests that this rank has taken, of those that all have.
            taken = fields.get("currank_total_requests")
            is_parallel |= taken is not None and taken["all"] not in (None, taken["number"])
            check_size(len(found), name, number)
    if not found:
        raise InputError([Problem(name, 0, "", "no line of an iteration", f"lines such as {EXAMPLE}", HINT)])
    return collect_iterations(found if is_parallel else _first_rank(found), name, labels)


def _first_rank(found: list[Iteration]) -> Iterator[Iteration]:
    first = min((each.rank for each in found), key=int)
    return (replace(each, rank="") for each in found if each.rank == first)


def _read_iteration(line: re.Match[str], fields: Mapping[str, re.Match[str]], offset: float) -> Iteration:
    def number(name: str) -> float:
        return float(fields[name]["number"]) if name in fields else nan

    states = {match["name"]: float(match["number"]) for match in STATE.finditer(line["states"])}
    stamp = STAMP.search(line["fields"])
    duration = next((name for name in DURATIONS if name in fields), "")
    return Iteration(
        find_time(stamp["stamp"], offset) if stamp else nan,
        number(duration) * UNITS[fields[duration]["unit"] or "s"] if duration else nan,
        states.get("num_ctx_tokens", nan),
        states.get("num_generation_tokens", nan),
        number("num_scheduled_requests"),
        kv_usage=number("kv_cache_util"),
        rank=fields["global_rank"]["number"] if "global_rank" in fields else "0",
    )


def find_time(text: str, offset: float) -> float:
    """Returns the time of a stamp, also of one with the month first, in seconds since 1970; NaN for none."""
    found = find_stamp(MONTH_FIRST.sub(r"\g<year>-\g<month>-\g<day> ", text, count=1), offset)
    return nan if found is None else found


READER = artefact_reader(
    "TensorRT-LLM log with iterations",
    read_series,
    recognise,
    exporter="trtllm_serve",
    placed_by_name=True,
    log_marks=(b"num_scheduled_requests",),
)
