"""What lies at a path that a file or a user gave: nothing, where the system refuses the name, such as a longer one."""

import stat
from pathlib import Path


def has_file(path: Path) -> bool:
    """Returns whether a regular file lies at a path."""
    mode = _read_mode(path)
    return mode is not None and stat.S_ISREG(mode)


def has_folder(path: Path) -> bool:
    """Returns whether a folder lies at a path."""
    mode = _read_mode(path)
    return mode is not None and stat.S_ISDIR(mode)


def has_anything(path: Path) -> bool:
    """Returns whether a file of any kind lies at a path."""
    return _read_mode(path) is not None


def find_refusal(path: Path) -> str:
    """Returns why the system refuses a path as a name, in words; '' where it does not."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return ""
    except OSError as error:
        return (error.strerror or type(error).__name__).lower()
    except ValueError as error:  # a null byte
        return str(error)
    return ""


def _read_mode(path: Path) -> int | None:
    try:
        return path.stat().st_mode
    except (OSError, ValueError):
        return None
