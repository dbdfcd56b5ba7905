"""The driver error of a GPU that was seen decides what is advised, and which command comes first."""

import pytest

from skewscope.adapters.runtime.replay import replay
from skewscope.engine.advice.command_values import fill_commands
from skewscope.kb.loader import catalogue

TOPOLOGY = """version: 1
nodes: [{name: n0, gpus: 8}, {name: n1, gpus: 8}]
groups: [{name: A, kind: tensor-parallel, members: [n0, n1]}]
"""
INPUTS = "version: 1\ntopology: topology.yaml\ninputs: [{kind: openmetrics, path: a.om}]\n"


def record(folder, error):
    """Writes 45 s of 16 GPUs, of which one meets an error at 20 s."""
    lines = []
    for t in range(45):
        for node, gpu in ((node, gpu) for node in ("n0", "n1") for gpu in range(8)):
            is_hit = (node, gpu) == ("n0", 3) and t >= 20
            labels = f'{{gpu="{gpu}",Hostname="{node}"}}'
            lines.append(f"DCGM_FI_DEV_XID_ERRORS{labels} {error if is_hit else 0} {1700000000 + t}\n")
            lines.append(f"DCGM_FI_DEV_GPU_UTIL{labels} {0 if is_hit else 95} {1700000000 + t}\n")
    (folder / "a.om").write_text("".join(lines) + "# EOF\n")
    (folder / "topology.yaml").write_text(TOPOLOGY)
    (folder / "recording.yaml").write_text(INPUTS)
    return folder


@pytest.mark.parametrize(
    ("error", "reason", "command"),
    [
        (79, "n0/gpu3 fell off the bus (Xid 79)", "scontrol reboot ASAP nextstate=RESUME n0"),
        (119, "Xid 119 of n0/gpu3 needs a reset", "nvidia-smi --gpu-reset --id=3"),
    ],
)
def test_what_is_advised_follows_the_error_that_was_seen(tmp_path, error, reason, command):
    outcome = replay(record(tmp_path, error))
    (incident,) = [one for one in outcome.incidents if one.condition == "gpu-hard-fault"]
    (advice,) = [one for one in incident.mitigations if one.id == "recover-gpu"]
    assert advice.why.startswith(reason)
    commands = fill_commands(catalogue().mitigations["recover-gpu"], incident, outcome.topology)
    assert commands[2].do == command
