"""Stores actions in the controller's store: each new state before the calls that it stands for."""

import json
import sqlite3
from collections.abc import Collection
from contextlib import suppress
from typing import Any

from skewscope.engine.actions.action import LIVE_STATES, Action, action_to_json, parse_action

TABLES = (
    """CREATE TABLE actions (
        id TEXT PRIMARY KEY, state TEXT NOT NULL, mitigation TEXT NOT NULL, outcome TEXT NOT NULL,
        incident TEXT NOT NULL, created REAL NOT NULL, ended REAL, told TEXT NOT NULL) STRICT""",
    "CREATE INDEX actions_by_time ON actions (created)",
    "CREATE INDEX actions_by_incident ON actions (incident)",
)


def save_action(connection: sqlite3.Connection, action: Action) -> None:
    """Writes an action in the open transaction."""
    row = (
        *(action.id, action.state, action.reason.mitigation, action.outcome, action.reason.incident),
        *(action.created, action.ended_at, json.dumps(action_to_json(action), allow_nan=False)),
    )
    connection.execute("INSERT OR REPLACE INTO actions VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)


def load_actions(connection: sqlite3.Connection, since: float, incidents: Collection[str] = ()) -> list[Action]:
    """Returns the actions that are live, those that ended since a time, and those for some incidents, oldest first.

    Raises:
        ValueError: an entry is damaged.
    """
    marks = ", ".join("?" for _ in LIVE_STATES)
    query = f"""SELECT told FROM actions WHERE state IN ({marks}) OR ended >= ?
        OR incident IN (SELECT value FROM json_each(?)) ORDER BY created, id"""  # noqa: S608
    values = (*LIVE_STATES, since, json.dumps(list(incidents)))
    try:
        return [parse_action(json.loads(told)) for (told,) in connection.execute(query, values)]
    except (KeyError, TypeError) as error:
        raise ValueError(f"an action in the store cannot be read: {error}") from None


def list_actions(connection: sqlite3.Connection, most: int) -> list[dict[str, Any]]:
    """Returns the latest actions as JSON values, latest first."""
    rows = connection.execute("SELECT told FROM actions ORDER BY created DESC, id LIMIT ?", (most,))
    return [json.loads(told) for (told,) in rows]


def find_action(connection: sqlite3.Connection, id_: str) -> dict[str, Any] | None:
    """Returns one action as JSON values; None if there is none."""
    row = connection.execute("SELECT told FROM actions WHERE id = ?", (id_,)).fetchone()
    return None if row is None else dict(json.loads(row[0]))


def read_standing(connection: sqlite3.Connection, id_: str) -> tuple[str, bool]:
    """Returns the stored state of an action, and whether its undo is stuck; '' and False for one that is not stored."""
    found = find_action(connection, id_) or {}
    return str(found.get("state", "")), found.get("stuck") is True


def find_actions_of(connection: sqlite3.Connection, incident: str, most: int) -> list[Action]:
    """Returns the latest actions for an incident, latest first; those that cannot be read are left out."""
    query = "SELECT told FROM actions WHERE incident = ? ORDER BY created DESC, id LIMIT ?"
    found: list[Action] = []
    for (told,) in connection.execute(query, (incident, most)):
        with suppress(KeyError, TypeError, ValueError):
            found.append(parse_action(json.loads(told)))
    return found


def list_incidents_acted_upon(connection: sqlite3.Connection, since: float) -> frozenset[str]:
    """Returns the incidents for which something was changed that was in place since a time."""
    query = """SELECT DISTINCT incident FROM actions
        WHERE json_extract(told, '$.called_at') IS NOT NULL AND (ended IS NULL OR ended >= ?)"""
    return frozenset(incident for (incident,) in connection.execute(query, (since,)))


def count_outcomes(connection: sqlite3.Connection) -> list[dict[str, Any]]:
    """Returns how often each mitigation helped here: carried out, helped, not helped, unproven, share recovered."""
    query = """
        SELECT mitigation, count(*), sum(outcome = 'helped'), sum(outcome = 'not helped'), sum(outcome = 'unproven'),
            avg(json_extract(told, '$.measurement.recovery')) FROM actions
        WHERE json_extract(told, '$.applied_at') IS NOT NULL GROUP BY mitigation ORDER BY mitigation"""
    names = ("mitigation", "carried_out", "helped", "not_helped", "unproven", "recovery")
    return [dict(zip(names, row, strict=True)) for row in connection.execute(query)]
