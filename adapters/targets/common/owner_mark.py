"""Owner marks in texts that a target keeps for people, such as the reason of a drain: `skewscope:ACTION REASON`."""

import re

from skewscope.adapters.targets.common.base import TargetError

PREFIX = "skewscope:"
MAX_REASON = 120
"""Characters of the reason after the mark."""
MARK = re.compile(r"skewscope:(?P<action>[A-Za-z0-9][A-Za-z0-9._-]{0,63})(?: |$)")
ACTION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
# Quotes and backslashes have a meaning for some of the programs that show or take a reason.
FORBIDDEN = re.compile(r"[^ -~]|[\"'`\\$;|=]")


def write_mark(action: str, reason: str) -> str:
    """Returns a line that begins with the owner mark of an action.

    Raises:
        TargetError: the id of the action cannot be a mark.
    """
    if not ACTION.fullmatch(action):
        raise TargetError(f"{action!r:.80} is no id of an action")
    rest = " ".join(FORBIDDEN.sub(" ", reason).split())[:MAX_REASON]
    return f"{PREFIX}{action} {rest}".rstrip()


def read_mark(text: str) -> str:
    """Returns the action whose owner mark a line begins with; '' for none."""
    match = MARK.match(text)
    return match["action"] if match else ""
