"""The lab with Skewscope: an agent at the DPU's place of each node, and a controller."""

import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import yaml

from tests.lab.cluster import NODES, PORTS, device, topology
from tests.lab.namespaces import inside, within
from tests.lab.running import Lab, process

URL = "http://127.0.0.1:8470"
"""Of the controller: in the switch's namespace nobody else is on this port."""
FAVOURED = ("nice", "-n", "-10")
"""What watches has machines of its own, too."""
READER = "reader"
STARTS = 30.0
"""Seconds that everything has to come up, on a machine that is busy."""


@dataclass
class Watched:
    """The agents and the controller; each process can be ended."""

    lab: Lab
    stack: ExitStack
    agents: "dict[str, subprocess.Popen[bytes]]" = field(default_factory=dict)
    controller: "subprocess.Popen[bytes] | None" = None

    def start(self) -> None:
        """Starts the controller on its existing store."""
        config = str(self.lab.folder / "skewscope.yaml")
        self.controller = self._python("controller", "skewscope.tui.cli.main", "run", "--config", config)

    def kill_controller(self) -> None:
        """Kills the controller."""
        assert self.controller is not None
        self.controller.kill()
        self.controller.wait()

    def start_agent(self, node: str) -> None:
        """Starts the agent of a node."""
        config = str(self.lab.folder / f"agent-{node}.yaml")
        self.agents[node] = self._python(f"agent-{node}", "skewscope.adapters.agent", "--config", config)

    def _python(self, name: str, *module: str) -> "subprocess.Popen[bytes]":
        command = inside(self.lab.network.switch, *FAVOURED, sys.executable, "-m", *module)
        return self.stack.enter_context(process(command, self.lab.folder / f"{name}.log"))

    def ask(self, path: str) -> Any:
        """Returns the controller's answer."""
        token = (self.lab.folder / READER).read_text("ascii")
        request = urllib.request.Request(f"{URL}/api/v1/{path}", headers={"Authorization": f"Bearer {token}"})
        # The socket is made in the namespace and stays there.
        with within(self.lab.network.switch), urllib.request.urlopen(request, timeout=10) as answer:
            return json.load(answer)

    def incidents(self, state: str = "") -> list[dict[str, Any]]:
        """Returns the roots, newest first; none while the controller does not answer."""
        try:
            told = self.ask(f"incidents?state={state}")["incidents"]
        except OSError:
            return []
        return [one for one in told if one["explained_by"] is None]

    def until(self, done: Callable[[], Any], what: str, seconds: float = STARTS) -> Any:
        """Waits for a condition, and returns its value.

        Raises:
            AssertionError: the condition did not become true in time.
        """
        end = time.monotonic() + seconds
        while not (found := done()):
            assert time.monotonic() < end, f"{what}: not within {seconds:g} s; told was\n{self.told()}"
            time.sleep(0.2)
        return found

    def told(self) -> str:
        """Returns all incidents and logs as text."""
        logs = sorted(self.lab.folder.glob("*.log"))
        said = (f"{log.name}: {line}" for log in logs for line in log.read_text(errors="replace").splitlines()[-10:])
        return "\n".join([*map(json.dumps, self.incidents()), *said])


@contextmanager
def watched(lab: Lab) -> Iterator[Watched]:
    """Runs a lab with agents and a controller for the duration of a context."""
    _configure(lab)
    with ExitStack() as stack:
        found = Watched(lab, stack)
        found.start()
        for node in NODES:
            found.start_agent(node)
        yield found


def _configure(lab: Lab) -> None:
    """Writes the configurations."""
    for name in (READER, *NODES):
        (lab.folder / name).write_text(f"{name}-0123456789abcdef", "ascii")
    _write(lab, "topology", topology(lab.replicas))
    _write(lab, "skewscope", _controller(lab))
    for node in NODES:
        _write(lab, f"agent-{node}", _agent(node))


def _write(lab: Lab, name: str, data: Mapping[str, Any]) -> None:
    (lab.folder / f"{name}.yaml").write_text(yaml.safe_dump(dict(data), sort_keys=False), "utf-8")


def _controller(lab: Lab) -> dict[str, Any]:
    targets = [{"targets": [where], "labels": {"job": job, "node": node}} for where, (job, node) in lab.pages().items()]
    return {
        "version": 1,
        "topology": "topology.yaml",
        "sources": [{"kind": "scrape", "name": "pages", "targets": targets}],
        "auth": {"tokens": [{"name": READER, "role": "read", "file": READER}]},
        "agents": {"tokens": [{"node": node, "file": node} for node in NODES]},
    }


def _agent(node: str) -> dict[str, Any]:
    return {
        "version": 1,
        "node": node,
        "listen": "off",
        # All DPUs of the lab are one machine: its own load is that of none of them.
        "collect": {"proc": "off", "hwmon": "off", "devlink": "off", "infiniband": "off"},
        "observe": {"devices": [device(node, port) for port in PORTS]},
        "controllers": [{"url": URL, "token_file": node}],
    }
