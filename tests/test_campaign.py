"""A short form of the campaign: `python -m bench.campaign` is the long one."""

import random
import shutil
import subprocess
from types import SimpleNamespace

import numpy as np
import pytest

from bench.campaign_calls import find_program, judge_calls, run_calls
from bench.campaign_inputs import MEMORY_LIMIT_MIB, InputCounts, damage, judge_memory, peak_mib, reset_peak, run_inputs
from bench.campaign_kills import LANE_KILLS, SHARES, Member, plan_lanes, run_kills
from bench.campaign_kills import MEMORY_LIMIT_MIB as CONTROLLER_LIMIT_MIB
from bench.campaign_peers import Pushes
from bench.campaign_samples import build_samples


def test_the_same_seed_damages_in_the_same_way():
    samples = build_samples()
    first, second = ([damage(one.content, b"other", random.Random(7)) for one in samples] for _ in range(2))
    assert first == second
    assert len({one.kind for one in samples}) == len(samples)


def test_an_input_that_takes_more_memory_than_the_bound_is_a_fault():
    counts = InputCounts()
    judge_memory(counts, 3, "csv", MEMORY_LIMIT_MIB - 1)
    assert counts.faults == []
    judge_memory(counts, 4, "csv", MEMORY_LIMIT_MIB + 1)
    assert counts.largest == (MEMORY_LIMIT_MIB + 1, 4, "csv")
    (fault,) = counts.faults
    assert "input 4 (csv)" in fault


def test_the_memory_of_one_input_is_measured():
    reset_peak()
    before = peak_mib()
    np.ones(100 << 17).sum()
    assert peak_mib() > before + 90


@pytest.mark.parametrize(("mib", "faults"), [(CONTROLLER_LIMIT_MIB, 0), (CONTROLLER_LIMIT_MIB + 1, 1)])
def test_calls_that_take_more_memory_than_the_bound_are_a_fault(tmp_path, mib, faults):
    (tmp_path / "log").write_text("")
    member = Member(tmp_path, 0, {}, peak_mib=mib)
    done = subprocess.CompletedProcess((), 0, "7 generated", "")
    assert len(judge_calls(done, member, SimpleNamespace(slowest=0.1, count=1))) == faults


@pytest.mark.parametrize(("kills", "made"), [(1000, 1000), (20, 20), (1, 4)])
def test_each_kind_of_lane_has_its_share_of_the_kills(kills, made):
    planned = plan_lanes(kills)
    assert sum(count for _, count in planned) == made
    assert {name for name, _ in planned} == set(SHARES)
    assert all(0 < count <= LANE_KILLS for _, count in planned)


def test_a_body_that_is_on_its_way_is_seen():
    pushes = Pushes()
    assert not pushes.wait(0.0)
    with pushes.one():
        assert pushes.wait(0.0)
    assert not pushes.wait(0.0)


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
