"""What acting keeps in the controller's store beside its actions: one JSON value by name."""

import json
import sqlite3
from typing import Any

TABLES = ("CREATE TABLE acting_values (name TEXT PRIMARY KEY, content TEXT NOT NULL) STRICT",)
FREEZE, SHADOW = "freeze", "shadow"


def save_value(connection: sqlite3.Connection, name: str, value: Any) -> None:
    """Writes a value in the open transaction; None removes it."""
    if value is None:
        connection.execute("DELETE FROM acting_values WHERE name = ?", (name,))
        return
    row = (name, json.dumps(value, allow_nan=False))
    connection.execute("INSERT OR REPLACE INTO acting_values VALUES (?, ?)", row)


def load_value(connection: sqlite3.Connection, name: str) -> Any:
    """Returns a value; None where there is none.

    Raises:
        ValueError: it is damaged.
    """
    row = connection.execute("SELECT content FROM acting_values WHERE name = ?", (name,)).fetchone()
    return None if row is None else json.loads(row[0])
