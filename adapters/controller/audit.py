"""The audit log: lines chained by hashes, so that no line can be changed or removed unnoticed.

The hash of a line is SHA-256 over the hash of the previous line and the line itself as canonical JSON. Lines that
are cut off at the end are noticed by comparison with a head that was noted elsewhere.
"""

import hashlib
import json
import math
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from skewscope.adapters.controller.audit_head import AuditHead
from skewscope.engine.model.incident import rfc3339
from skewscope.kb.problems import InputError, Problem

GENESIS_HASH = "0" * 64
"""The hash before the first line."""
EMPTY_HEAD = AuditHead(0, GENESIS_HASH)


class AuditLine(NamedTuple):
    """One line of the log."""

    number: int
    t: float
    """Seconds since 1970."""
    actor: str
    action: str
    details: str
    """Further data, as canonical JSON."""

    def as_json(self) -> dict[str, Any]:
        """Returns the line as JSON values."""
        details = json.loads(self.details)
        return {
            "line": self.number,
            "time": rfc3339(self.t),
            "who": self.actor,
            "what": self.action,
            "details": details,
        }

    def compute_hash(self, previous: str) -> str:
        """Returns its hash, given the hash of the previous line."""
        content = canonical_json([self.number, self.t, self.actor, self.action, json.loads(self.details)])
        return hashlib.sha256(previous.encode() + content.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Which lines of the log to show."""

    since: float = -math.inf
    """Seconds since 1970."""
    until: float = math.inf
    """The same; the first time that is left out."""
    who: str = ""
    """'' for everybody."""
    what: str = ""
    """Text in what was done or in its details."""


def canonical_json(payload: object) -> str:
    """Returns JSON in canonical form: sorted keys, no blanks, numbers in Python's notation."""
    return json.dumps(payload, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def append(connection: sqlite3.Connection, t: float, who: str, what: str, payload: Mapping[str, Any]) -> None:
    """Appends a line in the open transaction."""
    number, previous = find_head(connection)
    line = AuditLine(number + 1, t, who, what, canonical_json(payload))
    connection.execute("INSERT INTO audit VALUES (?, ?, ?, ?, ?, ?, ?)", (*line, previous, line.compute_hash(previous)))


def find_head(connection: sqlite3.Connection) -> AuditHead:
    """Returns the newest line's number and hash."""
    row = connection.execute("SELECT number, hash FROM audit ORDER BY number DESC LIMIT 1").fetchone()
    return AuditHead(*(row or EMPTY_HEAD))


def find_lost_lines(connection: sqlite3.Connection, head: AuditHead) -> str:
    """Returns which lines a log lacks that it had when its head was written, in words; '' for none."""
    row = connection.execute("SELECT hash FROM audit WHERE number = ?", (head.number,)).fetchone()
    if not head.number or row == (head.hash,):
        return ""
    newest = find_head(connection).number
    if newest < head.number:
        return f"audit lines {newest + 1} to {head.number} are missing at the end"
    return f"audit line {head.number} is not the one that was written"


def verify_chain(connection: sqlite3.Connection, file: str, head: AuditHead | None = None) -> tuple[int, str]:
    """Returns the number of lines and the hash of the last one.

    Args:
        connection: of the store.
        file: names the store in errors.
        head: what was noted of the log before; it may have grown since.

    Raises:
        InputError: a line was changed or removed; the error names its number.
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
    if head is not None and (lost := find_lost_lines(connection, head)):
        hint = "The store lost what was written last, or was replaced by an older copy."
        raise InputError([Problem(file, 0, "audit log", lost, f"line {head.number} with the hash {head.hash}", hint)])
    return number, before


def find_lines(connection: sqlite3.Connection, wanted: AuditFilter, most: int) -> list[AuditLine]:
    """Returns the newest lines that a filter admits, in the order of the log."""
    query = """SELECT number, t, who, what, told FROM audit WHERE t >= ? AND t < ? AND ? IN ('', who)
        AND (instr(what, ?) OR instr(told, ?)) ORDER BY number DESC LIMIT ?"""
    values = (wanted.since, wanted.until, wanted.who, wanted.what, wanted.what, most)
    return [AuditLine(*row) for row in connection.execute(query, values)][::-1]


def _matches_hash(line: AuditLine, previous: str, hashed: str) -> bool:
    try:
        return line.compute_hash(previous) == hashed
    except (ValueError, AttributeError, TypeError):
        return False


def _integrity_error(file: str, number: int, found: str, expected: str) -> InputError:
    hint = "The log was changed; compare it with a copy that was kept elsewhere."
    return InputError([Problem(file, 0, f"audit line {number}", found, expected, hint)])
