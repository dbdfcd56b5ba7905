"""Series of files that were read to infer a topology from, kept until they are loaded: no long file is read twice."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from skewscope.adapters.formats.stray_text import add_strays

if TYPE_CHECKING:
    from skewscope.adapters.inputs.labelled import LabelledSeries
    from skewscope.adapters.inputs.recording import Input

Labels = tuple[tuple[str, str], ...]
MAX_KEPT = 1 << 23
"""Samples of 16 bytes that are kept of all inputs: 128 MiB."""


@dataclass(frozen=True, slots=True)
class _Kept:
    state: tuple[int, int]
    """Time of the last change of the file, and its bytes."""
    series: "Sequence[LabelledSeries]"
    strays: Mapping[str, Counter[tuple[str, str]]]


class KeptSeries:
    """The series of some inputs, each until it is taken; a copy in another process has none."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str, Labels], _Kept] = {}
        self._left = MAX_KEPT

    def __reduce__(self) -> tuple[type["KeptSeries"], tuple[()]]:
        """Leaves everything out where a process gets a copy."""
        return KeptSeries, ()

    def __contains__(self, source: "Input") -> bool:
        """Returns whether the series of an input are kept."""
        return _key(source) in self._kept

    def keep(
        self,
        source: "Input",
        path: Path,
        series: "Sequence[LabelledSeries]",
        strays: Mapping[str, Counter[tuple[str, str]]],
    ) -> None:
        """Keeps the series of a file, unless they are too many.

        Args:
            source: the input.
            path: its file.
            series: what was read of it.
            strays: what was left out of it, by file and kind.
        """
        size = sum(len(one.times) for one in series)
        if size <= self._left:
            self._left -= size
            self._kept[_key(source)] = _Kept(_state(path), series, strays)

    def follow(self, source: "Input", placed: "Input") -> None:
        """Keeps the series of an input for the same one with the label of its host, which none of them has."""
        if {name for name, _ in {*placed.labels} ^ {*source.labels}} == {"node"} and source in self:
            self._kept[_key(placed)] = self._kept.pop(_key(source))

    def take(self, source: "Input", path: Path) -> "Sequence[LabelledSeries] | None":
        """Returns the series of an input and forgets them; None where none are kept, or the file has changed."""
        kept = self._kept.pop(_key(source), None)
        if kept is None:
            return None
        self._left += sum(len(one.times) for one in kept.series)
        if kept.state != _state(path):
            return None
        add_strays(kept.strays)
        return kept.series


def _key(source: "Input") -> tuple[str, str, Labels]:
    return source.kind, source.path, source.labels


def _state(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_mtime_ns, status.st_size
