"""A real job on a real GPU: each of its faults is told at its place, and nothing without one.

Four ranks trained a small transformer on one NVIDIA H200 (PyTorch 2.11, gloo, 16 processors), sampled once a second by
nvidia-smi, dmon and /proc. The faults were made in turn: a loader that sleeps, two other processes on the GPU, three on
the core of a rank, a stopped rank, and a larger batch. No threshold was set on it; the order of candidates was.
"""

import json
from pathlib import Path

import pytest

from skewscope.adapters.runtime.replay import replay

JOB = Path(__file__).parent / "lab" / "gpu_job"
LABELS = json.loads((JOB / "faults" / "labels.json").read_text())["labels"]
MOST_DELAY_S = 10.5
"""Ten seconds, and the tick in which they end."""


@pytest.fixture(scope="module")
def incidents():
    return replay(JOB / "faults").incidents


def is_at(one, label):
    places = {one.name, one.name.removeprefix("job:"), *one.also}
    return not places.isdisjoint({name.removeprefix("job/") for name in label["entity"]})


@pytest.mark.parametrize("label", LABELS, ids=[label["note"].partition(",")[0] for label in LABELS])
def test_a_fault_is_told_at_its_place(incidents, label):
    spans = [(one.opened_at, one.resolved_at or float("inf")) for one in incidents if is_at(one, label)]
    assert any(begin <= label["start"] + MOST_DELAY_S and end >= label["start"] for begin, end in spans)


def test_nothing_is_told_before_the_first_fault(incidents):
    assert min(one.opened_at for one in incidents) >= min(label["start"] for label in LABELS)


def test_the_healthy_job_is_silent():
    assert not replay(JOB / "healthy").incidents
