"""Inputs of kind `chakra`: the Chakra execution trace of one rank.

Such a trace has durations, but neither times nor steps. What a rank computes from one collective to the next counts as
a step; ranks of one job have the same ones, so they can be compared.
"""

import re
from collections.abc import Mapping
from io import BufferedReader
from pathlib import PurePath

from skewscope.adapters.formats.chakra import (
    COLLECTIVE,
    COMPUTE,
    MAX_BYTES,
    RECEIVE,
    SEND,
    ChakraNode,
    is_chakra_trace,
    read_nodes,
)
from skewscope.adapters.inputs.labelled import LabelledSeries, SeriesCollector, artefact_reader
from skewscope.kb.problems import InputError, Problem

RANK_IN_NAME = re.compile(r"(?:rank[-_ ]?|\.)(\d{1,7})(?=\.)", re.IGNORECASE | re.ASCII)
GROUP = "default_pg-0"
"""A trace does not say the groups of its rank; its collectives count for all ranks together."""
NOTE = "a Chakra trace has no times: what is computed from one collective to the next counts as a step of one second"


def recognise(head: bytes, name: str) -> bool:
    """Returns whether a file is a Chakra trace, by its first bytes and its name."""
    return is_chakra_trace(head, name)


def read_series(file: BufferedReader, name: str, labels: Mapping[str, str]) -> list[LabelledSeries]:
    """Returns the series of a trace.

    Raises:
        InputError: the file is no trace, is damaged, has no collective, or does not say its rank.
    """
    rank = _find_rank(name, labels)
    place = {"group": GROUP, "rank": rank, "global_rank": rank}
    nodes = list(read_nodes(file, name))
    # Where a device worked, operations on the CPU only launch.
    on_device = any(not node.on_cpu and node.kind == COLLECTIVE for node in nodes)
    collector = SeriesCollector(name, NOTE)
    work, step = 0.0, 0
    for node in nodes:
        if on_device and node.on_cpu:
            continue
        if node.kind == COMPUTE:
            work += node.duration
        elif node.kind in (SEND, RECEIVE, COLLECTIVE):
            step += 1
            _add_step(collector, place, float(step), work, node)
            work = 0.0
    if not step:
        raise InputError([Problem(name, 0, "", "no collective", "operations of several ranks")])
    return collector.series()


def _add_step(collector: SeriesCollector, place: Mapping[str, str], time: float, work: float, node: ChakraNode) -> None:
    """Adds what was computed (microseconds) before an operation of communication, and that operation."""
    collector.add("skewscope_step_compute_time", place, time, work / 1e6)
    collector.add("skewscope_step_comm_time", place, time, node.duration / 1e6)
    metric = "skewscope_nccl_coll_time" if node.kind == COLLECTIVE else "skewscope_nccl_p2p_time"
    collector.add(metric, place, time, node.duration)


def _find_rank(name: str, labels: Mapping[str, str]) -> str:
    """Returns the rank in the job: as the input's labels say, or the file's name."""
    given = labels.get("global_rank", "")
    if given.isdecimal() and len(given) < 8:
        return str(int(given))
    if match := RANK_IN_NAME.search(PurePath(name).name):
        return str(int(match[1]))
    hint = "Give the input the label `global_rank`, or name the file after its rank, as in trace.3.et."
    raise InputError([Problem(name, 0, "", "a name without a rank", "one such as trace.3.et", hint)])


READER = artefact_reader(
    "Chakra execution trace",
    read_series,
    recognise,
    max_bytes=MAX_BYTES,
)
