"""Inputs of kind `megatron-log`: the output of Megatron-LM, or of Megatron-DeepSpeed.

Lines of iterations give the time of a step and samples a second. With `--timing-log-option all`, the tables of times
across ranks after them give the time that each rank computes.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import BinaryIO

from skewscope.adapters.formats.log_lines import decode_head
from skewscope.adapters.inputs.labelled import LabelledSeries, artefact_reader
from skewscope.adapters.inputs.messages import with_messages
from skewscope.adapters.inputs.training_steps import LogLine, StepReader, read_steps

EXAMPLE = "`iteration 10/ 100 | ... elapsed time per iteration (ms): 123.4 |`"
ITERATION = re.compile(r"\biteration[ =]+(?P<iteration>\d{1,15})/ *\d+ \|")
ELAPSED = re.compile(
    r"elapsed[ _]time[ _]per[ _]iteration[ _](?:\((?P<unit>m?s)\): |ms=) *(?P<time>\d{1,15}(?:\.\d+)?)"
)
"""In seconds where BigScience's Megatron-DeepSpeed wrote the line."""
BATCH = re.compile(r"global[ _]batch[ _]size[:=] *(?P<samples>\d{1,15})")
RANK_TABLE = re.compile(r"(?:^|[ \]:])times across ranks \(ms\):")
TIMER = re.compile(r"^.{0,64}?  (?P<name>[a-z][a-z-]*):$")
RANK_TIME = re.compile(r"^.{0,64}?     rank +(?P<rank>\d{1,7}): (?P<ms>\d{1,15}\.\d+)$")
COMPUTE_TIMERS = frozenset(("forward-compute", "backward-compute"))
COMPUTE_TIME = "skewscope_step_compute_time"


@dataclass
class MegatronParser:
    """Finds iterations, and the tables of times across ranks that follow them."""

    timer: str = ""
    """Timer of the table that is being read; '' outside of tables."""
    compute: dict[str, float] = field(default_factory=dict)
    """Seconds by rank."""

    def read_line(self, line: LogLine, steps: StepReader) -> None:
        """Adds what a line says of the steps."""
        iteration = ITERATION.search(line.text)
        elapsed = ELAPSED.search(line.text) if iteration else None
        if iteration and elapsed:
            self.finish(steps)
            batch = BATCH.search(line.text)
            samples = float(batch["samples"]) if batch else None
            seconds = float(elapsed["time"]) / (1.0 if elapsed["unit"] == "s" else 1e3)
            steps.add_step(line, int(iteration["iteration"]), seconds, samples)
        elif "times across ranks" in line.text and RANK_TABLE.search(line.text):
            self.timer = "?"
        elif self.timer:
            self._read_table(line.text)

    def finish(self, steps: StepReader) -> None:
        """Adds the table that was read last."""
        steps.add_ranks(COMPUTE_TIME, self.compute, 0)
        self.compute, self.timer = {}, ""

    def _read_table(self, text: str) -> None:
        if match := RANK_TIME.search(text):
            if self.timer in COMPUTE_TIMERS:
                self.compute[match["rank"]] = self.compute.get(match["rank"], 0.0) + float(match["ms"]) / 1e3
        elif match := TIMER.search(text):
            self.timer = match["name"]


def recognise(head: bytes, _name: str) -> bool:
    """Returns whether the first bytes of a file are a log of Megatron-LM."""
    return any(ITERATION.search(line) and ELAPSED.search(line) for line in decode_head(head))


@with_messages
def read_series(file: BinaryIO, name: str, labels: Mapping[str, str]) -> list[LabelledSeries]:
    """Returns the step times and rates of the job, and what its ranks compute where the log says so.

    Raises:
        InputError: no line is of an iteration.
    """
    return read_steps(file, name, labels, MegatronParser(), EXAMPLE)


READER = artefact_reader(
    "Megatron-LM training log",
    read_series,
    recognise,
    placed_by_name=True,
    log_marks=(b"elapsed time per iteration", b"elapsed_time_per_iteration"),
)
