"""Actions in a folder that several controllers share: what one has begun, the next leader finishes or takes back.

Each action is a file, which is replaced as a whole. The folder is the truth; the store of each controller is its own
copy, with its own audit log. Only the leader writes: each one claims a term that is higher than those before, and what
one of an earlier term still writes, such as after its machine was paused, is refused.
"""

import json
import logging
import os
import re
import secrets
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from skewscope.adapters.actions.action_json import parse_action_json
from skewscope.engine.actions.action import Action, action_to_json
from skewscope.engine.actions.freeze import Freeze, freeze_to_json, parse_freeze

SUFFIX = ".json"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
"""Ids of actions that are names of files."""
FREEZE_FILE = "freeze"
"""Without the suffix of an action."""
TERM = "term-"
"""How the name of the empty file begins that claims a term, before its number."""
MAX_BYTES = 1 << 20
MAX_FILES = 100_000
MAX_DIGITS = 16

log = logging.getLogger(__name__)


@dataclass
class SharedLedger:
    """One folder of actions. Its methods block; storage that hangs blocks them for as long."""

    folder: Path
    unreadable: dict[str, str] = field(default_factory=dict, compare=False)
    """Files that were no actions when the folder was last read, such as those of a newer version, and why."""
    term: int = 0
    """The term that this controller has claimed last; 0 for none."""

    def claim(self) -> bool:
        """Claims a new term: from now on whoever has claimed an earlier one cannot write.

        Returns whether a leader has been here before.

        Raises:
            OSError: the folder cannot be written.
        """
        is_known = self.folder.is_dir()
        self.folder.mkdir(mode=0o700, exist_ok=True)
        term = self._newest_term() + 1
        while not _create(self.folder / f"{TERM}{term}"):
            term += 1  # Another controller claims one at this moment.
        _sync_folder(self.folder)
        self.term = term
        for path in self.folder.glob(f"{TERM}*"):
            if _parse_term(path) < term:
                path.unlink(missing_ok=True)
        return is_known

    def _newest_term(self) -> int:
        return max(map(_parse_term, self.folder.glob(f"{TERM}*")), default=0)

    def _check_term(self) -> None:
        """Raises OSError where another controller has claimed a later term."""
        if (newest := self._newest_term()) > self.term:
            raise OSError(f"another controller leads: its term is {newest}, and this one's {self.term}")

    def save(self, action: Action) -> None:
        """Writes an action durably.

        Raises:
            OSError: it could not be written, or another controller has claimed a later term.
        """
        if not NAME.fullmatch(action.id):
            raise OSError(f"{action.id!r:.80} is no name of a file")
        self._write(f"{action.id}{SUFFIX}", action_to_json(action))

    def save_freeze(self, freeze: Freeze | None) -> None:
        """Writes a freeze durably, or removes it.

        Raises:
            OSError: it could not be written, or another controller has claimed a later term.
        """
        if freeze is not None:
            self._write(FREEZE_FILE, freeze_to_json(freeze))
        elif (path := self.folder / FREEZE_FILE).exists():
            self._check_term()
            path.unlink()
            _sync_folder(self.folder)

    def load_freeze(self) -> Freeze | None:
        """Returns the freeze; None for none. One that cannot be read holds: somebody wanted that nothing begins.

        Raises:
            OSError: the file is there and cannot be read.
        """
        try:
            with (self.folder / FREEZE_FILE).open("rb") as file:
                return parse_freeze(json.loads(file.read(MAX_BYTES)))
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError, RecursionError):
            return Freeze(0.0, "somebody", f"{self.folder / FREEZE_FILE} cannot be read; thaw, and freeze again")

    def _write(self, name: str, content: dict[str, Any]) -> None:
        self.folder.mkdir(mode=0o700, exist_ok=True)
        path = self.folder / name
        draft = self.folder / f".{name}.{secrets.token_hex(4)}"
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(content, file, allow_nan=False)
                file.flush()
                os.fsync(file.fileno())
            # As late as possible: storage, or the whole machine, may have stood still.
            self._check_term()
            draft.replace(path)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise
        _sync_folder(self.folder)

    def load(self) -> dict[str, Action] | None:
        """Returns all actions by id; None where no leader has ever written here.

        A file that cannot be read as an action is left out, and is in `unreadable`: the others have to go on.

        Raises:
            OSError: the folder cannot be read.
        """
        if not self.folder.is_dir():
            return None
        found: dict[str, Action] = {}
        unreadable: dict[str, str] = {}
        for path in sorted(self.folder.glob(f"*{SUFFIX}"))[:MAX_FILES]:
            try:
                action = _read(path)
            except ValueError as error:
                unreadable[path.name] = str(error)
                continue
            found[action.id] = action
        self._report(unreadable)
        return found

    def _report(self, unreadable: dict[str, str]) -> None:
        for name, error in unreadable.items():
            if self.unreadable.get(name) != error:
                log.error("%s: %s; what it has changed is not taken back", self.folder / name, error)
        self.unreadable.clear()
        self.unreadable.update(unreadable)

    def prune(self, since: float, incidents: Collection[str]) -> None:
        """Deletes actions that ended before a time and whose incident is over, and drafts that a crash left.

        Raises:
            OSError: the folder cannot be read or written, or another controller has claimed a later term.
        """
        self._check_term()
        for action in (self.load() or {}).values():
            if action.ended_at is not None and action.ended_at < since and action.reason.incident not in incidents:
                (self.folder / f"{action.id}{SUFFIX}").unlink(missing_ok=True)
        for draft in self.folder.glob(".*"):
            if draft.stat().st_mtime < since:
                draft.unlink(missing_ok=True)


def _create(path: Path) -> bool:
    """Creates an empty file; returns whether it was not there."""
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        return False
    return True


def _parse_term(path: Path) -> int:
    """Returns the term that a file claims; 0 for a name that holds none."""
    text = path.name.removeprefix(TERM)
    return int(text) if text.isascii() and text.isdecimal() and len(text) < MAX_DIGITS else 0


def _read(path: Path) -> Action:
    """Returns the action in a file.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no action.
    """
    with path.open("rb") as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise ValueError(f"more than {MAX_BYTES} bytes")
    try:
        action = parse_action_json(json.loads(content))
    except RecursionError:
        raise ValueError("no action") from None
    if path.name != f"{action.id}{SUFFIX}":
        raise ValueError(f"it holds the action {action.id!r:.80}")
    return action


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
