"""Writes recordings, or the store of a controller, as tables of a history folder. An export replaces its own files."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from skewscope.adapters.backtest.backtest import BacktestOptions, BacktestOutcome, run_backtest
from skewscope.adapters.backtest.rule_set import load_rule_set
from skewscope.adapters.backtest.run import RecordingOutcome
from skewscope.adapters.backtest.telemetry import NamedRecording, load_telemetry
from skewscope.adapters.backtest.track import cut_recording
from skewscope.adapters.backtest.verdicts import score_versions
from skewscope.adapters.controller.store import StoreReader
from skewscope.adapters.history import rows
from skewscope.adapters.history.schema import OPTIONAL, TABLES, arrow_schema
from skewscope.adapters.inputs.recording import Recording, RecordingData
from skewscope.engine.model.topology import Topology
from skewscope.kb.loader import catalogue
from skewscope.rules.loader import RULES_FOLDER

HOUR_S = 3600
ROW_GROUP = 1 << 20
MAX_INCIDENTS = 1_000_000
Progress = Callable[[str, float], None]


@dataclass(frozen=True, slots=True)
class ExportedTables:
    """What was written of one recording."""

    recording: str
    counts: dict[str, int]
    """Rows, by table."""


def export_recording(
    found: NamedRecording, folder: Path, *, samples: bool = False, progress: Progress | None = None
) -> ExportedTables:
    """Diagnoses a recording and writes its incidents, evidence, labels, nodes and coverage.

    Args:
        found: the recording.
        folder: the history folder; made where it is not there.
        samples: write every sample as well.
        progress: receives the current step and the share of all work that is done.

    Raises:
        InputError: the recording cannot be read.
    """
    report = progress or (lambda _, __: None)
    rules = load_rule_set(str(RULES_FOLDER), catalogue())
    outcome = run_backtest([found], [rules], BacktestOptions(1), lambda what, share: report(what, share / 2))
    (one,) = outcome.recordings
    writer = _TableWriter(folder, one.name)
    _write_outcome(outcome, one, writer)
    loaded, recording = load_telemetry(found.recording, lambda what, share: report(what, (1 + share) / 2), 1)
    writer.write("coverage", _coverage_rows(one.name, loaded, recording))
    if samples:
        writer.write_batches("samples", _sample_batches(one.name, loaded, recording))
    return ExportedTables(one.name, writer.counts)


def write_outcome(outcome: BacktestOutcome, folder: Path) -> list[ExportedTables]:
    """Writes what one version of the rules told of some recordings, without coverage."""
    written = []
    for one in outcome.recordings:
        writer = _TableWriter(folder, one.name)
        _write_outcome(outcome, one, writer)
        writer.write("coverage", ())
        written.append(ExportedTables(one.name, writer.counts))
    return written


def _write_outcome(outcome: BacktestOutcome, one: RecordingOutcome, writer: "_TableWriter") -> None:
    (incidents,), (score,) = one.incidents, score_versions(replace(outcome, recordings=(one,)))
    verdicts = {id_: verdict for (_, id_), verdict in score.verdicts.items()}
    writer.write("incidents", rows.incident_rows(one.name, incidents, one.topology, one.end, verdicts))
    writer.write("evidence", rows.evidence_rows(one.name, incidents))
    writer.write("faults", rows.fault_rows(one, score))
    writer.write("nodes", rows.node_rows(one.name, one.topology))


def export_store(path: Path, topology: Topology, folder: Path) -> ExportedTables:
    """Writes the incidents of a controller's store.

    Args:
        path: file of the store; it may be in use.
        topology: the fleet, for racks and GPUs.
        folder: the history folder.

    Raises:
        InputError: the store cannot be read.
    """
    incidents = StoreReader(path).incidents_since(0.0, MAX_INCIDENTS)
    ordered = sorted(incidents, key=lambda one: (one.opened_at, one.id))
    end = max((one.resolved_at or one.opened_at for one in incidents), default=0.0)
    writer = _TableWriter(folder, path.stem)
    writer.write("incidents", rows.incident_rows(path.stem, ordered, topology, end, {}))
    writer.write("evidence", rows.evidence_rows(path.stem, ordered))
    writer.write("faults", ())
    writer.write("nodes", rows.node_rows(path.stem, topology))
    writer.write("coverage", ())
    return ExportedTables(path.stem, writer.counts)


class _TableWriter:
    """Writes one file of each table; a file appears when it is complete."""

    def __init__(self, folder: Path, recording: str) -> None:
        self._folder = folder
        self._name = re.sub(r"[^\w.-]+", "-", recording).strip("-.") or "recording"
        self.counts: dict[str, int] = {}
        for table in (one for one in TABLES if one not in OPTIONAL):
            (folder / table).mkdir(parents=True, exist_ok=True)

    def write(self, table: str, found: Iterable[rows.Row]) -> None:
        """Writes rows."""
        self.write_batches(table, _to_batches(table, found))

    def write_batches(self, table: str, batches: Iterable[Any]) -> None:
        """Writes record batches."""
        import pyarrow.parquet as pq  # noqa: PLC0415

        (self._folder / table).mkdir(parents=True, exist_ok=True)
        path = self._folder / table / f"{self._name}.parquet"
        part, count = path.with_name(f".{path.name}.part"), 0
        with pq.ParquetWriter(part, arrow_schema(table), compression="zstd") as writer:
            for batch in batches:
                writer.write_batch(batch, row_group_size=ROW_GROUP)
                count += batch.num_rows
        part.replace(path)
        self.counts[table] = count


def _to_batches(table: str, found: Iterable[rows.Row]) -> Iterator[Any]:
    import pyarrow as pa  # noqa: PLC0415

    held: list[rows.Row] = []
    for row in found:
        held.append(row)
        if len(held) >= 1 << 16:
            yield pa.RecordBatch.from_pylist(held, arrow_schema(table))
            held = []
    yield pa.RecordBatch.from_pylist(held, arrow_schema(table))


def _coverage_rows(name: str, loaded: RecordingData, recording: Recording) -> Iterator[rows.Row]:
    """Yields for each hour, signal and kind of entity how many entities delivered how many samples."""
    keys = loaded.table.keys
    counts: dict[int, Any] = {}
    for segment in cut_recording(loaded, recording):
        hours = np.floor(segment.block.time / HOUR_S).astype(np.int64)
        for hour in np.unique(hours).tolist():
            some = np.bincount(segment.block.series[hours == hour], minlength=len(keys))
            counts[hour] = counts.get(hour, 0) + some
    for hour, by_series in sorted(counts.items()):
        totals: dict[tuple[str, str], tuple[set[str], int]] = {}
        for number in np.flatnonzero(by_series).tolist():
            key = keys[number]
            entities, total = totals.get((key.signal, key.kind), (set(), 0))
            totals[key.signal, key.kind] = entities | {key.entity}, total + int(by_series[number])
        for (signal, kind), (entities, total) in sorted(totals.items()):
            yield {
                "recording": name,
                "hour": hour * HOUR_S * rows.MICROSECONDS,
                "signal": signal,
                "kind": kind,
                "entities": len(entities),
                "samples": total,
            }


def _sample_batches(name: str, loaded: RecordingData, recording: Recording) -> Iterator[Any]:
    """Yields all samples, in order of time."""
    import pyarrow as pa  # noqa: PLC0415

    schema, keys = arrow_schema("samples"), loaded.table.keys
    columns = {part: pa.array([getattr(key, part) for key in keys], pa.string()) for part in KEY_PARTS}
    for segment in cut_recording(loaded, recording):
        block = segment.block
        at = pa.array(block.series)
        time = pa.array(np.round(block.time * rows.MICROSECONDS).astype(np.int64)).cast(schema.field("time").type)
        whole = {
            "recording": pa.array([name] * len(block), pa.string()),
            "time": time,
            "value": pa.array(block.value),
            **{part: column.take(at) for part, column in columns.items()},
        }
        yield pa.RecordBatch.from_arrays([whole[field] for field in schema.names], schema=schema)


KEY_PARTS = ("signal", "kind", "entity", "selector")
"""Columns of a sample that its series gives."""
