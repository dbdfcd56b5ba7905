"""Samples of several inputs: merged stretch by stretch, in memory or from files, they are those of one sort."""

from pathlib import Path

import numpy as np
import pytest

from skewscope.adapters.inputs import merge, recording
from skewscope.adapters.inputs.merge import InputSamples, merge_inputs, move_to_files
from skewscope.adapters.runtime.replay import replay
from skewscope.engine.ingest.feed import Block, SeriesKey, concat_blocks
from skewscope.kb.loader import catalogue


def piece_of(rng: np.random.Generator, signals: list[str], rank: int = 0) -> InputSamples:
    """Returns samples of some ports, out of order, in ticks that other inputs share."""
    keys = tuple(SeriesKey(signal, "port", f"n{n}/p") for signal in signals for n in range(3))
    size = int(rng.integers(0, 60))
    values = np.where(rng.random(size) < 0.1, np.inf, rng.normal(size=size))
    block = Block(rng.integers(0, 400, size) / 10.0, rng.integers(0, len(keys), size).astype(np.int32), values)
    return InputSamples(keys, (rank,) * len(keys), block)


def expected(pieces: list[InputSamples]) -> Block:
    """Returns what one sort of all samples gives."""
    merged, table, _ = merge_inputs(pieces)
    numbered = []
    for piece, timed in zip(pieces, merged.pieces, strict=True):
        series = timed.numbers[piece.block.series] if len(piece.block) else piece.block.series
        value = np.where(np.isinf(piece.block.value), np.nan, piece.block.value)
        wanted = series >= 0
        numbered.append(Block(piece.block.time[wanted], series[wanted], value[wanted]))
    whole = concat_blocks(numbered)
    order = np.lexsort((whole.value, whole.series, whole.time))
    assert len(table.keys) >= len(set(whole.series.tolist()))
    return Block(whole.time[order], whole.series[order], whole.value[order])


@pytest.mark.parametrize("seed", range(20))
def test_ticks_are_parts_of_one_sort_however_short_the_stretches(seed, monkeypatch, tmp_path):
    rng = np.random.default_rng(seed)
    # The second and the third deliver one signal under names of different rank: that of the lower rank counts.
    pieces = [
        piece_of(rng, ["a", "b"]),
        piece_of(rng, ["c"], rank=1),
        piece_of(rng, ["c"], rank=int(seed % 2)),
    ]
    if seed % 3:
        pieces = [move_to_files(piece, tmp_path, str(n)) for n, piece in enumerate(pieces)]
    monkeypatch.setattr(merge, "STRETCH_SAMPLES", int(rng.integers(1, 40)))
    merged, _, _ = merge_inputs(pieces)
    whole = expected(pieces)
    start, ends = float(rng.integers(0, 10)), np.arange(11.0, 35.0)
    assert len(merged) == len(whole.time)
    assert merged.tick_numbers(1.0).tolist() == np.unique(np.ceil(whole.time)).tolist()
    cut, begin = list(merged.cut(ends, start)), int(np.searchsorted(whole.time, start))
    assert len(cut) == len(ends)
    for end, part in zip(ends, cut, strict=True):
        until = int(np.searchsorted(whole.time, end, side="right"))
        for column in ("time", "series", "value"):
            assert getattr(part, column).tobytes() == getattr(whole, column)[begin:until].tobytes()
        begin = until


@pytest.mark.slow
def test_a_replay_from_files_gives_the_same_incidents(monkeypatch):
    path = recording.demo_path()
    before = [incident.as_line() for incident in replay(path).incidents]
    monkeypatch.setattr(merge, "MAX_SAMPLES_IN_MEMORY", 1)
    monkeypatch.setattr(merge, "STRETCH_SAMPLES", 1000)
    loaded = recording.load(recording.open_recording(path), catalogue())
    folder = Path(loaded.samples.scratch.name)
    assert sorted(folder.glob("*.npy"))
    assert [incident.as_line() for incident in replay(path).incidents] == before
    del loaded
    assert not folder.exists()
