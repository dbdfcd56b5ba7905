"""What stands around a message in a log: syslog's prefix with the host, and JSON records of journald or a container.

A record becomes a line as syslog writes it: time, host, program, message.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

MAX_RECORD = 1 << 16
"""Characters of a JSON record that is unwrapped."""
STAMP = r"(?:\d{10}\.\d{1,9}|[A-Z][a-z]{2} [ \d]\d [\d:]{8}|\d{4}-\d\d-\d\d[T ][\d:]{8}[\d.,+:Z-]{0,24})"
SYSLOG = re.compile(
    rf"^(?:<\d{{1,3}}>(?:1 )?)?{STAMP} (?P<host>[A-Za-z0-9][\w.-]{{0,252}}) "
    r"(?:[\w.()/@-]{1,64}(?:\[\d{1,10}\])?:|[\w.-]{1,64} \S{1,128} \S{1,32} ) ?"
)
"""As syslog, journalctl and RFC 5424 begin a line."""
NCCL = re.compile(rf"^(?:\[?{STAMP}\]? )?(?P<host>[A-Za-z][\w.-]{{0,252}}):\d{{1,10}}:\d{{1,10}} \[\d{{1,3}}\] ")
"""As NCCL begins a line: host, process, thread, GPU."""
MESSAGE_FIELDS = ("MESSAGE", "message", "msg", "log", "body", "text")
HAS_MESSAGE = re.compile(rf'"(?:{"|".join(MESSAGE_FIELDS)})"\s*:')
TIME_FIELDS = ("time", "timestamp", "@timestamp", "ts", "asctime")
HOST_FIELDS = ("_HOSTNAME", "hostname", "host", "node", "nodename")
PROGRAM_FIELDS = ("SYSLOG_IDENTIFIER", "_COMM", "logger", "name", "stream")
LEVEL_FIELDS = ("level", "severity", "levelname", "lvl")
ALARMING = frozenset(("WARN", "WARNING", "ERROR", "CRITICAL", "FATAL"))
"""Levels that are put before a message; others say nothing of it."""
JOURNAL_TIME = "__REALTIME_TIMESTAMP"
"""Microseconds since 1970."""


def find_host(text: str) -> str:
    """Returns the host that the prefix of a line names; '' for none."""
    match = SYSLOG.match(text) or NCCL.match(text)
    return match["host"] if match else ""


def unwrap_record(text: str) -> str:
    """Returns the line that a JSON record holds; any other text as it is."""
    if not text.startswith("{") or len(text) > MAX_RECORD or not HAS_MESSAGE.search(text):
        return text
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return text
    message = _first(record, MESSAGE_FIELDS)
    if not message:
        return text
    if (level := _first(record, LEVEL_FIELDS).upper()) in ALARMING and level not in message:
        message = f"{level} {message}"
    host, program = _first(record, HOST_FIELDS), _first(record, PROGRAM_FIELDS) or "-"
    time = _journal_time(record) or _first(record, TIME_FIELDS)
    return " ".join(filter(None, (time, host, f"{program}:", message.rstrip()))) if time else message.rstrip()


def _first(record: Mapping[str, Any], names: tuple[str, ...]) -> str:
    for name in names:
        value = record.get(name)
        if isinstance(value, str | int | float) and (text := str(value)):
            return text
    return ""


def _journal_time(record: Mapping[str, Any]) -> str:
    text = str(record.get(JOURNAL_TIME, ""))
    return f"{int(text) / 1e6:.6f}" if text.isdecimal() and len(text) == 16 else ""
