"""Calls the API of a controller with generated requests, and says which answers are none that its description allows.

Schemathesis generates the calls from the description that the controller gives of itself; meanwhile `/healthz` is asked
ten times a second. Needs `pip install 'skewscope[campaign]'`.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from contextlib import suppress
from pathlib import Path

from bench.campaign_kills import MEMORY_LIMIT_MIB, Member, free_port
from skewscope.adapters.inputs.recording import demo_path

TOKEN = "campaign-0123456789abcdef"
OPERATIONS = 15
"""Operations of the API that take parameters or bodies, roughly: each gets its share of the calls."""
LEFT_OUT = "/(events|rows)$"
"""Paths whose answers never end, or whose bodies are no JSON: `campaign_inputs` damages those."""
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
LIMIT_S = 3600
HEALTH_LIMIT_S = 1.0


VIEW_S = 10.0
"""Seconds between two looks at the view: it is made while a console asks for it, and until then the answer is 503."""


class HealthProbe:
    """Asks `/healthz` ten times a second, and keeps the longest answer; looks at the view now and then."""

    def __init__(self, port: int) -> None:
        self.port, self.slowest, self.count = port, 0.0, 0
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        looked = 0.0
        while not self.stopped.wait(0.1):
            if time.monotonic() - looked > VIEW_S:
                looked = time.monotonic()
                _look(self.port)
            begun = time.monotonic()
            with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{self.port}/healthz", timeout=30):
                pass
            self.slowest, self.count = max(self.slowest, time.monotonic() - begun), self.count + 1

    def close(self) -> None:
        self.stopped.set()
        self.thread.join(60)


def find_program() -> str | None:
    beside = Path(sys.executable).parent / "schemathesis"
    return str(beside) if beside.is_file() else shutil.which("schemathesis")


def run_calls(calls: int, seed: int) -> list[str]:
    """Makes about so many calls, prints a line about them, and returns what went wrong."""
    program = find_program()
    if program is None:
        return ["calls: not made, schemathesis is not installed"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "topology.yaml").write_bytes((demo_path() / "topology.yaml").read_bytes())
        auth = {"tokens": [{"name": "admin", "role": "admin", "token": "${CAMPAIGN_TOKEN}"}]}
        member = Member(folder, free_port(), {"auth": auth})
        member.write_config(free_port())
        os.environ["CAMPAIGN_TOKEN"] = TOKEN
        member.start()
        _wait_for_view(member.port)
        probe = HealthProbe(member.port)
        try:
            done = _call(program, member.port, max(calls // OPERATIONS, 1), seed)
        finally:
            probe.close()
            member.kill(signal.SIGTERM)
        return judge_calls(done, member, probe)


def _wait_for_view(port: int) -> None:
    """Waits for the first tick: until then there is nothing to show, and the API says so by 503."""
    for _ in range(300):
        if _look(port):
            return
        time.sleep(0.1)


def _look(port: int) -> bool:
    """Asks for the view as a console does; returns whether there is one."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/api/v1/scene", headers={"Authorization": f"Bearer {TOKEN}"}
    )
    with suppress(OSError), urllib.request.urlopen(request, timeout=5):
        return True
    return False


def _call(program: str, port: int, examples: int, seed: int) -> "subprocess.CompletedProcess[str]":
    command = [
        *(program, "run", f"http://127.0.0.1:{port}/api/v1/openapi.json", "--header", f"Authorization: Bearer {TOKEN}"),
        *("--max-examples", str(examples), "--seed", str(seed), "--checks", CHECKS, "--exclude-path-regex", LEFT_OUT),
        *("--continue-on-failure", "--request-timeout", "30", "--no-color", "--generation-database", "none"),
        *("--phases", "examples,coverage,fuzzing", "--warnings", "off"),
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)


def judge_calls(done: "subprocess.CompletedProcess[str]", member: Member, probe: HealthProbe) -> list[str]:
    """Prints a line about calls that were made; returns what went wrong."""
    made = re.search(r"(\d[\d,]*) generated", done.stdout)
    faults = []
    if done.returncode:
        begin = max(done.stdout.find("= FAILURES ="), done.stdout.find("= ERRORS ="), 0)
        faults.append(f"calls: {done.stdout[begin : begin + 6000]} {done.stderr[-1000:]}")
    if "Traceback" in (log := member.read_log()):
        faults.append(f"calls: a traceback: {log[log.index('Traceback') :][:1500]}")
    if probe.slowest > HEALTH_LIMIT_S:
        faults.append(f"calls: /healthz took {probe.slowest:.2f} s")
    if member.peak_mib > MEMORY_LIMIT_MIB:
        faults.append(f"calls: {member.peak_mib:.0f} MiB of memory")
    print(
        f"calls: {made[1] if made else 'an unknown number of'} requests; {len(faults)} faults; /healthz at most "
        f"{probe.slowest:.2f} s of {probe.count}, memory at most {member.peak_mib:.0f} MiB",
        flush=True,
    )
    return faults
