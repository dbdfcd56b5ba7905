"""The tables of a store, version by version, and what a controller reads of them when it starts."""

from skewscope.adapters.actions import acting_rows, ledger
from skewscope.adapters.controller import agent_registry
from skewscope.adapters.notify import outbox
from skewscope.engine.model.incident import DIAGNOSIS

MAX_ACTIONS_AT_START = 10_000
"""Latest actions that a controller reads where it cannot write; those that may still change something are of today."""

CATEGORY = f"coalesce(json_extract(told, '$.kind'), '{DIAGNOSIS}')"
"""Whether an incident is a diagnosis or a symptom, in SQL: objects before version 3 have no kind, and are diagnoses."""

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """CREATE TABLE incidents (
            id TEXT PRIMARY KEY, state TEXT NOT NULL, condition TEXT NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL,
            opened_at REAL NOT NULL, resolved_at REAL, changed_at REAL NOT NULL, told TEXT NOT NULL) STRICT""",
        "CREATE INDEX incidents_by_state ON incidents (state, opened_at)",
        """CREATE TABLE history (
            number INTEGER PRIMARY KEY AUTOINCREMENT, incident TEXT NOT NULL, t REAL NOT NULL,
            what TEXT NOT NULL) STRICT""",
        "CREATE INDEX history_by_incident ON history (incident)",
        """CREATE TABLE evidence (
            incident TEXT NOT NULL, side TEXT NOT NULL, name TEXT NOT NULL, verdict TEXT NOT NULL,
            weight REAL NOT NULL, value REAL, unit TEXT NOT NULL, expr TEXT NOT NULL) STRICT""",
        "CREATE INDEX evidence_by_incident ON evidence (incident)",
        """CREATE TABLE advice (
            incident TEXT NOT NULL, mitigation TEXT NOT NULL, actor TEXT NOT NULL, why TEXT NOT NULL) STRICT""",
        "CREATE INDEX advice_by_incident ON advice (incident)",
        """CREATE TABLE audit (
            number INTEGER PRIMARY KEY, t REAL NOT NULL, who TEXT NOT NULL, what TEXT NOT NULL, told TEXT NOT NULL,
            previous TEXT NOT NULL, hash TEXT NOT NULL) STRICT""",
    ),
    (
        """CREATE TABLE silences (
            id TEXT PRIMARY KEY, match TEXT NOT NULL, starts REAL NOT NULL, ends REAL, owner TEXT NOT NULL,
            comment TEXT NOT NULL, ended TEXT NOT NULL) STRICT""",
        *outbox.TABLES,
    ),
    agent_registry.TABLES,
    ledger.TABLES,
    outbox.ACTION_TABLES,
    (
        # Where the time that passed was not kept, it begins with this version.
        "ALTER TABLE incidents ADD COLUMN ended REAL",
        "UPDATE incidents SET ended = 0.0 WHERE state = 'resolved'",
        "CREATE TABLE elapsed (number INTEGER PRIMARY KEY, at REAL NOT NULL, seconds REAL NOT NULL) STRICT",
        "CREATE TABLE waits (incident TEXT PRIMARY KEY, unseen REAL NOT NULL, waited REAL NOT NULL) STRICT",
    ),
    agent_registry.MORE_COLUMNS,
    acting_rows.TABLES,
    (
        # What a tick or a request looks for must not take longer, the longer the history is.
        "CREATE INDEX incidents_by_age ON incidents (ended) WHERE ended IS NOT NULL",
        "CREATE INDEX incidents_by_time ON incidents (opened_at DESC, id)",
        f"CREATE INDEX incidents_by_category ON incidents ({CATEGORY}, opened_at DESC, id)",
        "CREATE INDEX incidents_by_resolution ON incidents (resolved_at)",
    ),
)
"""What each schema version adds to the previous one; existing entries never change."""


ROWS_AT_START = (
    ("incidents", (), "SELECT * FROM incidents WHERE state = 'firing'"),
    # A notifier may have to be told the end of one that is over.
    ("incidents", ("telling",), "SELECT * FROM incidents WHERE id IN (SELECT incident FROM telling)"),
    ("silences", (), "SELECT * FROM silences WHERE ended = ''"),
    *(
        (table, (), f"SELECT * FROM {table}")  # noqa: S608
        for table in ("telling", "acting", "agents", "waits", "elapsed", "acting_values")
    ),
    ("actions", (), f"SELECT * FROM actions ORDER BY created DESC LIMIT {MAX_ACTIONS_AT_START}"),  # noqa: S608
)
"""What a controller reads of its store when it starts: that is all it needs where it cannot write."""
