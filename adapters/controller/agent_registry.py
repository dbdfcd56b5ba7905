"""Persistent registry of agents: after a restart, an agent that died meanwhile is reported as missing."""

import sqlite3
from collections.abc import Iterable
from typing import NamedTuple

TABLES = ("CREATE TABLE agents (node TEXT PRIMARY KEY, version TEXT NOT NULL, heard REAL NOT NULL) STRICT",)
MORE_COLUMNS = ("ALTER TABLE agents ADD COLUMN passed REAL",)
"""By the time that passed, not by the clock, which may be set: when an agent was last heard."""
FORGET_AFTER = 86400.0
"""Seconds after which a silent agent is removed."""


class AgentRecord(NamedTuple):
    """The agent of a node, and the time of its last row."""

    node: str
    version: str
    last_seen: float
    """Seconds since 1970."""


def load_agents(connection: sqlite3.Connection) -> list[AgentRecord]:
    """Returns all registered agents."""
    return [AgentRecord(*row) for row in connection.execute("SELECT node, version, heard FROM agents ORDER BY node")]


def save_agents(connection: sqlite3.Connection, agents: Iterable[AgentRecord], passed: float) -> None:
    """Stores the times of agents in the open transaction, and removes those that were silent for long.

    Args:
        connection: of the store.
        agents: those of this run.
        passed: seconds that have passed since the store was created.
    """
    save = """INSERT INTO agents VALUES (?, ?, ?, ?) ON CONFLICT (node) DO UPDATE SET version = excluded.version,
        passed = iif(heard = excluded.heard, passed, excluded.passed), heard = excluded.heard"""
    connection.executemany(save, [(*one, passed) for one in agents])
    connection.execute("UPDATE agents SET passed = ? WHERE passed IS NULL", (passed,))
    connection.execute("DELETE FROM agents WHERE passed < ?", (passed - FORGET_AFTER,))
