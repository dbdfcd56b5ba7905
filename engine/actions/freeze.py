"""A freeze: no new change begins until it is thawed, or until its time is over. An immutable value."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from skewscope.engine.model.incident import rfc3339


@dataclass(frozen=True, slots=True)
class Freeze:
    """Who froze all actions, when and why. Times are seconds since 1970."""

    since: float
    who: str
    why: str
    until: float | None = None
    """When it ends by itself; None where somebody has to thaw."""
    holds_undos: bool = False
    """Whether changes in place are not taken back either."""

    def covers(self, t: float) -> bool:
        """Returns whether it holds at a time."""
        return self.until is None or t < self.until

    def shift(self, seconds: float) -> "Freeze":
        """Returns it after the clock was set by some seconds: it lasts as long as it was asked for."""
        until = None if self.until is None else self.until + seconds
        return replace(self, since=self.since + seconds, until=until)

    def describe(self) -> str:
        """Returns it as a sentence: who, until when, why."""
        end = "until it is thawed" if self.until is None else f"until {rfc3339(self.until)}"
        undos = ", undos are held too" if self.holds_undos else ""
        return f"frozen by {self.who} {end}{undos}: {self.why}"


def freeze_to_json(freeze: Freeze) -> dict[str, Any]:
    """Returns a freeze as JSON values; `parse_freeze` reads them again."""
    return {
        "since": freeze.since,
        "since_at": rfc3339(freeze.since),
        "who": freeze.who,
        "why": freeze.why,
        "until": freeze.until,
        "until_at": None if freeze.until is None else rfc3339(freeze.until),
        "holds_undos": freeze.holds_undos,
    }


def parse_freeze(data: Mapping[str, Any]) -> Freeze:
    """Parses what `freeze_to_json` returned.

    Raises:
        KeyError, TypeError, ValueError: it is not such an object.
    """
    until = data["until"]
    end = None if until is None else float(until)
    return Freeze(float(data["since"]), str(data["who"]), str(data["why"]), end, data["holds_undos"] is True)
