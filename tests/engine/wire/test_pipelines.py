"""Stages of a pipeline in training are judged by their own work, and one that stops is the one that owes an input."""

import numpy as np
import pytest

from tests.support.traffic import ANNOUNCEMENT, START, Send, Shape, Told, mesh, pipeline, ring, told, training

SHAPE = Shape(size=4, kind="pipeline-parallel")


def own_work(says: Told, stage: int) -> float:
    """Returns the usual time that a stage works, whether it is an end of the pipeline or not, s."""
    signal = "wire.own_turn_time" if stage in {0, SHAPE.size - 1} else "wire.stage_time"
    return says.typical(signal, f"n{stage}/ew")


@pytest.mark.parametrize("batches", [1, 4, 16])
@pytest.mark.parametrize("slow", range(4))
def test_the_slow_stage_takes_longer_and_no_other_does(slow: int, batches: int) -> None:
    steps = 240 // batches
    usual = told(SHAPE, training, steps, batches=batches)
    slower = told(Shape(**{**SHAPE.__dict__, "late": {slow: SHAPE.compute}}), training, steps, batches=batches)
    ratios = [own_work(slower, i) / own_work(usual, i) for i in range(4)]
    assert int(np.argmax(ratios)) == slow
    assert ratios[slow] > 1.6
    assert max(np.delete(ratios, slow)) < 1.1


def with_headers(shape: Shape, rounds: int) -> list[Send]:
    """Returns the sends of a pipeline whose first stage says which batch comes before it begins to work."""
    sends = list(pipeline(shape, rounds))
    soon = shape.transit + shape.spacing * shape.segments + 1e-4
    return sends + [Send(send.time + soon, 0, 1, 1, ANNOUNCEMENT) for send in sends if send.receiver == 0]


def test_a_small_message_before_the_work_does_not_end_it() -> None:
    usual, found = told(SHAPE, pipeline, 200), told(SHAPE, with_headers, 200)
    for i in range(4):
        work = usual.typical("wire.stage_time", f"n{i}/ew")
        assert work > 0.9 * SHAPE.compute
        assert found.typical("wire.stage_time", f"n{i}/ew") > 0.9 * work


def stopped_times(make, stopped: int, share: float, **changes: object) -> list[float]:
    """Returns the longest time by stage for which it held the others, of one that stops in a step's course, s."""
    whole = Shape(**{**SHAPE.__dict__, **changes})
    sends = [send.time for send in make(whole, 100)]
    begin, end = sends[len(sends) // 2], sends[len(sends) // 2 + len(sends) // 100]
    shape = Shape(**{**whole.__dict__, "stopped": stopped, "stop": begin + share * (end - begin)})
    says = told(shape, make, 100)
    return [max(says.of("wire.stopped_time", f"G:n{i}"), default=0.0) for i in range(4)]


@pytest.mark.parametrize("share", [0.05, 0.3, 0.55, 0.8])
@pytest.mark.parametrize("stopped", [1, 2])
def test_a_stage_that_stops_anywhere_in_a_step_is_the_one_that_others_wait_for(stopped: int, share: float) -> None:
    found = stopped_times(training, stopped, share)
    assert int(np.argmax(found)) == stopped
    assert max(found) > 5.0
    assert sorted(found)[-2] == 0.0


@pytest.mark.parametrize("make", [training, pipeline])
def test_a_pipeline_that_runs_out_of_work_has_not_stopped(make) -> None:
    shape = Shape(**{**SHAPE.__dict__, "stopped": 0, "stop": START + 3.0})
    says = told(shape, make, 1000)
    assert max(max(says.of("wire.stopped_time", f"G:n{i}"), default=0.0) for i in range(4)) == 0.0


@pytest.mark.parametrize(("make", "share"), [(mesh, 1.0), (ring, 1 / 3)])
def test_members_of_a_collective_send_to_all_or_to_one(make, share: float) -> None:
    says = told(Shape(size=4), make, 200)
    assert [says.typical("wire.partner_share", f"G:n{i}") for i in range(4)] == pytest.approx([share] * 4)
