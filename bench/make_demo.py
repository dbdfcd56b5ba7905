"""Makes the built-in demo from a recording of packets: `python bench/make_demo.py RECORDING FOLDER [SECONDS]`.

Packets are reduced to the samples that agents would send, once a second; other samples are kept if a rule reads them.
Values keep five significant digits.
"""

import shutil
import sys
from pathlib import Path

import numpy as np
import zstandard

from skewscope.adapters.formats.exposition import format_exposition
from skewscope.adapters.inputs.recording import load, open_recording
from skewscope.engine.engine import Engine
from skewscope.engine.ingest.feed import Block, SeriesTable
from skewscope.kb.loader import catalogue
from skewscope.rules.loader import load as load_rules

DESCRIPTION = """\
version: 1
topology: topology.yaml
inputs:
  - {kind: openmetrics, path: metrics.om.zst}
"""


def select_samples(block: Block, table: SeriesTable, wanted: frozenset[str], end: float) -> Block:
    """Returns the samples of the wanted signals up to `end`, rounded."""
    of_signal = np.array([key.signal in wanted or key.signal.startswith("wire.") for key in table.keys], bool)
    here = of_signal[block.series] & np.isfinite(block.value) & (block.time <= end)
    value = np.array([float(f"{number:.5g}") for number in block.value[here].tolist()])
    return Block(np.round(block.time[here], 3), block.series[here], value)


def main(source: Path, folder: Path, seconds: float = np.inf) -> None:
    """Writes the demo."""
    known = catalogue()
    rules, _ = load_rules(known)
    recording = open_recording(source)
    loaded = load(recording, known, workers=1)
    wanted = Engine(rules.values(), known, recording.topology).rule_signals
    block = select_samples(loaded.block, loaded.table, wanted, loaded.start + seconds)
    text = "".join(format_exposition(block, loaded.table, known))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "metrics.om.zst").write_bytes(zstandard.compress(text.encode(), 19))
    (folder / "recording.yaml").write_text(DESCRIPTION)
    shutil.copy(source / "topology.yaml", folder / "topology.yaml")
    print(f"{len(block):,} samples, {(folder / 'metrics.om.zst').stat().st_size:,} bytes")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), *map(float, sys.argv[3:]))
