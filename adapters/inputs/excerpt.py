"""Writes a part of a recording as a new recording."""

import shutil
from pathlib import Path

import yaml
import zstandard

from skewscope.adapters.formats.exposition import format_exposition
from skewscope.adapters.inputs.recording import RECORDING_FILE, Recording, load
from skewscope.engine.ingest.feed import Block
from skewscope.kb.loader import catalogue
from skewscope.kb.problems import InputError, Problem

METRICS_FILE = "metrics.om.zst"
TOPOLOGY_FILE = "topology.yaml"


def write_excerpt(recording: Recording, folder: Path, begin: float, end: float) -> str:
    """Writes the samples between two times to a new folder and returns a description; packets become samples.

    Raises:
        InputError: the folder exists, or the recording can no longer be read.
    """
    if folder.exists():
        raise InputError([Problem(str(folder), 0, "", "an existing folder", "a new one")])
    known = catalogue()
    loaded = load(recording, known, lambda _, __: None, 1)
    some = (loaded.block.time >= begin) & (loaded.block.time <= end)
    block = Block(loaded.block.time[some], loaded.block.series[some], loaded.block.value[some])
    text = "".join(format_exposition(block, loaded.table, known))
    folder.mkdir(parents=True)
    (folder / METRICS_FILE).write_bytes(zstandard.compress(text.encode()))
    shutil.copy(_topology_path(recording), folder / TOPOLOGY_FILE)
    note = f"{recording.path.name}, {end - begin:.0f} s of it"
    description = {"version": 1, "topology": TOPOLOGY_FILE, "note": note}
    inputs = {"inputs": [{"kind": "openmetrics", "path": METRICS_FILE}]}
    (folder / RECORDING_FILE).write_text(yaml.safe_dump(description | inputs, sort_keys=False), encoding="utf-8")
    return f"{len(block):,} samples of {end - begin:.0f} s in {folder}"


def _topology_path(recording: Recording) -> Path:
    description = yaml.safe_load((recording.path / RECORDING_FILE).read_text(encoding="utf-8"))
    return recording.resolve_path(str(description["topology"]))
