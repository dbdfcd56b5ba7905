"""Prints how many files and functions one tick passes through, from a block of samples to the console's snapshot.

`python -m bench.tick_path` replays the demo recording and profiles each tick: `Runtime.step`, `Runtime.snapshot` and
`ViewBuilder.update`. `--files` adds the calls of each file in the worst tick.
"""

import argparse
import statistics
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

import numpy as np

from skewscope.adapters.inputs.recording import demo_path, load, open_recording
from skewscope.adapters.runtime.replay import tick_ends
from skewscope.adapters.runtime.runtime import Span, build_runtime
from skewscope.adapters.view.builder import ViewBuilder, ViewHistory
from skewscope.engine.ingest.feed import Block
from skewscope.kb.loader import catalogue

ROOT = Path(__file__).resolve().parent.parent


@dataclass
class TickPath:
    """The calls of one tick, as `sys.setprofile` reports them."""

    time: float
    calls: Counter[str] = field(default_factory=Counter)
    """By file, relative to the root."""
    functions: set[tuple[str, str]] = field(default_factory=set)
    cross_file_calls: int = 0

    def record(self, frame: FrameType, event: str, _: object) -> None:
        """Count a call of a function of this repository."""
        called = _own_file(frame) if event == "call" else ""
        if not called:
            return
        self.calls[called] += 1
        self.functions.add((called, frame.f_code.co_qualname))
        caller = _own_file(frame.f_back) if frame.f_back else ""
        self.cross_file_calls += bool(caller) and caller != called


def _own_file(frame: FrameType) -> str:
    """The file of a frame relative to the root; '' for libraries and generated code."""
    name = frame.f_code.co_filename
    root = f"{ROOT}/"
    return name.removeprefix(root) if name.startswith(root) and "/.venv/" not in name else ""


def trace_ticks(limit: int) -> list[TickPath]:
    """The paths of the first ticks of the demo recording."""
    known, recording = catalogue(), open_recording(demo_path())
    loaded = load(recording, known, workers=1)
    ends = list(tick_ends(loaded, recording))[:limit]
    block = loaded.block
    edges = np.searchsorted(block.time, ends, side="right").tolist()
    paths = []
    with build_runtime(recording.topology, known, loaded.table) as runtime:
        builder, span = ViewBuilder(runtime.engine, ViewHistory()), Span(loaded.start, loaded.end, loaded.input_hash)
        begin = 0
        for t, end in zip(ends, edges, strict=True):
            part = Block(block.time[begin:end], block.series[begin:end], block.value[begin:end])
            begin = max(begin, end)
            path = TickPath(t)
            sys.setprofile(path.record)
            runtime.step(t, part)
            builder.update(runtime.snapshot(t, span))
            sys.setprofile(None)
            paths.append(path)
    return paths


def main() -> None:
    """Print the worst and the median tick."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ticks", type=int, default=120, help="ticks of the recording to trace (default: 120)")
    parser.add_argument("--files", action="store_true", help="print the calls of each file in the worst tick")
    options = parser.parse_args()
    paths = trace_ticks(options.ticks)
    worst = max(paths, key=lambda path: (len(path.calls), len(path.functions), path.cross_file_calls))
    print(
        f"worst tick: {len(worst.calls)} files, {len(worst.functions)} functions, "
        f"{worst.cross_file_calls} cross-file calls"
    )
    middle = [
        int(statistics.median(figures))
        for figures in zip(
            *((len(path.calls), len(path.functions), path.cross_file_calls) for path in paths), strict=True
        )
    ]
    print(f"median of {len(paths)} ticks: {middle[0]} files, {middle[1]} functions, {middle[2]} cross-file calls")
    if options.files:
        for name, count in sorted(worst.calls.items()):
            print(f"{count:7} {name}")


if __name__ == "__main__":
    main()
