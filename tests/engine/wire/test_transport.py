"""Loss, reordering, round trips and marks as one port tells them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skewscope.engine.ingest.feed import SeriesTable
from skewscope.engine.wire.packets import ACK, PSH, ROCE, ROCE_ACK, ROCE_CNP, SYN, Packets
from skewscope.engine.wire.reducer import PortReducer
from skewscope.engine.wire.sequence import FlowState, classify_segments
from skewscope.engine.wire.view import PortView
from tests.support.traffic import Told, packets, reduced

HOST, PEER, OTHER = 1, 2, 3
VIEW = PortView("n0/ew", "n0", "east-west", frozenset([HOST]), {PEER: "n1/ew", OTHER: "n2/ew"})


def told(captured: Packets, chunk: int = 5) -> Told:
    table = SeriesTable()
    return Told(table, reduced(PortReducer(VIEW), captured, table, chunk))


def stream(seq: list[int], times: list[float], src: int = HOST, dst: int = PEER, size: int = 1000) -> Packets:
    n = len(seq)
    return packets(
        time=np.array(times) + 1000.0, src=np.full(n, src), dst=np.full(n, dst),
        seq=np.array(seq, np.int64) % (1 << 32), length=np.full(n, size),
    )  # fmt: skip


def numbered(count: int, first: int = 0, size: int = 1000) -> tuple[list[int], list[float]]:
    return [first + i * size for i in range(count)], [i * 1e-3 for i in range(count)]


@pytest.mark.parametrize("first", [0, (1 << 32) - 40_000, 123_456_789])
def test_segments_seen_twice_are_retransmissions(first: int) -> None:
    seq, times = numbered(100, first)
    seq += [seq[i] for i in (10, 40, 90)]
    times += [0.2, 0.21, 0.22]
    says = told(stream(seq, times))
    assert says.of("wire.retransmit_ratio", "n0/ew")[0] == pytest.approx(3 / 103)
    assert says.of("wire.peer_retransmit_ratio", "n0/ew>n1/ew")[0] == pytest.approx(3 / 103)


@pytest.mark.parametrize(("again", "counted"), [(1, 0), (2, 2), (3, 3)])
def test_a_single_repeat_proves_nothing(again: int, counted: int) -> None:
    seq, times = numbered(100)
    says = told(stream(seq + seq[10 : 10 + again], times + [0.2 + i * 1e-3 for i in range(again)]))
    assert says.of("wire.retransmit_ratio", "n0/ew")[0] == pytest.approx(counted / (100 + again))


@pytest.mark.parametrize(("delay", "again"), [(20e-6, 0), (5e-3, 2)])
def test_a_hole_filled_at_once_is_reordering_and_later_a_retransmission(delay: float, again: int) -> None:
    seq, times = numbered(100)
    for hole in (30, 50):
        times[hole] = times[hole + 1] + delay
    says = told(stream(seq, times))
    assert says.of("wire.retransmit_ratio", "n0/ew")[0] == pytest.approx(again / 100)
    assert says.of("wire.out_of_order_ratio", "n0/ew")[0] == pytest.approx((2 - again) / 100)


def test_keep_alives_and_resent_nothing_are_no_loss() -> None:
    seq, times = numbered(50)
    data = stream(seq, times)
    probes = stream([seq[-1] + 999] * 20, [0.1 + i * 1e-3 for i in range(20)], size=1)
    says = told(Packets.concat([data, probes]))
    assert says.of("wire.retransmit_ratio", "n0/ew").max() == 0


def test_loss_is_followed_from_chunk_to_chunk() -> None:
    seq, times = numbered(12_000)
    times = [t * 1.0 for t in times]
    again = list(range(5005, 11_000, 100))
    whole = stream(seq + [seq[i] for i in again], times + [times[i] + 0.01 for i in again])
    small, large = told(whole, chunk=1), told(whole, chunk=20)
    ticks = small.of("wire.retransmit_ratio", "n0/ew")
    assert ticks == pytest.approx(large.of("wire.retransmit_ratio", "n0/ew")[: len(ticks)])
    assert ticks.max() == pytest.approx(0.0099, abs=2e-4)


def test_a_share_of_a_few_segments_is_not_told() -> None:
    seq, times = numbered(5)
    assert not len(told(stream(seq, times)).of("wire.retransmit_ratio", "n0/ew"))


def test_round_trips_are_those_of_the_hosts_segments() -> None:
    seq, times = numbered(60)
    data = stream(seq, times)
    acks = packets(
        time=data.time + 300e-6, src=np.full(60, PEER), dst=np.full(60, HOST), length=np.zeros(60),
        seq=np.full(60, 5), ack=data.seq + 1000, flags=np.full(60, ACK),
    )  # fmt: skip
    says = told(Packets.concat([data, acks]))
    assert says.of("wire.rtt", "n0/ew")[0] == pytest.approx(300e-6, rel=1e-3)


def test_a_segment_sent_again_has_no_round_trip() -> None:
    seq, times = numbered(60)
    data = stream([*seq, seq[-1]], [*times, 2.0])
    acks = packets(
        time=np.append(data.time[:59] + 300e-6, 1002.0001), src=np.full(60, PEER), dst=np.full(60, HOST),
        length=np.zeros(60), seq=np.full(60, 5), ack=data.seq[:60] + 1000, flags=np.full(60, ACK),
    )  # fmt: skip
    says = told(Packets.concat([data, acks]))
    assert says.of("wire.rtt_p95", "n0/ew")[0] == pytest.approx(300e-6, rel=1e-3)


def test_the_lower_median_over_peers_forgives_one_bad_peer() -> None:
    one, times = numbered(100)
    bad = stream(one + one[10:30], times + [0.3 + i * 1e-3 for i in range(20)], dst=PEER)
    good = stream(one, times, dst=OTHER)
    says = told(Packets.concat([bad, good]))
    assert says.of("wire.own_retransmit_ratio", "n0/ew")[0] == 0
    both = stream(one + one[10:30], times + [0.3 + i * 1e-3 for i in range(20)], dst=OTHER)
    says = told(Packets.concat([bad, both]))
    assert says.of("wire.own_retransmit_ratio", "n0/ew")[0] == pytest.approx(19 / 120)  # a single one is forgiven


def test_one_repeat_to_each_peer_proves_no_loss_on_the_own_link() -> None:
    one, times = numbered(100)
    captured = [stream([*one, one[10]], [*times, 0.3], dst=dst) for dst in (PEER, OTHER)]
    says = told(Packets.concat(captured))
    assert says.of("wire.own_retransmit_ratio", "n0/ew")[0] == 0
    assert says.of("wire.retransmit_ratio", "n0/ew")[0] == pytest.approx(2 / 202)


def acks_of(seq: list[int], times: list[float], src: int = PEER, dst: int = HOST) -> Packets:
    n = len(seq)
    return packets(
        time=np.array(times) + 1000.0, src=np.full(n, src), dst=np.full(n, dst), length=np.zeros(n),
        seq=np.full(n, 5), ack=np.array(seq, np.int64) % (1 << 32), flags=np.full(n, ACK),
    )  # fmt: skip


@pytest.mark.parametrize("first", [0, (1 << 32) - 40_000])
@pytest.mark.parametrize("waited", [3e-4, 20e-3])
def test_what_came_before_a_loss_tells_how_full_the_queue_was(first: int, waited: float) -> None:
    seq, times = numbered(50, first)
    took = [waited if i == 29 else 3e-4 for i in range(50)]
    heard = [i for i in range(50) if i != 30]
    captured = [
        stream([*seq, seq[30]], [*times, 0.2]),
        acks_of([seq[min(i, 29)] + 1000 for i in heard if i <= 30], [times[i] + took[i] for i in heard if i <= 30]),
        acks_of([seq[-1] + 1000], [0.2002]),
    ]
    says = told(Packets.concat(captured))
    assert says.of("wire.rtt_before_loss", "n0/ew").tolist() == pytest.approx([waited], rel=1e-2)


def test_a_segment_whose_acknowledgement_waited_for_a_repair_tells_of_no_queue() -> None:
    seq, times = numbered(50)
    captured = [
        stream([*seq, seq[30], seq[40]], [*times, 0.2, 0.25]),
        acks_of([s + 1000 for s in seq[:30]], [t + 3e-4 for t in times[:30]]),
        acks_of([seq[39] + 1000, seq[-1] + 1000], [0.2002, 0.2502]),
    ]
    says = told(Packets.concat(captured))
    assert says.of("wire.rtt_before_loss", "n0/ew").tolist() == pytest.approx([3e-4], rel=1e-2)


@pytest.mark.parametrize("first", [0, (1 << 32) - 40_000])
@pytest.mark.parametrize("chunk", [1, 5])
def test_what_is_sent_again_after_its_acknowledgement_passed_was_not_lost_on_the_way_out(
    first: int, chunk: int
) -> None:
    seq, times = numbered(50, first)
    captured = [
        stream([*seq, seq[-1]], [*times, 1.25]),
        acks_of([s + 1000 for s in seq], [t + 1e-4 for t in times]),
        acks_of([seq[-1] + 1000], [1.2501]),
    ]
    view = PortView("n0/ns", "n0", "north-south", frozenset([HOST]), {})
    table = SeriesTable()
    says = Told(table, reduced(PortReducer(view), Packets.concat(captured), table, chunk))
    assert says.of("wire.retransmit_ratio", "n0/ns").max() == 0
    assert says.of("wire.request_loss_ratio", "n0").max() == pytest.approx(1 / 51)


def test_a_client_that_opens_twice_lost_its_first_attempt() -> None:
    seq, times = numbered(40)
    opening = packets(
        time=np.array([0.0, 1.0]) + 1000.0, src=np.full(2, PEER), dst=np.full(2, HOST), sport=np.full(2, 777),
        length=np.zeros(2), seq=np.full(2, 99), flags=np.full(2, SYN),
    )  # fmt: skip
    captured = Packets.concat([opening, stream(seq, times, src=PEER, dst=HOST)])
    view = PortView("n0/ns", "n0", "north-south", frozenset([HOST]), {})
    table = SeriesTable()
    says = Told(table, reduced(PortReducer(view), captured, table, 5))
    assert says.of("wire.request_loss_ratio", "n0").max() == pytest.approx(1 / 42)


def test_a_round_trip_counts_each_peer_once() -> None:
    slow, few = numbered(90), numbered(10)
    third = 4
    captured = [stream(*slow, dst=PEER), acks_of([s + 1000 for s in slow[0]], [t + 30e-3 for t in slow[1]])]
    for dst in (OTHER, third):
        captured += [
            stream(*few, dst=dst),
            acks_of([s + 1000 for s in few[0]], [t + 2e-4 for t in few[1]], src=dst),
        ]
    says = told(Packets.concat(captured))
    assert says.of("wire.rtt", "n0/ew")[0] == pytest.approx(2e-4, rel=1e-3)
    assert says.of("wire.rtt_p95", "n0/ew")[0] == pytest.approx(30e-3, rel=1e-2)


def roce(psn: list[int], times: list[float], **other: np.ndarray) -> Packets:
    n = len(psn)
    columns = {
        "time": np.array(times) + 1000.0, "src": np.full(n, HOST), "dst": np.full(n, PEER), "proto": np.full(n, ROCE),
        "psn": np.array(psn, np.int64) % (1 << 24), "qp": np.full(n, 77), "length": np.full(n, 4096),
        "opcode": np.full(n, 7), "flags": np.zeros(n), "ecn": np.full(n, 2),
    }  # fmt: skip
    return packets(**(columns | other))


@pytest.mark.parametrize("first", [0, (1 << 24) - 30])
def test_roce_goes_back_and_says_so(first: int) -> None:
    psn = [first + i for i in range(100)]
    data = roce(psn + psn[60:70], [i * 1e-4 for i in range(110)])
    naks = roce(
        [psn[60]], [0.0105], src=np.array([PEER]), dst=np.array([HOST]), opcode=np.array([ROCE_ACK]),
        syndrome=np.array([0x60]), length=np.array([0]),
    )  # fmt: skip
    says = told(Packets.concat([data, naks]))
    assert says.of("wire.retransmit_ratio", "n0/ew")[0] == pytest.approx(10 / 110)
    assert says.of("wire.nak_rate", "n0/ew").max() == 1


def test_roce_round_trips_and_marks() -> None:
    psn = list(range(100))
    data = roce(psn, [i * 1e-3 for i in range(100)], ecn=np.where(np.arange(100) < 10, 3, 2))
    acks = roce(
        psn, [i * 1e-3 + 12e-6 for i in range(100)], src=np.full(100, PEER), dst=np.full(100, HOST),
        opcode=np.full(100, ROCE_ACK), length=np.zeros(100), ecn=np.zeros(100),
    )  # fmt: skip
    cnps = roce(
        [0] * 25,
        [0.5 + i * 1e-3 for i in range(25)],
        opcode=np.full(25, ROCE_CNP),
        length=np.zeros(25),
        ecn=np.zeros(25),
    )
    says = told(Packets.concat([data, acks, cnps]))
    assert says.of("wire.rtt", "n0/ew")[0] == pytest.approx(12e-6, abs=1e-7)
    assert says.of("wire.ecn_ce_ratio", "n0/ew")[0] == pytest.approx(0.1)
    assert says.of("wire.cnp_rate", "n0/ew").max() == 25


def test_congestion_marks_are_unknown_where_nothing_is_capable_of_them() -> None:
    seq, times = numbered(100)
    assert not len(told(stream(seq, times)).of("wire.ecn_ce_ratio", "n0/ew"))


@settings(max_examples=30)
@given(st.data())
def test_judging_in_blocks_of_any_size_is_judging_at_once(data: st.DataObject) -> None:
    """But for holes, which are remembered within a block: here every old segment was seen before."""
    n = data.draw(st.integers(2, 60))
    flow = np.array(data.draw(st.lists(st.integers(0, 2), min_size=n, max_size=n)))
    first = data.draw(st.integers(0, (1 << 32) - 1))
    sent = dict.fromkeys(range(3), 0)
    number = np.zeros(n, np.int64)
    for i in range(n):
        back = data.draw(st.integers(0, 3)) if data.draw(st.booleans()) else 0
        place = max(0, sent[flow[i]] - back)
        number[i] = (first + place * 1000) % (1 << 32)
        sent[flow[i]] = max(sent[flow[i]], place + 1)
    time = np.arange(n) * 1e-3
    cut = data.draw(st.integers(0, n))

    def judged(parts: list[slice]) -> np.ndarray:
        state, out = FlowState(), np.zeros(n, bool)
        for part in parts:
            got = classify_segments(
                flow[part], time[part], number[part], np.full(len(flow[part]), 1000), state, bits=32, reorder=0
            )
            out[np.arange(n)[part][got.order]] = got.is_retransmission
        return out

    assert judged([slice(0, cut), slice(cut, n)]).tolist() == judged([slice(0, n)]).tolist()


def test_flags_alone_carry_no_data() -> None:
    acks = packets(
        time=1000 + np.arange(50) * 1e-3,
        src=np.full(50, HOST),
        dst=np.full(50, PEER),
        length=np.zeros(50),
        flags=np.full(50, ACK | PSH),
    )
    says = told(acks)
    assert not len(says.of("wire.retransmit_ratio", "n0/ew"))
    assert says.of("wire.dup_ack_ratio", "n0/ew").max() == pytest.approx(49 / 50)
