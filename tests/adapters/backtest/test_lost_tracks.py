"""A track whose machine is lost is fed again from its beginning, and tells what it would have told."""

import pytest

from skewscope.adapters.backtest.pools import LocalPool, LocalTrack, TrackLostError
from skewscope.adapters.backtest.rule_set import load_rule_set
from skewscope.adapters.backtest.run import MAX_REPEATS, RecordingRun, RunLimits
from skewscope.adapters.backtest.telemetry import TelemetrySpan, open_telemetry
from skewscope.adapters.backtest.track import Track
from skewscope.kb.loader import catalogue
from skewscope.kb.problems import InputError

RULE = "tp-straggler-on-the-wire"


class LossyTrack(LocalTrack):
    """A track that is lost when it has been fed so often."""

    left = 0

    def feed(self, segment):
        self.left -= 1
        if self.left < 0:
            raise TrackLostError
        super().feed(segment)

    def wait(self):
        if self.left <= 0:
            raise TrackLostError
        return super().wait()


class LossyPool(LocalPool):
    """Its tracks take so many segments each."""

    def __init__(self, lives):
        super().__init__()
        self.lives = list(lives)

    def start(self, setup):
        track = LossyTrack(Track(setup))
        track.left = self.lives.pop(0)
        return track


def told(path, lives, tmp_path):
    """Returns what is told of a recording of three segments."""
    one = open_telemetry(str(path), TelemetrySpan(), tmp_path, lambda _stage, _share: None)
    rules = [load_rule_set(RULE, catalogue())] * 2
    run = RecordingRun(one, rules, LossyPool(lives), RunLimits(1, 2))
    for _ in run.play(lambda _what, _share: None):
        assert run.has_room()
    found = run.wait(lambda begin, _end: (begin, None))
    return [[each.as_line() for each in incidents] for incidents in found.incidents]


@pytest.mark.parametrize("lives", [(1, 9, 9), (9, 3, 9), (0, 2, 1, 9, 9)], ids=["first", "at the end", "twice"])
def test_a_lost_track_is_fed_again(brief, tmp_path, lives):
    found = told(brief, lives, tmp_path)
    assert found == told(brief, (9, 9), tmp_path)
    assert [len(lines) for lines in found] == [1, 1]


def test_a_track_that_is_lost_again_and_again_is_an_error(brief, tmp_path):
    with pytest.raises(InputError, match=f"lost {MAX_REPEATS + 1} times"):
        told(brief, (9, *[1] * (MAX_REPEATS + 1)), tmp_path)
