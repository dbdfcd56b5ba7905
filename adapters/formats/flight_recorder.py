"""Parser of one dump of PyTorch's flight recorder: a pickle or JSON with the newest operations of one rank.

Versions 2.0 to 2.10 are known; fields that are not needed are ignored, so a newer minor version is read as well.
PyTorch writes the dump when a collective runs out of its time, or when it is asked to.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from skewscope.adapters.formats.bounded_json import parse_json
from skewscope.adapters.formats.plain_pickle import TRUNCATED, parse_pickle
from skewscope.kb.problems import InputError, Problem

MAJOR, NEWEST_MINOR = 2, 10
MAX_OPERATIONS = 2_000_000
MAX_GROUPS = 100_000
MAX_PROBLEMS = 10
PICKLE_MARK = b"\x80"
COMPLETED = "completed"
MUTUAL = re.compile(r"all_|allreduce|allgather|alltoall|reduce_scatter|barrier", re.IGNORECASE)
"""In the names of collectives that no rank completes before all took part."""
VERSION = re.compile(r"(\d{1,4})\.(\d{1,4})")


@dataclass(frozen=True, slots=True)
class ProcessGroup:
    """A process group as a dump describes it."""

    name: str
    description: str
    ranks: tuple[int, ...]
    """Ranks in the job, in the order of their ranks in the group."""


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """Numbers of a group's newest collectives on one rank; -1 for none."""

    enqueued: int
    completed: int


@dataclass(frozen=True, slots=True)
class RecordedOperation:
    """One operation that a rank enqueued."""

    group: str
    group_number: int
    """Number of the group in its process, which keys the status."""
    sequence: int
    """Number of the collective, or of the point-to-point transfer, in its group."""
    is_transfer: bool
    """Whether it is point to point."""
    created: float
    """Seconds since 1970."""
    duration: float | None
    """Seconds; None where it was not measured or is not over."""
    timeout: float | None
    """Seconds."""
    is_pending: bool
    is_mutual: bool = True
    """Whether no rank can complete it before all took part, as in an all-reduce but not in a broadcast."""


@dataclass(frozen=True)
class FlightRecorderDump:
    """The dump of one rank."""

    file: str
    version: str
    groups: Mapping[str, ProcessGroup]
    status: Mapping[int, GroupStatus]
    operations: tuple[RecordedOperation, ...]

    @property
    def is_newer(self) -> bool:
        """Whether the version is newer than those known here."""
        return int(self.version.partition(".")[2]) > NEWEST_MINOR


def is_flight_recorder_dump(head: bytes) -> bool:
    """Returns whether the first bytes of a file are those of a dump: its keys come first."""
    start = head[:4096]
    if start[:1] == PICKLE_MARK:
        return b"version" in start[:256] and b"pg_config" in start[:512]
    if start.lstrip()[:1] != b"{":
        return False
    # Reports of NCCL's RAS name the version of NCCL too.
    own = b'"entries"' in start or b'"pg_config"' in start or b'"collective_seq_id"' in start
    versions = any(key in head for key in (b'"comm_lib_version"', b'"nccl_version"', b'"pg_status"'))
    return own and (versions or b'"collective_seq_id"' in start)


def parse_dump(data: bytes, file: str) -> FlightRecorderDump:
    """Returns the content of a dump.

    Args:
        data: the dump, unpacked.
        file: name for messages.

    Raises:
        InputError: all problems of the dump.
    """
    is_pickle = data[:1] == PICKLE_MARK
    raw = parse_pickle(data, file) if is_pickle else parse_json(data, file, "a whole, flat dump", TRUNCATED)
    return _DumpReader(file).read(raw)


@dataclass
class _DumpReader:
    """Checks a dump and collects its problems."""

    file: str
    problems: list[Problem] = field(default_factory=list)

    def read(self, raw: Any) -> FlightRecorderDump:
        """Returns the checked dump.

        Raises:
            InputError: all problems.
        """
        if not isinstance(raw, dict):
            raise InputError([Problem(self.file, 0, "", f"a {type(raw).__name__}", "a dictionary: a dump of a rank")])
        version = self._version(raw)
        groups = self._groups(self._dictionary(raw, "pg_config"))
        status = self._status(self._dictionary(raw, "pg_status"))
        entries = raw.get("entries", [])
        if not isinstance(entries, list | tuple) or len(entries) > MAX_OPERATIONS:
            self._add("entries", f"a {type(entries).__name__}", f"a list of at most {MAX_OPERATIONS} operations")
            entries = []
        operations = []
        for number, entry in enumerate(entries):
            if len(self.problems) >= MAX_PROBLEMS:
                break
            operations += self._operation(f"entries[{number}]", entry, status)
        if self.problems:
            raise InputError(self.problems)
        return FlightRecorderDump(self.file, version, groups, status, tuple(operations))

    def _add(self, place: str, found: str, expected: str, hint: str = "") -> None:
        self.problems.append(Problem(self.file, 0, place, found, expected, hint))

    def _version(self, raw: Mapping[Any, Any]) -> str:
        text = str(raw.get("version", ""))
        match = VERSION.fullmatch(text)
        if match is None or int(match[1]) != MAJOR:
            found = f"version {text!r:.40}" if "version" in raw else "no version"
            hint = "A newer PyTorch? Please report it with the file." if match and int(match[1]) > MAJOR else ""
            raise InputError([Problem(self.file, 0, "version", found, f"{MAJOR}.0 to {MAJOR}.{NEWEST_MINOR}", hint)])
        return text

    def _dictionary(self, raw: Mapping[Any, Any], name: str) -> Mapping[Any, Any]:
        value = raw.get(name, {})
        if isinstance(value, dict) and len(value) <= MAX_GROUPS:
            return value
        self._add(name, f"a {type(value).__name__}", f"a dictionary of at most {MAX_GROUPS} groups")
        return {}

    def _groups(self, config: Mapping[Any, Any]) -> dict[str, ProcessGroup]:
        found = {}
        for key, value in config.items():
            inner = value if isinstance(value, dict) else {}
            ranks = _parse_ranks(inner.get("ranks"))
            if ranks is None:
                self._add(f"pg_config.{key!s:.40}.ranks", f"{inner.get('ranks')!r:.60}", "ranks such as '[0, 1]'")
                continue
            name = str(key)
            found[name] = ProcessGroup(name, str(inner.get("desc", "")), ranks)
        return found

    def _status(self, status: Mapping[Any, Any]) -> dict[int, GroupStatus]:
        found = {}
        for key, value in status.items():
            inner = value if isinstance(value, dict) else {}
            numbers = [_to_int(inner.get(f"last_{state}_collective", -1)) for state in ("enqueued", COMPLETED)]
            number = _to_int(key)
            if number is None or None in numbers or not isinstance(value, dict):
                self._add(f"pg_status.{key!s:.40}", f"{value!r:.60}", "numbers of the newest collectives")
                continue
            found[number] = GroupStatus(*(each for each in numbers if each is not None))
        return found

    def _operation(self, place: str, entry: Any, status: Mapping[int, GroupStatus]) -> list[RecordedOperation]:
        """Returns the operation of an entry; none where it has a problem."""
        if not isinstance(entry, dict):
            self._add(place, f"a {type(entry).__name__}", "a dictionary: one operation")
            return []
        group = entry.get("process_group")
        name = str(group[0]) if isinstance(group, list | tuple) and group else ""
        is_transfer = entry.get("is_p2p") is True
        sequence = _to_int(entry.get("p2p_seq_id" if is_transfer else "collective_seq_id"))
        created, number = _to_int(entry.get("time_created_ns")), _to_int(entry.get("pg_id"))
        wrong = [
            field_name
            for field_name, is_wrong in (
                ("process_group", not name),
                ("p2p_seq_id" if is_transfer else "collective_seq_id", sequence is None),
                ("time_created_ns", created is None or created < 0),
                ("pg_id", number is None),
            )
            if is_wrong
        ]
        for each in wrong:
            self._add(f"{place}.{each}", f"{entry.get(each)!r:.60}", "a value of version 2")
        if wrong or sequence is None or created is None or number is None:
            return []
        done = status.get(number, GroupStatus(-1, -1)).completed
        is_open = entry.get("state") != COMPLETED and (entry.get("retired") is not True or sequence > done >= 0)
        duration, timeout = _to_float(entry.get("duration_ms")), _to_float(entry.get("timeout_ms"))
        return [
            RecordedOperation(
                name,
                number,
                sequence,
                is_transfer,
                created / 1e9,
                None if duration is None else duration / 1e3,
                None if timeout is None else timeout / 1e3,
                is_open,
                bool(MUTUAL.search(str(entry.get("profiling_name", "")))),
            )
        ]


def _parse_ranks(value: object) -> tuple[int, ...] | None:
    """Returns the ranks of a text such as '[0, 1]' or of a list; None where it is neither."""
    if isinstance(value, str):
        return _parse_rank_text(value)
    if isinstance(value, list | tuple) and all(type(each) is int for each in value):
        return tuple(value)
    return None


@lru_cache(maxsize=4096)
def _parse_rank_text(text: str) -> tuple[int, ...] | None:
    """Returns the ranks of a text; the dumps of a job repeat the same ones."""
    if not re.fullmatch(r"\s*\[[\d,\s]*\]\s*", text, re.ASCII):
        return None
    return tuple(int(word) for word in re.findall(r"\d{1,9}", text, re.ASCII))


def _to_int(value: object) -> int | None:
    """Returns the integer of 64 bits of a number or of a text, as JSON dumps hold some; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        return None
    if isinstance(value, str) and not re.fullmatch(r"-?\d{1,20}", value):
        return None
    number = int(value)
    return number if abs(number) < 1 << 64 else None


def _to_float(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e15:
        return None
    return float(value)
