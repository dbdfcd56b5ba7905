"""A part of a recording as a recording of its own, for a ticket or a colleague."""

import shutil
from pathlib import Path

import yaml
import zstandard

from skewscope.adapters.exposition import exposition
from skewscope.adapters.recording import FILE, Recording, load
from skewscope.engine.feed import Block
from skewscope.kb.load import catalogue
from skewscope.kb.problems import InputError, Problem

METRICS = "metrics.om.zst"
TOPOLOGY = "topology.yaml"


def cut(recording: Recording, folder: Path, begin: float, end: float) -> str:
    """Keep what a recording has between two times, packets as what was made of them; what was kept, in words.

    Raises:
        InputError: the folder is there already, or the recording can no longer be read.
    """
    if folder.exists():
        raise InputError([Problem(str(folder), 0, "", "a folder that is there already", "a new one")])
    known = catalogue()
    loaded = load(recording, known, lambda _, __: None, 1)
    some = (loaded.block.time >= begin) & (loaded.block.time <= end)
    block = Block(loaded.block.time[some], loaded.block.series[some], loaded.block.value[some])
    text = "".join(exposition(block, loaded.table, known))
    folder.mkdir(parents=True)
    (folder / METRICS).write_bytes(zstandard.compress(text.encode()))
    shutil.copy(_topology(recording), folder / TOPOLOGY)
    note = f"{recording.path.name}, {end - begin:.0f} s of it"
    description = {"version": 1, "topology": TOPOLOGY, "note": note}
    inputs = {"inputs": [{"kind": "openmetrics", "path": METRICS}]}
    (folder / FILE).write_text(yaml.safe_dump(description | inputs, sort_keys=False), encoding="utf-8")
    return f"{len(block):,} samples of {end - begin:.0f} s in {folder}"


def _topology(recording: Recording) -> Path:
    told = yaml.safe_load((recording.path / FILE).read_text(encoding="utf-8"))
    return recording.file(str(told["topology"]))
