"""The audit log: lines that are chained by their hashes, so that none can be changed or taken out unseen.

The hash of a line is SHA-256 over the hash of the line before and the line itself as canonical JSON. Cutting lines off
the end shows only to who noted the last hash; `verified` gives it.
"""

import hashlib
import json
import sqlite3
from collections.abc import Mapping
from typing import Any, NamedTuple

from skewscope.kb.problems import InputError, Problem

GENESIS_HASH = "0" * 64
"""What stands before the first line."""


class AuditLine(NamedTuple):
    """One line of the log."""

    number: int
    t: float
    """Seconds since 1970."""
    actor: str
    action: str
    details: str
    """Canonical JSON of what belongs to it."""

    def compute_hash(self, previous: str) -> str:
        """Its hash, behind that of the line before."""
        content = canonical_json([self.number, self.t, self.actor, self.action, json.loads(self.details)])
        return hashlib.sha256(previous.encode() + content.encode()).hexdigest()


def canonical_json(told: object) -> str:
    """JSON in one way only: sorted keys, no blanks, numbers as Python writes them."""
    return json.dumps(told, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def append(connection: sqlite3.Connection, t: float, who: str, what: str, told: Mapping[str, Any]) -> None:
    """Adds a line, as part of the transaction that is open."""
    row = connection.execute("SELECT number, hash FROM audit ORDER BY number DESC LIMIT 1").fetchone()
    number, previous = row or (0, GENESIS_HASH)
    line = AuditLine(number + 1, t, who, what, canonical_json(told))
    connection.execute("INSERT INTO audit VALUES (?, ?, ?, ?, ?, ?, ?)", (*line, previous, line.compute_hash(previous)))


def verify_chain(connection: sqlite3.Connection, file: str) -> tuple[int, str]:
    """How many lines there are, and the hash of the last.

    Raises:
        InputError: a line is not what was written, with its number.
    """
    number, before = 0, GENESIS_HASH
    for *row, previous, hashed in connection.execute("SELECT * FROM audit ORDER BY number"):
        number += 1
        line = AuditLine(*row)
        if line.number != number:
            raise _integrity_error(file, number, f"line {line.number}", "it: a line is missing")
        if previous != before or not _matches_hash(line, previous, hashed):
            raise _integrity_error(file, number, "a hash that does not fit", "the line as it was written")
        before = hashed
    return number, before


def _matches_hash(line: AuditLine, previous: str, hashed: str) -> bool:
    try:
        return line.compute_hash(previous) == hashed
    except (ValueError, AttributeError, TypeError):
        return False


def _integrity_error(file: str, number: int, found: str, expected: str) -> InputError:
    hint = "The log was changed; compare it with a copy that was kept elsewhere."
    return InputError([Problem(file, 0, f"audit line {number}", found, expected, hint)])
