"""A Slurm cluster of four nodes on this machine: own munged, slurmctld and slurmd as processes in a folder.

Nothing of the system is used or changed: key, sockets, ports, spool and state are the cluster's own.
"""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PROGRAMS = ("munged", "slurmctld", "slurmd", "scontrol", "sinfo", "squeue", "sbatch")
NODES = ("gpu1", "gpu2", "gpu3", "gpu4")
GPUS = 8
MARK = "SKEWSCOPE_TEST_NODE"
"""Variable in the environment of a node's daemon, and so of all that it starts."""
PATIENCE = 20.0
DEFAULT_TIMEOUT = 6
"""`SlurmdTimeout`: seconds without an answer after which a node is down (give or take a ping)."""

CONFIG = """
ClusterName=skewscope
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=bf_interval=1,sched_interval=1,batch_sched_delay=0
SlurmdTimeout={timeout}
InactiveLimit=0
KillWait=2
MpiDefault=none
SwitchType=switch/none
JobRequeue=1
RebootProgram=/bin/true
ReturnToService=1
GresTypes=gpu
SlurmdParameters=config_overrides
NodeName=gpu[1-4] NodeHostname={host} NodeAddr=127.0.0.1 Port=[{first}-{last}] CPUs=8 Gres=gpu:8 State=UNKNOWN
PartitionName=main Nodes=gpu[1-4] Default=YES MaxTime=INFINITE State=UP
"""


def missing() -> str:
    """Returns why no cluster can run here; '' where one can."""
    if os.geteuid() != 0:
        return "the daemons of Slurm take root"
    lacking = [name for name in PROGRAMS if not shutil.which(name)]
    return f"not installed here: {', '.join(lacking)}" if lacking else ""


@dataclass
class SlurmCluster:
    """A running cluster."""

    folder: Path
    timeout: int = DEFAULT_TIMEOUT
    _daemons: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)

    @property
    def config(self) -> Path:
        return self.folder / "slurm.conf"

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "SLURM_CONF": str(self.config)}

    def start(self) -> None:
        """Starts all daemons and waits until the nodes are idle."""
        self._write_files()
        paths = [f"--{name}={self.folder}/munge.{name.partition('-')[0]}" for name in ("pid-file", "log-file")]
        key, seed, sock = self.folder / "munge.key", self.folder / "munge.seed", self.folder / "munge.sock"
        named = [f"--key-file={key}", f"--seed-file={seed}", f"--socket={sock}"]
        self._spawn("munged", ["munged", "--force", "--foreground", *named, *paths])
        wait_until(sock.exists, "the socket of munged")
        self.start_controller()
        for node in NODES:
            self.start_node(node)
        wait_until(lambda: all(self.node_state(node) == "idle" for node in NODES), "idle nodes")

    def _write_files(self) -> None:
        (self.folder / "state").mkdir()
        (self.folder / "gpu").mkdir()
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        lines = []
        for node in NODES:
            for gpu in range(GPUS):
                (self.folder / "gpu" / f"{node}-{gpu}").touch()
            lines.append(f"NodeName={node} Name=gpu File={self.folder}/gpu/{node}-[0-{GPUS - 1}]")
        (self.folder / "gres.conf").write_text("\n".join(lines) + "\n")
        (self.folder / "cgroup.conf").touch()
        first = free_ports(len(NODES) + 1)
        host = socket.gethostname().partition(".")[0]
        places = {"port": first, "first": first + 1, "last": first + len(NODES)}
        self.config.write_text(CONFIG.format(host=host, folder=self.folder, timeout=self.timeout, **places))

    def start_controller(self) -> None:
        """Starts slurmctld; it takes up its saved state."""
        self._spawn("slurmctld", ["slurmctld", "-D"])
        wait_until(lambda: self.run("scontrol", "ping", check=False).startswith("Slurmctld(primary) at"), "slurmctld")
        wait_until(lambda: "UP" in self.run("scontrol", "ping", check=False), "slurmctld")

    def stop_controller(self) -> None:
        """Ends slurmctld; it saves its state."""
        self._end("slurmctld", signal.SIGTERM)

    def start_node(self, node: str) -> None:
        """Starts a node: what ran there has ended, as after a reboot."""
        self._kill_processes(node)
        self._spawn(node, ["slurmd", "-D", "-N", node], {MARK: node})

    def kill_daemon(self, node: str) -> None:
        """Kills the daemon of a node; the tasks of its jobs go on."""
        self._end(node, signal.SIGKILL)

    def _kill_processes(self, node: str) -> None:
        for process in self.processes(node):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)

    def processes(self, node: str) -> list[int]:
        """Returns the processes of a node: its daemon, the steps, and the tasks of jobs."""
        wanted = {f"{MARK}={node}", f"SLURMD_NODENAME={node}"}
        found = []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdigit():
                    named = (entry / "environ").read_bytes().decode(errors="replace").split("\0")
                    if f"SLURM_CONF={self.config}" in named and wanted & set(named):
                        found.append(int(entry.name))
        return found

    def node_state(self, node: str) -> str:
        """Returns what `sinfo` calls the state of a node, such as `idle`, `drained` or `down*`."""
        return self.run("sinfo", "-h", "-N", "-n", node, "-o", "%T", check=False).strip()

    def resume_all(self) -> bool:
        """Resumes nodes that are out, as far as they can be now; returns whether all are idle."""
        states = {node: self.node_state(node) for node in NODES}
        for node, state in states.items():
            if state.strip("*") not in ("idle", "unknown"):
                self.run("scontrol", "update", f"nodename={node}", "state=resume", check=False)
        return set(states.values()) == {"idle"}

    def reason(self, node: str) -> str:
        """Returns the reason of a node's state; 'none' for none."""
        return self.run("sinfo", "-h", "-N", "-n", node, "-o", "%E").strip()

    def submit(self, script: str, *options: str) -> str:
        """Submits a batch job and returns its id."""
        command = ["sbatch", "--parsable", "-o", f"{self.folder}/job-%j.log", "--open-mode=append", *options]
        return self.run(*command, text=f"#!/bin/sh\n{script}\n").strip()

    def job(self, job: str) -> tuple[str, str]:
        """Returns state and nodes of a job, such as ('RUNNING', 'gpu[1-2]'); two empty texts where it is gone."""
        state, _, nodes = self.run("squeue", "-h", "-j", job, "-o", "%T %N", check=False).strip().partition(" ")
        return state, nodes

    def wait_for_job(self, job: str, state: str = "RUNNING", seconds: float = PATIENCE) -> str:
        """Waits for a state of a job and returns its nodes."""
        wait_until(lambda: self.job(job)[0] == state, f"job {job} {state}", seconds)
        return self.job(job)[1]

    def run(self, *command: str, text: str = "", check: bool = True) -> str:
        """Returns the output of a command of this cluster."""
        done = subprocess.run(
            command, input=text, env=self.environment, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        assert not check or not done.returncode, f"{command}: {done.stderr}"
        return done.stdout

    def stop(self) -> None:
        """Ends every process of the cluster."""
        for name in list(self._daemons):
            self._end(name, signal.SIGKILL)
        for node in NODES:
            self._kill_processes(node)

    def _spawn(self, name: str, command: list[str], more: Mapping[str, str] | None = None) -> None:
        env: dict[str, Any] = {**self.environment, **(more or {})}
        quiet = subprocess.DEVNULL
        # In sessions of their own: what a daemon sends to its process group must not reach the test.
        self._daemons[name] = subprocess.Popen(
            command, env=env, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True
        )

    def _end(self, name: str, how: signal.Signals) -> None:
        daemon = self._daemons.pop(name, None)
        if daemon is not None:
            daemon.send_signal(how)
            daemon.wait(PATIENCE)

    def nodes_json(self) -> Any:
        """Returns what `sinfo --json` says of the nodes."""
        return json.loads(self.run("sinfo", "--json"))["nodes"]


@contextmanager
def slurm_cluster(folder: Path, timeout: int = DEFAULT_TIMEOUT) -> Iterator[SlurmCluster]:
    """Runs a cluster in a folder for the duration of a context."""
    # munged refuses a socket below a folder that others cannot enter; pytest's folders are the owner's alone.
    place = Path("/tmp") / f"skewscope-slurm-{os.getpid()}-{abs(hash(folder)) % 10**8}"
    place.mkdir(mode=0o755)
    made = SlurmCluster(place, timeout)
    try:
        made.start()
        yield made
    finally:
        made.stop()
        shutil.rmtree(place, ignore_errors=True)


def free_ports(count: int) -> int:
    """Returns the first of several ports in a row that are free now."""
    for _ in range(100):
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError, OverflowError):
            first = 0
            for offset in range(count):
                one = stack.enter_context(socket.socket())
                one.bind(("127.0.0.1", first + offset if first else 0))
                first = first or one.getsockname()[1]
            return first
    raise AssertionError("no free ports")


def wait_until(check: Any, what: str, seconds: float = PATIENCE) -> None:
    """Waits until a check is true; fails after a deadline."""
    deadline = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < deadline, f"no {what} within {seconds:g} s"
        time.sleep(0.05)
