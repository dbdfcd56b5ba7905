"""The speed of bursts tells a slow link by its own port, in both directions."""

import numpy as np
import pytest

from skewscope.engine.wire.reducer import PortReducer
from tests.support.traffic import START, Shape, packets, view

FAST, SLOW = 1e9, 1e7
SIZE = 32768


def train(begin: float, sender: int, receiver: int, speed: float, count: int) -> dict[str, np.ndarray]:
    time = begin + np.arange(count) * SIZE / speed
    ends = {"src": np.full(count, sender + 1), "dst": np.full(count, receiver + 1)}
    return {"time": time, **ends, "length": np.full(count, SIZE), "seq": np.arange(count) * SIZE}


def burst_speed(*trains: dict[str, np.ndarray]) -> float:
    columns = {name: np.concatenate([t[name] for t in trains]) for name in trains[0]}
    order = np.argsort(columns["time"], kind="stable")
    out = PortReducer(view(Shape(), 0)).reduce(packets(**{n: c[order] for n, c in columns.items()}), START, 1)
    found = [v for key, v in zip(out.keys, out.values, strict=True) if key.signal == "wire.burst_speed"]
    return float(found[0][0]) if found else float("nan")


def test_a_port_with_one_fast_direction_is_fast() -> None:
    assert burst_speed(train(START, 0, 1, SLOW, 40), train(START, 3, 0, FAST, 40)) == pytest.approx(FAST, rel=0.01)


def test_a_slow_link_is_slow_in_both_directions_also_after_a_fast_begin() -> None:
    begun = train(START, 0, 1, FAST, 10)
    rest = train(START + 0.01, 0, 1, SLOW, 40)
    rest["seq"] = rest["seq"] + 10 * SIZE
    assert burst_speed(begun, rest, train(START, 3, 0, SLOW, 40)) == pytest.approx(SLOW, rel=0.01)


def test_a_few_packets_tell_no_speed() -> None:
    assert np.isnan(burst_speed(train(START, 0, 1, SLOW, 7), train(START, 3, 0, SLOW, 7)))


def test_packets_that_answer_what_arrives_tell_no_speed_of_the_link() -> None:
    arrives = train(START, 3, 0, SLOW, 60)
    asks = train(START - 50e-6, 0, 3, SLOW, 60)
    asks["length"] = np.full(60, 48)
    forwarded = train(START + 50e-6, 0, 1, SLOW, 60)
    follows = train(START + 50e-6 + SIZE / FAST, 0, 1, SLOW, 60)
    forwarded["seq"] = 2 * forwarded["seq"]
    follows["seq"] = forwarded["seq"] + SIZE
    assert burst_speed(asks, arrives, forwarded, follows) == pytest.approx(FAST, rel=0.01)
