"""What receivers were told and is over, handed from leader to leader with the file in which they compete.

A controller that has just started sees less than one whose windows are full. So the other one keeps what it saw until
it reads that its place was reported at that time, and reports the rest once it leads. The account is in the file, so
that it outlives each controller, even where both are restarted. It holds times, no ages: the file may be read long
after its last writer died. Clocks that are apart by less than the margin between controllers do no harm.
"""

import hashlib
import json
import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

from skewscope.adapters.notify.open_reports import OpenReport, Place
from skewscope.kb.field_reader import is_finite_number

KEPT_FOR = 600.0
"""Seconds for which a report that is over is remembered: an older incident is of no use to a receiver any more."""
MAX_SPANS = 200
"""Reports that are over, remembered per notifier; about 10 KB in the file."""
HASH_DIGITS = 12


class ReportedSpan(NamedTuple):
    """A report that is over: at which place, and from when to when, seconds since 1970."""

    place: str
    opened_at: float
    ended_at: float


def hash_place(place: Place) -> str:
    """Returns what stands for a place in the file."""
    return hashlib.sha256(json.dumps(place).encode()).hexdigest()[:HASH_DIGITS]


@dataclass
class ReportLedger:
    """The reports of one notifier that are over."""

    since: float = math.inf
    """Seconds since 1970 after which no end of a report is missing."""
    spans: deque[ReportedSpan] = field(default_factory=deque)

    def record_end(self, report: OpenReport, ended_at: float) -> None:
        """Records that the end of a report was delivered."""
        self.spans.append(ReportedSpan(hash_place(report.place), report.opened_at, max(ended_at, report.opened_at)))
        self._forget()

    def _forget(self) -> None:
        while len(self.spans) > MAX_SPANS:
            self.since = max(self.since, self.spans.popleft().ended_at)

    def certainly_lacks(self, place: Place, opened_at: float, ended_at: float, margin: float) -> bool:
        """Returns whether no report that is over was of an incident.

        Args:
            place: where the incident was.
            opened_at: when it began, seconds since 1970.
            ended_at: when it ended; its beginning where that is not known.
            margin: seconds by which two controllers may see one fault apart.
        """
        if opened_at - margin < self.since:
            return False
        name = hash_place(place)
        return not any(
            one.place == name and one.opened_at - margin <= ended_at and opened_at <= one.ended_at for one in self.spans
        )

    def as_json(self, now: float) -> list[Any]:
        """Returns it as JSON values; `parse_ledger` reads them."""
        recent = [one for one in self.spans if one.ended_at >= now - KEPT_FOR]
        return [round(max(self.since, now - KEPT_FOR), 3), [[*one] for one in recent]]


def parse_ledger(data: object, now: float) -> ReportLedger:
    """Returns what `ReportLedger.as_json` returned; where it is damaged, nothing before now is known."""
    if not isinstance(data, list) or len(data) != 2 or not isinstance(data[1], list) or not is_finite_number(data[0]):
        return ReportLedger(now)
    since, said = data
    spans = deque(_parse_spans(islice(said, MAX_SPANS)))
    return ReportLedger(float(since) if len(spans) == len(said) else now, spans)


def _parse_spans(data: Iterable[object]) -> Iterable[ReportedSpan]:
    for one in data:
        if isinstance(one, list) and len(one) == 3 and isinstance(one[0], str) and len(one[0]) == HASH_DIGITS:
            place, opened_at, ended_at = one
            if is_finite_number(opened_at) and is_finite_number(ended_at):
                yield ReportedSpan(place, float(opened_at), float(ended_at))
