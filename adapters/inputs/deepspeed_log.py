"""Inputs of kind `deepspeed-log`: the output of DeepSpeed.

Lines of its throughput timer and of its pipeline engine give steps and samples a second; a breakdown of wall-clock
times gives what a rank computes and communicates.
"""

import re
from collections.abc import Mapping
from typing import BinaryIO

from skewscope.adapters.formats.log_lines import decode_head
from skewscope.adapters.inputs import megatron_log
from skewscope.adapters.inputs.labelled import LabelledSeries, artefact_reader
from skewscope.adapters.inputs.messages import with_messages
from skewscope.adapters.inputs.training_steps import LogLine, StepReader, read_steps

EXAMPLE = "`... global_step=10, RunningAvgSamplesPerSec=110.9, CurrSamplesPerSec=111.3, ...`"
THROUGHPUT = re.compile(
    r"(?:global_step=(?P<step>\d{1,15}), RunningAvgSamplesPerSec=[^,]*, Curr|\b\d+/(?P<old_step>\d{1,15}), )"
    r"SamplesPerSec=(?P<rate>\d{1,15}\.\d+)"
)
PROGRESS = re.compile(r"\[Rank \d+\] step=(?P<step>\d{1,15}), skipped=\d+")
PIPELINE = re.compile(
    r"steps: (?P<step>\d{1,15}) loss: .*?iter time \(s\): (?P<seconds>\d{1,15}\.\d+) "
    r"samples/sec: (?P<rate>\d{1,15}\.\d+)"
)
BREAKDOWN = re.compile(r"\[Rank (?P<rank>\d{1,7})\] (?:rank=\d{1,7} )?time \(ms\) (?P<timers>\|.*)")
TIMER = re.compile(r"\| (?P<name>[\w-]+): (?P<ms>\d{1,15}\.\d+)")
FORWARD, COMPUTE, EXCHANGE = (
    ("fwd", "forward"),
    ("bwd_inner", "backward_inner"),
    ("bwd_allreduce", "backward_allreduce"),
)


class DeepspeedParser:
    """Finds the steps of DeepSpeed."""

    def read_line(self, line: LogLine, steps: StepReader) -> None:
        """Adds what a line says of the steps."""
        if match := THROUGHPUT.search(line.text):
            steps.add_progress(line, int(match["step"] or match["old_step"]))
            steps.add_rate(line, float(match["rate"]))
        elif match := PROGRESS.search(line.text):
            steps.add_progress(line, int(match["step"]))
        elif match := PIPELINE.search(line.text):
            steps.add_step(line, int(match["step"]), float(match["seconds"]))
            steps.add_rate(line, float(match["rate"]))
        elif match := BREAKDOWN.search(line.text):
            self._read_breakdown(match, line, steps)

    def finish(self, steps: StepReader) -> None:
        """Adds nothing: each line stands for itself."""

    def _read_breakdown(self, match: re.Match[str], line: LogLine, steps: StepReader) -> None:
        timers = {each["name"]: float(each["ms"]) / 1e3 for each in TIMER.finditer(match["timers"])}
        forward, compute, exchange = (
            next((timers[name] for name in names if name in timers), None) for names in (FORWARD, COMPUTE, EXCHANGE)
        )
        place = {"group": steps.group, "rank": match["rank"]}
        time = steps.time if line.time is None else line.time
        if forward is not None and compute is not None:
            steps.collector.add("skewscope_step_compute_time", place, time, forward + compute, line.number)
        if exchange is not None:
            steps.collector.add("skewscope_step_comm_time", place, time, exchange, line.number)


def recognise(head: bytes, _name: str) -> bool:
    """Returns whether the first bytes of a file are a log of DeepSpeed, but not of Megatron-DeepSpeed."""
    if megatron_log.recognise(head, ""):
        return False
    patterns = (THROUGHPUT, PROGRESS, PIPELINE, BREAKDOWN)
    return any(pattern.search(line) for line in decode_head(head) for pattern in patterns)


@with_messages
def read_series(file: BinaryIO, name: str, labels: Mapping[str, str]) -> list[LabelledSeries]:
    """Returns the step times and rates of the job, and the times of ranks that log a breakdown.

    Raises:
        InputError: no line is of a step.
    """
    return read_steps(file, name, labels, DeepspeedParser(), EXAMPLE)


READER = artefact_reader(
    "DeepSpeed training log",
    read_series,
    recognise,
    placed_by_name=True,
    log_marks=(b"SamplesPerSec=", b"samples/sec: ", b"[Rank "),
)
