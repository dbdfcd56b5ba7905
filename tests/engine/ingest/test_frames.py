"""Frames: whole columns of a large fleet give the verdicts that the same samples one by one give."""

import numpy as np
import pytest

from skewscope.engine.ingest.feed import FrameColumn, SampleFrame
from tests.support.rule_world import Bench, block, ranks, rule

NAN = float("nan")
SCHEMA = (FrameColumn("wire.onset_lag"), FrameColumn("gpu.util"))


def lags(n, late=9e-3):
    values = np.full(8, 1e-3) + 1e-5 * np.arange(8)
    values[2] = late if n > 6 else values[2]
    return values


def said(bench, ticks, frames):
    told = []
    for n in range(ticks):
        values = lags(n)
        if n == 4:
            values[5] = NAN
        if frames:
            bench.t += 1.0
            frame = SampleFrame(SCHEMA, bench.t, (values.astype(np.float32), np.zeros(16, np.float32)))
            (verdict,) = bench.detector.judge_samples(bench.t, block_of({}, bench), bench.table, [frame])
        else:
            whole = values.astype(np.float32).astype(float)
            (verdict,) = bench.tick(ranks(whole[:4]) | ranks(whole[4:], group="B"))
        told.append(
            (verdict.firing.tolist(), verdict.state.tolist(), verdict.evidence.tolist(), verdict.values.tobytes())
        )
    return told


def block_of(samples, bench):
    return block(samples, bench.table, bench.t)


def test_a_frame_says_what_its_samples_say_one_by_one():
    one, other = (said(Bench(rule()), 16, frames) for frames in (False, True))
    assert one == other
    assert any(any(firing) for firing, *_ in one)


def test_frames_and_samples_stand_beside_each_other():
    bench = Bench(rule())
    for n in range(12):
        bench.t += 1.0
        frame = SampleFrame(SCHEMA, bench.t, (lags(n), np.zeros(16)))
        marks = {("wire.ecn_ce_ratio", f"n{node}/ew"): 0.5 if node == 2 and n > 9 else 0.0 for node in range(8)}
        (verdict,) = bench.detector.judge_samples(bench.t, block_of(marks, bench), bench.table, [frame])
    assert verdict.evidence[:, 2].tolist()[::2] == [1, 1]
    assert verdict.evidence[2, 3] == -1


@pytest.mark.parametrize("back", [0.0, -3.0])
def test_a_frame_that_is_no_later_than_the_last_is_passed_over(back):
    bench = Bench(rule())
    for n in range(4):
        bench.t += 1.0
        time = bench.t if n < 3 else bench.t - 1.0 + back
        frame = SampleFrame(SCHEMA, time, (lags(0 if n < 3 else 9), np.zeros(16)))
        bench.detector.judge_samples(bench.t, block_of({}, bench), bench.table, [frame])
    assert bench.detector.series_state.counts.dropped == 8
