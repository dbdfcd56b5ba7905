"""How far one controller has told, for the one that takes over from it: so that nothing is lost between the two.

Whoever leads writes into the file of the leader, with each renewal, how far behind each of its messengers is, and marks
of what was told last. The others keep their own letters until they hear that the like was told. Who takes over tells
the rest. Clocks of two machines are never compared: only how long ago something was, and two controllers may see the
same a few seconds apart, so that in doubt a thing is told twice and never not at all.
"""

import hashlib
import json
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from skewscope.adapters.notify.base import Notification
from skewscope.kb.field_reader import is_finite_number

CLOCK_MARGIN = 10.0
"""Seconds by which two controllers may see the same thing apart."""
MAX_MARKS = 200
"""Of one messenger, that are written down."""
STALE_AFTER = 600.0
"""Seconds after which a letter is not told any more to whom nobody tells anything, as far as anybody hears."""


@dataclass(frozen=True, slots=True)
class LeaderProgress:
    """What was heard of one messenger of who led before."""

    until: float
    """Everything up to then was told, s since 1970 by our clock."""
    marks: Counter[str]
    """What was told about then, each as often as it was."""


@dataclass
class Handover:
    """What one controller knows of it."""

    margin: float = CLOCK_MARGIN
    """Seconds before which what was told needs no mark."""
    _delivered: dict[str, deque[tuple[float, str]]] = field(default_factory=dict)
    """When and what we told last, by messenger."""
    _progress: dict[str, LeaderProgress] = field(default_factory=dict)

    def record_delivery(self, teller: str, letter: Notification) -> None:
        """A letter has arrived."""
        self._delivered.setdefault(teller, deque(maxlen=MAX_MARKS)).append((letter.t, notification_mark(letter)))

    def format_progress(self, now: float, until: Mapping[str, float]) -> str:
        """A line for whoever takes over: all is told to each messenger up to a time."""
        said = {}
        for teller, end in until.items():
            marks = [name for t, name in self._delivered.get(teller, ()) if t >= end - 2 * self.margin]
            said[teller] = [round(max(now - end, 0.0), 3), marks]
        return json.dumps(said, separators=(",", ":"))

    def receive_progress(self, now: float, text: str) -> None:
        """Takes in the line of who leads, or led; what is none says nothing."""
        try:
            said = json.loads(text)
        except (ValueError, RecursionError):
            return
        for teller, one in said.items() if isinstance(said, dict) else ():
            if isinstance(one, list) and len(one) == 2 and is_finite_number(one[0]) and isinstance(one[1], list):
                self._progress[teller] = LeaderProgress(now - float(one[0]), Counter(map(str, one[1])))

    def is_obsolete(self, teller: str, letter: Notification, now: float, *, ours: bool) -> bool:
        """Whether somebody else told this long ago, or has told nothing for so long that it is of no use any more.

        Args:
            teller: whom it is for.
            letter: the letter.
            now: the time, by the clock that letters have theirs from.
            ours: whether it is our turn to tell it.
        """
        heard = self._progress.get(teller)
        if heard is None:
            return not ours and letter.t <= now - STALE_AFTER
        return letter.t <= heard.until - self.margin

    def consume_mark(self, teller: str, letter: Notification) -> bool:
        """Whether somebody else told this a moment ago; asked once of each letter, before we tell it."""
        heard = self._progress.get(teller)
        if heard is None or letter.t > heard.until + self.margin or not heard.marks[name := notification_mark(letter)]:
            return False
        heard.marks[name] -= 1
        return True


def notification_mark(letter: Notification) -> str:
    """What a letter tells, the same for all controllers."""
    one = letter.update.incident
    told = json.dumps([letter.update.what, one.condition, one.kind, one.name])
    return hashlib.sha256(told.encode()).hexdigest()[:8]
