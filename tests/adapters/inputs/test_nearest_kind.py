"""Of a file that cannot be read: what it is most like, the first line that does not fit, what makes one that does."""

import os
import re
import subprocess

import pytest

from skewscope.adapters.inputs.in_hand import list_in_hand
from skewscope.adapters.inputs.nearest_kind import METRICS_COMMAND, explain_refusal, find_nearest
from skewscope.adapters.inputs.recognition import find_kind

PAGE = '# TYPE DCGM_FI_DEV_SM_CLOCK gauge\nDCGM_FI_DEV_SM_CLOCK{Hostname="n0",gpu="0"} 1410\n'
NEAR = {
    "rdma-link": "show\nLink 1 mlx5_0 state active physical_state up netdev eth0\n",
    "vllm-log": "stats prompt throughput 12 tokens, generation throughput 9 Running 8, Waiting 0, cache usage 31\n",
    "nvidia-smi": "driver 560\ntimestamp|index|clocks.current.sm|power.draw|temperature.gpu\n",
    "nemo-log": "epoch 0 :: lr 1e-4 :: global_batch_size 256 :: global_step 10 :: reduced_train_loss 9.1\n",
}


@pytest.mark.parametrize("kind", NEAR)
def test_the_nearest_kind_its_line_and_its_command_are_named(tmp_path, kind):
    path = tmp_path / "a.txt"
    path.write_text(NEAR[kind])
    told = explain_refusal(path)
    near = next(one for one in list_in_hand() if one.kind == kind)
    assert f"most like {near.name}" in told.found
    assert told.line == NEAR[kind].rstrip().count("\n") + 1
    assert (f"`{near.command}`" in told.hint) == bool(near.command)
    assert len(str(told)) < 700


@pytest.mark.parametrize(
    ("content", "found", "hint"),
    [
        (b"hello\nworld\n", "a file of no known kind, which begins with 'hello'", METRICS_COMMAND),
        (b"", "an empty file", METRICS_COMMAND),
        (b"\x00\x01\x02" * 99, "a binary file of no known kind", ""),
        ("The engine of the car is slow since the last update of the map.\n".encode("utf-16"), "no known kind", ""),
    ],
)
def test_where_nothing_is_near_the_message_says_what_is_read(tmp_path, content, found, hint):
    path = tmp_path / "a.txt"
    path.write_bytes(content)
    told = explain_refusal(path)
    assert found in told.found
    assert hint in told.hint


def test_a_table_without_times_is_told_to_name_them(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("gpu,power\n0,300\n")
    hint = explain_refusal(path).hint
    assert "name its column of times `time`" in hint
    name = re.findall(r"`(\w+)`", hint)[0]
    path.write_text(f"{name},gpu,power_w\n1795341600,0,300\n")
    assert find_kind(path) == "csv"


def test_the_command_of_the_hint_writes_a_file_that_is_read(tmp_path):
    program = tmp_path / "bin" / "curl"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{PAGE}END\n")
    program.chmod(0o755)
    environment = {"PATH": f"{program.parent}:{os.environ['PATH']}"}
    subprocess.run(["sh", "-ec", METRICS_COMMAND], cwd=tmp_path, env=environment, check=True, timeout=20)
    assert find_kind(tmp_path / "page.prom") == "prometheus-page"


def test_a_sample_is_nearest_to_itself():
    for one in list_in_hand():
        if (near := find_nearest(one.sample.splitlines())) is not None:
            assert near.share == pytest.approx(1.0)
