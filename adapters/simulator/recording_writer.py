"""Writes a simulated run as a recording: Parquet, topology, and labels of the faults."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml
from numpy.typing import NDArray

from skewscope.adapters.formats.topology_text import format_topology
from skewscope.adapters.inputs.recording import RECORDING_FILE
from skewscope.engine.ingest.feed import Block, SeriesKey, concat_blocks
from skewscope.engine.model.topology import Topology

SAMPLES_FILE = "samples.parquet"
LABEL_COLUMNS = ("node", "port", "gpu", "group", "replica", "rank", "pool", "direction", "priority", "le")
ROW_GROUP_SIZE = 1 << 20
"""Samples per row group."""


class ExportedSeries(NamedTuple):
    """A series as it is written."""

    labels: dict[str, str]
    """The metric's name, under `signal`, and its labels."""
    scale: float = 1.0
    """Factor from a written value to the catalogue's unit."""
    exporter: str = ""
    """The exporter of its name; '' for the canonical name."""


def canonical_series(keys: Iterable[SeriesKey]) -> list[ExportedSeries]:
    """Returns series under their canonical names."""
    return [ExportedSeries(canonical_labels(key)) for key in keys]


def canonical_labels(key: SeriesKey) -> dict[str, str]:
    """Returns the canonical metric's name (under `signal`) and labels of a series, as in a recording."""
    words = key.selector.split(",") if key.selector else []
    found = {"signal": key.signal, **_entity_labels(key)}
    for word in words:
        if word in {"tx", "rx"}:
            found["direction"] = word
        elif word.startswith("bucket:"):
            found |= {"signal": _canonical_metric(key.signal, "bucket"), "le": word.removeprefix("bucket:")}
        elif word in {"sum", "count"}:
            found["signal"] = _canonical_metric(key.signal, word)
        elif word[:1] == "p" and word[1:].isdigit():
            found["priority"] = word[1:]
    return found


def _canonical_metric(signal: str, part: str) -> str:
    return f"skewscope_{signal.replace('.', '_')}_{part}"


def _entity_labels(key: SeriesKey) -> dict[str, str]:
    if key.kind == "port":
        node, _, port = key.entity.partition("/")
        return {"node": node, "port": port}
    if key.kind == "gpu":
        node, _, gpu = key.entity.rpartition("/gpu")
        return {"node": node, "gpu": gpu}
    if key.kind == "rank":
        group, _, member = key.entity.partition(":")
        return {"group": group, "rank": member}
    return {key.kind: key.entity}


def write_recording(
    folder: Path, topology: Topology, series: Sequence[ExportedSeries], blocks: Iterable[Block], truth: Any
) -> int:
    """Writes a recording into a new or empty folder; returns the number of samples.

    Args:
        folder: the folder.
        topology: topology of the fleet.
        series: the written form of each series number.
        blocks: the samples.
        truth: content of `labels.json`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "topology.yaml").write_text(format_topology(topology), encoding="utf-8")
    inputs = [{"kind": "parquet", "path": SAMPLES_FILE}]
    description = {"version": 1, "topology": "topology.yaml", "note": "simulated", "inputs": inputs}
    (folder / RECORDING_FILE).write_text(_to_yaml(description), encoding="utf-8")
    (folder / "labels.json").write_text(json.dumps(truth, indent=1) + "\n", encoding="utf-8")
    return _write_samples(folder / SAMPLES_FILE, series, blocks)


def _write_samples(path: Path, series: Sequence[ExportedSeries], blocks: Iterable[Block]) -> int:
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    columns = _encode_columns(series, pa)
    scale = np.array([one.scale for one in series])
    text = pa.dictionary(pa.int32(), pa.string())
    schema = pa.schema([("time", pa.float64()), ("value", pa.float64()), *((name, text) for name in columns)])
    total = 0
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for block in _merge_blocks(blocks):
            arrays = [pa.array(block.time), pa.array(block.value / scale[block.series])]
            arrays += [_select_words(codes, block.series, words, pa) for codes, words in columns.values()]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
            total += len(block)
    return total


def _merge_blocks(blocks: Iterable[Block]) -> Iterable[Block]:
    """Merges blocks of many seconds into one, for larger row groups."""
    held: list[Block] = []
    for block in blocks:
        held.append(block)
        if sum(map(len, held)) >= ROW_GROUP_SIZE:
            yield concat_blocks(held)
            held = []
    if held:
        yield concat_blocks(held)


def _encode_columns(series: Sequence[ExportedSeries], pa: Any) -> dict[str, tuple[NDArray[np.int32], Any]]:
    """Returns [series] int32 codes and the words of each text column; -1 for none."""
    others = sorted({name for one in series for name in one.labels} - {"signal", *LABEL_COLUMNS})
    found = {}
    for name in ("signal", *LABEL_COLUMNS, *others):
        words = pa.array([one.labels.get(name) for one in series], pa.string()).dictionary_encode()
        found[name] = np.asarray(words.indices.fill_null(-1), np.int32), words.dictionary
    return found


def _select_words(codes: NDArray[np.int32], series: NDArray[np.int32], words: Any, pa: Any) -> Any:
    """Returns the words of some samples; null where the code is -1."""
    own = codes[series]
    return pa.DictionaryArray.from_arrays(pa.array(own, pa.int32(), mask=own < 0), words)


def _to_yaml(data: Any) -> str:
    return str(yaml.safe_dump(data, sort_keys=False, allow_unicode=True))
