"""A simulated run as a recording: Parquet, the topology, and labels that say what was wrong."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml
from numpy.typing import NDArray

from skewscope.adapters.recording import FILE
from skewscope.adapters.topology_text import text_of
from skewscope.engine.feed import Block, SeriesKey, together
from skewscope.engine.topology import Topology

SAMPLES = "samples.parquet"
LABELS = ("node", "port", "gpu", "group", "replica", "rank", "pool", "direction", "priority", "le")
ROWS = 1 << 20
"""Samples that are written at once."""


class Spelled(NamedTuple):
    """A series as it is written."""

    labels: dict[str, str]
    """The metric's name, under `signal`, and its labels."""
    scale: float = 1.0
    """A written number times this is in the catalogue's unit."""
    exporter: str = ""
    """Whose name it is; '' for the canonical one."""


def canonical(keys: Iterable[SeriesKey]) -> list[Spelled]:
    """Series under their canonical names."""
    return [Spelled(labels_of(key)) for key in keys]


def labels_of(key: SeriesKey) -> dict[str, str]:
    """The canonical metric's name (under `signal`) and labels of a series, as a recording carries them."""
    words = key.selector.split(",") if key.selector else []
    found = {"signal": key.signal, **_entity(key)}
    for word in words:
        if word in {"tx", "rx"}:
            found["direction"] = word
        elif word.startswith("bucket:"):
            found |= {"signal": _canonical(key.signal, "bucket"), "le": word.removeprefix("bucket:")}
        elif word in {"sum", "count"}:
            found["signal"] = _canonical(key.signal, word)
        elif word[:1] == "p" and word[1:].isdigit():
            found["priority"] = word[1:]
    return found


def _canonical(signal: str, part: str) -> str:
    return f"skewscope_{signal.replace('.', '_')}_{part}"


def _entity(key: SeriesKey) -> dict[str, str]:
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


def write(folder: Path, topology: Topology, series: Sequence[Spelled], blocks: Iterable[Block], truth: Any) -> int:
    """Writes a recording into a new or empty folder; gives the number of samples.

    Args:
        folder: where.
        topology: of the fleet.
        series: how each is written that the blocks' numbers are of.
        blocks: the samples.
        truth: what `labels.json` is to hold.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "topology.yaml").write_text(text_of(topology), encoding="utf-8")
    inputs = [{"kind": "parquet", "path": SAMPLES}]
    description = {"version": 1, "topology": "topology.yaml", "note": "simulated", "inputs": inputs}
    (folder / FILE).write_text(_yaml(description), encoding="utf-8")
    (folder / "labels.json").write_text(json.dumps(truth, indent=1) + "\n", encoding="utf-8")
    return _samples(folder / SAMPLES, series, blocks)


def _samples(path: Path, series: Sequence[Spelled], blocks: Iterable[Block]) -> int:
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    columns = _columns(series, pa)
    scale = np.array([one.scale for one in series])
    text = pa.dictionary(pa.int32(), pa.string())
    schema = pa.schema([("time", pa.float64()), ("value", pa.float64()), *((name, text) for name in columns)])
    total = 0
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for block in _gathered(blocks):
            arrays = [pa.array(block.time), pa.array(block.value / scale[block.series])]
            arrays += [_picked(codes, block.series, words, pa) for codes, words in columns.values()]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
            total += len(block)
    return total


def _gathered(blocks: Iterable[Block]) -> Iterable[Block]:
    """Blocks of many seconds in one: a row group is worth its while."""
    held: list[Block] = []
    for block in blocks:
        held.append(block)
        if sum(map(len, held)) >= ROWS:
            yield together(held)
            held = []
    if held:
        yield together(held)


def _columns(series: Sequence[Spelled], pa: Any) -> dict[str, tuple[NDArray[np.int32], Any]]:
    """Of each text column: the code of each series, -1 for none, and the words."""
    others = sorted({name for one in series for name in one.labels} - {"signal", *LABELS})
    found = {}
    for name in ("signal", *LABELS, *others):
        words = pa.array([one.labels.get(name) for one in series], pa.string()).dictionary_encode()
        found[name] = np.asarray(words.indices.fill_null(-1), np.int32), words.dictionary
    return found


def _picked(codes: NDArray[np.int32], series: NDArray[np.int32], words: Any, pa: Any) -> Any:
    """The words of some samples; none where the code is -1."""
    own = codes[series]
    return pa.DictionaryArray.from_arrays(pa.array(own, pa.int32(), mask=own < 0), words)


def _yaml(data: Any) -> str:
    return str(yaml.safe_dump(data, sort_keys=False, allow_unicode=True))
