"""Handover of notification progress to another controller, so that no notification is lost between the two.

The leader writes into the leader file, with each renewal, how far behind each event notifier is, and marks of its
latest deliveries. The other controllers keep their own notifications until they read that an equal one was delivered. A
new leader delivers the rest. Clocks of two machines are never compared, only ages; two controllers may see the same
event a few seconds apart. In doubt a notification is delivered twice rather than never, under the same incident's id:
what receivers believe to be open is in the file as well (`open_reports`), before it is delivered.
"""

import hashlib
import json
import math
import secrets
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from skewscope.adapters.notify.base import Notification
from skewscope.adapters.notify.open_reports import OpenReports, Place, parse_reports, place_of
from skewscope.kb.field_reader import is_finite_number

CLOCK_MARGIN = 10.0
"""Seconds by which two controllers may see the same event apart."""
T = TypeVar("T")
MAX_MARKS = 200
"""Marks written per notifier."""
STALE_AFTER = 600.0
"""Seconds after which a notification is obsolete if no controller is known to deliver anything."""


@dataclass(frozen=True, slots=True)
class LeaderProgress:
    """Progress of one notifier as reported by the previous leader."""

    until: float
    """Everything up to this time was delivered, seconds since 1970 by the local clock."""
    marks: Counter[str]
    """Number of deliveries around that time, by mark."""


@dataclass
class DeliveryWitness:
    """What another controller was seen to report, line after line of the leader file; times by the local clock."""

    since: float = math.inf
    """Seconds since 1970 from which on no delivery went unseen."""
    until: float = -math.inf
    """Up to which the last line tells of deliveries."""
    _marks: dict[str, float] = field(default_factory=dict)
    _places: dict[Place, float] = field(default_factory=dict)
    """Until when each mark and each open place was last seen."""

    def observe(self, until: float, span: float, marks: Sequence[str], places: Iterable[Place]) -> None:
        """Takes in a line that tells what was delivered in `span` seconds up to a time, and what is open."""
        begin = until if len(marks) >= MAX_MARKS else until - span
        self.since = begin if begin > self.until else min(self.since, begin)
        self.until = max(self.until, until)
        self._marks = self._keep_recent(self._marks) | dict.fromkeys(marks, self.until)
        self._places = self._keep_recent(self._places) | dict.fromkeys(places, self.until)

    def _keep_recent(self, seen: Mapping[T, float]) -> dict[T, float]:
        return {one: time for one, time in seen.items() if time >= self.until - STALE_AFTER}

    def has_missed(self, notification: Notification, margin: float) -> bool:
        """Returns whether the other controller has certainly said nothing of this kind at the time and place."""
        begin = notification.t - margin
        if not self.since <= begin <= notification.t + margin <= self.until:
            return False
        mark, place = notification_mark(notification), place_of(notification.update.incident)
        return self._marks.get(mark, -math.inf) < begin and self._places.get(place, -math.inf) < begin


@dataclass
class Handover:
    """What one controller knows of deliveries, its own and the leader's."""

    margin: float = CLOCK_MARGIN
    """Seconds; older deliveries need no mark."""
    session: str = field(default_factory=lambda: secrets.token_hex(4))
    """Names the time since this controller last heard of another leader."""
    is_shared: bool = False
    """Whether there are other controllers, so that incidents keep the ids under which they were reported."""
    _reports: dict[str, OpenReports] = field(default_factory=dict)
    """What receivers believe to be open, by notifier."""
    _delivered: dict[str, deque[tuple[float, str]]] = field(default_factory=dict)
    """Time and mark of own latest deliveries, by notifier."""
    _progress: dict[str, LeaderProgress] = field(default_factory=dict)
    _witnesses: dict[str, DeliveryWitness] = field(default_factory=dict)

    def record_delivery(self, notifier: str, notification: Notification) -> None:
        """Records that a notification was delivered."""
        self.reports_of(notifier).record_delivery(notification)
        self._delivered.setdefault(notifier, deque(maxlen=MAX_MARKS)).append(
            (notification.t, notification_mark(notification))
        )

    def format_progress(self, now: float, until: Mapping[str, float]) -> str:
        """Returns the line for a successor: `until` is the time up to which each notifier has delivered everything."""
        text = {}
        for notifier, end in until.items():
            marks = [name for t, name in self._delivered.get(notifier, ()) if t >= end - 2 * self.margin]
            text[notifier] = [round(max(now - end, 0.0), 3), marks, self.reports_of(notifier).as_json()]
        return json.dumps(text, separators=(",", ":"))

    def receive_progress(self, now: float, text: str) -> None:
        """Parses the line of the present or previous leader; an invalid line is ignored."""
        try:
            said = json.loads(text)
        except (ValueError, RecursionError):
            return
        self.session = secrets.token_hex(4)
        for notifier, one in said.items() if isinstance(said, dict) else ():
            # Versions before 2026-11 wrote no open reports.
            if isinstance(one, list) and len(one) in (2, 3) and is_finite_number(one[0]) and isinstance(one[1], list):
                until, marks = now - float(one[0]), [str(mark) for mark in one[1]]
                self._progress[notifier] = LeaderProgress(until, Counter(marks))
                reports = self._reports[notifier] = parse_reports(one[2] if len(one) == 3 else None)
                witness = self._witnesses.setdefault(notifier, DeliveryWitness())
                witness.observe(until, 2 * self.margin, marks, reports.by_place)

    def reports_of(self, notifier: str) -> OpenReports:
        """Returns what the receiver of a notifier believes to be open."""
        return self._reports.setdefault(notifier, OpenReports())

    def is_obsolete(self, notifier: str, notification: Notification, now: float, *, ours: bool) -> bool:
        """Returns whether another controller delivered it long ago, or it is too old to be of use.

        Args:
            notifier: name of the notifier.
            notification: the notification.
            now: the time, by the clock of the notifications.
            ours: whether this controller is the active one.
        """
        heard = self._progress.get(notifier)
        if heard is None:
            return not ours and notification.t <= now - STALE_AFTER
        return notification.t <= heard.until - self.margin

    def was_missed(self, notifier: str, notification: Notification, now: float) -> bool:
        """Returns whether the other controller has certainly not reported this, and it may still be of use.

        A leader that has just started sees less than one whose windows are full.
        """
        witness = self._witnesses.get(notifier)
        is_recent = now - notification.t <= STALE_AFTER
        return is_recent and witness is not None and witness.has_missed(notification, self.margin)

    def consume_mark(self, notifier: str, notification: Notification) -> bool:
        """Returns whether another controller just delivered it; called once per notification, before delivery."""
        heard = self._progress.get(notifier)
        if (
            heard is None
            or notification.t > heard.until + self.margin
            or not heard.marks[name := notification_mark(notification)]
        ):
            return False
        heard.marks[name] -= 1
        return True


def notification_mark(notification: Notification) -> str:
    """Returns a mark of the content, equal on all controllers."""
    one = notification.update.incident
    reported = json.dumps([notification.update.what, one.condition, one.kind, one.name])
    return hashlib.sha256(reported.encode()).hexdigest()[:8]
