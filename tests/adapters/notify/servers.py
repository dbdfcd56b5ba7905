"""Servers to tell: Debian's Alertmanager, and one that remembers what it was sent."""

import json
import shutil
import socket
import subprocess
import threading
import time
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from tests.support.loopback import Asked, Says, Server

CONFIG = """
route: {{receiver: hook, group_by: [alertname, fleet], group_wait: 1s, group_interval: 1s, repeat_interval: 1h}}
receivers:
  - name: hook
    webhook_configs: [{{url: "http://127.0.0.1:{hook}/", send_resolved: true}}]
"""


@dataclass
class Ear:
    """A server that listens, and answers what it is told to."""

    port: int = 0
    posts: list[Asked] = field(default_factory=list)
    answers: list[tuple[int, dict[str, str]]] = field(default_factory=list)
    """The next ones, in order; 200 then."""
    hangs: bool = False
    """Whether it takes requests and never answers."""

    def heard(self, count=1, seconds=20.0):
        """The posts, once there are so many."""
        end = time.time() + seconds
        while len(self.posts) < count:
            assert time.time() < end, f"{len(self.posts)} of {count} posts"
            time.sleep(0.02)
        return list(self.posts)


@contextmanager
def listening():
    """An `Ear`."""
    ear, ended = Ear(), threading.Event()

    def answer(asked):
        ear.posts.append(asked)
        if ear.hangs:
            ended.wait(60)
            return None
        status, headers = ear.answers.pop(0) if ear.answers else (200, {})
        return Says(status, headers=headers)

    with Server(answer) as server:
        ear.port = server.server_port
        try:
            yield ear
        finally:
            ended.set()


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@dataclass
class Manager:
    """An Alertmanager that runs."""

    port: int
    ear: Ear

    def alerts(self):
        return self._json("alerts")

    def groups(self):
        return self._json("alerts/groups")

    def _json(self, what):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/v2/{what}", timeout=5) as answer:
            return json.load(answer)

    def until(self, done, seconds=30.0):
        end = time.time() + seconds
        while not (found := done()):
            assert time.time() < end, self.alerts()
            time.sleep(0.1)
        return found


@contextmanager
def alertmanager(folder):
    """One on loopback that passes everything on to an ear; the test is skipped where there is none."""
    program = shutil.which("prometheus-alertmanager")
    if program is None:
        pytest.skip("no prometheus-alertmanager is installed")
    port = free_port()
    with listening() as ear, (folder / "alertmanager.log").open("w") as log:
        (folder / "alertmanager.yaml").write_text(CONFIG.format(hook=ear.port))
        command = [
            *(program, f"--config.file={folder / 'alertmanager.yaml'}", f"--storage.path={folder / 'am'}"),
            *(f"--web.listen-address=127.0.0.1:{port}", "--cluster.listen-address="),
        ]
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            manager = Manager(port, ear)
            end = time.time() + 30
            while not _answers(manager):
                assert process.poll() is None, (folder / "alertmanager.log").read_text()
                assert time.time() < end, "no answer"
                time.sleep(0.1)
            yield manager
        finally:
            process.terminate()
            process.wait(20)


def _answers(manager):
    try:
        return manager.alerts() == []
    except OSError:
        return False
