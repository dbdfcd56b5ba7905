"""Real collectives of PyTorch over gloo: the faulty rank is told from the wire, and health is silent."""

import json
from pathlib import Path

import pytest

from skewscope.adapters.runtime.replay import replay
from tests.lab.jobs import SCENARIOS, lacking, record_jobs
from tests.lab.record import Times

FAULT = (25.0, 45.0)
SEEN = 12.0
"""Seconds from the begin of a fault within which it has to be told."""

pytestmark = [pytest.mark.alone, pytest.mark.skipif(bool(lacking()), reason=lacking() or "-")]


@pytest.mark.parametrize("name", ["healthy", "dp-slow", "tp-slow", "tp-stopped"])
def test_the_faulty_rank_of_a_real_job_is_told(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "recording"
    record_jobs(SCENARIOS[name], folder, Times(*FAULT, 50.0), seed=5)
    labels = json.loads((folder / "labels.json").read_text("utf-8"))["labels"]
    found = [one for one in replay(folder).incidents if one.kind == "diagnosis"]
    if not labels:
        assert found == []
        return
    (label,) = labels
    first = min(found, key=lambda one: one.opened_at)
    assert first.condition in label["condition"]
    assert first.entity.name.rpartition(":")[2] in label["entity"]
    assert label["start"] <= first.opened_at <= label["start"] + SEEN
