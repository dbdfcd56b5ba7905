"""Dumps of counters that were taken twice or more: what the readers of ethtool and of InfiniBand counters share.

Times come from lines between the dumps (`date`, in any of its usual forms), else from the file's name, which then holds
one dump, else that of the file itself is taken. Node and device come from the labels of the input, else from the name:
`n0-eth0-20261122T100000.txt`.
"""

import datetime as dt
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import BinaryIO, NamedTuple, Protocol

from skewscope.adapters.formats.log_lines import file_stem, read_lines
from skewscope.adapters.formats.log_times import STAMP, find_stamp, parse_offset
from skewscope.adapters.formats.openmetrics import MAX_SECONDS
from skewscope.adapters.inputs.file_origin import ORIGIN_LABEL, OWN_TIME, join_notes, own_time
from skewscope.adapters.inputs.labelled import LabelledSeries, SeriesCollector
from skewscope.kb.problems import InputError, Problem

MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
EPOCH = re.compile(r"(?P<seconds>1\d{9})(?P<fraction>\.?\d{0,9})")
NAME_STAMP = re.compile(
    r"(?<!\d)(?P<date>20\d\d-?[01]\d-?[0-3]\d)[-_T]?(?P<clock>[0-2]\d[-_:.]?[0-5]\d[-_:.]?[0-5]\d)Z?(?!\d)"
)
NAME_EPOCH = re.compile(r"(?<!\d)(?P<seconds>1\d{9})(?P<millis>\d{3})?(?!\d)")
DEVICE = re.compile(
    r"(?<![A-Za-z0-9])(?:mlx5_(?:bond_)?\d+|(?:eth|ib|bond|p)\d+|en[opsx]\w*?\d+(?:np\d+)?|enP\w+)(?![A-Za-z0-9])"
)
TOOL = re.compile(r"(?<![A-Za-z])(?:ethtool|ibstat|perfquery|counters?|statistics|stats|sysfs|infiniband)(?![A-Za-z])")
UNNAMED_DEVICE = "nic"
"""Device of counters of which nothing says whose they are: one file is then of one device."""
MAX_COMMAND = 1000
"""Characters of a line in which a command is looked for."""
READING_S = 1.0
"""Seconds between readings without any time: loops without `date` wait for one second most often."""
PAUSE = re.compile(
    r"(?:^|[\s;&|])(?:sleep|watch\s+-n|watch\s+--interval)[\s=]*(?P<number>\d{1,5}(?:\.\d{1,3})?)(?P<unit>[smh]?)(?=[\s;&|]|$)"
)
"""A command that waits between two readings."""
PAUSE_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}
LOOP = "while sleep 10; do date -Is; {command}; done > {file}"


class Counter(NamedTuple):
    """One value in a dump."""

    name: str
    """What the dump calls it."""
    metric: str
    labels: Mapping[str, str]
    value: float
    line: int
    time: float | None = None
    """Seconds since 1970, where it stands beside the value."""


class DumpName(NamedTuple):
    """What the name of a file says."""

    node: str
    device: str
    time: float | None
    """Seconds since 1970."""


class DumpParser(Protocol):
    """Finds the counters in the lines of one tool."""

    command: str
    """A command that prints such a dump."""
    may_repeat: bool
    """Whether a name may come twice in one reading; the first one counts."""

    def read_line(self, text: str, number: int) -> list[Counter]:
        """Returns the counters of a line."""


@dataclass
class Dump:
    """The counters between two times."""

    time: float
    """Seconds since 1970; NaN before the first time in the file."""
    counters: list[Counter] = field(default_factory=list)
    pauses: list[tuple[int, float]] = field(default_factory=list)
    """Lines with a command that waits, and for how many seconds."""

    def pause_before(self, line: int) -> float | None:
        """Returns the seconds of the last command that waits before a line; None without one."""
        return next((seconds for number, seconds in reversed(self.pauses) if number < line), None)


def read_dumps(file: BinaryIO, name: str, labels: Mapping[str, str], parser: DumpParser) -> list[LabelledSeries]:
    """Returns the series of all dumps in a file.

    Raises:
        InputError: it has no counter, or a dump without a time.
    """
    collector = SeriesCollector(name)
    dumps = list(_split_dumps(file, name, parse_offset(labels, name), parser, collector))
    hint = f"Take it with `{LOOP.format(command=parser.command, file='counters.txt')}`."
    if not any(dump.counters for dump in dumps) and not len(collector):
        raise InputError([Problem(name, 0, "", "no counter", f"output of `{parser.command}`", hint)])
    placed = _place(dumps, name)
    readings = [_add_dump(dump, collector, name, may_repeat=parser.may_repeat) for dump in placed]
    is_stated = not any(dump.counters for dump in dumps)
    is_paused = all(dump.pauses for dump, count in zip(placed, readings, strict=True) if count > 1)
    unnamed = any(counter.labels.get("device") == UNNAMED_DEVICE for dump in dumps for counter in dump.counters)
    collector.note = join_notes(
        OWN_TIME if len(dumps) == 1 and parse_dump_name(name).time is None and not is_stated else "",
        f"no time between readings: {READING_S:g} s is taken, so that rates may be wrong and shares are right"
        if max(readings) > 1 and not is_paused
        else "",
        f"nothing names its device: {UNNAMED_DEVICE!r} is taken; the label device says another" if unnamed else "",
    )
    return collector.series()


def _add_dump(dump: Dump, collector: SeriesCollector, file: str, *, may_repeat: bool) -> int:
    """Adds the counters between two times; returns how many readings they are, which follow each other."""
    names: dict[tuple[str, ...], str] = {}
    first, time, readings = "", dump.time, 1
    for counter in dump.counters:
        key = (counter.metric, *counter.labels.values())
        first = first or f"{counter.name} {key}"
        if names.get(key) == counter.name and f"{counter.name} {key}" == first:
            pause = dump.pause_before(counter.line)
            names, time, readings = {}, time + (READING_S if pause is None else pause), readings + 1
        if names.get(key) == counter.name:
            if may_repeat:
                continue
            found = f"a second {counter.name} in one reading"
            raise InputError([Problem(file, counter.line, "", found, "each counter of a device once")])
        # Two names may become the same metric; the first is taken.
        if names.setdefault(key, counter.name) == counter.name:
            collector.add(counter.metric, counter.labels, time, counter.value, counter.line)
    return readings


def _split_dumps(
    file: BinaryIO, name: str, offset: float, parser: DumpParser, collector: SeriesCollector
) -> Iterator[Dump]:
    """Yields the dumps of a file without the counters that have times of their own, which are added."""
    dump = Dump(math.nan)
    for number, text in read_lines(file, name):
        time = parse_time_line(text, offset)
        if time is None:
            for counter in parser.read_line(text, number):
                if counter.time is None:
                    dump.counters.append(counter)
                else:
                    collector.add(counter.metric, counter.labels, counter.time, counter.value, counter.line)
            if len(text) < MAX_COMMAND and (pause := PAUSE.search(text)):
                dump.pauses.append((number, float(pause["number"]) * PAUSE_UNITS[pause["unit"]]))
        else:
            yield dump
            dump = Dump(time)
    yield dump


def _place(dumps: list[Dump], name: str) -> list[Dump]:
    """Returns the dumps with their times, which stand before them, after them, or in the file's name."""
    if len(dumps) == 1:
        time = parse_dump_name(name).time
        return [replace(dumps[0], time=own_time(name) if time is None else time)]
    if not dumps[0].counters or dumps[-1].counters:
        # A paste may begin in the middle of a dump, whose time is not known then.
        return dumps[1:]
    return [replace(dump, time=after.time) for dump, after in pairwise(dumps)]


def parse_time_line(text: str, offset: float) -> float | None:
    """Returns the time of a line that holds nothing else, in seconds since 1970; None for other lines."""
    bare = text.strip(" =#*-\t")
    if not bare or len(bare) > 60 or not (bare[0].isdigit() or bare[:3] in DAYS):
        return None
    if match := EPOCH.fullmatch(bare):
        digits = match["fraction"].lstrip(".")
        return int(match["seconds"]) + (int(digits) / 10 ** len(digits) if digits else 0.0)
    if STAMP.fullmatch(bare):
        return find_stamp(bare, offset)
    return _parse_date(bare.split(), offset)


def _parse_date(words: list[str], offset: float) -> float | None:
    """Returns the time that `date` prints in English, with day and month in either order."""
    clocks = [word for word in words if re.fullmatch(r"\d\d?:\d\d:\d\d", word)]
    months = [word for word in words if word in MONTHS]
    years = [word for word in words if re.fullmatch(r"(?:19|20)\d\d", word)]
    days = [word for word in words if re.fullmatch(r"\d\d?", word)]
    if words[0] not in DAYS or any(len(found) != 1 for found in (clocks, months, years, days)):
        return None
    hour, minute, second = map(int, clocks[0].split(":"))
    if "PM" in words or "AM" in words:
        hour = hour % 12 + 12 * ("PM" in words)
    try:
        whole = dt.datetime(
            int(years[0]), MONTHS.index(months[0]) + 1, int(days[0]), hour, minute, second, tzinfo=dt.UTC
        )
    except ValueError:
        return None
    return whole.timestamp() - (0.0 if {"UTC", "GMT"} & set(words) else offset)


def parse_dump_name(file: str) -> DumpName:
    """Returns node, device and time that the name of a file says; '' and None for what it does not."""
    stem = file.replace("\\", "/").rpartition("/")[2]
    stem = re.sub(r"(?:\.(?:txt|log|out|dump|gz|zst|prom|om|metrics|json|csv))+$", "", stem)
    time = None
    if match := NAME_STAMP.search(stem):
        digits = re.sub(r"\D", "", match["date"] + match["clock"])
        time = find_stamp(f"{digits[:4]}-{digits[4:6]}-{digits[6:8]} {digits[8:10]}:{digits[10:12]}:{digits[12:]}")
    elif match := NAME_EPOCH.search(stem):
        time = int(match["seconds"]) + int(match["millis"] or 0) / 1e3
    rest = stem.replace(match[0], " ") if match else stem
    device = DEVICE.search(rest)
    rest = rest.replace(device[0], " ") if device else rest
    words = re.sub(r"[-_.\s]+$|^[-_.\s]+", "", TOOL.sub(" ", rest)).split()
    node = words[0].strip("-_.") if len(words) == 1 else ""
    return DumpName(node, device[0] if device else "", time if time is not None and time < MAX_SECONDS else None)


def find_place(labels: Mapping[str, str], name: str) -> dict[str, str]:
    """Returns node and device of a file, by the labels of the input or by its name."""
    found = parse_dump_name(name)
    node = labels.get("node") or labels.get(ORIGIN_LABEL) or found.node or file_stem(name)
    return {"node": node, "device": labels.get("device") or found.device}


def host_in_name(file: str) -> str:
    """Returns the node that the name of a file says, '' for none."""
    return parse_dump_name(file).node
