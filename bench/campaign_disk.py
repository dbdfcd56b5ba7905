"""A small disk of its own that a campaign fills, makes read-only and repairs; it needs root and loop devices."""

import os
import subprocess
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

DISK_BYTES = 16 << 20
BLOCK_BYTES = 4096
"""Of disks of the usual size."""
CHUNKS = (1 << 20, 4096, 1)
"""Bytes written at once while a disk is filled, down to the last one."""
UNMOUNT_TRIES = 50
REPAIRED = 1
"""Exit code of e2fsck: errors were found and corrected."""


@dataclass
class Disk:
    """An ext4 file system in a file, mounted at a folder."""

    image: Path
    folder: Path
    is_broken: bool = False
    """Whether an error made it read-only; it can be written again after `repair` only."""
    is_protected: bool = False
    """Whether it was mounted read-only."""

    @property
    def filler(self) -> Path:
        return self.folder / "filler"

    def mount(self) -> None:
        """Mounts it.

        Raises:
            OSError: it cannot be mounted here.
        """
        _run("mount", "-o", "loop,errors=remount-ro", str(self.image), str(self.folder))

    def fill(self, *, but_bytes: int = 0) -> None:
        """Leaves no room on it, or no more than a few bytes."""
        with suppress(OSError), self.filler.open("ab", buffering=0) as filler:
            for size in CHUNKS:
                with suppress(OSError):
                    while filler.write(bytes(size)):
                        pass
        os.truncate(self.filler, max(self.filler.stat().st_size - but_bytes, 0))

    def free(self) -> None:
        """Makes room on it again, and lets it be written, as far as that is possible while its files are open."""
        if self.is_protected:
            _run("mount", "-o", "remount,rw", str(self.folder))
            self.is_protected = False
        if not self.is_broken:
            self.filler.unlink(missing_ok=True)

    def break_down(self) -> None:
        """Makes it read-only while its files are open for writing, as an error of a real disk does."""
        device = _run("findmnt", "-no", "SOURCE", str(self.folder)).strip().rpartition("/")[2]
        Path(f"/sys/fs/ext4/{device}/trigger_fs_error").write_text("campaign\n")
        self.is_broken = True

    def repair(self) -> None:
        """Makes it sound, empty of filler and writable; nothing may have files of it open."""
        if self.is_broken:
            self._unmount()
            # What an error left half written would be the next error, at any time.
            _run("e2fsck", "-f", "-y", str(self.image), good=(0, REPAIRED))
            self.mount()
            self.is_broken = False
        self.free()

    def protect(self) -> None:
        """Mounts it read-only; nothing may have files of it open for writing."""
        _run("mount", "-o", "remount,ro", str(self.folder))
        self.is_protected = True

    def _unmount(self) -> None:
        for _ in range(UNMOUNT_TRIES):
            # A killed process may need a moment to let go of its files.
            with suppress(OSError):
                _run("umount", str(self.folder))
                return
            time.sleep(0.1)
        raise OSError(f"{self.folder} is in use")


def _run(*command: str, good: Collection[int] = (0,)) -> str:
    """Returns the output of a command.

    Args:
        command: its words.
        good: exit codes of a success.

    Raises:
        OSError: it failed.
    """
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode not in good:
        raise OSError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


@contextmanager
def small_disk(folder: Path, block_bytes: int = BLOCK_BYTES) -> Iterator[Disk | None]:
    """Yields a mounted disk with blocks of a size; None where none can be mounted."""
    folder.mkdir()
    disk = Disk(folder.with_name(f"{folder.name}.img"), folder)
    try:
        with disk.image.open("wb") as image:
            image.truncate(DISK_BYTES)
        _run("mkfs.ext4", "-q", "-m", "0", "-b", str(block_bytes), str(disk.image))
        # A mount namespace that another program makes meanwhile has the disk too: only below a shared mount it lets go
        # of it as we do. What it held would be checked and mounted while it is in use.
        _run("mount", "--bind", str(folder), str(folder))
        _run("mount", "--make-shared", str(folder))
        disk.mount()
    except OSError:
        yield None
        return
    try:
        yield disk
    finally:
        for _ in ("the disk", "the folder that is shared"):
            subprocess.run(["umount", "--lazy", str(folder)], check=False)
