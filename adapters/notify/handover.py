"""Handover of notification progress to another controller, so that no notification is lost between the two.

The leader writes into the leader file, with each renewal, how far behind each event notifier is, and marks of its
latest deliveries. The other controllers keep their own notifications until they read that an equal one was delivered. A
new leader delivers the rest. Two controllers may see the same event a few seconds apart, and their clocks may differ by
as much. In doubt a notification is delivered twice rather than never, under the same incident's id:
what receivers believe to be open is in the file as well (`open_reports`), before it is delivered.
"""

import hashlib
import json
import secrets
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from skewscope.adapters.notify.base import OPENED, RESOLVED, WITHDRAWN, Notification
from skewscope.adapters.notify.open_reports import OpenReports, parse_reports, place_of
from skewscope.adapters.notify.report_ledger import KEPT_FOR, ReportLedger, parse_ledger
from skewscope.kb.field_reader import is_finite_number

CLOCK_MARGIN = 10.0
"""Seconds by which two controllers may see the same event apart."""
MAX_MARKS = 200
"""Marks written per notifier."""


@dataclass(frozen=True, slots=True)
class LeaderProgress:
    """Progress of one notifier as reported by the previous leader."""

    until: float
    """Everything up to this time was delivered, seconds since 1970 by the local clock."""
    marks: Counter[str]
    """Number of deliveries around that time, by mark."""


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
    _ledgers: dict[str, ReportLedger] = field(default_factory=dict)
    """What receivers were told and is over, by notifier."""

    def record_delivery(self, notifier: str, notification: Notification) -> None:
        """Records that a notification was delivered."""
        reports, (what, _, one) = self.reports_of(notifier), notification.update
        report = reports.by_place.get(place_of(one))
        if what in (RESOLVED, WITHDRAWN) and report is not None:
            ended_at = one.resolved_at if one.resolved_at is not None else notification.t
            self._ledger_of(notifier, notification.t).record_end(report, ended_at)
        reports.record_delivery(notification)
        self._delivered.setdefault(notifier, deque(maxlen=MAX_MARKS)).append(
            (notification.t, notification_mark(notification))
        )

    def format_progress(self, now: float, until: Mapping[str, float]) -> str:
        """Returns the line for a successor: `until` is the time up to which each notifier has delivered everything."""
        text = {}
        for notifier, end in until.items():
            marks = [name for t, name in self._delivered.get(notifier, ()) if t >= end - 2 * self.margin]
            reports, ledger = self.reports_of(notifier), self._ledger_of(notifier, now)
            text[notifier] = [round(max(now - end, 0.0), 3), marks, reports.as_json(), ledger.as_json(now)]
        return json.dumps(text, separators=(",", ":"))

    def receive_progress(self, now: float, text: str) -> None:
        """Parses the line of the present or previous leader; an invalid line is ignored."""
        try:
            said = json.loads(text)
        except (ValueError, RecursionError):
            return
        self.session = secrets.token_hex(4)
        for notifier, one in said.items() if isinstance(said, dict) else ():
            # Versions before 2026-11 wrote no open reports, those before 2026-12 none that were over.
            if not isinstance(one, list) or len(one) < 2:
                continue
            lag, marks, reports, ledger = [*one, None, None][:4]
            if is_finite_number(lag) and isinstance(marks, list):
                self._progress[notifier] = LeaderProgress(now - lag, Counter(map(str, marks)))
                self._reports[notifier] = parse_reports(reports)
                self._ledgers[notifier] = parse_ledger(ledger, now)

    def _ledger_of(self, notifier: str, now: float) -> ReportLedger:
        return self._ledgers.setdefault(notifier, ReportLedger(now))

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
            return not ours and notification.t <= now - KEPT_FOR
        return notification.t <= heard.until - self.margin

    def was_missed(self, notifier: str, opening: Notification, ended_at: float | None, now: float) -> bool:
        """Returns whether no report that is over was of an incident that may still be of use.

        Args:
            notifier: name of the notifier.
            opening: the notification of its beginning.
            ended_at: when it ended; None where that is not known.
            now: the time, by the clock of the notifications.
        """
        ledger, one = self._ledgers.get(notifier), opening.update.incident
        if ledger is None or now - opening.t > KEPT_FOR:
            return False
        end = max(one.opened_at, ended_at if ended_at is not None else one.opened_at)
        return ledger.certainly_lacks(place_of(one), one.opened_at, end, self.margin)

    def consume_mark(self, notifier: str, notification: Notification) -> bool:
        """Returns whether another controller just delivered it; called once per notification, before delivery.

        Openings and ends are known by their places instead, where those are known: one fault may follow another there.
        """
        if self.reports_of(notifier).known and notification.update.what in (OPENED, RESOLVED, WITHDRAWN):
            return False
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
