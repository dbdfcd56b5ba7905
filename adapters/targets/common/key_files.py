"""Files that are keys of a store in a folder: created whole or removed, never changed.

A key is created by a hard link of a file that is complete, so that a watcher which is told of the creation finds its
content. Watchers may not notice a rename.
"""

import contextlib
import os
import tempfile
from pathlib import Path

from skewscope.adapters.targets.common.base import ConflictError, TargetError
from skewscope.adapters.targets.common.calls import FileCall
from skewscope.adapters.targets.common.transports import read_file

MAX_KEYS = 20_000
MAX_KEY_BYTES = 1 << 20


def list_keys(folder: Path) -> dict[str, str]:
    """Returns the content of each file of a folder, by name; a missing folder is empty, and large files are left out.

    Raises:
        TargetError: the folder cannot be read, or holds too many files.
    """
    found: dict[str, str] = {}
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if len(found) >= MAX_KEYS:
                    raise TargetError(f"{folder}: more than {MAX_KEYS} files")
                # A key may expire while the folder is read.
                with contextlib.suppress(FileNotFoundError):
                    if entry.is_file(follow_symlinks=False) and entry.stat().st_size <= MAX_KEY_BYTES:
                        found[entry.name] = Path(entry.path).read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise TargetError(f"{folder}: cannot be read: {error.strerror or error}") from None
    return found


def change_key(call: FileCall, root: Path) -> None:
    """Creates a key where `before` is empty, or removes it where `after` is empty; both do nothing a second time.

    Raises:
        ConflictError: the key has another content than expected.
        TargetError: the path is outside of the root, or it cannot be written.
    """
    path = Path(call.path)
    if root not in path.parents or ".." in path.parts or bool(call.before) == bool(call.after):
        raise TargetError(f"{call.path}: no key of {root} that is created or removed")
    if path.exists() and read_file(call.path) != (call.before or call.after):
        raise ConflictError(f"{call.path}: was changed by somebody else since it was read")
    try:
        if call.after:
            create_key(path, call.after, root)
        else:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise TargetError(f"{call.path}: cannot be written: {error.strerror or error}") from None


def create_key(path: Path, content: str, root: Path) -> None:
    """Creates a file with its content at once, by way of a hidden file in the root; does nothing where it exists.

    Raises:
        OSError: it cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, new = tempfile.mkstemp(prefix=".skewscope.", dir=root)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(content)
            os.fchmod(file.fileno(), 0o644)
        with contextlib.suppress(FileExistsError):
            path.hardlink_to(new)
    finally:
        Path(new).unlink(missing_ok=True)
