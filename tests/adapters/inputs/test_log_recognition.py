"""Logs that begin with much else: their kind is found behind it, within bounds."""

import gzip

import pytest

from skewscope.adapters.inputs import log_recognition
from skewscope.adapters.inputs.recognition import find_inputs, find_kind
from skewscope.adapters.inputs.recording import input_readers

START_UP = b"INFO 11-22 10:00:00 [weight_utils.py:1] Loading a shard of the checkpoint, which takes a while\n" * 4000
LINES = {
    "vllm-log": b"INFO 11-22 10:00:00 [l.py:1] Engine 000: Avg prompt throughput: 1.0 tokens/s, Running: 1 reqs\n",
    "trtllm-log": b"iter = 1, num_scheduled_requests: 4, states = {'num_ctx_tokens': 0}\n",
    "sglang-log": b"[2026-11-22 10:00:00] Decode batch. #running-req: 1, #token: 9, gen throughput (token/s): 7.0\n",
    "megatron-log": b" iteration 10/ 100 | elapsed time per iteration (ms): 123.4 |\n",
    "nemo-log": b"Epoch 0: 1%| | 9/99 [00:09<00:09, global_step=9.0, train_step_timing in s=1.5]\n",
    "deepspeed-log": b"[Rank 0] step=10, skipped=0, lr=[0.1], mom=[0.9]\n",
    "mlperf-log": b':::MLLOG {"time_ms": 1795341600000, "key": "tracked_stats", "value": {"throughput": 2.1}}\n',
    "llamafactory-log": b'{"current_steps": 5, "total_steps": 9, "loss": 1.0, "elapsed_time": "0:01:00"}\n',
    "swift-log": b'{"loss": 1.0, "global_step/max_steps": "10/99", "elapsed_time": "1m 10s"}\n',
    "tqdm-log": b"".join(
        b" %d%%|#  | %d/100 [%02d:%02d<09:00, 30.00s/it, loss=1.2]\r" % (n, n, n // 2, n % 2 * 30) for n in range(9)
    ),
    "step-log": b"completed step: 9, seconds: 1.341, TFLOP/s/device: 257.929, loss: 0.000\n",
    "nanogpt-log": b"step:100/5100 train_loss:3.5 train_time:12345ms step_avg:123.45ms\n",
}


def test_every_reader_of_logs_has_marks_that_its_lines_have():
    marked = {kind for kind, reader in input_readers().items() if reader.log_marks}
    # A text may have a line of some format of the catalogue anywhere.
    assert marked - {"text"} == set(LINES)


@pytest.mark.parametrize("kind", LINES)
@pytest.mark.parametrize("shift", [0, pytest.param(40, marks=pytest.mark.slow)])
def test_a_log_is_recognised_behind_what_it_begins_with(tmp_path, kind, shift):
    path = tmp_path / "a.log"
    # At some shift the end of a block cuts the line.
    whole = START_UP + b"x" * (-len(START_UP) % log_recognition.BLOCK_BYTES - shift - 1) + b"\n" + LINES[kind]
    path.write_bytes(whole)
    assert find_kind(path) == kind
    (tmp_path / "b.gz").write_bytes(gzip.compress(whole))
    assert find_kind(tmp_path / "b.gz") == kind


def test_a_log_with_bars_is_of_the_kind_that_says_more(tmp_path):
    path = tmp_path / "a.log"
    path.write_bytes(LINES["tqdm-log"] + START_UP + LINES["megatron-log"])
    assert find_kind(path) == "megatron-log"
    path.write_bytes(LINES["tqdm-log"] + START_UP)
    assert find_kind(path) == "tqdm-log"


@pytest.mark.parametrize(
    "content",
    [
        START_UP,
        pytest.param(START_UP * 25 + LINES["vllm-log"], marks=pytest.mark.slow),
        START_UP[:70_000] + b"\0" * 70_000 + LINES["vllm-log"],
        b"y" * 200_000,
    ],
)
def test_what_is_no_log_or_too_far_behind_has_no_kind(tmp_path, content):
    (tmp_path / "a.log").write_bytes(content)
    assert find_kind(tmp_path / "a.log") == ""


def test_of_many_logs_of_no_known_kind_only_so_much_is_looked_at(tmp_path, monkeypatch):
    monkeypatch.setattr(log_recognition.LookAhead, "__init__", lambda ahead: setattr(ahead, "left", 500_000))
    for name in "abcd":
        (tmp_path / name).write_bytes(START_UP)
    (tmp_path / "e").write_bytes(START_UP + LINES["vllm-log"])
    (tmp_path / "f").write_bytes(LINES["vllm-log"])
    assert [each.path for each in find_inputs([tmp_path], tmp_path).inputs] == ["f"]
