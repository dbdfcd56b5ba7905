"""A controller as a process, and an agent that feeds it."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager

import numpy as np

from skewscope.adapters.formats.row_protocol import ROWS_PATH, HelloFrame, RowFrame, SeriesFrame, encode
from skewscope.adapters.inputs.recording import demo_path
from skewscope.engine.ingest.feed import SeriesKey

TOKENS = {name: f"{name}-0123456789abcdef" for name in ("READ", "APPROVE", "ADMIN", "N0")}
AUTH = """
auth:
  tokens:
    - {name: r, role: read, token: "${READ}"}
    - {name: a, role: approve, token: "${APPROVE}"}
    - {name: s, role: admin, token: "${ADMIN}"}
agents: {tokens: [{node: n0, token: "${N0}"}]}
"""
KEYS = (SeriesKey("host.softnet_squeezed", "node", "n0"), SeriesKey("wire.active_flows", "port", "n0/ew"))


class Running:
    """A controller that runs."""

    def __init__(self, folder, process, context=None):
        self.folder, self.process, self.port, self.context = folder, process, 0, context

    def ask(self, path, token="", body=None, method=None, **headers):
        """(status, headers, body) of an answer."""
        if token:
            headers["Authorization"] = f"Bearer {token}"
        scheme = "https" if self.context else "http"
        request = urllib.request.Request(f"{scheme}://127.0.0.1:{self.port}{path}", body, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=20, context=self.context) as answer:
                return answer.status, answer.headers, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.headers, error.read()

    def json(self, path, token=""):
        return json.loads(self.ask(path, token)[2])

    def send(self, path, told, token="", method="POST"):
        """(status, answer) to some JSON."""
        body = json.dumps(told).encode()
        status, _, answer = self.ask(path, token, body, method, **{"Content-Type": "application/json"})
        return status, json.loads(answer)

    def until(self, done, seconds=20.0):
        end = time.time() + seconds
        while not done():
            assert time.time() < end, self.log()
            time.sleep(0.1)

    def log(self):
        return (self.folder / "log").read_text()


CLI = "from skewscope.tui.cli.main import main; main()"
LOUD = f"import logging; logging.basicConfig(level=logging.DEBUG); {CLI}"
"""As a program, one whose log tells everything."""


@contextmanager
def running(folder, more="", context=None, program=CLI):
    """A controller that runs meanwhile; `context` is how it is asked, where it speaks TLS."""
    if not (folder / "topology.yaml").exists():
        (folder / "topology.yaml").write_bytes((demo_path() / "topology.yaml").read_bytes())
    (folder / "skewscope.yaml").write_text(f"version: 1\ntopology: topology.yaml\nlisten: {{port: 0}}\n{more}")
    command = [sys.executable, "-c", program, "run", "--config", str(folder / "skewscope.yaml")]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, stderr=log, env=os.environ | TOKENS)
    try:
        found = Running(folder, process, context)
        found.until(lambda: process.poll() is not None or "listening on" in found.log(), 60)
        match = re.search(r"listening on \S+ port (\d+)", found.log())
        assert match, found.log()
        found.port = int(match[1])
        found.until(lambda: found.ask("/readyz")[0] == 200)
        yield found
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


class Sender:
    """An agent whose time runs as fast as the test wants it to."""

    def __init__(self, found):
        self.found, self.sequence = found, 0
        self.time = time.time() - 25.0
        found.ask(ROWS_PATH, body=encode([HelloFrame("n0", "b", "1"), SeriesFrame(0, 0, KEYS)]))

    def send(self, rows, host, pause=0.02, ahead=1.0):
        """Some rows, a second of their time apart."""
        for _ in range(rows):
            self.sequence += 1
            self.time = min(self.time + ahead, time.time())
            row = RowFrame(self.sequence, self.time, 0, np.array([host, 5.0]))
            status = self.found.ask(ROWS_PATH, body=encode([HelloFrame("n0", "b", "1"), row]))[0]
            assert status == 200
            time.sleep(pause)
