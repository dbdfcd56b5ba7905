"""The driver error of a GPU (Xid) that evidence was decided by, and the commands that are for it. Pure."""

import re
from collections.abc import Iterable, Sequence

from skewscope.kb.model import MitigationCommand

_compared_error = re.compile(r"\bgpu\.xid == (\d{1,3})\b")


def find_error(evidence: Iterable[tuple[str, float | None]]) -> int:
    """Returns the Xid that was seen, 0 where none was.

    Args:
        evidence: expression and value of each item that holds, strongest first. What an item was decided by is an Xid
            where its expression compares the newest one with that number.
    """
    for expr, value in evidence:
        compared = {float(number) for number in _compared_error.findall(expr)}
        if value in compared:
            return int(value)
    return 0


def order_commands(commands: Sequence[MitigationCommand], error: int) -> tuple[MitigationCommand, ...]:
    """Returns the commands, those for other errors than the one that was seen last; 0 changes nothing."""
    return tuple(sorted(commands, key=lambda one: bool(error and one.errors and error not in one.errors)))
