"""The commands of mitigations, run or read by the real programs where they are installed."""

import argparse
import os
import shlex
import shutil
import socket
import subprocess
import time
from pathlib import Path

import pytest

from skewscope.kb.command_template import fill_template
from skewscope.kb.loader import catalogue
from tests.support.slurm_cluster import missing, slurm_cluster

SLURM_TOOLS = ("scontrol", "sbatch", "srun")
SWITCH = ("ovsdb-tool", "ovsdb-server", "ovs-vsctl", "ovs-vswitchd", "ovs-ofctl")


def commands_of(*tools):
    """Returns the commands of some tools, each once."""
    return list(dict.fromkeys(one for m in catalogue().mitigations.values() for one in m.commands if one.tool in tools))


def run(line, environment, folder=None):
    """Runs one command line without a shell; it must succeed."""
    how = {"env": environment, "cwd": folder, "timeout": 60}
    done = subprocess.run(shlex.split(line), capture_output=True, text=True, check=False, **how)
    assert done.returncode == 0, f"{line}: {done.stderr}"
    return done.stdout.strip()


def texts_in_order(commands):
    """Returns what is done, checked and taken back."""
    return [(text, one.tool) for one in commands for text in (one.do, one.check, one.undo) if text]


@pytest.mark.slow
@pytest.mark.skipif(bool(missing()), reason=missing())
def test_every_command_for_slurm_is_accepted_by_slurm_and_taken_back(tmp_path):
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/sh\nsleep 60\n")
    values = {"node": "gpu2", "spare": "gpu2", "incident": "5d5d", "number": "2", "former": "1", "value": "gpu1"}
    values["command"] = "true"
    with slurm_cluster(tmp_path) as cluster:
        waiting = run(f"sbatch --parsable --hold {script}", cluster.environment, tmp_path)
        running = run(f"sbatch --parsable --nodelist=gpu1 {script}", cluster.environment, tmp_path)
        cluster.wait_for_job(running)
        before = run("scontrol --oneliner show node gpu2", cluster.environment)
        for text, tool in texts_in_order(commands_of(*SLURM_TOOLS)):
            job = waiting if "ExcNodeList" in text else running
            if "requeue" in text:  # a job that was requeued waits for a while
                job = run(f"sbatch --parsable {script}", cluster.environment, tmp_path)
                cluster.wait_for_job(job)
            node = "gpu1" if "reboot" in text else "gpu2"  # a busy node is rebooted later
            if not text.startswith("numastat"):
                filled = fill_template(text, {**values, "job": job, "node": node, "file": str(script)}, tool)
                run(filled, cluster.environment, tmp_path)
        after = run("scontrol --oneliner show node gpu2", cluster.environment)
    assert "DRAIN" not in after
    assert [word for word in after.split() if word.startswith("Weight=")] == [
        word for word in before.split() if word.startswith("Weight=")
    ]


@pytest.mark.slow
@pytest.mark.skipif(not all(map(shutil.which, SWITCH)), reason="Open vSwitch is not installed here")
def test_every_command_for_open_vswitch_is_accepted_and_taken_back(tmp_path):
    environment = {**os.environ, "OVS_RUNDIR": str(tmp_path)}
    daemons = _start_switch(tmp_path, environment)
    try:
        values = {"bridge": f"unix:{tmp_path}/br0.mgmt", "rate": "1000", "address": "10.0.0.1"}
        meter_and_flow = commands_of("ovs-ofctl")
        for meter, flow in zip(meter_and_flow[::2], meter_and_flow[1::2], strict=True):
            for one in (meter, flow):
                run(fill_template(one.do, values), environment)
                assert len(run(fill_template(one.check, values), environment).splitlines()) > 1
            for one in (flow, meter):
                run(fill_template(one.undo, values), environment)
        assert "cookie=0x747" not in run(f"ovs-ofctl -O OpenFlow13 dump-flows {values['bridge']}", environment)
    finally:
        for daemon in reversed(daemons):
            daemon.terminate()
            daemon.wait(10)


def _start_switch(folder: Path, environment):
    schema = "/usr/share/openvswitch/vswitch.ovsschema"
    database = folder / "db.sock"
    run(f"ovsdb-tool create {folder}/conf.db {schema}", environment)
    server = ["ovsdb-server", f"{folder}/conf.db", f"--remote=punix:{database}", f"--unixctl={folder}/server.ctl"]
    switch = ["ovs-vswitchd", f"unix:{database}", f"--unixctl={folder}/switch.ctl"]
    quiet = {"env": environment, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    daemons = [subprocess.Popen(server, **quiet)]
    _wait_for_listener(database)
    run(f"ovs-vsctl --db=unix:{database} --no-wait init", environment)
    daemons.append(subprocess.Popen(switch, **quiet))
    bridge = "datapath_type=netdev protocols=OpenFlow13"
    run(f"ovs-vsctl --timeout=20 --db=unix:{database} add-br br0 -- set bridge br0 {bridge}", environment)
    return daemons


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("haproxy"), reason="HAProxy is not installed here")
def test_every_command_and_setting_for_haproxy_is_accepted_and_taken_back(tmp_path):
    settings = [one for one in commands_of("haproxy-config") if one.do.startswith(("mode", "balance"))]
    lines = {text.split()[0]: text for one in settings for text in (one.undo.replace("{former}", "roundrobin"), one.do)}
    path = tmp_path / "haproxy.cfg"
    path.write_text(
        f"global\n stats socket {tmp_path}/admin.sock level admin\ndefaults\n {lines['mode']}\n"
        " timeout connect 1s\n timeout client 1s\n timeout server 1s\n"
        f"backend be\n {lines['balance']}\n server w1 127.0.0.1:1 weight 10\n"
    )
    run(f"haproxy -c -f {path}", os.environ)
    balancer = subprocess.Popen(["haproxy", "-db", "-f", str(path)], stderr=subprocess.DEVNULL)
    try:
        (command,) = commands_of("haproxy")
        weights = [_ask(tmp_path / "admin.sock", text) for text in (command.do, command.undo)]
    finally:
        balancer.terminate()
        balancer.wait(10)
    assert [weight.split()[0] for weight in weights] == ["5", "10"]


def _wait_for_listener(path: Path, seconds: float = 20.0) -> None:
    """Waits until a Unix socket accepts connections: its file is there earlier."""
    end = time.monotonic() + seconds
    while True:
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(str(path))
                return
        except OSError:
            assert time.monotonic() < end, f"{path}: nothing listens within {seconds:g} s"
            time.sleep(0.05)


def _ask(path: Path, text: str) -> str:
    """Sends a command to the stats socket; returns the weight after it."""
    _wait_for_listener(path)
    answers = []
    for line in (fill_template(text, {"backend": "be", "server": "w1"}), "get weight be/w1"):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(5.0)
            connection.connect(str(path))
            connection.sendall(line.encode() + b"\n")
            answers.append(connection.recv(4096).decode())
    assert not answers[0].strip()
    return answers[1]


@pytest.mark.parametrize("tool", ["sglang-router", "vllm-router"])
def test_every_option_of_a_router_is_read_by_the_router(tool):
    module = pytest.importorskip(f"{tool.replace('-', '_')}.router_args", reason=f"{tool} is not installed")
    parser = argparse.ArgumentParser()
    module.RouterArgs.add_cli_args(parser)
    values = {"number": "2", "seconds": "3", "share": "0.5", "former": "round_robin", "worker_url": "http://a:1"}
    for text, _ in texts_in_order(commands_of(tool)):
        assert parser.parse_args(shlex.split(fill_template(text, values)))
