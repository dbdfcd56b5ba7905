"""A format for a printed table of which none is known: what its columns are, by the words and units of its header.

A table has a header of names, a column that says what a row is of (a GPU, a port, a host, a server), and rows with
numbers below names that mean a signal. All else stays unread, and what was taken is said.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from skewscope.adapters.mapping.column_names import UNIT_WORDS, ColumnName, convert_unit, find_signal, split_name
from skewscope.adapters.mapping.counter_names import DROPS, RECEIVED, SENT
from skewscope.adapters.mapping.scales import UNITS
from skewscope.kb.loader import catalogue
from skewscope.kb.model import FormatField, FormatLine
from skewscope.kb.table_rows import RULE, TableHeader, find_header

MIN_COLUMNS = 3
MIN_ROWS = 2
MAX_ROWS = 200
"""Rows below a header that are looked at."""
MAX_HEADERS = 40
"""Lines that may be headers that are looked at."""
NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?")
CELL = re.compile(rf"(?P<number>{NUMBER.pattern}) ?(?P<unit>[A-Za-z%/\u00b0]{{0,8}})")
NO_VALUE = re.compile(r"-+|N/?A|\[?N/A\]?|none|", re.IGNORECASE)
PLACES = {
    "gpu": (
        "gpu",
        "gpu id",
        "gpu index",
        "chip",
        "chip id",
        "npu",
        "npu id",
        "tpu",
        "card",
        "aip",
        "accelerator",
        "xpu",
    ),
    "device": (
        "iface",
        "interface",
        "port",
        "device",
        "netdev",
        "ifname",
        "hca",
        "nic",
        "ethernet",
        "link",
        "port name",
    ),
    "rank": ("rank", "global rank"),
    "instance": ("replica", "instance", "engine", "pod", "pod name", "backend", "worker", "upstream", "endpoint"),
    "node": ("host", "hostname", "host name", "node", "node name", "nodename", "server", "machine"),
}
"""Words of the columns that say what a row is of, by their labels: what is part of another stands before it."""
KINDS = {"gpu": ("gpu",), "device": ("port",), "node": ("node",), "instance": ("engine",), "rank": ("rank",)}
"""The catalogue's words for what a row of each label is."""
DIRECTIONS = {**dict.fromkeys(RECEIVED, "rx"), **dict.fromkeys(SENT, "tx")}
COUNTED = {
    **dict.fromkeys(("err", "errs", "error", "errors"), "errors"),
    **dict.fromkeys(DROPS, "drops"),
    **dict.fromkeys(("crc", "fcs"), "crc"),
    **dict.fromkeys(("symbol",), "symbol"),
    **dict.fromkeys(("pause", "ppp", "pfc"), "pause"),
    **dict.fromkeys(("ok", "pkts", "packets", "pkt"), "packets"),
    **dict.fromkeys(("flap", "flaps", "transitions"), "flaps"),
    **dict.fromkeys(("temperature", "temp"), "temperature"),
    **dict.fromkeys(("power",), "power"),
}
PORT_SIGNALS = {
    ("rx", "errors"): "port.rx_netdev_errors",
    ("tx", "errors"): "port.tx_netdev_errors",
    ("rx", "drops"): "port.rx_netdev_drops",
    ("tx", "drops"): "port.tx_netdev_drops",
    ("rx", "packets"): "port.rx_netdev_packets",
    ("tx", "packets"): "port.tx_netdev_packets",
    ("rx", "crc"): "port.rx_crc_errors",
    ("", "crc"): "port.rx_crc_errors",
    ("rx", "symbol"): "port.rx_symbol_err",
    ("", "symbol"): "port.rx_symbol_err",
    ("rx", "pause"): "port.rx_global_pause",
    ("tx", "pause"): "port.tx_global_pause",
    ("", "flaps"): "port.carrier_down_changes",
    ("", "temperature"): "port.module_temperature",
    ("rx", "power"): "port.optical_rx_power",
}
"""Signals of ports by direction and what is counted or measured."""
NEUTRAL_PORT_WORDS = frozenset(("frame", "frames", "link", "carrier", "optical", "module", "total", "count", "fec"))


@dataclass(frozen=True, slots=True)
class GuessedTable:
    """The rows of a table as a line of a format."""

    line: FormatLine
    what: tuple[str, ...]
    """What each column was taken for."""
    rows: tuple[str, ...]
    """The first header and row, as a sample."""
    place: str
    """node or server: what the text is of."""


@dataclass(frozen=True, slots=True)
class _Column:
    name: str
    signal: str
    unit: str


def guess_tables(lines: Sequence[str]) -> list[GuessedTable]:
    """Returns the tables of a text whose columns have names that mean a signal; none where there is none."""
    found: dict[tuple[str, ...], GuessedTable] = {}
    tried = 0
    for number, text in enumerate(lines):
        header = _read_header(text)
        if header is None or header.names in found:
            continue
        tried += 1
        if tried > MAX_HEADERS:
            break
        if table := _guess_table(header, lines, number):
            found[header.names] = table
    return list(found.values())


def _read_header(text: str) -> TableHeader | None:
    """Returns the columns of a line of names without numbers; None for other lines."""
    if len(text) > 1000 or RULE.fullmatch(text):
        return None
    bare = text.strip()
    if "|" in bare.strip("|"):
        names = [cell.strip() for cell in bare.strip("|").split("|")]
    else:
        names = re.split(r"\s{2,}|\t", bare)
        names = names if len(names) >= MIN_COLUMNS else bare.split()
    if len(names) < MIN_COLUMNS or len(set(names)) < len(names) or not all(names):
        return None
    if any(NUMBER.fullmatch(name) for name in names) or not find_places(names):
        return None
    return find_header(text, names, names)


def find_places(names: Sequence[str]) -> dict[str, str]:
    """Returns the columns that say what a row is of by their labels, the one that says the most first."""
    found: dict[str, str] = {}
    for label, texts in PLACES.items():
        for name in names:
            words = frozenset(re.findall(r"[a-z]+", name.lower()))
            if words and any(words == frozenset(text.split()) for text in texts):
                found.setdefault(label, name)
    return found


def _guess_table(header: TableHeader, lines: Sequence[str], number: int) -> GuessedTable | None:
    places = find_places(header.names)
    label, place = next(iter(places.items()))
    rows = list(_rows(header, lines[number + 1 : number + 1 + MAX_ROWS]))
    rows = [(text, cells) for text, cells in rows if cells.get(place)]
    if len(rows) < MIN_ROWS:
        return None
    columns: dict[str, _Column] = {}
    for name in header.names:
        cells = [row[name] for _, row in rows]
        if name not in places.values() and (column := _take(name, label, cells)) and column.signal not in columns:
            columns[column.signal] = column
    if not columns:
        return None
    fields = {each: FormatField(label=each, shape="text") for each in places}
    fields |= {signal.replace(".", "_"): _field(column) for signal, column in columns.items()}
    names = {**places, **{signal.replace(".", "_"): column.name for signal, column in columns.items()}}
    what = tuple(f"{column.name} = {catalogue().signals[column.signal].name.lower()}" for column in columns.values())
    line = FormatLine(fields=fields, table=tuple(header.names), columns=names)
    return GuessedTable(line, what, (lines[number], rows[0][0]), "server" if label == "instance" else "node")


def _rows(header: TableHeader, lines: Sequence[str]) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Yields the rows below a header with their cells, up to a blank line or one that is none."""
    for text in lines:
        if RULE.fullmatch(text) and text.strip():
            continue
        cells = header.split_row(text)
        if cells is None:
            return
        yield text, cells


def _take(name: str, label: str, cells: Sequence[str]) -> _Column | None:
    """Returns what a column measures; None where its name means nothing, or its cells are no numbers."""
    signal, unit = _find_column(name, label)
    if not signal:
        return None
    wanted = catalogue().signals[signal]
    if wanted.entity not in KINDS[label]:
        return None
    some = [cell for cell in cells if not NO_VALUE.fullmatch(cell)]
    matched = [match for cell in some if (match := CELL.fullmatch(cell))]
    if not some or len(matched) < len(some):
        return None
    own = {match["unit"] for match in matched} - {""}
    if own:
        return _Column(name, signal, "") if all(_factor(each, wanted.unit) is not None for each in own) else None
    if not unit and wanted.unit in ("1", "%"):
        numbers = [float(match["number"].replace(",", "")) for match in matched]
        unit = "%" if max(numbers) > 1 else "1"
    is_count = wanted.unit.startswith("{")
    if is_count if unit else not is_count:
        return None
    return _Column(name, signal, unit) if is_count or _factor(unit, wanted.unit) is not None else None


def _find_column(name: str, label: str) -> tuple[str, str]:
    """Returns the signal of a column of rows of a label, '' for none, and the unit that its name says."""
    split = split_name(name)
    if label == "device":
        return _port_signal(name), split.unit
    words = split.words - {"gpu", "chip", "npu", "tensorcore", "aicore", "aip", "core", "duty", "cycle", "usage"}
    if label == "gpu" and not words and split.words & {"duty", "aicore", "tensorcore", "aip"}:
        return "gpu.util", split.unit
    found = find_signal(split) or find_signal(ColumnName(words, split.unit, is_gpu=label == "gpu"))
    return found, split.unit


def _port_signal(name: str) -> str:
    """Returns the signal of a column of ports, '' where any of its words is not known."""
    words = [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]
    joined = [part for word in words for part in _parts_of(word)]
    rest = [word for word in joined if word not in UNIT_WORDS and word not in NEUTRAL_PORT_WORDS and word != "dbm"]
    ways = {DIRECTIONS[word] for word in rest if word in DIRECTIONS}
    what = {COUNTED[word] for word in rest if word in COUNTED}
    if len(ways) > 1 or any(word not in DIRECTIONS and word not in COUNTED for word in rest):
        return ""
    if len(what) == 2 and "errors" in what:
        what -= {"errors"}
    return PORT_SIGNALS.get((next(iter(ways), ""), next(iter(what))), "") if len(what) == 1 else ""


def _parts_of(word: str) -> tuple[str, ...]:
    """Returns a word that a direction begins, as rx does ppp, as two."""
    return next(((way, word[2:]) for way in ("rx", "tx") if word[:2] == way and word[2:] in COUNTED), (word,))


def _field(column: _Column) -> FormatField:
    wanted = catalogue().signals[column.signal].unit
    if column.unit or wanted.startswith("{"):
        return FormatField(signal=column.signal, unit="" if column.unit == wanted else column.unit)
    units = {*UNITS, "C", "\u00b0C", "Mhz", "GiB", "MiB", "KiB", "GB", "MB"}
    suffixes = {unit: factor for unit in sorted(units) if (factor := _factor(unit, wanted)) is not None}
    return FormatField(signal=column.signal, suffixes=suffixes)


def _factor(unit: str, wanted: str) -> float | None:
    """Returns the factor from a unit as people write it to that of a signal; None where it is none of its kind."""
    return convert_unit(UNIT_WORDS.get(unit.lower().lstrip("\u00b0"), unit), wanted)
