"""What is plainly abnormal is found, at any scale, in any order of samples, and with gaps."""

import re
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skewscope.engine.engine import Engine
from skewscope.engine.model.topology import Node, Port, Topology
from skewscope.engine.symptoms import cells
from skewscope.engine.symptoms.peer_ratios import PeerRatios
from skewscope.kb.loader import catalogue
from tests.support.symptom_world import START, SymptomWorld, pool_of_replicas

STEP = ("step.duration", "group", "A")


def one_switch(ports):
    return Topology((Node("s", ports=tuple(Port("s", f"p{k}", "east-west", 1e9) for k in range(ports))),))


def computing(values):
    return {("step.compute_time", "rank", f"A:n{n}"): value for n, value in enumerate(values)}


def noise(seed, count, size=1):
    return 1 + 0.01 * np.random.default_rng(seed).standard_normal((count, size))


def slow_job(scale=1.0, factor=2.0):
    world = SymptomWorld()
    for n, wobble in enumerate(noise(1, 60)[:, 0]):
        world.tick({STEP: scale * wobble * (factor if n >= 40 else 1.0)})
    return world


def test_steps_that_take_longer_are_found_and_told_once():
    (incident,) = slow_job().incidents()
    assert (incident.category, incident.condition, incident.name, incident.state) == (
        "symptom",
        "slow-steps",
        "A",
        "firing",
    )
    assert re.search(r"^Time of a step of A is (2|2\.0\d|1\.9\d) times as long since ", incident.summary)
    assert incident.candidates
    assert incident.probabilities == tuple(sorted(incident.probabilities, reverse=True))
    assert sum(incident.probabilities) <= 1


def test_steps_as_ever_are_silent():
    assert not slow_job(factor=1.0).incidents()


@cache
def unscaled():
    return slow_job().found()


@settings(max_examples=5, deadline=None)
@given(st.floats(1e-3, 1e4))
def test_the_scale_of_a_signal_does_not_matter(scale):
    # Absolute floors of the catalogue are below a millisecond for steps.
    assert slow_job(scale).found() == unscaled()


def test_one_long_step_means_nothing():
    world = SymptomWorld()
    for n, wobble in enumerate(noise(2, 80)[:, 0]):
        world.tick({STEP: wobble * (3.4 if n % 20 == 19 else 1.0)})
    assert not world.incidents()


def test_a_stall_is_found_in_few_samples():
    world = SymptomWorld()
    for n, wobble in enumerate(noise(2, 60)[:, 0]):
        world.tick({STEP: wobble * (30 if n in (40, 41) else 1.0)}, pause=4.0)
    assert {one.condition for one in world.incidents()} == {"slow-steps"}


def test_slow_steps_with_lulls_are_found():
    world = SymptomWorld()
    for n, wobble in enumerate(noise(2, 60)[:, 0]):
        world.tick({STEP: wobble * (1.8 if n >= 40 and n % 3 else 1.0)})
    assert {one.condition for one in world.incidents()} == {"slow-steps"}


def started(slow, factor, pause=1.0):
    world = SymptomWorld()
    for n, wobble in enumerate(noise(2, 40)[:, 0]):
        world.tick({STEP: wobble * (factor * (1 + 0.1 * n) if n < slow else 1.0)}, pause=pause)
    return world


def test_a_slow_start_is_told_by_hindsight_and_teaches_nothing():
    world = started(10, 30)
    (incident,) = world.incidents()
    assert (incident.condition, incident.severity, incident.state) == ("slow-start", "info", "resolved")
    assert incident.summary.startswith("A started slowly at ")
    for wobble in noise(3, 8)[:, 0]:
        world.tick({STEP: 2 * wobble})
    assert "slow-steps" in {one.condition for one in world.incidents()}


@pytest.mark.parametrize(
    ("slow", "factor", "pause"),
    [(0, 1, 1.0), (2, 60, 20.0), (10, 5, 1.0), (8, 30, 0.5), (30, 30, 1.0)],
    ids=["healthy", "two steps", "a few times", "a moment", "for long"],
)
def test_what_a_warm_up_does_is_silent(slow, factor, pause):
    assert not {one.condition for one in started(slow, factor, pause).incidents()} & {"slow-start"}


def stalled(size, late, seconds=3.0):
    world = SymptomWorld(size)
    for n, row in enumerate(noise(4, 60, size)):
        row[:late] += seconds if n == 40 else 0.0
        world.tick(computing(0.3 * row))
    return world


def test_one_late_step_of_one_member_is_told_once():
    (incident,) = stalled(16, 1, 5.0).incidents()
    assert (incident.condition, incident.name, incident.state) == ("late-member", "n0", "resolved")


@pytest.mark.parametrize(("size", "late", "seconds"), [(16, 1, 2.0), (16, 8, 5.0), (4, 1, 5.0)])
def test_one_late_step_that_is_short_or_of_many_is_silent(size, late, seconds):
    assert not stalled(size, late, seconds).incidents()


def paused(every, seconds, turns, size=4):
    """Members that pause one after the other, `turns` of them, every so many steps."""
    world = SymptomWorld(size)
    for n, row in enumerate(noise(4, 70, size)):
        if n >= 20 and n % every == 0:
            row[n // every % turns] += seconds / 0.3
        world.tick(computing(0.3 * row))
    return world


@pytest.mark.parametrize("size", [2, 4])
def test_a_member_that_pauses_again_and_again_is_told(size):
    (incident,) = paused(5, 1.5, 1, size).incidents()
    assert (incident.condition, incident.name) == ("late-member", "n0")
    assert "is 1.8 s, 6" in incident.summary or "is 1.79 s, 6" in incident.summary or "is 1.81 s, 6" in incident.summary
    assert 30 <= incident.opened_at - START <= 32


@pytest.mark.parametrize(("every", "seconds", "turns"), [(5, 1.5, 4), (25, 1.5, 1), (5, 0.5, 1)])
def test_pauses_in_turn_and_rare_and_short_ones_are_silent(every, seconds, turns):
    assert not paused(every, seconds, turns).incidents()


def test_what_takes_longer_at_all_members_is_told_of_their_group():
    world = SymptomWorld()
    for n, row in enumerate(noise(4, 60, 4)):
        world.tick(computing(row * (1.5 if n >= 30 else 1.0)))
    (incident,) = world.incidents()
    assert (incident.condition, incident.kind, incident.name) == ("slow-steps", "group", "A")


def test_a_step_that_is_polled_again_is_no_new_step():
    world = SymptomWorld()
    for wobble in noise(3, 30)[:, 0]:
        world.tick({STEP: wobble})
    for _ in range(30):
        world.tick({STEP: 3.0})
    assert not world.incidents()


@pytest.mark.parametrize(("digits", "period", "seen"), [(1, 2.0, True), (1, 0.1, False), (2, 2.0, True)])
def test_rounded_steps_that_are_equal_count_as_steps_where_there_was_time_for_them(digits, period, seen):
    """Steps of 0.8 s, then of 1.6 s, written with one or two digits; twenty polls in two seconds are of one step."""
    world = SymptomWorld()
    for wobble in noise(3, 40)[:, 0]:
        world.tick({STEP: round(0.8 * (1 + 0.3 * (wobble - 1)), digits)})
    for wobble in noise(4, 20)[:, 0]:
        world.tick({STEP: round(1.6 * (1 + 0.1 * (wobble - 1)), digits)}, pause=period)
    assert [one.condition for one in world.incidents()] == ["slow-steps"] * seen


@pytest.mark.parametrize("since", [0, 30])
def test_a_member_that_computes_longer_than_its_peers_is_located(since):
    world = SymptomWorld()
    for n, row in enumerate(noise(4, 60, 4)):
        row[2] *= 2.0 if n >= since else 1.0
        world.tick(computing(row))
    (incident,) = world.incidents()
    assert (incident.condition, incident.name) == ("late-member", "n2")


@pytest.mark.parametrize(("lag", "expected"), [(0.02, set()), (0.2, {("wire.onset_lag", "A:n2", "up")})])
def test_a_lag_counts_as_a_part_of_the_round(lag, expected):
    world = SymptomWorld()
    for n, row in enumerate(noise(4, 60, 4)):
        late = {("wire.onset_lag", "rank", f"A:n{k}"): 0.004 * value for k, value in enumerate(row)}
        late["wire.onset_lag", "rank", "A:n2"] += lag if n >= 30 else 0.0
        world.tick(late | {("wire.round_period", "group", "A"): 0.9 * row[0]})
    assert world.found() == expected


@pytest.mark.parametrize(
    ("sent", "expected"), [(1e6, set()), (5e3, set()), (1e3, {("flow.tcp_retrans", "n0", "begins")})]
)
def test_segments_sent_again_count_as_a_part_of_all(sent, expected):
    world = SymptomWorld()
    for n in range(120):
        counts = {"host.tcp_out_segs": sent * n, "flow.tcp_retrans": 10.0 * max(n - 60, 0)}
        world.tick({(name, "node", "n0"): value for name, value in counts.items()})
    assert world.found() == expected


def test_members_that_differ_by_a_fifth_for_good_are_silent():
    world = SymptomWorld()
    for row in noise(5, 120, 4):
        world.tick(computing(row * [1.0, 1.1, 1.2, 0.9]))
    assert not world.incidents()


def test_the_member_behind_the_others_has_stopped_them():
    world = SymptomWorld()
    for n in range(80):
        counts = {
            ("nccl.coll_seq", "rank", f"A:n{k}"): float(10 * min(n, 40) - (1 if k == 1 and n >= 40 else 0))
            for k in range(4)
        }
        world.tick(counts)
    (incident,) = world.incidents()
    assert (incident.condition, incident.name) == ("stopped-progress", "n1")


def test_a_port_that_loses_its_traffic_while_its_siblings_carry_theirs():
    world = SymptomWorld()
    for n in range(120):
        sent = {
            ("port.tx_bytes", "port", f"n0/p{k}"): 1e8 * (min(n, 60) if k == 1 else n) * (1 + 0.001 * k)
            for k in range(3)
        }
        world.tick(sent)
    assert ("port.tx_bytes", "n0/p1", "down") in world.found()
    assert {one.condition for one in world.incidents()} == {"idle-path"}


def partly(left, ports=6, lossy=1):
    world, totals = SymptomWorld(fleet=one_switch(ports)), [0.0] * ports
    for n in range(60):
        for k in range(ports):
            totals[k] += 1e9 * (left if k < lossy and n >= 30 else 1.0)
        world.tick({("port.tx_bytes", "port", f"s/p{k}"): totals[k] for k in range(ports)}, pause=10.0)
    return {(one.condition, one.name) for one in world.incidents()}


def test_a_port_that_loses_two_thirds_of_its_traffic_while_its_siblings_carry_theirs():
    assert partly(0.33) == {("lost-share", "s/p0")}


@pytest.mark.parametrize(("left", "lossy"), [(0.5, 1), (0.33, 6)])
def test_a_port_that_carries_half_and_load_that_falls_are_silent(left, lossy):
    assert not partly(left, lossy=lossy)


def test_traffic_that_stops_everywhere_is_no_symptom():
    world = SymptomWorld()
    for n in range(120):
        world.tick({("port.tx_bytes", "port", f"n0/p{k}"): 1e8 * min(n, 60) for k in range(3)})
    assert not world.incidents()


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_the_order_of_samples_does_not_matter(seed):
    random = np.random.default_rng(seed)
    one, other = SymptomWorld(), SymptomWorld()
    for n, row in enumerate(noise(6, 40, 4)):
        row[1] *= 1.8 if n >= 25 else 1.0
        values = computing(row) | {STEP: row.max()}
        one.tick(values)
        other.tick(values, random.permutation(len(values)))
    assert [i.as_line() for i in one.incidents()] == [i.as_line() for i in other.incidents()]


VALUES = st.one_of(st.floats(), st.sampled_from([0.0, -1.0, 1e300, float("nan"), float("inf")]))


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.dictionaries(
                st.sampled_from(
                    [
                        STEP,
                        *(("step.compute_time", "rank", f"A:n{n}") for n in range(4)),
                        *(("nccl.coll_seq", "rank", f"A:n{n}") for n in range(2)),
                        *(("port.tx_bytes", "port", f"n0/p{k}") for k in range(3)),
                        ("port.rx_crc_errors", "port", "n0/p0"),
                        ("port.state", "port", "n0/p0"),
                        ("gpu.sm_clock", "gpu", "n0/gpu0"),
                        ("gpu.throttle_reasons", "gpu", "n0/gpu0"),
                    ]
                ),
                VALUES,
                max_size=8,
            ),
            st.sampled_from([0.0, 1.0, 7.0, 500.0]),
        ),
        max_size=40,
    )
)
def test_no_input_raises(ticks):
    world = SymptomWorld()
    for values, pause in ticks:
        world.tick(values, pause=pause)
    for incident in world.incidents():
        incident.as_line()


def test_losses_wait_until_it_is_known_what_was_sent_meanwhile():
    world = SymptomWorld()
    for n in range(150):
        lost = 12.0 * min(max(n - 62, 0), 30)
        counts = {"flow.tcp_retrans": lost} | ({"host.tcp_out_segs": 1e5 * max(n - 62, 0) + n} if n % 15 == 0 else {})
        world.tick({(name, "node", "n0"): value for name, value in counts.items()})
    assert not world.incidents()


def test_cells_that_take_turns_are_all_read_though_ticks_without_samples_are_left_out(monkeypatch):
    monkeypatch.setattr("skewscope.engine.symptoms.cells.CELLS_PER_TICK", 3)
    world = SymptomWorld()
    names = [f"n{node}/gpu{gpu}" for node in range(4) for gpu in range(4)]
    for _ in range(3):
        world.tick({("gpu.sm_clock", "gpu", name): 1980.0 for name in names}, pause=30 - world.t % 30)
        sampled = world.t
        while world.next_change() <= world.t:
            world.tick({})
        assert world.t - sampled <= world.detector.cells.turns
    assert set(world.detector.cells.time.tolist()) == {sampled}


def test_a_rolling_restart_of_a_pool_is_no_unevenness_of_its_replicas(monkeypatch):
    def found():
        world = SymptomWorld(fleet=pool_of_replicas(6, 1))
        for n, wobble in enumerate(noise(3, 100, 6)):
            slow = 16 ** (np.arange(6) == (n // 3) % 6) if n >= 60 else 1.0
            world.tick({("step.duration", "group", name): v for name, v in zip("ABCDEF", wobble * slow, strict=True)})
        return {incident.condition for incident in world.incidents()}

    assert "uneven-members" not in found()
    # Members of a group wait for each other: there it is one.
    monkeypatch.setattr(PeerRatios, "_pools", lambda _: [])
    assert "uneven-members" in found()


@pytest.mark.parametrize(("waited", "is_told"), [(5e3, False), (5e6, True)])
def test_a_wait_for_credits_that_takes_no_share_of_the_time_is_silent(waited, is_told):
    """Ticks a second; one of 32 bytes on a slow lane takes 0.1 microseconds."""
    world, total = SymptomWorld(), 0.0
    for n, wobble in enumerate(noise(3, 80)[:, 0]):
        total += wobble * (waited if n >= 40 else 1.0)
        world.tick({("port.xmit_wait", "port", "n0/p0"): total})
    assert {one.condition for one in world.incidents()} == ({"resource-pressure"} if is_told else set())


def test_many_series_grow_again_only_after_a_while_and_then_those_that_came_are_judged(monkeypatch):
    monkeypatch.setattr(cells, "CELLS_PER_GROWTH_S", 1.0)
    world, sizes = SymptomWorld(size=24), []
    # One series more each second; after the growth to n cells, the next one comes n seconds later.
    for second in range(20):
        world.tick({("step.compute_time", "rank", f"A:n{n}"): 1.0 for n in range(second + 1)})
        sizes.append(len(world.detector.cells))
    assert sizes == [1, 2, 2, 4, 4, 4, 4, *[8] * 8, *[16] * 5]


def test_a_link_that_goes_down_again_and_again_is_one_symptom():
    world = SymptomWorld()
    for n in range(260):
        world.tick({("port.carrier", "port", "n0/p0"): float(n < 60 or (n - 60) % 20 >= 5)})
    (found,) = world.incidents()
    assert (found.condition, found.name) == ("flapping", "n0/p0")


def test_data_that_end_before_any_series_is_judged_give_nothing():
    assert Engine([], catalogue(), Topology(), symptoms=True).conclude(1.0) == ()
