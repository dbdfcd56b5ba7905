"""A log alone gives the right answer: made-up logs in the formats of the tools, with one fault each."""

import datetime as dt
import random

import yaml

from skewscope.adapters.inputs.recording import open_recording
from skewscope.adapters.runtime.replay import replay

BEGIN = dt.datetime(2026, 11, 22, 10, tzinfo=dt.UTC)


def answers(folder, topology, kind, labels, lines):
    """Returns (condition, entity, seconds after the begin) of the incidents of a log that no other explains."""
    (folder / "topology.yaml").write_text(yaml.safe_dump({"version": 1, **topology}))
    (folder / "file.log").write_text("".join(f"{line}\n" for line in lines))
    inputs = [{"kind": kind, "path": "file.log", "labels": labels}]
    described = {"version": 1, "topology": "topology.yaml", "inputs": inputs}
    (folder / "recording.yaml").write_text(yaml.safe_dump(described))
    incidents = replay(open_recording(folder)).incidents
    roots = [one for one in incidents if one.explained_by is None]
    return [(one.condition, one.name, one.opened_at - BEGIN.timestamp()) for one in roots]


def nodes(*names, gpus=8):
    return [{"name": name, "gpus": gpus, "ports": []} for name in names]


def test_one_of_eight_gpus_with_a_low_clock_is_named_from_a_log_of_nvidia_smi(tmp_path):
    some = random.Random(1)
    lines = ["timestamp, index, clocks.current.sm [MHz], power.draw [W], utilization.gpu [%], temperature.gpu"]
    for n in range(40):
        for gpu in range(8):
            slow = gpu == 5 and n >= 24
            clock, power = (210, some.gauss(95, 2)) if slow else (some.choice([1395, 1410, 1410]), some.gauss(390, 6))
            at = BEGIN + dt.timedelta(seconds=2 * n, milliseconds=3 * gpu)
            lines.append(
                f"{at:%Y/%m/%d %H:%M:%S}.{at.microsecond // 1000:03d}, {gpu}, {clock} MHz, {power:.2f} W, 99 %, 61"
            )
    ((condition, place, delay),) = answers(tmp_path, {"nodes": nodes("n0")}, "nvidia-smi", {"node": "n0"}, lines)
    assert (condition, place) == ("intra-node-gpu-skew", "n0/gpu5")
    assert 48 < delay < 78


def test_steps_that_take_longer_are_told_from_a_log_of_megatron(tmp_path):
    some, at, lines, changed = random.Random(2), BEGIN, [], 0.0
    for n in range(1, 91):
        seconds = 19.0 if n == 1 else some.gauss(2.4 if n >= 60 else 1.5, 0.01)
        at += dt.timedelta(seconds=seconds)
        changed = changed or (n >= 60 and (at - BEGIN).total_seconds())
        lines.append(
            f" [{at:%Y-%m-%d %H:%M:%S.%f}] iteration {n}/ 500 | elapsed time per iteration (ms): {seconds * 1e3:.1f} |"
            " global batch size:   128 | lm loss: 1.04E+01 |"
        )
    groups = [{"name": "job", "kind": "data-parallel", "members": ["n0", "n1"]}]
    topology = {"nodes": nodes("n0", "n1"), "groups": groups}
    ((condition, place, opened),) = answers(tmp_path, topology, "megatron-log", {"group": "job"}, lines)
    assert (condition, place) == ("slow-steps", "job")
    assert 0 < opened - changed < 20


def test_a_queue_that_grows_is_told_from_a_log_of_vllm(tmp_path):
    some, lines, queue = random.Random(3), [], 0
    for n in range(60):
        queue = queue + some.randint(2, 5) if n >= 30 else some.choice([0, 0, 1])
        at = BEGIN + dt.timedelta(seconds=10 * n)
        lines.append(
            f"(APIServer pid=1) INFO {at:%m-%d %H:%M:%S} [loggers.py:273] Engine 000: Avg prompt throughput: "
            f"{some.gauss(2400, 200):.1f} tokens/s, Avg generation throughput: {some.gauss(1200, 60):.1f} tokens/s, "
            f"Running: {48 if queue > 2 else some.randint(20, 30)} reqs, Waiting: {queue} reqs, "
            f"GPU KV cache usage: {40 + queue / 3:.1f}%, Prefix cache hit rate: 35.2%"
        )
    groups = [{"name": "chat-0", "kind": "tensor-parallel", "members": ["s0"], "front_end": "s0"}]
    topology = {"nodes": nodes("s0", gpus=1), "groups": groups}
    labels = {"replica": "chat-0", "year": "2026"}
    ((condition, place, opened),) = answers(tmp_path, topology, "vllm-log", labels, lines)
    assert (condition, place) == ("growing-queue", "chat-0")
    assert 300 < opened < 420
