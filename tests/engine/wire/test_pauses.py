"""A member's own pauses tell who is late, whatever the collective's algorithm, and who has stopped."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from skewscope.engine.wire.pauses import MemberEvents, PauseReader, RoundPattern
from tests.support.traffic import START, Send, Shape, announced_ring, captured, halving, ring, sharded, told

MAKERS = [announced_ring, halving, ring]


def lags(shape: Shape, make: Callable[..., Iterator[Send]], rounds: int = 400) -> list[float]:
    says = told(shape, make, rounds)
    return [says.typical("wire.onset_lag", f"G:n{i}") for i in range(shape.size)]


@pytest.mark.parametrize("extra", [0.2, 0.8, 3.0])
@pytest.mark.parametrize("make", MAKERS)
def test_the_slow_member_is_late_by_what_it_computes_longer(make, extra: float) -> None:
    shape = Shape(late={2: extra * 8e-3})
    late = lags(shape, make)
    assert int(np.argmax(late)) == 2
    assert late[2] == pytest.approx(extra * 8e-3, rel=0.25)
    assert sorted(late)[-2] < 0.1 * 8e-3


@pytest.mark.parametrize("size", [3, 5])
def test_rings_of_any_size_tell_the_slow_member(size: int) -> None:
    late = lags(Shape(size=size, late={1: 6e-3}), announced_ring)
    assert int(np.argmax(late)) == 1
    assert late[1] == pytest.approx(6e-3, rel=0.25)


def test_in_sharded_training_the_slow_member_is_late() -> None:
    shape = Shape(compute=10e-3, late={2: 6e-3})
    late = lags(shape, sharded, 150)
    assert int(np.argmax(late)) == 2
    assert late[2] == pytest.approx(1.6 * 6e-3, rel=0.35)
    assert sorted(late)[-2] < 0.35 * late[2]
    assert max(lags(Shape(compute=10e-3), sharded, 150)) < 0.25 * late[2]


@pytest.mark.parametrize("make", MAKERS)
def test_healthy_members_are_last_in_turn(make) -> None:
    says = told(Shape(), make, 400)
    assert max(says.typical("wire.onset_lag", f"G:n{i}") for i in range(4)) < 0.05 * 8e-3
    assert max(says.typical("wire.last_sender_share", f"G:n{i}") for i in range(4)) < 0.5


def test_a_member_behind_a_slow_link_is_not_late() -> None:
    shape = Shape(segments=8, spacing=0.4e-3, segment=32768)
    assert max(lags(shape, announced_ring)) < 0.1 * shape.compute


def test_a_stopped_member_is_told_while_the_others_wait() -> None:
    def stopped(shape: Shape, rounds: int) -> Iterator[Send]:
        return announced_ring(Shape(late={1: 0.0}), rounds)

    def events(member: int) -> MemberEvents:
        sends = list(stopped(Shape(), 300))
        times = sorted(s.time for s in sends if s.sender == 1)
        # Member 1 stops before its last round: of that round, only what others send unasked is left.
        begin = [t for t, gap in zip(times[1:], np.diff(times), strict=True) if gap > 5e-3][-1]
        kept = [s for s in sends if s.time < begin or (s.sender != 1 and s.size and s.time < begin + 4e-3)]
        seen = captured(Shape(), kept, member)
        return MemberEvents(seen.time - START, seen.src == member + 1, seen.length.astype(float))

    complete = []
    for member in range(4):
        reader = PauseReader()
        reader.read(events(member))
        still = reader.open_round()
        assert still is not None
        complete.append(still.is_complete)
    assert complete[1]
    assert not complete[0]
    assert not complete[2]


def stopped_times(make: Callable[..., Iterator[Send]], size: int, share: float) -> list[float]:
    """Returns by member the longest time for which it alone held the others, of one that stops in a round's course."""
    sends = list(make(Shape(size=size), 720))
    mine = [s.time for s in sends if s.sender == 1]
    pauses = [t for t, gap in zip(mine[1:], np.diff(mine), strict=True) if gap > 5e-3]
    begin, end = pauses[-3], pauses[-2]
    shape = Shape(size=size, stopped=1, stop=begin + share * (end - begin))
    says = told(shape, make, 720, chunk=1)
    return [max(says.of("wire.stopped_time", f"G:n{i}"), default=0.0) for i in range(size)]


def everyday(values: list[float], some: set[float]) -> list[Any]:
    """Returns values as parameters; those that are not among some are slow."""
    return [value if value in some else pytest.param(value, marks=pytest.mark.slow) for value in values]


SHARES = everyday([0.01, 0.05, 0.1, 0.15, 0.5, 0.9], {0.05})


@pytest.mark.slow
@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("size", everyday([2, 4, 7], {4}))
@pytest.mark.parametrize("make", [announced_ring, ring])
def test_a_member_that_stops_anywhere_in_a_round_is_the_one_told(make, size: int, share: float) -> None:
    found = stopped_times(make, size, share)
    assert found[1] >= 6
    assert max(np.delete(found, 1)) == 0


@pytest.mark.parametrize("share", SHARES)
def test_of_pairs_that_exchange_no_other_member_is_told(share: float) -> None:
    found = stopped_times(halving, 8, share)
    assert max(np.delete(found, 1)) == 0


def test_chunks_of_any_length_find_the_same_pauses() -> None:
    packets = captured(Shape(late={2: 6e-3}), list(announced_ring(Shape(late={2: 6e-3}), 800)), 2)
    found = []
    for length in (1.0, 5.0):
        reader, pauses = PauseReader(), []
        edges = np.arange(START, packets.time.max() + length, length)
        for first in edges:
            inside = (packets.time >= first) & (packets.time < first + length)
            part = MemberEvents(packets.time[inside], packets.src[inside] == 3, packets.length[inside].astype(float))
            rounds = reader.read(part)
            pauses += rounds.pause[rounds.begin > START + 5].tolist()
        found.append(pauses)
    assert found[0] == found[1]


def test_rounds_that_were_taken_for_one_are_told_apart_later() -> None:
    pattern = RoundPattern()
    seen = np.cumsum([2] * 8)
    pattern.learn(np.full(8, 0.07), 1e6 * seen)
    assert pattern.bytes == 2e6
    pattern.learn(np.full(40, 0.07), 1e6 * (seen[-1] + np.cumsum([1, 3, 1, 1] * 10)))
    assert pattern.bytes == 1e6


def test_missed_pauses_do_not_make_several_rounds_of_a_known_one() -> None:
    pattern = RoundPattern()
    pattern.learn(np.full(8, 0.05), 1e6 * np.arange(8))
    pattern.learn(np.full(25, 0.07), 1e6 * (8 + np.cumsum([2, 4, 2, 3, 2] * 5)))
    assert pattern.bytes == 1e6


def test_pauses_for_collections_of_garbage_begin_no_rounds() -> None:
    pattern, sent = RoundPattern(), 0.0
    for _ in range(6):
        pauses = np.tile([0.3, *[0.07] * 24], 2)
        pattern.learn(pauses, sent + 1e6 * np.arange(1, 51))
        sent += 50e6
    assert pattern.bytes == 1e6


def test_a_few_checkpoints_leave_known_rounds_known() -> None:
    pattern, sent = RoundPattern(), 0.0
    for chunk in range(6):
        pauses = [0.07] * 50 if chunk < 3 else [*[0.07] * 35, 1.5, *[0.07] * 5]
        pattern.learn(np.array(pauses), sent + 1e6 * np.arange(1, len(pauses) + 1))
        sent += 1e6 * len(pauses)
        assert pattern.bytes == 1e6


def test_idle_spells_between_requests_are_no_rounds() -> None:
    rng = np.random.default_rng(4)
    time, shift = [], 0.0
    for _ in range(30):
        sends = list(announced_ring(Shape(), int(rng.integers(5, 60))))
        time += [(s.time + shift, s.sender == 0, s.size or 4096) for s in sends if 0 in (s.sender, s.receiver)]
        shift += sends[-1].time - START + rng.exponential(1.0)
    rows = np.array(sorted(time))
    reader = PauseReader()
    for first in np.arange(rows[0, 0], rows[-1, 0], 5.0):
        part = rows[(rows[:, 0] >= first) & (rows[:, 0] < first + 5.0)]
        rounds = reader.read(MemberEvents(part[:, 0], part[:, 1] > 0, part[:, 2]))
    assert np.median(rounds.pause) == pytest.approx(8e-3, rel=0.1)


def test_announcements_that_repeat_are_no_rounds() -> None:
    rng = np.random.default_rng(3)
    long = 0.02 * (1 + 0.1 * rng.random(40))
    pauses = np.concatenate([[pause, *[2e-4] * 30] for pause in long.tolist()])
    sent = np.cumsum(np.concatenate([[rng.integers(20_000, 90_000), *[48] * 30] for _ in long]).astype(float))
    for least, known in ((0.0, 48.0), (500.0, np.nan)):
        pattern = RoundPattern()
        pattern.learn(pauses, sent, least)
        assert pattern.bytes == pytest.approx(known, nan_ok=True)


def standing(shape: Shape, rounds: int, every: int = 200, distance: float = 3.1) -> Iterator[Send]:
    """Returns rounds of a ring; every so many begin so many seconds after those before, as after a checkpoint."""
    for number in range(rounds // every):
        for send in announced_ring(shape, every, seed=number + 1):
            yield replace(send, time=send.time + number * distance)


def test_what_all_members_pause_for_is_told_of_the_group() -> None:
    found, late = told(Shape(), standing, 1200), told(Shape(late={1: 0.5}), announced_ring, 40)
    pauses = found.of("wire.common_pause", "G")
    assert np.sum(pauses > 1.0) == 5
    assert np.median(pauses) < 2 * Shape().compute
    assert max(late.of("wire.common_pause", "G")) < 2 * Shape().compute


@pytest.mark.parametrize("distance", [5.3, 5.77])
def test_no_member_is_late_where_all_have_paused(distance: float) -> None:
    shape = Shape(compute=60e-3)

    def stands(shape: Shape, rounds: int) -> Iterator[Send]:
        return standing(shape, rounds, every=60, distance=distance)

    found = told(shape, stands, 360)
    assert np.sum(found.of("wire.common_pause", "G") > 1.0) == 5
    # Where a tick ends as some members have begun again, one tick may be left.
    late = [np.sum(found.of("wire.onset_lag_p95", f"G:n{i}") > shape.compute) for i in range(4)]
    assert max(late) <= 1
