"""Numbers for the series keys of a state, so that millions of them are stored once, as columns."""

import json
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
import zstandard

from skewscope.engine.ingest.feed import SeriesKey, SeriesTable
from skewscope.engine.model.arrays import I32

MAX_CHUNK = 1 << 30
"""Bytes of an unpacked chunk."""


@dataclass
class KeyPool:
    """Series keys by number; it only grows, and what was packed once is not packed again."""

    _table: SeriesTable = field(default_factory=SeriesTable)
    _chunks: list[bytes] = field(default_factory=list)
    _packed: int = 0
    """Keys in the chunks."""
    _known: dict[int, tuple["weakref.ref[Any]", int, list[I32]]] = field(default_factory=dict)
    """By the id of a table: the table, and the numbers of so many of its keys, in parts."""

    def numbers(self, owner: object, keys: Sequence[SeriesKey]) -> list[I32]:
        """Returns the numbers of the keys of a table that only grows, in parts; earlier parts are kept."""
        table, seen, parts = self._known.get(id(owner), (None, 0, []))
        if table is None or table() is not owner:
            seen, parts = 0, []
        if len(keys) > seen:
            new = keys[seen:]
            parts = [*parts, np.fromiter(map(self._table.number, new), np.int32, len(new))]
            self._known[id(owner)] = weakref.ref(owner), len(keys), parts
        return parts

    def keys_at(self, parts: Iterable[I32]) -> list[SeriesKey]:
        """Returns the keys of some numbers, which are given in parts."""
        return list(map(self._table.keys.__getitem__, chain.from_iterable(part.tolist() for part in parts)))

    def pack(self) -> list[bytes]:
        """Returns all keys as bytes, in chunks; those of the last call come first, unchanged."""
        if self._packed < len(self._table.keys):
            new = self._table.keys[self._packed :]
            columns = [[getattr(key, name) for key in new] for name in ("signal", "kind", "entity", "selector")]
            text = json.dumps(columns, ensure_ascii=False, separators=(",", ":")).encode()
            self._chunks.append(zstandard.ZstdCompressor(level=1).compress(text))
            self._packed = len(self._table.keys)
        return list(self._chunks)

    @classmethod
    def unpack(cls, chunks: Iterable[bytes]) -> "KeyPool":
        """Returns the pool of some chunks."""
        pool = cls()
        for chunk in chunks:
            text = zstandard.ZstdDecompressor().decompress(chunk, MAX_CHUNK)
            for parts in zip(*json.loads(text), strict=True):
                pool._table.number(SeriesKey(*parts))
        return pool
