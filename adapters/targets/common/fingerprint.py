"""Which system a target is: by the content of its settings, never by its name or its place in the list.

A change belongs to the system at which it was made. Where a config names another system by the same name, the change
must not be taken back there.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from skewscope.adapters.config.secret import Secret

NOT_IDENTITY = frozenset(
    {
        *("name", "members", "timeout", "options", "probe", "probe_timeout", "canary", "metrics", "environment"),
        *("token_file", "key", "worker_key", "reload", "deadline", "eviction", "changes", "irreversible"),
        *("flows", "rate", "burst", "mark", "mirror_to", "outputs", "parameters"),
    }
)
"""Settings that say how a system is asked, and which changes it may get; all others say which system it is, or which
of its states stands for a change. Members are compared one by one."""
PATHS = frozenset({"socket", "file", "conf", "folder"})
"""Settings that are paths: one file has the same path whatever the working directory is."""
LENGTH = 16
"""Hexadecimal digits of a fingerprint."""


def list_identity(kind: str, settings: Any) -> tuple[tuple[str, str], ...]:
    """Returns the settings that identify a system, as (name, value), its kind first; no secrets."""
    return ("kind", kind), *sorted(_walk(settings))


def _walk(settings: Any) -> Iterator[tuple[str, str]]:
    for each in fields(settings):
        value = getattr(settings, each.name)
        if each.name in NOT_IDENTITY or isinstance(value, Secret):
            continue
        if is_dataclass(value):
            yield from _walk(value)
        else:
            yield each.name, str(Path(value).absolute()) if value and each.name in PATHS else repr(value)


def fingerprint(kind: str, settings: Any) -> str:
    """Returns the fingerprint of the system that settings name."""
    return hashlib.sha256(repr(list_identity(kind, settings)).encode()).hexdigest()[:LENGTH]


def name_by_content(kind: str, entry: Any) -> str:
    """Returns a name for an entry of the config without one: the same wherever it stands in the list."""
    content = {key: value for key, value in entry.items() if key not in ("note", "timeout")}
    return f"{kind} {hashlib.sha256(repr(sorted(content.items(), key=str)).encode()).hexdigest()[:8]}"


def list_members(settings: Any) -> frozenset[str]:
    """Returns the target's own names of the members that its settings name."""
    common = getattr(settings, "common", None) or settings.external.common
    return frozenset(member for _entity, member in common.members)
