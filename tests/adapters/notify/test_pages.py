"""How many messages a person gets of a fault: one, at its place, with its cause, soon after it begins and ends."""

import pytest

from bench.count_pages import count_pages
from tests.support.serving_pool import ServingPool

AT, UNTIL, SECONDS = 240, 420, 600


def setting(number, **fields):
    def act(pool):
        for name, value in fields.items():
            setattr(pool.engines[number], name, value)

    return act


@pytest.mark.parametrize(
    ("begin", "end", "cause"),
    [
        (setting(2, speed=0.45), setting(2, speed=1.0), "gpu-fail-slow"),
        (setting(1, cache=15_000.0), setting(1, cache=90_000.0), "kv-capacity-preemption-thrash"),
    ],
    ids=["slow", "small cache"],
)
def test_one_fault_is_one_page(tmp_path, begin, end, cause):
    ServingPool().write(tmp_path / "pool.om", SECONDS, {AT: begin, UNTIL: end})
    count = count_pages(tmp_path / "pool.om")
    assert len(count.pages) == 1, [page.as_line() for page in count.pages]
    (page,) = count.pages
    assert cause in [name for name, _ in page.incident.posterior][:3]
    assert AT < page.begin <= AT + 60


def test_a_healthy_pool_is_none(tmp_path):
    ServingPool(seed=2).write(tmp_path / "pool.om", SECONDS, {})
    assert count_pages(tmp_path / "pool.om").pages == []
