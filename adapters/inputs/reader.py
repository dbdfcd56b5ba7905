"""What a reader of inputs is: each module of this folder that reads a kind of input has one as `READER`."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from io import BufferedReader
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from skewscope.adapters.mapping.names import MetricResolver, SeriesRegistry
from skewscope.engine.ingest.feed import Block

if TYPE_CHECKING:
    from skewscope.adapters.inputs.labelled import LabelledSeries
    from skewscope.adapters.inputs.recording import Input, Recording

Read = Callable[["Input", "Recording", SeriesRegistry, MetricResolver], Block]
"""Returns the samples of an input; InputError where it is not of the kind, or damaged."""
Scan = Callable[["Input", "Recording"], Iterator[tuple[str, Mapping[str, str]]]]
"""Yields metric and labels of each series of an input, for the inference of a topology."""
SeriesReader = Callable[[BufferedReader, str, Mapping[str, str]], list["LabelledSeries"]]
"""Reads the series of an open file: stream, name for messages, labels that are given to the whole file."""
Parts = Callable[["Input", "Recording", SeriesRegistry], Iterator[tuple[float, Block]]]
"""Yields (end in seconds since 1970, samples before it) of an input, in order of time."""


def recognise_none(_head: bytes, _name: str) -> bool:
    """Returns false: of kinds that no file shows by itself."""
    return False


def stem_of_path(path: str) -> str:
    """Returns the name of a file without its endings."""
    return PurePosixPath(path).name.partition(".")[0]


@dataclass(frozen=True, slots=True)
class InputReader:
    """How inputs of one kind are recognised, listed and read."""

    label: str
    """What messages call the kind."""
    read: Read
    recognise: Callable[[bytes, str], bool] = recognise_none
    """Whether a file is of the kind, by its first bytes and its name."""
    scan: Scan | None = None
    read_series: SeriesReader | None = None
    """Where there is no `scan`, its series are those of the input."""
    read_parts: Parts | None = None
    explain: "Callable[[Input, Recording], str]" = lambda _source, _recording: ""
    """Returns what is assumed of the columns of a table, or why none is used."""
    exporter: str = ""
    """The exporter that delivers such signals live."""
    needs: tuple[str, ...] = ()
    """Labels that an input must have."""
    is_folder: bool = False
    """Whether an input is a folder..."""
    leaves_others_out: bool = False
    """...which may hold files of other kinds, and folders."""
    set_kind: str = ""
    """Kind of a folder that holds several files of this kind."""
    reads_in_parallel: bool = False
    """Whether it reads the files of one input in processes of its own."""
    runs_apart: bool = False
    """Whether inputs with the same ranks are of several runs."""
    written_counts: bool = False
    """Whether the time when a file was written says something that its content does not."""
    placed_by_name: bool = False
    """Whether a file that names no host or server is of one that its name, or its folder, says..."""
    host_in_name: Callable[[str], str] = stem_of_path
    """...and the host that a path says, '' for none."""
    is_first: bool = False
    """Whether it is asked before others, which would read its files as a whole."""
    is_fallback: bool = False
    """Whether it reads only what no other reader reads."""
    is_last: bool = False
    """Whether it reads only what neither a reader nor any log of a known kind is."""
    keeps_prompts: bool = False
    """Whether it gets what was typed at a shell, which may name the host or what an output is of."""
    has_metrics: bool = False
    """Whether the words of the names of its series say what they are, where none is known."""
    list_types: "Callable[[Input, Recording], Mapping[str, str]]" = lambda _source, _recording: {}
    """Returns the types that it declares, by metric."""
    is_yearless: bool = False
    """Whether its times have no year."""
    log_marks: tuple[bytes, ...] = ()
    """Texts of which each line of a log of the kind has one; () for other kinds of files."""
