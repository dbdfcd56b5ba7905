"""Whether a member is slower than its peers, by probes and by the counts of its router."""

import random

import pytest

from skewscope.engine.actions.comparison import (
    MemberComparison,
    MemberLoad,
    compare_times,
    estimate_pool_time,
    estimate_times,
    has_recovered,
)
from skewscope.engine.actions.witnesses import PROBE, ROUTER


@pytest.mark.parametrize(
    ("member", "loss", "slower", "contradicts"),
    [
        (1.0, 0.8, True, False),
        (0.21, 0.8, False, True),
        (0.21, 0.0, False, True),  # it is not known how much was lost
        (0.25, 0.2, False, False),  # so small a loss would not show in a probe
        (float("inf"), 0.8, True, False),
    ],
)
def test_a_probe_confirms_or_contradicts_a_diagnosis(member, loss, slower, contradicts):
    seen = MemberComparison(PROBE, 0.0, member, 0.2)
    assert (seen.is_slower, seen.contradicts(loss)) == (slower, contradicts)


def test_times_are_compared_by_their_medians():
    seen = compare_times(PROBE, 5.0, [0.2, 0.21, 3.0], [0.2, 0.2, 0.22])
    assert (seen.member, seen.peers, seen.is_slower) == (0.21, 0.2, False)
    assert seen.describe() == "a probe finds it as quick as its peers (0.21 s, theirs 0.20 s)"
    assert compare_times(PROBE, 5.0, [], [0.2]) is compare_times(PROBE, 5.0, [0.2], []) is None
    assert "gets no answer" in MemberComparison(PROBE, 0.0, float("inf"), 0.2).describe()


def queue(seconds, rate=4.0, length=12, seed=1):
    """What a router counts each second of a member that takes so many seconds for each of some requests a second."""
    rng = random.Random(seed)
    begun, t = [], 0.0
    while t < 200.0:
        t += rng.expovariate(rate)
        begun.append(t)
    for now in range(100, 100 + length + 1):
        done = sum(at + seconds <= now for at in begun)
        yield MemberLoad(done, sum(at <= now for at in begun) - done)


def samples(**seconds):
    columns = {name: list(queue(value, seed=n)) for n, (name, value) in enumerate(seconds.items())}
    return [(float(n), {name: column[n] for name, column in columns.items()}) for n in range(13)]


def test_the_time_of_a_request_follows_from_the_counts_of_a_router():
    times = estimate_times(samples(w0=0.5, w1=0.5, w2=2.5))
    assert times["w2"] == pytest.approx(2.5, rel=0.4)
    assert times["w0"] == pytest.approx(0.5, rel=0.6)
    assert compare_times(ROUTER, 12.0, [times["w2"]], [times["w0"], times["w1"]]).is_slower
    assert not compare_times(ROUTER, 12.0, [times["w1"]], [times["w0"]]).is_slower


def test_too_few_answers_and_too_short_a_time_say_nothing():
    assert estimate_times(samples(w0=0.5)[:5]) == {}
    assert estimate_times([]) == {}
    assert estimate_times([(0.0, {"w0": MemberLoad(0, 1)}), (60.0, {"w0": MemberLoad(3, 1)})]) == {}
    # A member that answers nothing while requests wait is the slowest of all.
    hung = [(0.0, {"w0": MemberLoad(9, 5)}), (60.0, {"w0": MemberLoad(9, 20)})]
    assert estimate_times(hung)["w0"] == pytest.approx(12.5 * 60)
    restarted = [(0.0, {"w0": MemberLoad(90, 5)}), (60.0, {"w0": MemberLoad(9, 20)})]
    assert estimate_times(restarted) == {}


def test_a_pool_got_better_where_half_of_its_lost_time_is_back():
    assert estimate_pool_time(samples(w0=0.5, w1=0.5)) == pytest.approx(0.5, rel=0.4)
    assert has_recovered(1.2, 0.5, 0.6)
    assert not has_recovered(1.2, 0.5, 1.0)
    assert not has_recovered(0.55, 0.5, 0.5)
