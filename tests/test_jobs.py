"""Real collectives of PyTorch over gloo: the faulty rank is told from the wire, and health is silent."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from skewscope.adapters.runtime.replay import replay
from tests.lab.jobs import FAULTS, Jobs, lacking, plan, record_fault, running_jobs
from tests.lab.record import Times

TIMES = Times(25.0, 45.0, 50.0)
SEEN = 12.0
"""Seconds from the begin of a fault within which it has to be told."""

pytestmark = [pytest.mark.alone, pytest.mark.skipif(bool(lacking()), reason=lacking() or "-")]


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jobs]:
    work = tmp_path_factory.mktemp("work")
    with running_jobs("jobs", work, plan(("dp:3", "tp:5")), seed=5) as running:
        yield running


@pytest.mark.parametrize("place", ["healthy", "slow@n2", "slow@n6", "limited@n1", "stopped@n5"])
def test_the_faulty_rank_of_a_real_job_is_told(place: str, jobs: Jobs, tmp_path: Path) -> None:
    folder = tmp_path / "recording"
    fault, _, node = place.partition("@")
    record_fault(jobs, FAULTS[fault], node, folder, TIMES)
    labels = json.loads((folder / "labels.json").read_text("utf-8"))["labels"]
    found = [one for one in replay(folder).incidents if not one.is_symptom]
    if not labels:
        assert found == []
        return
    (label,) = labels
    first = min(found, key=lambda one: one.opened_at)
    assert first.condition in label["condition"]
    assert first.name.rpartition(":")[2] in label["entity"]
    assert label["start"] <= first.opened_at <= label["start"] + SEEN
