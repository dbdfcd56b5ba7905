"""Work in several processes: the answers, the faults, and that none of them outlives whoever waits."""

from multiprocessing import active_children

import pytest

from skewscope.adapters.runtime.processes import ProcessEndedError, map_parallel
from skewscope.kb.problems import InputError
from tests.support.process_work import FAULT, die, die_beside_others, refuse, sleep, square


@pytest.mark.parametrize(("workers", "items"), [(1, 7), (2, 7), (9, 2)])
@pytest.mark.slow
def test_each_item_is_answered_once_whatever_the_number_of_processes(workers, items):
    assert dict(map_parallel(square, range(items), workers)) == {n: n * n for n in range(items)}


def test_nothing_to_do_starts_nothing():
    assert not list(map_parallel(square, [], 4))


def test_what_the_work_raises_reaches_who_waits_whole():
    with pytest.raises(InputError) as raised:
        list(map_parallel(refuse, [1, 2], 2))
    assert raised.value.problems == (FAULT,)
    assert not active_children()


@pytest.mark.parametrize("work", [die, die_beside_others])
def test_the_end_of_a_process_is_said_and_ends_the_others(work):
    with pytest.raises(ProcessEndedError):
        list(map_parallel(work, range(4), 2))
    assert not active_children()


def test_who_stops_waiting_ends_them_all():
    waiting = map_parallel(sleep, [0, 1], 2)
    assert next(waiting) == (0, 0)
    assert active_children()
    waiting.close()
    assert not active_children()
