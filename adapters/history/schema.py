"""The tables of a history folder: names, columns and types. docs/history.md states them for other readers."""

from collections.abc import Mapping
from typing import Any

TEXT, TEXTS, NUMBER, WHOLE, TIME, FLAG = "text", "texts", "number", "whole", "time", "flag"

TABLES: Mapping[str, Mapping[str, str]] = {
    "incidents": {
        "recording": TEXT,
        "id": TEXT,
        "category": TEXT,
        "is_root": FLAG,
        "condition": TEXT,
        "kind": TEXT,
        "entity": TEXT,
        "also": TEXTS,
        "node": TEXT,
        "nodes": TEXTS,
        "rack": TEXT,
        "state": TEXT,
        "opened_at": TIME,
        "resolved_at": TIME,
        "lasted_s": NUMBER,
        "severity": TEXT,
        "confidence": NUMBER,
        "coverage": NUMBER,
        "impact_metric": TEXT,
        "impact_change": NUMBER,
        "impact_unit": TEXT,
        "hit_nodes": WHOLE,
        "hit_groups": WHOLE,
        "hit_replicas": WHOLE,
        "hit_gpus": WHOLE,
        "lost_gpu_hours": NUMBER,
        "explained_by": TEXT,
        "relation": TEXT,
        "candidates": TEXTS,
        "summary": TEXT,
        "moves": WHOLE,
        "rule": TEXT,
        "rule_hash": TEXT,
        "input_hash": TEXT,
        "label": TEXT,
    },
    "evidence": {
        "recording": TEXT,
        "incident": TEXT,
        "condition": TEXT,
        "opened_at": TIME,
        "side": TEXT,
        "name": TEXT,
        "verdict": TEXT,
        "weight": NUMBER,
        "value": NUMBER,
        "unit": TEXT,
        "expr": TEXT,
    },
    "faults": {
        "recording": TEXT,
        "condition": TEXT,
        "entity": TEXT,
        "severity": TEXT,
        "begin": TIME,
        "end": TIME,
        "incident": TEXT,
        "delay_s": NUMBER,
    },
    "nodes": {"recording": TEXT, "node": TEXT, "rack": TEXT, "gpus": WHOLE, "groups": TEXTS},
    "coverage": {
        "recording": TEXT,
        "hour": TIME,
        "signal": TEXT,
        "kind": TEXT,
        "entities": WHOLE,
        "samples": WHOLE,
    },
    "samples": {
        "recording": TEXT,
        "time": TIME,
        "signal": TEXT,
        "kind": TEXT,
        "entity": TEXT,
        "selector": TEXT,
        "value": NUMBER,
    },
}
"""By table: the type of each column."""
OPTIONAL = ("samples",)
"""Tables that an export writes only where it is asked for."""
SQL_TYPES: Mapping[str, str] = {
    TEXT: "VARCHAR",
    TEXTS: "VARCHAR[]",
    NUMBER: "DOUBLE",
    WHOLE: "BIGINT",
    TIME: "TIMESTAMPTZ",
    FLAG: "BOOLEAN",
}


def arrow_schema(table: str) -> Any:
    """Returns the Arrow schema of a table. Times are UTC, in microseconds, so that every reader takes them."""
    import pyarrow as pa  # noqa: PLC0415 - only who exports pays for loading it

    types = {
        TEXT: pa.string(),
        TEXTS: pa.list_(pa.string()),
        NUMBER: pa.float64(),
        WHOLE: pa.int64(),
        TIME: pa.timestamp("us", tz="UTC"),
        FLAG: pa.bool_(),
    }
    return pa.schema([(name, types[kind]) for name, kind in TABLES[table].items()])
