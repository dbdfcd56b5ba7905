"""Steps of a job that do not come any more, and slow first steps that must not hide a fault."""

import numpy as np
import pytest

from skewscope.engine.model.topology import Group, Node, Topology
from skewscope.engine.symptoms.growing_steps import GrowingSteps
from skewscope.engine.symptoms.levels import LevelShifts
from skewscope.engine.symptoms.shift_limits import ShiftLimits
from tests.support.symptom_world import SymptomWorld

STEP = ("step.duration", "group", "A")
OTHER = ("gpu.power", "gpu", "n0/gpu0")


def job_that_ends(after=30, seconds=20, pause=1.0, also=None, missed=()):
    """Steps until one is the last; `also` are samples in each second, `missed` are the seconds without a step."""
    world, chance = SymptomWorld(), np.random.default_rng(1)
    for n in range(after + seconds):
        values = {} if n >= after or n in missed else {STEP: 0.1 * (1 + 0.01 * chance.standard_normal())}
        world.tick(values | (also(n) if also else {}), pause=pause)
    return world


@pytest.mark.parametrize("pause", [1.0, 15.0])
@pytest.mark.parametrize("also", [None, lambda n: {OTHER: 300.0 + n % 3}])
def test_a_step_that_does_not_come_is_told_within_ten_seconds_or_some_steps(pause, also):
    world = job_that_ends(pause=pause, also=also)
    (incident,) = world.incidents()
    assert (incident.condition, incident.kind, incident.name) == ("stopped-progress", "group", "A")
    last = world.t - 20 * pause
    assert 5 * pause <= incident.opened_at - last <= max(10.0, 6 * pause)
    assert incident.candidates[0] == "collective-hang"


def test_a_step_that_came_late_speaks_no_longer_for_what_stops_a_job_for_good():
    world = job_that_ends(after=60, seconds=12)
    assert world.incidents()[0].candidates[0] == "collective-hang"
    for n in range(5):
        world.tick({STEP: 11.8 + 0.1 * n})
    (incident,) = world.incidents()
    assert incident.condition == "slow-steps"
    assert "collective-hang" not in incident.candidates[:3]


def test_a_fleet_of_which_nothing_comes_has_lost_its_telemetry():
    assert not job_that_ends(also=lambda n: {OTHER: 300.0 + n % 3} if n < 30 else {}).incidents()


def test_a_job_that_ends_while_other_nodes_go_on_has_not_stopped():
    elsewhere = ("gpu.power", "gpu", "n9/gpu0")
    nodes = tuple(Node(f"n{n}", gpus=1) for n in range(10))
    fleet = Topology(nodes, (Group("A", "tensor-parallel", tuple(node.name for node in nodes[:4])),), ())
    world = SymptomWorld(fleet=fleet)
    for n in range(60):
        world.tick({elsewhere: 300.0 + n % 3} | ({STEP: 0.1 + 0.001 * (n % 5)} if n < 30 else {}))
    assert not world.incidents()


def test_a_job_whose_members_go_on_has_not_stopped():
    def goes_on(n):
        return {("step.compute_time", "rank", "A:n1"): 0.1 + 0.001 * (n % 5)}

    assert not job_that_ends(also=goes_on).incidents()


def test_the_pauses_of_checkpoints_are_no_stops():
    missed = {n for n in range(15, 60) if n % 20 < 5}
    assert not job_that_ends(60, 3, missed=missed).incidents()


def pauses_of_a_job(starts, length=40, seconds=3000):
    """Returns when a job is told to have stopped that takes no step for `length` seconds at each of `starts`."""
    missed = {second for start in starts for second in range(start, start + length)}
    found = job_that_ends(seconds, 0, missed=missed).incidents()
    return sorted(incident.opened_at for incident in found if incident.condition == "stopped-progress")


def test_a_pause_that_comes_at_like_distances_is_no_stop_from_the_fifth_on():
    told = pauses_of_a_job([400, 1000, 1620, 2200, 2800, 3400, 4020], length=140, seconds=4400)
    assert len(told) == 4


def test_like_pauses_at_unlike_distances_are_told_each_time():
    told = pauses_of_a_job([300, 1400, 1900, 2700, 3200, 4200, 4800], length=140, seconds=5200)
    assert len(told) == 7


def test_a_regular_pause_that_does_not_end_is_a_stop():
    missed = {second for start in (400, 1000, 1600, 2200, 2800) for second in range(start, start + 140)}
    world = job_that_ends(2940, 0, missed=missed)
    assert len(world.incidents()) == 4
    for _ in range(100):
        world.tick({})
    assert len(world.incidents()) == 5


def test_a_tick_is_asked_for_when_a_step_is_due():
    world = job_that_ends(seconds=1)
    due = world.next_change()
    assert world.t < due <= world.t + 10
    world.tick({}, pause=due - world.t)
    assert [one.condition for one in world.incidents()] == ["stopped-progress"]


def slow_after(start, values=30, factor=1.5):
    """Returns the conditions told within five steps of a job whose first steps take so many times as long."""
    world, chance = SymptomWorld(), np.random.default_rng(2)
    for n in range(values + 5):
        wobble = 1 + 0.01 * chance.standard_normal()
        world.tick({STEP: wobble * (start[n] if n < len(start) else factor if n >= values else 1.0)})
    return {one.condition for one in world.incidents()}


@pytest.mark.parametrize(
    "start", [(3,), (30,), (3.5, 3), (8, 4, 2, 1.5), (3, 1, 3), (2.5,) * 8], ids=lambda start: f"{start}"
)
def test_slow_first_steps_do_not_hide_a_fault(start):
    assert slow_after(start) == {"slow-steps"}
    assert "slow-steps" not in slow_after(start, factor=1.0)


def job_of_few_steps(healthy, factor, slow=4, start=(), usual=1.0):
    """Returns the symptoms of a job of few steps, each of which comes when it ends."""
    world, chance = SymptomWorld(), np.random.default_rng(2)
    seconds = [*start, *(usual,) * healthy, *(factor * usual,) * slow]
    seconds = np.array(seconds) * (1 + 0.01 * chance.standard_normal(len(seconds)))
    ends = np.cumsum(seconds)
    for second in range(int(ends[-1]) + 1):
        some = np.flatnonzero(np.ceil(ends) == second + 1)
        world.tick_all([(STEP, world.start + ends[n], seconds[n]) for n in some])
    return {one.condition for one in world.incidents()}


@pytest.mark.parametrize(
    ("healthy", "factor", "told"), [(9, 3.0, True), (9, 1.5, True), (9, 1.25, False), (4, 1.5, False)]
)
def test_of_few_steps_only_those_well_above_all_of_them_are_slow(healthy, factor, told):
    assert ("slow-steps" in job_of_few_steps(healthy, factor)) is told


@pytest.mark.parametrize("healthy", [6, 9, 30])
def test_what_is_too_small_to_matter_is_no_shift_of_few_values_either(healthy):
    # Half a second matters; eight milliseconds do not.
    world = SymptomWorld()
    for n in range(healthy + 10):
        world.tick({("wire.common_pause", "group", "A"): 0.012 + 0.0001 * (n % 3) + (0.008 if n >= healthy else 0.0)})
    assert not world.incidents()


@pytest.mark.parametrize("start", [(), (20.0,), (20.0, 4.0)])
@pytest.mark.parametrize(("usual", "factor"), [(0.4, 3.0), (0.4, 1.5), (0.9, 1.5), (20.0, 1.5)])
def test_seven_slow_steps_after_seven_of_a_new_job_are_told(usual, factor, start):
    assert "slow-steps" in job_of_few_steps(7, factor, 7, start, usual)
    assert "slow-steps" not in job_of_few_steps(7, 1.0, 7, start, usual)


def false_shifts(draw, count=2000, length=200):
    """Returns how many healthy series of this distribution shift."""
    yes, no = np.ones(count, bool), np.zeros(count, bool)
    shifts = LevelShifts(ShiftLimits(np.full(count, 0.1), np.zeros(count), yes, no, np.full(count, 3.0), yes))
    shifts.grow(shifts.limits)
    shifts.started[:] = True
    ever = np.zeros(count, bool)
    at = np.arange(count)
    for n, row in enumerate(draw(np.random.default_rng(3), (length, count))):
        shifts.step(at, row, np.full(count, float(n)))
        ever |= shifts.shift != 0
    return int(ever.sum())


@pytest.mark.parametrize(
    "draw",
    [
        lambda chance, shape: 1 + 0.055 * np.abs(chance.standard_normal(shape)),
        lambda chance, shape: np.exp(0.1 * chance.standard_normal(shape)),
        lambda chance, shape: 1 + 0.01 * chance.standard_normal(shape) + (chance.random(shape) < 0.05),
    ],
    ids=["jitter", "lognormal", "long steps"],
)
def test_healthy_series_keep_their_rate_of_false_alarms(draw):
    # One in 8,500 values for a single series without a least size; here 400,000 values.
    assert false_shifts(draw) <= 400_000 / 8500


EVALUATION = ("step.evaluation", "group", "A")


@pytest.mark.parametrize("every", [1, 30])
@pytest.mark.parametrize("late", [0, 6])
def test_a_job_that_evaluates_has_not_stopped(every, late):
    world = job_that_ends(after=30, seconds=late, also=lambda n: {OTHER: 300.0 + n % 3})
    for n in range(120):
        world.tick({OTHER: 300.0 + n % 3} | ({EVALUATION: 1.0} if n % every == 0 else {}))
    world.tick({EVALUATION: 0.0, OTHER: 300.0})
    for n in range(40):
        world.tick({STEP: 0.1 + 0.001 * (n % 5), OTHER: 300.0 + n % 3})
    assert not world.incidents()


def test_a_job_that_does_not_train_again_after_an_evaluation_has_stopped():
    world = job_that_ends(after=30, seconds=1, also=lambda n: {OTHER: 300.0 + n % 3})
    for n in range(100):
        world.tick({OTHER: 300.0 + n % 3} | ({EVALUATION: float(n < 60)} if n < 61 else {}))
    (incident,) = world.incidents()
    assert incident.condition == "stopped-progress"
    assert world.t - 40 < incident.opened_at <= world.t - 25


def test_an_evaluation_that_shows_nothing_any_more_explains_no_pause():
    world = job_that_ends(after=30, seconds=1, also=lambda n: {OTHER: 300.0 + n % 3})
    world.tick({EVALUATION: 1.0})
    begin = world.t
    for n in range(700):
        world.tick({OTHER: 300.0 + n % 3})
    (incident,) = world.incidents()
    assert 600 <= incident.opened_at - begin <= 620


def test_steps_that_come_end_an_evaluation_that_is_never_taken_back():
    world = job_that_ends(after=30, seconds=1, also=lambda n: {OTHER: 300.0 + n % 3})
    world.tick({EVALUATION: 1.0, OTHER: 300.0})
    for n in range(700):
        world.tick({OTHER: 300.0 + n % 3} | ({STEP: 0.1 + 0.001 * (n % 5)} if n % 3 == 0 else {}))
    assert not world.incidents()
    for n in range(30):
        world.tick({OTHER: 300.0 + n % 3})
    assert [one.condition for one in world.incidents()] == ["stopped-progress"]


@pytest.mark.parametrize("every", [2, 8])
def test_what_passes_around_evaluations_is_no_interval_between_steps(every):
    world = SymptomWorld()
    world.tick({STEP: 10.0, OTHER: 300.0})
    for n in range(1, 60 * every):
        evaluates = n % (10 * every) == every // 2
        ends = n % (10 * every) == every // 2 + 1
        step = {STEP: every * (1 + 0.001 * (n % 7))} if n % every == 0 or ends else {}
        world.tick({OTHER: 300.0 + n % 3} | step | ({EVALUATION: float(evaluates)} if evaluates or ends else {}))
    assert not world.incidents()


@pytest.mark.parametrize("first", ["a", "b"])
def test_each_series_that_says_whether_a_job_evaluates_counts(first):
    selectors = {"a": ("instance=a", "instance=b"), "b": ("instance=b", "instance=a")}[first]
    world = job_that_ends(after=30, seconds=1, also=lambda n: {OTHER: 300.0 + n % 3})
    world.tick({(*EVALUATION, selectors[0]): 0.0, (*EVALUATION, selectors[1]): 1.0, OTHER: 300.0})
    for n in range(100):
        world.tick({OTHER: 300.0 + n % 3})
    assert not world.incidents()


def test_a_job_is_alone_beside_those_of_which_nothing_has_come_yet():
    nodes = tuple(Node(f"n{n}", gpus=1) for n in range(2))
    groups = tuple(Group("AB"[n], "data-parallel", (f"n{n}",)) for n in range(2))
    world = SymptomWorld(fleet=Topology(nodes, groups, ()))
    other = ("step.duration", "group", "B")
    for n in range(40):
        world.tick({STEP: 1.0 + 0.001 * (n % 5)} if n < 25 else {})
    assert [(one.condition, one.name) for one in world.incidents()] == [("stopped-progress", "A")]
    for n in range(40):
        world.tick({other: 1.0 + 0.001 * (n % 5)})
    assert all(one.name == "A" for one in world.incidents())


def slow_growth(steps, factor, also=()):
    world, time = SymptomWorld(), 2.0
    for n in range(steps):
        time = factor(n, time)
        world.tick({STEP: time, **dict(also)}, pause=time)
    return [(one.condition, one.name) for one in world.incidents()]


@pytest.mark.parametrize(
    ("steps", "factor", "told"),
    [
        (12, lambda _, time: time + 0.25, True),
        (11, lambda _, time: time + 0.25, False),
        # As much as healthy steps differ, however even its growth.
        (30, lambda _, time: time * 1.0005, False),
        # A length that is drawn anew each time, and one that grows in stages.
        (60, lambda n, _: 2.0 + (n * 7919 % 41) / 40, False),
        (60, lambda n, _: 2.0 + 0.1 * (n // 30), False),
    ],
)
def test_steps_that_grow_one_after_another_are_told_from_the_first_one_on(steps, factor, told):
    assert slow_growth(steps, factor) == ([("slow-steps", "A")] if told else [])


def growth_by_epoch(duration, steps=20, epochs=5, first=0):
    """Returns whether steps that take `duration(epoch, step)` seconds are reported as growing."""
    world, is_reported = SymptomWorld(), False
    (growth,) = (one for one in world.detector.all if isinstance(one, GrowingSteps))
    for epoch in range(first, first + epochs):
        for step in range(steps):
            seconds = duration(epoch - first, step)
            begins = {("step.epoch", "group", "A"): float(epoch)} if not step else {}
            world.tick({STEP: seconds, **begins}, pause=seconds)
            is_reported |= any(growth.find())
    assert not is_reported or [one.condition for one in world.incidents()] == ["slow-steps"]
    return is_reported


@pytest.mark.parametrize(
    ("duration", "first"),
    [
        (lambda _, step: 2.0 + 0.25 * step, 0),  # sorted by length
        (lambda _, step: 8.0 - 0.25 * step, 1),  # the longest first
        (lambda epoch, step: 2.0 + 0.25 * step + 0.01 * ((step * 7 + epoch * 3) % 5), 0),
        (lambda epoch, step: 2.0 + 0.25 * step if epoch else 6.75, 3),  # an epoch that the log begins within
    ],
)
def test_steps_that_grow_in_each_epoch_anew_are_healthy(duration, first):
    assert not growth_by_epoch(duration, first=first)


@pytest.mark.parametrize(
    "duration",
    [
        lambda epoch, step: 2.0 + 0.1 * (20 * epoch + step),
        lambda epoch, step: 2.0 + 0.25 * step + 1.5 * epoch,  # and inputs that are sorted
        lambda epoch, step: (2.0 + 0.25 * step) * 1.15**epoch,
    ],
)
def test_steps_that_go_on_growing_over_epochs_are_reported(duration):
    assert growth_by_epoch(duration)


def test_growth_over_epochs_of_few_steps_is_reported():
    assert growth_by_epoch(lambda epoch, step: 2.0 + 0.2 * (4 * epoch + step), steps=4)


def test_in_the_first_epoch_growth_says_nothing():
    assert not growth_by_epoch(lambda _, step: 2.0 + 0.25 * step, steps=40, epochs=1)


def noisy(seconds, place):
    return seconds * (1 + 0.05 * ((place * 7919 % 41) - 20) / 20)


@pytest.mark.parametrize(
    ("duration", "told"),
    [
        (lambda _, step: 0.5 + 0.005 * step, False),  # sorted by length
        (lambda epoch, step: (0.5 + 0.005 * step) * (1.9 if (epoch, step) >= (2, 30) else 1.0), True),
        (lambda epoch, step: 0.9 if (epoch, step) >= (1, 30) else 0.5, True),
        (lambda epoch, step: 0.9 if (epoch, step) >= (0, 60) else 0.5, True),
    ],
)
def test_noisy_steps_are_as_long_as_their_place_in_the_epoch_says(duration, told):
    world = SymptomWorld()
    for epoch in range(3):
        for step in range(100):
            seconds = noisy(duration(epoch, step), step + 100 * epoch)
            begins = {("step.epoch", "group", "A"): float(epoch)} if not step else {}
            world.tick({STEP: seconds, **begins}, pause=seconds)
    assert [one.condition for one in world.incidents()] == (["slow-steps"] if told else [])
