"""Position and playback of a replay."""

from dataclasses import replace

import pytest

from skewscope.tui.console.player import Player, parse_time
from tests.tui.samples import T0


def test_it_holds_at_the_end_and_plays_again_from_the_start():
    player = Player.at_end((0.0, 1.0, 2.0, 3.0))
    assert player.is_at_end
    assert not player.playing
    again = player.toggle()
    assert (again.index, again.playing) == (0, True)
    assert not again.toggle().playing


def test_playback_follows_the_speed_and_stops_at_the_end():
    player = replace(Player.at_end(tuple(float(n) for n in range(11))).toggle(), speed_index=0)
    half = player.advance(0.5)
    assert half.time == 0
    assert half.advance(0.5).time == 1
    end = half.advance(100)
    assert (end.time, end.playing) == (10, False)


def test_many_small_ticks_go_as_far_as_one_large_one():
    player = replace(Player.at_end(tuple(n * 0.7 for n in range(100))).toggle(), speed_index=1)
    small = player
    for _ in range(40):
        small = small.advance(0.25)
    assert small.time == player.advance(10).time


def test_steps_and_jumps_stay_inside():
    player = Player.at_end((0.0, 1.0, 2.0))
    assert player.step(5).index == 2
    assert player.step(-1).index == 1
    assert player.jump(-60).index == 0
    assert Player(()).step(1).toggle().advance(1).index == 0


@pytest.mark.parametrize(
    ("text", "after"),
    [("12:19:00", 12), ("12:20", 72), ("+30", 30), ("-10", 90), ("tomorrow", None), ("", None), ("+", None)],
)
def test_asked_times_are_found(text, after):
    expected = None if after is None else T0 + after
    assert parse_time(text, T0, T0 + 100) == expected


def test_a_time_after_midnight_is_on_the_next_day():
    start = 86400 * 100 - 30
    assert parse_time("00:00:10", start, start + 60) == 86400 * 100 + 10
