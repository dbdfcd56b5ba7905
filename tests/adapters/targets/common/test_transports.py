"""Programs, files and their limits."""

import asyncio
import os
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from skewscope.adapters.targets.common import transports
from skewscope.adapters.targets.common.base import ConflictError, TargetError
from skewscope.adapters.targets.common.calls import CommandCall, FileCall
from skewscope.adapters.targets.common.transports import read_file, replace_file, run_command


def run_python(code: str, seconds: float = 10.0, stdin: str = "") -> str:
    return asyncio.run(run_command(CommandCall((sys.executable, "-c", code), stdin), seconds))


def test_a_program_gets_its_input_and_gives_its_output():
    assert run_python("print(input()[::-1])", stdin="abc\n") == "cba\n"
    assert run_python("print(1)", stdin="x" * 1_000_000) == "1\n"


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import sys; sys.exit('broken')", "exit code 1: broken"),
        ("import time; time.sleep(60)", "no end within 1 s"),
        ("import os, time; os.fork() or time.sleep(60)", "no end within 1 s"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", "exit code -15"),
    ],
)
def test_a_program_that_fails_is_an_error_in_time(code, message):
    begun = time.monotonic()
    with pytest.raises(TargetError, match=message):
        run_python(code, 1.0)
    assert time.monotonic() - begun < 5.0


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_program_that_writes_without_end_is_killed_early(monkeypatch, stream):
    monkeypatch.setattr(transports, "MAX_ANSWER", 1 << 16)
    begun = time.monotonic()
    with pytest.raises(TargetError, match="more than 65536 bytes"):
        run_python(f"import sys\nwhile True: print('x' * 1000, file=sys.{stream})")
    assert time.monotonic() - begun < 5.0


def test_what_a_program_left_running_ends_with_it(tmp_path):
    mark = tmp_path / "alive"
    code = f"import os, time\nif os.fork() == 0:\n time.sleep(1)\n open({str(mark)!r}, 'w')\n"
    with pytest.raises(TargetError, match="no end"):
        run_python(code, 0.5)
    time.sleep(1.0)
    assert not mark.exists()


def test_a_number_that_another_process_has_by_now_is_not_killed():
    """The leader of a group was reaped, its group is empty, and a new process got its number."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True) as other:
        transports._kill_group(other.pid, is_reaped=True)
        other.communicate(b"\n", timeout=10)
        assert other.returncode == 0


def test_what_is_left_of_a_group_ends_after_its_leader_was_reaped():
    code = "import os, time\nif os.fork() == 0:\n os.close(1)\n time.sleep(60)"
    ours, theirs = os.pipe()
    leader = subprocess.Popen([sys.executable, "-c", code], pass_fds=[theirs], start_new_session=True)
    os.close(theirs)
    leader.wait(timeout=10)
    assert not select.select([ours], [], [], 0.0)[0], "the child has the pipe open"
    transports._kill_group(leader.pid, is_reaped=True)
    assert select.select([ours], [], [], 5.0)[0], "its end is that of the child"
    os.close(ours)


def test_a_program_that_is_missing_is_an_error():
    with pytest.raises(TargetError, match=r"/none: cannot be started"):
        asyncio.run(run_command(CommandCall(("/none",)), 1.0))


def test_a_file_is_replaced_with_its_mode(tmp_path):
    file = tmp_path / "f"
    file.write_text("a")
    file.chmod(0o640)
    replace_file(FileCall(str(file), "a", "b"))
    assert (file.read_text(), file.stat().st_mode & 0o777) == ("b", 0o640)
    with pytest.raises(ConflictError, match="changed by somebody else"):
        replace_file(FileCall(str(file), "a", "c"))
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


def test_what_is_no_file_of_text_is_an_error(tmp_path):
    (tmp_path / "bytes").write_bytes(b"\xff")
    for path in (tmp_path, tmp_path / "none", tmp_path / "bytes", Path("/dev/zero")):
        with pytest.raises(TargetError):
            read_file(str(path))
