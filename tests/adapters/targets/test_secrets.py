"""Secrets: an address holds none, a plan shows none, and a program gets none that it does not need."""

import asyncio
import json
from pathlib import Path

import pytest

from skewscope.adapters.targets import target_kinds
from skewscope.adapters.targets.common.calls import CommandCall, FileCall, HttpCall
from skewscope.adapters.targets.common.settings import TargetSettings
from skewscope.adapters.targets.nginx import NginxSettings, NginxTarget
from skewscope.adapters.targets.ray_serve import RayServeSettings, RayServeTarget
from skewscope.adapters.targets.rendered import RenderedSettings, RenderedTarget
from skewscope.adapters.targets.slurm import SlurmSettings, SlurmTarget
from skewscope.engine.actions.change import DRAIN, Change
from skewscope.kb import yamlfile
from skewscope.kb.field_reader import FieldReader

ADDRESSES = {
    "webhook": ("url",),
    "envoy": ("admin",),
    "sglang-router": ("url", "metrics"),
    "vllm-router": ("url", "metrics"),
    "ray-serve": ("dashboard",),
    "kubernetes": ("url",),
    "gateway-api": ("url",),
    "slurm": ("rest",),
}
"""Fields with an address, by kind of target."""


@pytest.mark.parametrize("address", ["https://h/x?token=S3CRET", "https://h/x?S3CRET", "http://u:S3CRET@h", "h#S3CRET"])
@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in ADDRESSES.items() for name in names])
def test_an_address_with_a_secret_is_refused_without_showing_it(kind, name, address):
    fields = FieldReader(yamlfile.parse(json.dumps({"kind": kind, "members": {"r0": "a"}, name: address}), "s.yaml"))
    target_kinds()[kind].read(fields, (), "t")
    (problem,) = [each for each in fields.problems if each.field == name]
    assert "without user, password, ? and #" in problem.expected
    assert "bearer: {file: FILE}" in problem.hint
    if "#" not in address:
        assert "S3CRET" not in str(problem)


@pytest.mark.parametrize(
    ("call", "shown"),
    [
        (HttpCall("GET", "http://h/a?token=S3CRET&x=1"), "GET http://h/a?token=***&x=1"),
        (HttpCall("GET", "http://u:S3CRET@h/a?url=http%3A//w"), "GET http://***@h/a?url=http%3A//w"),
        (CommandCall(("hook", "--token", "S3CRET", "--max-tokens", "16")), "hook --token '***' --max-tokens 16"),
        (CommandCall(("hook", "--api-key=S3CRET", "PASSWORD=S3CRET")), "hook '--api-key=***' 'PASSWORD=***'"),
        (CommandCall(("scontrol", "update", "reason=skewscope:a-1 x")), "scontrol update 'reason=skewscope:a-1 x'"),
        (
            FileCall("f", "HF_TOKEN=S3CRET\nA=1\n", "HF_TOKEN=S3CRET\nA=2\n"),
            "--- f\n+++ f\n@@ -1,2 +1,2 @@\n HF_TOKEN=***\n-A=1\n+A=2",
        ),
    ],
)
def test_a_call_is_shown_without_secrets(call, shown):
    assert call.describe() == shown


def write_program(folder: Path, name: str) -> str:
    """Writes a program that notes its environment, and returns its path."""
    program = folder / name
    program.write_text(f'#!/bin/sh\nenv > {folder}/seen\necho \'{{"nodes": [], "jobs": []}}\'\n')
    program.chmod(0o755)
    return str(program)


def seen_variables(folder: Path) -> set[str]:
    names = {line.partition("=")[0] for line in (folder / "seen").read_text().splitlines()}
    # Those that a shell sets itself.
    return names - {"PWD", "SHLVL", "_", "OLDPWD"}


@pytest.fixture
def secrets(monkeypatch):
    for name in ("CHAT_TOKEN", "SLURM_JWT", "RAY_AUTH_TOKEN", "SLURM_CONF", "TZ"):
        monkeypatch.setenv(name, "S3CRET")


@pytest.mark.usefixtures("secrets")
def test_the_programs_of_slurm_and_a_probe_get_a_small_environment(tmp_path, monkeypatch):
    for name in ("scontrol", "squeue"):
        write_program(tmp_path, name)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    probe = write_program(tmp_path, "probe")
    target = SlurmTarget(SlurmSettings(TargetSettings("s", (("n0", "gpu1"),)), "/etc/s.conf", probe=(probe,)))
    asyncio.run(target.read_state())
    usual = {"PATH", "HOME", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH", "SLURM_CONF"}
    assert {"PATH", "LC_ALL", "TZ", "SLURM_CONF", "SLURM_JWT"} <= seen_variables(tmp_path) <= usual | {"SLURM_JWT"}
    assert "SLURM_CONF=/etc/s.conf\n" in (tmp_path / "seen").read_text()
    asyncio.run(target.probe("gpu1"))
    assert {"PATH", "TZ", "SLURM_CONF"} <= seen_variables(tmp_path) <= usual


@pytest.mark.usefixtures("secrets")
def test_a_reload_and_a_drain_of_ray_get_a_small_environment(tmp_path):
    program = write_program(tmp_path, "program")
    usual = {"PATH", "HOME", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH"}
    nginx = NginxTarget(NginxSettings(TargetSettings("n"), "/f", "be", (program,)))
    asyncio.run(nginx.make_call(CommandCall((program,))))
    assert {"PATH", "TZ"} <= seen_variables(tmp_path) <= usual
    ray = RayServeTarget(RayServeSettings(TargetSettings("r"), "http://h", "h:1", program))
    asyncio.run(ray.make_call(CommandCall((program, "drain-node"))))
    assert seen_variables(tmp_path) <= usual | {"RAY_AUTH_TOKEN"}
    assert "RAY_AUTH_TOKEN" in seen_variables(tmp_path)


def test_what_is_stored_of_a_job_holds_no_variables(tmp_path):
    file = tmp_path / "job.env"
    file.write_text("HF_TOKEN=S3CRET\nNCCL_IB_HCA=mlx5_0,mlx5_3\n")
    target = RenderedTarget(RenderedSettings(TargetSettings("j", (("n0", "job-a"),)), "nccl", (("job-a", str(file)),)))
    state = asyncio.run(target.read_state())
    change = Change(DRAIN, "j", "job-a", "a-1", parameters=(("device", "mlx5_3"),))
    (call,) = target.render_change(change, state)
    assert "S3CRET" not in str(state.members) + repr(state) + call.describe()
    assert isinstance(call, FileCall)
    assert "HF_TOKEN=S3CRET\n" in call.after
