"""Real work on a real GPU: each fault is told at its place, and nothing without one.

All ran on one NVIDIA H200 with 16 processors, sampled once a second by nvidia-smi, dmon and /proc.

- `gpu_job`: four ranks train a small transformer (PyTorch 2.11, gloo). A loader that sleeps, two other processes on the
  GPU, three on the core of a rank, a stopped rank, and a larger batch. No threshold was set on it; the order of
  candidates was.
- `gpu_serving`: four replicas of a random Llama serve 16 requests a second (continuous batching of transformers 5.17;
  the metrics have vLLM's names). Six times as many requests at one, none at one, other work on the GPU, on the
  processors of one, a stopped one, and long prompts at one. The time that a latency must last was set on it.
- `gpu_trainer`: the Trainer of Hugging Face, whose log is bars of tqdm. A loader that sleeps, other work on the GPU and
  on its processors, and a stop. How finely such bars are read was set on it.
"""

import json
from pathlib import Path

import pytest

from skewscope.adapters.runtime.replay import replay

pytestmark = pytest.mark.slow

LAB = Path(__file__).parent / "lab"
MOST_DELAY_S = {"gpu_job/faults": 10.5, "gpu_serving/faults": 20.5, "gpu_trainer": 16.5}
"""Ten seconds, and the tick in which they end; shares of requests and means of several steps take longer."""
LABELS = [
    (name, one) for name in MOST_DELAY_S for one in json.loads((LAB / name / "labels.json").read_text())["labels"]
]


@pytest.fixture(scope="module")
def incidents():
    return {name: replay(LAB / name).incidents for name in MOST_DELAY_S}


def is_at(one, label):
    places = {one.name, one.name.removeprefix("job:"), *one.also}
    return not places.isdisjoint({name.removeprefix("job/") for name in label["entity"]})


@pytest.mark.parametrize(("name", "label"), LABELS, ids=[label["note"].partition(",")[0] for _, label in LABELS])
def test_a_fault_is_told_at_its_place(incidents, name, label):
    spans = [(one.opened_at, one.resolved_at or float("inf")) for one in incidents[name] if is_at(one, label)]
    assert any(begin <= label["start"] + MOST_DELAY_S[name] and end >= label["start"] for begin, end in spans)


@pytest.mark.parametrize("name", MOST_DELAY_S)
def test_nothing_is_told_before_the_first_fault(incidents, name):
    assert min(one.opened_at for one in incidents[name]) >= min(one["start"] for which, one in LABELS if which == name)


@pytest.mark.parametrize("name", ["gpu_job/healthy", "gpu_serving/healthy"])
def test_what_is_healthy_is_silent(name):
    assert not replay(LAB / name).incidents
