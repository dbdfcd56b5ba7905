"""Persistent registry of agents: after a restart, an agent that died meanwhile is reported as missing."""

import sqlite3
from collections.abc import Iterable
from typing import NamedTuple

TABLES = ("CREATE TABLE agents (node TEXT PRIMARY KEY, version TEXT NOT NULL, heard REAL NOT NULL) STRICT",)
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


def save_agents(connection: sqlite3.Connection, agents: Iterable[AgentRecord], now: float) -> None:
    """Stores the times of agents in the open transaction, and removes outdated ones."""
    connection.executemany("INSERT OR REPLACE INTO agents VALUES (?, ?, ?)", agents)
    connection.execute("DELETE FROM agents WHERE heard < ?", (now - FORGET_AFTER,))
