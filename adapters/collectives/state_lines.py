"""States of ranks in lines of logs: PyTorch's watchdog, its reports of ranks out of step, barriers, and Gloo."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from skewscope.adapters.collectives.rank_state import FINGERPRINTS, MAX_RANK, REPORT, RankState

PREFIX = re.compile(r"\[(?:rank|default)(?P<rank>\d{1,7})\]:?")
"""As PyTorch and torchrun begin a line."""
OWN = re.compile(r"\[(?:PG (?P<group>[^\]]{1,160}?) )?Rank (?P<rank>\d{1,7})\]", re.IGNORECASE)
GUID = re.compile(r"PG GUID (?P<guid>.+)")
TIMEOUT = re.compile(
    r"caught collective operation timeout: WorkNCCL\(SeqNum=(?P<number>\d{1,18}), OpType=(?P<operation>\w{1,60})"
    r".{0,400}?ran for (?P<ms>\d{1,15}) milliseconds",
    re.IGNORECASE,
)
STATUS = re.compile(
    r"(?:(?:Timeout at NCCL work|detected by watchdog at work(?: sequence id)?): (?P<hang>\d{1,18}),?"
    r"(?: PG status:)? )?last enqueued(?: NCCL)? work: (?P<begun>-?\d{1,18}), (?:last started work: -?\d+, )?"
    r"last completed(?: NCCL)? work: (?P<done>-?\d{1,18})",
    re.IGNORECASE,
)
JOINED = re.compile(r"\[(?P<ranks>[\d, ]{1,20000})\] joined but didn't finish collective #(?P<number>\d{1,18})")
NOT_JOINED = re.compile(
    r"\[(?P<ranks>[\d, ]{1,20000})\] finished collective #(?P<number>\d{1,18}), but didn't join collective"
)
NEVER = re.compile(r"ranks \[(?P<ranks>[\d, ]{1,20000})\] are the lagging ranks")
STARTED = re.compile(r"\[(?P<ranks>[\d, ]{1,20000})\] started (?P<operation>[A-Z_]{3,60})\b")
STARTED_NUMBER = re.compile(r"#(?P<number>\d{1,18}) started ranks:")
FINGERPRINT = re.compile(
    r"Rank (?P<rank>\d{1,7}) is running collective: CollectiveFingerPrint\((?:SequenceNumber=(?P<number>\d{1,18}), ?)?"
    r"OpType=(?P<operation>\w{1,60})"
)
BARRIER = re.compile(
    r"Rank (?P<rank>\d{1,7})\]?: Ranks? (?P<missing>[\d, ]{1,20000}) failed to pass monitoredBarrier "
    r"in (?P<ms>\d{1,12}) ms"
)
SIZE = re.compile(r"\bworld[_ ]?size[\"']?\s*[=:]?\s*(?P<size>\d{1,7})\b|\bnranks (?P<nranks>\d{1,7})\b", re.IGNORECASE)
HINTS = re.compile(
    r"operation timeout|enqueued|collective #|monitoredBarrier|CollectiveFingerPrint|lagging ranks|started|nranks"
    r"|world",
    re.IGNORECASE,
)


def may_have_state(text: str) -> bool:
    """Returns whether a line may say something of ranks; its digits do not matter."""
    return HINTS.search(text) is not None


@dataclass
class StateLines:
    """Reads the lines of one log."""

    states: list[RankState] = field(default_factory=list)
    size: int = 0
    """Ranks of the job, 0 where no line says it."""
    _number: int | None = None
    """Number of the collective of which a report lists the ranks."""

    def read_line(self, text: str, time: float) -> None:
        """Takes in what a line says of ranks, at `time` seconds since 1970."""
        if not may_have_state(text):
            return
        for named in SIZE.finditer(text):
            self.size = max(self.size, int(named["size"] or named["nranks"]))
        self.states += (one for one in self._find(text, time) if one.rank < MAX_RANK)

    def _find(self, text: str, time: float) -> Iterator[RankState]:
        yield from _watchdog(text, time)
        yield from self._report(text, time)
        for found in FINGERPRINT.finditer(text):
            number = int(found["number"]) if found["number"] else None
            yield RankState(int(found["rank"]), FINGERPRINTS, number, found["operation"], is_waiting=True, time=time)
        if match := BARRIER.search(text):
            waited = int(match["ms"]) / 1000
            yield RankState(int(match["rank"]), "", None, "barrier", is_waiting=True, waited=waited, time=time)
            for rank in _numbers(match["missing"]):
                yield RankState(rank, place="other code than the barrier", time=time)

    def _report(self, text: str, time: float) -> Iterator[RankState]:
        if match := JOINED.search(text):
            for rank in _numbers(match["ranks"]):
                yield RankState(rank, REPORT, int(match["number"]), is_waiting=True, time=time)
        if match := NOT_JOINED.search(text):
            for rank in _numbers(match["ranks"]):
                yield RankState(rank, REPORT, int(match["number"]), time=time)
        if match := NEVER.search(text):
            for rank in _numbers(match["ranks"]):
                yield RankState(rank, REPORT, 0, time=time)
        if match := STARTED_NUMBER.search(text):
            self._number = int(match["number"])
        elif (match := STARTED.search(text)) and self._number is not None:
            for rank in _numbers(match["ranks"]):
                yield RankState(rank, REPORT, self._number, match["operation"], is_waiting=True, time=time)


def _watchdog(text: str, time: float) -> Iterator[RankState]:
    """Yields the state of the rank that writes a line of the watchdog."""
    own = OWN.search(text)
    named = own or PREFIX.search(text)
    if named is None:
        return
    rank, group = int(named["rank"]), _group(own["group"] or "") if own else ""
    if match := TIMEOUT.search(text):
        number, waited = int(match["number"]), int(match["ms"]) / 1000
        yield RankState(rank, group, number, match["operation"], is_waiting=True, waited=waited, time=time)
    # A number of a group without any collective is not set, and can be anything.
    elif (match := STATUS.search(text)) and -1 <= int(match["done"]) <= int(match["begun"]):
        begun, done = int(match["begun"]), int(match["done"])
        # What is enqueued beyond the collective that hangs says nothing of who joined it.
        waits_in = int(match["hang"]) if match["hang"] else done + 1 if begun > done else None
        number = max(begun, 0) if waits_in is None else waits_in
        yield RankState(rank, group, number, is_waiting=waits_in is not None, time=time)


def _group(text: str) -> str:
    """Returns the name of a process group, which several versions write in several ways."""
    match = GUID.search(text)
    return match["guid"] if match else text


def _numbers(text: str) -> list[int]:
    return [int(word) for word in re.findall(r"\d{1,7}", text)]
