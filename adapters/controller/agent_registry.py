"""Which agents there are, kept over a restart: one that died meanwhile is missed, and not simply unknown."""

import sqlite3
from collections.abc import Iterable
from typing import NamedTuple

TABLES = ("CREATE TABLE agents (node TEXT PRIMARY KEY, version TEXT NOT NULL, heard REAL NOT NULL) STRICT",)
FORGET_AFTER = 86400.0
"""Seconds after which an agent that is not heard any more is no longer missed."""


class AgentRecord(NamedTuple):
    """The agent of a node, and when it was heard last."""

    node: str
    version: str
    last_seen: float
    """Seconds since 1970."""


def load_agents(connection: sqlite3.Connection) -> list[AgentRecord]:
    """All agents that are missed when they are silent."""
    return [AgentRecord(*row) for row in connection.execute("SELECT node, version, heard FROM agents ORDER BY node")]


def save_agents(connection: sqlite3.Connection, agents: Iterable[AgentRecord], now: float) -> None:
    """Keeps when some were heard, as part of the transaction that is open, and drops who is missed no more."""
    connection.executemany("INSERT OR REPLACE INTO agents VALUES (?, ?, ?)", agents)
    connection.execute("DELETE FROM agents WHERE heard < ?", (now - FORGET_AFTER,))
