"""Inputs of kind `dcgmi-dmon`: the output of `dcgmi dmon -e ...`.

Columns are found by their short names, or by numbers of fields, in the header that repeats.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import chain, islice
from typing import BinaryIO

from skewscope.adapters.formats.log_lines import decode_head, read_lines
from skewscope.adapters.inputs.file_origin import join_notes
from skewscope.adapters.inputs.labelled import LabelledSeries, SeriesCollector, artefact_reader
from skewscope.adapters.inputs.monitor_rows import RoundTimes, parse_number
from skewscope.kb.loader import catalogue
from skewscope.kb.problems import InputError, Problem

HEADER = re.compile(r"^(?P<stamp>.{0,40}?)# ?Entity\s+(?P<names>\S.*)$")
ROW = re.compile(
    r"^(?P<stamp>.{0,40}?)(?P<kind>GPU-I|GPU-CI|GPU|Switch|Link|CPU|Core) (?P<number>\d{1,5})\s+(?P<cells>\S.*)$"
)
UNITS_LINE = re.compile(r"^.{0,40}?\bI[Dd](?:\s+(?P<units>\S.*)|\s*$)")
UNIT_COLUMNS = {"MHz": "SMCLK", "C": "TMPTR", "W": "POWER", "%": "GPUTL"}
"""The column that a unit alone means, where no header names it: the one that is asked for first."""
HEADER_LINES = 1000
"""Lines within which a header is looked for that holds for rows before it."""
EXAMPLE = "`#Entity   SMCLK   POWER` and rows such as `GPU 0     1410    63.2`"

# Short names that dcgmi prints, by the number of the field, as far as the catalogue has a signal of it.
FIELD_NUMBERS = {
    "SMCLK": "100",
    "MMCLK": "101",
    "DVCCTR": "112",
    "MMTMP": "140",
    "TMPTR": "150",
    "POWER": "155",
    "TOTEC": "156",
    "RPCTR": "202",
    "GPUTL": "203",
    "MCUTL": "204",
    "XIDER": "230",
    "PVIOL": "240",
    "TVIOL": "241",
    "SBVIO": "242",
    "BLVIO": "243",
    "LUVIO": "244",
    "RVIOL": "245",
    "FBFRE": "251",
    "FBUSD": "252",
    "EDVTL": "311",
    "RRP": "396",
    "NFELT": "409",
    "NRELT": "429",
    "NRCLT": "439",
    "NBWLT": "449",
    "GRACT": "1001",
    "SMACT": "1002",
    "SMOCC": "1003",
    "TENSO": "1004",
    "DRAMA": "1005",
    "PCITX": "1009",
    "PCIRX": "1010",
    "NVLTX": "1011",
    "NVLRX": "1012",
    "C2CTXAB": "1076",
    "PCICTX": "1091",
    "PCICRX": "1092",
}


@cache
def metric_names() -> dict[str, str]:
    """Returns the exporter's metric by the number of a field."""
    signals = catalogue().signals.values()
    return {
        str(number): str(signal.sources["dcgm"][0])
        for signal in signals
        for number in signal.sources.get("dcgm_field_id", ())
        if signal.sources.get("dcgm")
    }


def recognise(head: bytes, _name: str) -> bool:
    """Returns whether the first bytes of a file are output of dcgmi dmon."""
    lines = decode_head(head)
    return any(map(HEADER.match, lines)) or (bool(_first_columns(lines)) and any(map(ROW.match, lines)))


def read_series(file: BinaryIO, name: str, labels: Mapping[str, str]) -> list[LabelledSeries]:
    """Returns the series, one for each column of each GPU.

    Raises:
        InputError: it is no such output, or a row is damaged.
    """
    collector, times = SeriesCollector(name), RoundTimes(name, labels)
    lines = read_lines(file, name)
    # A paste may begin below its header, which repeats.
    begin = list(islice(lines, HEADER_LINES))
    columns = _first_columns([text for _, text in begin])
    broken: Problem | None = None
    for number, text in chain(begin, lines):
        row = ROW.match(text)
        if header := HEADER.match(text):
            columns = header["names"].split()
        elif row:
            if broken:
                raise InputError([broken])
            broken = _read_row(row, number, columns, times, collector)
        elif columns and not UNITS_LINE.match(text) and text.strip() and "dmon was stopped" not in text:
            broken = Problem(name, number, "", f"{text!r:.60}", "a row such as `GPU 0   1410`")
    series = collector.series()
    if not series:
        raise InputError([broken or Problem(name, 0, "", "no row of a GPU", EXAMPLE)])
    cut = f"ends inside a row (line {broken.line}), which is left out" if broken else ""
    collector.note = join_notes(times.describe(), cut, times.unnamed)
    return collector.series()


def _first_columns(lines: Sequence[str]) -> list[str]:
    """Returns the columns of rows before any header: the next header's, else by different units."""
    if header := next((match for line in lines if (match := HEADER.match(line))), None):
        return header["names"].split()
    units = next((match["units"] or "" for line in lines if (match := UNITS_LINE.match(line))), "").split()
    named = [UNIT_COLUMNS.get(unit, "") for unit in units]
    return named if all(named) and len(set(named)) == len(named) else []


def _read_row(
    row: re.Match[str], number: int, columns: list[str], times: RoundTimes, collector: SeriesCollector
) -> Problem | None:
    """Adds the samples of a row; returns what is wrong with one that is cut, which only the last may be."""
    cells = row["cells"].split()
    if not columns:
        raise InputError([Problem(collector.file, number, "", "a row before any header", EXAMPLE)])
    if len(cells) != len(columns):
        return Problem(collector.file, number, "", f"{len(cells)} values", f"{len(columns)}, as in the header")
    time = times.place(f"{row['kind']} {row['number']}", row["stamp"])
    if row["kind"] != "GPU":
        return None
    for column, cell in zip(columns, cells, strict=True):
        value = parse_number(cell)
        if value is not None:
            metric = metric_names().get(FIELD_NUMBERS.get(column, column), f"dcgmi_{column.lower()}")
            collector.add(metric, {"node": times.node, "gpu": row["number"]}, time, value, number)
    return None


READER = artefact_reader(
    "dcgmi dmon log",
    read_series,
    recognise,
    exporter="dcgm",
    placed_by_name=True,
)
