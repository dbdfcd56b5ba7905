"""What a run was promised is there: otherwise it ends at once, instead of skipping tests."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.target_requirements import CHECKS, lacking_module, lacking_programs, list_broken_promises

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parent.parent


def run_pytest(promised: str, path: str = os.environ["PATH"]) -> subprocess.CompletedProcess[str]:
    """Collects the tests of one file in a process of its own."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--collect-only", "tests/test_requirements.py"]
    environment = {**os.environ, "SKEWSCOPE_REQUIRE": promised, "PATH": path}
    environment.pop("PYTEST_XDIST_WORKER", None)
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False)


def test_a_run_without_what_was_promised_ends_with_one_message(tmp_path):
    done = run_pytest("haproxy no-such-thing", str(tmp_path))
    assert done.returncode == 4
    said = done.stdout + done.stderr
    assert (
        "SKEWSCOPE_REQUIRE: not installed: haproxy: haproxy; no-such-thing: an unknown name; known are haproxy" in said
    )
    assert "test_requirements.py::" not in said


def test_every_promise_names_what_is_lacking(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    found = list_broken_promises(["slurm", "open-vswitch", "nginx"])
    assert [line.partition(":")[0] for line in found] == ["slurm", "open-vswitch", "nginx"]
    assert "slurmctld" in found[0]
    assert "ovs-vswitchd" in found[1]
    assert lacking_programs("sh", "no-such-program") == "sh, no-such-program"
    assert lacking_module("json") == ""
    assert lacking_module("no_such_module") == "no_such_module"


@pytest.mark.parametrize("line", ["promised=", "SKEWSCOPE_REQUIRE"])
def test_the_run_of_everything_promises_what_it_installs(line):
    text = (ROOT / ".ci/run").read_text()
    assert line in text
    named = {word for part in text.split('promised="$promised')[1:] for word in part.split('"')[0].split()}
    assert named == set(CHECKS)


def test_no_file_of_tests_is_passed_over():
    """Plugins of what is installed may leave files out by their names; a run without a promise goes on."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--collect-only", "-q", "-q", "-m", ""]
    environment = {name: value for name, value in os.environ.items() if name != "SKEWSCOPE_REQUIRE"}
    done = subprocess.run(
        [*command, "tests/adapters/targets"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0
    collected = {line.partition(":")[0] for line in done.stdout.splitlines() if line.startswith("tests/")}
    assert collected == {str(file.relative_to(ROOT)) for file in (ROOT / "tests/adapters/targets").rglob("test_*.py")}
