"""States of ranks in stacks of their processes: of py-spy, faulthandler (`kill -USR1`) and gdb, one after another.

A process is a rank by what stands before its stack, by its command or its title, else by the name of its file. Of its
threads the main one counts: the others of a program wait in every state.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import PurePath

from skewscope.adapters.collectives.rank_state import MAX_RANK, RankState

PROCESS = re.compile(r"^Process (?P<pid>\d{1,9}): ?(?P<command>.{0,2000})")
"""As py-spy begins a dump."""
THREAD = re.compile(
    r"^(?:Thread (?P<spy>\d{1,20}) \([\w+ ]{1,40}\)|(?P<current>Current )?[Tt]hread 0x(?P<handler>[0-9a-f]{1,16})"
    r"|Thread (?P<gdb>\d{1,6}) \((?:Thread|LWP) )(?P<rest>.{0,300})"
)
SPY_FRAME = re.compile(r"^\s+(?P<function>[^\s()]{1,200}) \((?P<file>[^()\n]{1,400}?)(?::(?P<line>\d{1,7}))?\)\s*$")
HANDLER_FRAME = re.compile(r'^\s+File "(?P<file>[^"]{1,400})", line (?P<line>\d{1,7}) in (?P<function>\S{1,200})')
GDB_FRAME = re.compile(
    r"^#\d{1,4}\s+(?:0x[0-9a-f]{1,16} in )?(?P<function>[\w:~<>$@.]{1,200})[^\n]{0,600}?"
    r"(?:(?:at|from) (?P<file>[^\s:]{1,400})(?::(?P<line>\d{1,7}))?)?\s*$"
)
FRAMES = (SPY_FRAME, HANDLER_FRAME, GDB_FRAME)
RANK = re.compile(
    r"(?<![a-z_])(?:global[_ ]?)?rank[\"' ]?\s*[:=#]?\s*[\"']?(?P<rank>\d{1,7})\b"
    r"|\bWorker[_-](?:TP|DP)?(?P<worker>\d{1,5})\b"
    r"|\bTP(?P<tp>\d{1,5})\b|\bRANK=(?P<variable>\d{1,7})\b",
    re.IGNORECASE,
)
RANK_IN_NAME = re.compile(r"(?:rank|worker|r)[-_.]?(?P<rank>\d{1,7})(?!\d)|(?<![\d.])(?P<last>\d{1,5})$", re.IGNORECASE)
COLLECTIVES = re.compile(
    r"(?:^|[._:])(?P<name>all_?reduce|all_?gather(?:_into_tensor|_object|_coalesced)?|reduce_?scatter(?:_tensor|_v)?"
    r"|all_?to_?all(?:_single)?|broadcast(?:_object_list)?|monitored_barrier|barrier|gather(?:_object)?|scatter(?:_object_list)?"
    r"|batch_isend_irecv|wait_for_recv)(?:_base|_async|_sync|_coalesced|_out|_kernel)*$",
    re.IGNORECASE,
)
NCCL_CALL = re.compile(
    r"\b(?:p?nccl|rccl|ompi_?|PMPI_|MPI_|gloo::)(?P<name>All\w+|Reduce\w*|Broadcast|Bcast|Barrier|Alltoall\w*|allreduce|allgather\w*|barrier)"
)
WAIT = re.compile(
    r"(?:^|[.:])Work(?:NCCL|Gloo|MPI|UCC)?(?:::|\.)(?:wait|synchronize)\w*|^_?wait_(?:tensor|for_works?)$|^req_wait$"
)
"""Waits for a collective that they do not name, in C++ and Python."""
LIBRARY = re.compile(
    r"torch/|nccl|gloo|/c10d|site-packages|dist-packages|lib/python|<frozen|\.so\b"
    r"|^(?:selectors|threading|socket|ssl|queue|subprocess|contextlib|runpy)\.py|^(?:concurrent|multiprocessing|asyncio)/"
)
"""Files of libraries; py-spy shortens the paths of the standard library."""
SYSTEM = re.compile(r"(?:^|/)(?:lib(?:c|m|pthread|dl|rt|stdc\+\+|python[\d.]*)|ld-linux[\w-]*)[-.\d]*\.so\b")
"""Libraries of the system, whose calls do not say what a program does."""
COMMUNICATION = re.compile(r"distributed|c10d|nccl|gloo|communicat|parallel_state|comm\b|collectives?", re.IGNORECASE)
MAX_FRAMES = 200


@dataclass(frozen=True, slots=True)
class StackFrame:
    """One call of a stack, the innermost first."""

    function: str
    file: str
    line: str


@dataclass
class StackDumps:
    """Reads the stacks of one file, line by line."""

    file: str
    time: float
    states: list[RankState] = field(default_factory=list)
    _rank: int | None = None
    """The rank that stood before the stack."""
    _frames: list[StackFrame] = field(default_factory=list)
    """Frames of the thread that is read."""
    _chosen: list[StackFrame] = field(default_factory=list)
    """Frames of the main thread so far."""
    _is_main: bool = False

    def read_line(self, text: str) -> None:
        """Takes in one line."""
        frame = _frame(text)
        if frame is not None:
            if len(self._frames) < MAX_FRAMES:
                self._frames.append(frame)
            return
        if match := THREAD.match(text):
            self._end_thread()
            self._is_main = bool(match["current"]) or "MainThread" in match["rest"] or match["gdb"] == "1"
            return
        process, named = PROCESS.match(text), RANK.search(text)
        if (process or named) and (self._frames or self._chosen):
            self._end_process()
        if named:
            self._rank = int(next(filter(None, named.groups())))

    def finish(self) -> list[RankState]:
        """Returns the states of all processes."""
        self._end_process()
        return self.states

    def _end_thread(self) -> None:
        if self._frames and (self._is_main or not self._chosen):
            self._chosen = self._frames
        self._frames, self._is_main = [], False

    def _end_process(self) -> None:
        self._end_thread()
        rank = self._rank if self._rank is not None else _rank_in_name(self.file)
        if self._chosen and rank is not None and rank < MAX_RANK:
            self.states.append(_state(rank, self._chosen, self.time))
        self._chosen, self._rank = [], None


def is_stack_line(text: str) -> bool:
    """Returns whether a line is the head of a thread's stack."""
    return THREAD.match(text) is not None or PROCESS.match(text) is not None


def _frame(text: str) -> StackFrame | None:
    found = next(filter(None, (pattern.match(text) for pattern in FRAMES)), None)
    return StackFrame(found["function"], found["file"] or "", found["line"] or "") if found else None


def _rank_in_name(file: str) -> int | None:
    match = RANK_IN_NAME.search(PurePath(file).name.partition(".")[0])
    return int(match["rank"] or match["last"]) if match else None


def _state(rank: int, frames: list[StackFrame], time: float) -> RankState:
    operation = next(filter(None, map(_collective, frames)), "")
    if operation or any(WAIT.search(frame.function) for frame in frames):
        return RankState(rank, operation=operation, is_waiting=True, time=time, looks=1)
    return RankState(rank, place=_place(frames), time=time, looks=1)


def _collective(frame: StackFrame) -> str:
    """Returns the collective that a frame is a call of; '' for none."""
    if match := NCCL_CALL.search(frame.function):
        return _plain(match["name"])
    match = COLLECTIVES.search(frame.function)
    return _plain(match["name"]) if match and COMMUNICATION.search(f"{frame.file} {frame.function}") else ""


def _plain(name: str) -> str:
    """Returns the name of a collective in capitals without underscores, whoever writes it."""
    return (
        re.sub(r"_(?:into_tensor|tensor|object(?:_list)?|single|coalesced|v)$", "", name.lower())
        .replace("_", "")
        .upper()
    )


def _place(frames: Iterable[StackFrame]) -> str:
    """Returns the innermost call of the program's own code, else that of a library, with what it calls."""
    listed = list(frames)
    filed = [frame for frame in listed if frame.file]
    own = next((frame for frame in filed if not LIBRARY.search(frame.file)), None)
    own = own or next((frame for frame in filed if not SYSTEM.search(frame.file)), listed[0])
    inner = listed[0]
    shown = _shown(own)
    return shown if own == inner else f"{shown}, in {inner.function}"


def _shown(frame: StackFrame) -> str:
    place = f"{PurePath(frame.file).name}:{frame.line}" if frame.line else PurePath(frame.file).name
    return f"{frame.function} ({place})" if frame.file else frame.function
