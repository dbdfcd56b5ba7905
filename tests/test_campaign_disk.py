"""The small disk of the campaign; it needs root and loop devices."""

import subprocess
from pathlib import Path

import pytest

from bench.campaign_disk import small_disk


@pytest.fixture
def disk(tmp_path):
    with small_disk(tmp_path / "disk") as found:
        if found is None:
            pytest.skip("no disk can be mounted here")
        yield found


def append(path: Path) -> None:
    with path.open("ab", buffering=0) as file:
        file.write(b"x" * 100_000)


def test_a_full_disk_has_no_room_until_it_is_freed(disk):
    disk.fill()
    with pytest.raises(OSError, match="No space"):
        append(disk.folder / "a")
    disk.free()
    append(disk.folder / "a")


def test_a_disk_can_break_while_its_files_are_open(disk):
    with (disk.folder / "a").open("ab", buffering=0) as file:
        disk.break_down()
        with pytest.raises(OSError, match="Read-only"):
            file.write(b"x")
    disk.repair()
    append(disk.folder / "a")


def test_a_broken_disk_is_repaired_while_a_mount_namespace_of_others_is_there(disk):
    # As `ip netns exec` makes one for each command.
    command = ["unshare", "--mount", "--propagation", "slave", "sh", "-c", "echo ready; exec sleep 60"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline()
        disk.break_down()
        disk.repair()
        disk.protect()
        disk.free()
        append(disk.folder / "a")
        other.kill()


def test_a_protected_disk_can_be_written_again_while_it_is_read(disk):
    append(disk.folder / "a")
    disk.protect()
    with pytest.raises(OSError, match="Read-only"):
        append(disk.folder / "a")
    with (disk.folder / "a").open("rb"):
        disk.free()
        append(disk.folder / "a")
