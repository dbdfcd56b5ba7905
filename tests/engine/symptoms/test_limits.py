"""What is beyond a limit is found whatever its past: in one reading as in many."""

import pytest

from skewscope.engine.model.topology import Node, Port, Topology
from tests.support.symptom_world import SymptomWorld, pool_of_replicas

DROPS, PACKETS = ("port.rx_discards", "port", "n0/p0"), ("port.rx_packets", "port", "n0/p0")
CLOCK, BUSY = ("gpu.sm_clock", "gpu", "n0/gpu0"), ("gpu.util", "gpu", "n0/gpu0")


def conclude(world):
    world.conclude()
    return world.incidents()


@pytest.mark.parametrize(("share", "named"), [(0.6, ["packet-loss"]), (0.011, ["packet-loss"]), (0.009, [])])
def test_losses_at_the_same_rate_from_the_first_reading_on_are_judged_by_their_share(share, named):
    world = SymptomWorld()
    for n in range(6):
        world.tick({PACKETS: 1e9 + 1e6 * n, DROPS: 5e8 + share * 1e6 * n}, pause=10.0)
    assert [one.condition for one in world.incidents()] == named


def test_sums_of_one_reading_are_a_share_since_their_counters_began():
    world = SymptomWorld()
    world.tick({PACKETS: 1e9, DROPS: 6e8})
    assert not world.incidents()
    (incident,) = conclude(world)
    assert "60 % of packets received by the port, at most 1 % is allowed" in incident.summary
    assert "since its counters began" in incident.summary
    assert incident.confidence == 0.5


@pytest.mark.parametrize(("errors", "said"), [(65535.0, "at least 65,535 packets"), (65534.0, " 65,534 packets")])
def test_a_counter_at_its_largest_value_says_at_least_how_many(errors, said):
    world = SymptomWorld()
    world.tick({PACKETS: 4e5, DROPS: errors})
    (incident,) = conclude(world)
    assert said in incident.summary
    assert ("at least" in incident.summary) == ("at least" in said)


@pytest.mark.parametrize("sums", [{PACKETS: 1e9, DROPS: 1e6}, {PACKETS: 900.0, DROPS: 600.0}, {DROPS: 6e8}])
def test_small_or_unknown_shares_of_sums_say_nothing(sums):
    world = SymptomWorld()
    world.tick(sums)
    assert not conclude(world)


def test_sums_say_nothing_once_two_readings_give_rates():
    world = SymptomWorld()
    world.tick({PACKETS: 1e9, DROPS: 6e8})
    world.tick({PACKETS: 1.1e9, DROPS: 6e8})
    world.tick({PACKETS: 1.2e9, DROPS: 6e8})
    assert not conclude(world)


@pytest.mark.parametrize(("degrees", "named"), [(91.0, ["out-of-range"]), (86.0, [])])
def test_a_value_beyond_its_nominal_one_is_told_of_one_reading(degrees, named):
    world = SymptomWorld()
    world.tick({("gpu.temperature", "gpu", "n0/gpu0"): degrees})
    assert [one.condition for one in conclude(world)] == named


@pytest.mark.parametrize(
    ("cores", "named"), [((32.0, 2.1, 2.0), ["uneven-load"]), ((3.0, 2.1, 2.0), []), ((32.0, 2.1), [])]
)
def test_one_replica_unlike_its_peers_is_told_of_one_reading(cores, named):
    world = SymptomWorld(fleet=pool_of_replicas(len(cores)))
    world.tick({("pod.cpu", "replica", name): value for name, value in zip("ABC", cores, strict=False)})
    assert not world.incidents()
    assert [one.condition for one in conclude(world)] == named


@pytest.mark.parametrize(("late", "named"), [((7.0,) * 6, ["uneven-load"]), ((7.0, 7.0, 7.0, 1.0, 7.0, 7.0), [])])
def test_one_replica_that_becomes_unlike_its_peers_is_told_of_few_readings(late, named):
    world = SymptomWorld(fleet=pool_of_replicas(3))
    for factor in (1.0, 1.0, 1.0, *late):
        world.tick({("pod.cpu", "replica", name): 2.0 * (factor if name == "A" else 1.0) for name in "ABC"}, pause=60.0)
    assert not world.incidents()
    assert [one.condition for one in conclude(world)] == named
    assert [one.since for one in world.findings()] == [world.start + 240.0] * len(named)


@pytest.mark.parametrize(
    ("signal", "is_named"), [("step.comm_time", False), ("step.compute_time", True)], ids=["a wait", "own work"]
)
def test_of_few_readings_a_member_that_waits_longest_is_not_named(signal, is_named):
    world = SymptomWorld()
    for n in range(6):
        values = {f"A:n{k}": 4.0 + 0.01 * (n + k) for k in range(4)} | {"A:n2": 40.0}
        world.tick({(signal, "rank", name): value for name, value in values.items()}, pause=60.0)
    assert [one.name for one in conclude(world)] == ["n2"] * is_named


def read_ports(signal, values):
    ports = tuple(Port("s", f"p{n}", "east-west", 1e9) for n in range(len(values)))
    world = SymptomWorld(fleet=Topology((Node("s", ports=ports),)))
    world.tick({(signal, "port", f"s/p{n}"): value for n, value in enumerate(values)})
    return [(one.condition, one.name) for one in conclude(world)]


@pytest.mark.parametrize(
    ("signal", "values", "named"),
    [
        ("port.speed", (4e11, 4e11, 1e11, 4e11), [("lost-capacity", "s/p2")]),
        ("port.speed", (4e11, 4e11, 1e11), []),
        ("port.speed", (1e11, 1e11, 4e11, 1e11), []),
        ("port.speed", (4e11, 1e11, 1e11, 4e11, 4e11), []),
        ("port.rx_symbol_err", (0, 64000, 0, 0), [("new-errors", "s/p1")]),
        ("port.rx_symbol_err", (3, 64000, 0, 0), [("new-errors", "s/p1")]),
        ("port.rx_symbol_err", (9000, 64000, 0, 0), []),
        ("port.rx_symbol_err", (0, 60, 0, 0), []),
        ("port.tx_discards", (0, 0, 0, 40112233), [("packet-loss", "s/p3")]),
        ("port.rx_symbol_err", (64000,), []),
    ],
)
def test_a_link_unlike_all_its_siblings_is_told_of_one_reading(signal, values, named):
    assert read_ports(signal, values) == named


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ([(0, 40000, 0, 0), (0, 58000, 0, 0)], [("new-errors", "s/p1")]),
        ([(0, 40000, 0, 0), (0, 58000, 0, 0), (0, 77000, 0, 1)], [("new-errors", "s/p1")]),
        ([(0, 40000, 0, 0), (0, 40000, 0, 0)], []),
        ([(0, 40000, 0, 0), (0, 40012, 0, 0)], []),
        ([(0, 40000, 0, 0), (900, 58000, 800, 0)], []),
        ([(0, 40000 + 1000 * n, 0, 0) for n in range(40)], []),
    ],
)
def test_a_counter_that_grows_at_one_of_several_links_is_told_of_few_readings(values, named):
    ports = tuple(Port("s", f"p{n}", "east-west", 1e9) for n in range(4))
    world = SymptomWorld(fleet=Topology((Node("s", ports=ports),)))
    for reading in values:
        world.tick({("port.rx_symbol_err", "port", f"s/p{n}"): value for n, value in enumerate(reading)}, pause=60.0)
    assert [(one.condition, one.name) for one in conclude(world)] == named


@pytest.mark.parametrize(("value", "named"), [(1.0, ["new-errors"]), (0.0, [])])
def test_a_fault_that_is_there_at_the_first_reading_is_told(value, named):
    world = SymptomWorld()
    world.tick({("gpu.remap_pending", "gpu", "n0/gpu0"): value})
    assert [one.condition for one in conclude(world)] == named


@pytest.mark.parametrize(("use", "lanes", "named"), [(90, 8, ["lost-capacity"]), (0, 8, []), (90, 16, [])])
def test_a_link_of_a_busy_gpu_has_all_its_lanes(use, lanes, named):
    world = SymptomWorld()
    at = "gpu", "n0/gpu0"
    world.tick({BUSY: use, ("gpu.pcie_width", *at): lanes, ("gpu.pcie_max_width", *at): 16.0})
    assert [one.condition for one in conclude(world)] == named


def run_gpu(idle_clock, busy_clock):
    world = SymptomWorld()
    for n in range(60):
        is_busy = n >= 20
        world.tick({CLOCK: busy_clock if is_busy else idle_clock, BUSY: 100.0 if is_busy else 0.0})
    return world.incidents()


@pytest.mark.parametrize(("clocks", "named"), [((1410, 1020), ["lost-clock"]), ((1410, 1380), []), ((345, 1980), [])])
def test_a_clock_that_never_comes_near_what_the_gpu_reaches_is_held_down(clocks, named):
    found = run_gpu(*clocks)
    assert [one.condition for one in found] == named
    assert all("under load is 1,020 MHz" in one.summary and "it reaches 1,410 MHz" in one.summary for one in found)


CORES, WORK = ("host.cpu_clock", "node", "n0"), ("host.cpu_util", "node", "n0")


def names(world):
    return [one.condition for one in world.incidents()]


@pytest.mark.parametrize(
    ("clock", "load", "before", "after", "named"),
    [
        (CLOCK, BUSY, (1155.0, 12.0), (210.0, 36.0), ["lost-clock"]),
        (CORES, WORK, (3500.0, 0.6), (900.0, 0.6), ["lost-clock"]),
        (CLOCK, BUSY, (1410.0, 40.0), (1100.0, 41.0), ["lost-clock"]),
        # Less work, or none: a governor takes the clock back.
        (CLOCK, BUSY, (1410.0, 60.0), (210.0, 10.0), []),
        (CLOCK, BUSY, (1410.0, 60.0), (210.0, 0.0), []),
        # More work takes the clock to what the power allows.
        (CLOCK, BUSY, (1980.0, 5.0), (1200.0, 60.0), []),
        (CLOCK, BUSY, (1410.0, 40.0), (1300.0, 41.0), []),
    ],
)
def test_a_clock_that_falls_while_its_load_does_not_counts_at_any_use(clock, load, before, after, named):
    world = SymptomWorld()
    for n in range(60):
        value, use = before if n < 30 else after
        world.tick({clock: value + n % 3, load: use}, pause=5.0)
    assert names(world) == named


@pytest.mark.parametrize(
    ("before", "after", "doubted"),
    [
        ((1410.0, 97.0), (210.0, 60.0), ["n0/gpu0"]),
        # As much as its load, within what matters; and a device that rests.
        ((1410.0, 60.0), (210.0, 10.0), []),
        ((1410.0, 97.0), (210.0, 4.0), []),
    ],
)
def test_a_fall_at_a_load_that_never_was_so_low_is_doubtful_where_it_is_the_larger_one(before, after, doubted):
    world = SymptomWorld()
    for n in range(60):
        value, use = before if n < 30 else after
        world.tick({CLOCK: value + n % 3, BUSY: use}, pause=5.0)
    assert not names(world)
    assert [one.place.name for one in world.detector.doubts()] == doubted
    for _ in range(3):
        world.tick({CLOCK: before[0], BUSY: before[1]}, pause=5.0)
    assert not world.detector.doubts()


@pytest.mark.parametrize(
    ("use", "clock", "doubted"), [(60.0, 345.0, ["n0/gpu2"]), (60.0, 1380.0, []), (3.0, 345.0, []), (20.0, 345.0, [])]
)
def test_a_clock_below_that_of_peers_with_as_much_use_is_doubtful_where_none_is_fully_used(use, clock, doubted):
    world = SymptomWorld()
    for n in range(30):
        gpus = {f"n0/gpu{k}": clock if k == 2 else 1410.0 for k in range(4)}
        loads = {("gpu.util", "gpu", name): use if name == "n0/gpu2" else 60.0 + n % 3 for name in gpus}
        world.tick({("gpu.sm_clock", "gpu", name): value for name, value in gpus.items()} | loads, pause=10.0)
    assert not names(world)
    assert [one.place.name for one in world.detector.doubts()] == doubted


@pytest.mark.parametrize(("use", "named"), [(60.0, ["lost-capacity"]), (12.0, ["lost-capacity"]), (4.0, [])])
def test_lanes_that_are_lost_count_whatever_use_is_made_of_the_rest(use, named):
    world = SymptomWorld()
    for n in range(60):
        world.tick({("gpu.pcie_width", "gpu", "n0/gpu0"): 16.0 if n < 30 else 4.0, BUSY: 97.0 if n < 30 else use})
    assert names(world) == named
    assert not world.detector.doubts()


def test_a_clock_that_went_down_at_the_same_use_before_is_that_of_a_governor():
    world = SymptomWorld()
    for n in range(80):
        world.tick({CLOCK: 210.0 if n % 20 >= 17 or n >= 60 else 1410.0, BUSY: 30.0}, pause=5.0)
    assert names(world) == []


def test_a_clock_that_comes_back_is_no_longer_lost():
    world = SymptomWorld()
    for n in range(90):
        world.tick({CLOCK: 700.0 if 30 <= n < 45 else 1410.0, BUSY: 30.0}, pause=5.0)
    assert [one.resolved_at is not None for one in world.incidents()] == [True]


TOKENS, REQUESTS = ("serve.gen_throughput", "replica", "A"), ("serve.running", "replica", "A")


@pytest.mark.parametrize(
    ("before", "after", "named"),
    [
        ((2400.0, 63.0), (800.0, 63.0), ["lost-throughput"]),
        ((2400.0, 63.0), (800.0, 90.0), ["lost-throughput"]),
        # Fewer requests, as few as may all be in their prompts, or not even half as much less.
        ((2400.0, 63.0), (800.0, 20.0), []),
        ((60.0, 1.0), (0.0, 1.0), []),
        ((2400.0, 63.0), (1300.0, 63.0), []),
        # What more requests make together is more.
        ((400.0, 8.0), (1500.0, 200.0), []),
    ],
)
def test_fewer_tokens_of_as_many_requests_are_lost_throughput(before, after, named):
    world = SymptomWorld(fleet=pool_of_replicas(1))
    for n in range(60):
        value, running = before if n < 30 else after
        world.tick({TOKENS: value + n % 3, REQUESTS: running}, pause=10.0)
    assert names(world) == named


def test_an_engine_that_made_as_few_tokens_before_reads_prompts():
    world = SymptomWorld(fleet=pool_of_replicas(1))
    for n in range(80):
        world.tick({TOKENS: 300.0 if n % 20 >= 18 or n >= 60 else 2400.0 + n % 3, REQUESTS: 60.0}, pause=10.0)
    assert names(world) == []


@pytest.mark.parametrize(
    ("passed", "named"),
    # Within minutes, or so slowly that the answers may just grow long.
    [(30.0, ["lost-throughput"]), (200.0, ["lost-throughput"]), (3600.0, [])],
)
def test_tokens_that_fall_step_by_step_are_no_past_of_their_own_end(passed, named):
    world = SymptomWorld(fleet=pool_of_replicas(1))
    for n in range(60 + int(passed // 10) + 20):
        fallen = min(max(n - 60, 0) * 10.0 / passed, 1.0)
        world.tick({TOKENS: 2400.0 - 1500.0 * fallen + n % 3, REQUESTS: 60.0}, pause=10.0)
    assert names(world) == named


@pytest.mark.parametrize(("slow", "places"), [("ABCD", ["pool"]), ("D", ["D"])])
def test_what_most_replicas_lose_is_lost_by_their_pool(slow, places):
    world = SymptomWorld(fleet=pool_of_replicas(4))
    for n in range(60):
        tokens = {("serve.gen_throughput", "replica", x): 900.0 if x in slow and n >= 30 else 2400.0 for x in "ABCD"}
        world.tick(tokens | {("serve.running", "replica", x): 60.0 for x in "ABCD"}, pause=10.0)
    assert [one.name for one in world.incidents() if one.condition == "lost-throughput"] == places


@pytest.mark.parametrize(("failed", "named"), [(1.5, ["new-errors"]), (0.2, [])])
def test_failed_requests_are_judged_as_a_share_of_those_that_are_answered(failed, named):
    world = SymptomWorld(fleet=pool_of_replicas(1))
    answered, aborted = ("serve.success", "replica", "A"), ("serve.failure", "replica", "A")
    for n in range(8):
        world.tick({answered: 1000 + 10.0 * n, aborted: 500 + 10.0 * failed * n}, pause=10.0)
    assert names(world) == named


@pytest.mark.parametrize(("slow", "named"), [("Hundred7", ["lost-capacity"]), ("Forty35", [])])
def test_a_port_of_another_kind_is_no_sibling(slow, named):
    ports = tuple(Port("n0", name, "east-west", 1e10) for name in (*(f"Hundred{n}" for n in range(6)), slow))
    world = SymptomWorld(fleet=Topology((Node("n0", ports=ports),)))
    world.tick({("port.speed", "port", f"n0/{port.name}"): 4e10 if port.name == slow else 1e11 for port in ports})
    assert [one.condition for one in conclude(world)] == named


@pytest.mark.parametrize(("later", "named"), [(2.6, ["long-waits"]), (0.35, [])])
def test_equal_times_of_a_part_of_steps_are_one_of_each_step(later, named):
    world = SymptomWorld()
    for n in range(60):
        world.tick({("step.comm_time", "rank", "A:n0"): later if n >= 30 else 0.35}, pause=6.0)
    assert names(world) == named


def test_a_share_of_three_times_and_more_is_a_factor():
    world = SymptomWorld()
    for n in range(6):
        world.tick({PACKETS: 1e9 + 1e6 * n, DROPS: 5e8 + 30.5e6 * n}, pause=10.0)
    (incident,) = world.incidents()
    assert "30.5 times the packets received by the port, at most 1 % is allowed" in incident.summary


def observed(seconds, count, signal):
    return {(signal, "replica", "A", "sum"): seconds * count, (signal, "replica", "A", "count"): count}


@pytest.mark.parametrize(
    ("queued", "whole", "count", "named"),
    [(12.0, 15.0, 2000.0, ["growing-queue"]), (6.0, 15.0, 2000.0, []), (0.05, 0.06, 2000.0, []), (12.0, 15.0, 5.0, [])],
)
def test_requests_that_wait_longer_than_they_are_computed_are_told_of_one_page(queued, whole, count, named):
    world = SymptomWorld(fleet=pool_of_replicas(1))
    world.tick({**observed(queued, count, "serve.queue_time"), **observed(whole, count, "serve.e2e")})
    found = conclude(world)
    assert [one.condition for one in found] == named
    assert all("80 % of time of a whole request, at most 50 % is allowed" in one.summary for one in found)


@pytest.mark.parametrize(
    ("queued", "named"),
    [
        pytest.param(0.048, ["growing-queue"], id="for ten times as long as it is computed"),
        pytest.param(0.04, [], id="for less than that"),
        pytest.param(0.0095, [], id="until a batch is full"),
    ],
)
def test_a_short_wait_counts_where_it_is_nearly_all_of_a_request(queued, named):
    world = SymptomWorld(fleet=pool_of_replicas(1))
    whole = queued + (0.0045 if queued > 0.01 else 0.0001)
    world.tick({**observed(queued, 2000.0, "serve.queue_time"), **observed(whole, 2000.0, "serve.e2e")})
    assert [one.condition for one in conclude(world)] == named
