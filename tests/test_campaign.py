"""A short form of the campaign: `python -m bench.campaign` is the long one."""

import random
import shutil

import pytest

from bench.campaign_calls import find_program, run_calls
from bench.campaign_inputs import damage, run_inputs
from bench.campaign_kills import run_kills
from bench.campaign_samples import build_samples


def test_the_same_seed_damages_in_the_same_way():
    samples = build_samples()
    first, second = ([damage(one.content, b"other", random.Random(7)) for one in samples] for _ in range(2))
    assert first == second
    assert len({one.kind for one in samples}) == len(samples)


@pytest.mark.slow
def test_damaged_inputs_end_with_data_or_a_clear_error(capsys):
    counts = run_inputs(560, seed=3)
    assert counts.faults == []
    assert counts.read.total() + counts.refused.total() == 560
    assert "0 faults" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.skipif(find_program() is None, reason="schemathesis is not installed")
def test_generated_calls_are_answered_as_described():
    assert run_calls(300, seed=3) == []


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("mount") is None, reason="no mount")
def test_controllers_that_are_killed_lose_nothing():
    assert run_kills(5, seed=3, settle_s=5.0) == []
