from dataclasses import replace

import numpy as np
import pytest

from skewscope.adapters.inputs.recording import load, open_recording
from skewscope.adapters.view.builder import ViewHistory, build_peer_sets, peer_statistics
from skewscope.adapters.view.snapshot import RuleHealth, SeriesIndex, SeriesInfo, SignalView, ViewFrame, ViewSnapshot
from skewscope.engine.model.topology import Topology
from skewscope.kb.loader import catalogue
from skewscope.kb.problems import InputError, SkewscopeError


def frame(t, values, **more):
    values = np.array(values, np.float32)
    nothing = np.full(len(values), np.nan, np.float32)
    stale = more.get("stale", np.zeros(len(values), bool))
    roster = more.get("roster") or SeriesIndex(tuple(SeriesInfo("x", "rank", str(n)) for n in range(len(values))))
    peers = peer_statistics(build_peer_sets(roster.series), np.where(stale, np.nan, values))
    return ViewFrame(t, values, nothing, nothing, *peers, np.zeros(len(values), np.float32), stale)


def table(values, *, signal="x", unit="s", frames=(), **more):
    series = tuple(SeriesInfo(signal, "rank", f"g:n{n}", "", unit, 0) for n in range(len(values)))
    return SignalView(SeriesIndex(series), (*frames, frame(9.0, values, roster=SeriesIndex(series), **more)))


@pytest.mark.slow
def test_a_history_ends_with_what_the_replay_gives(demo):
    history, outcome = demo
    last = history.snapshot(len(history.times()) - 1)
    assert last.incidents == outcome.incidents
    assert last.delivered_signals
    assert history.topology == outcome.topology
    assert not history.live


def test_earlier_scenes_know_less_and_later_rosters_begin_with_earlier_ones(demo):
    history, _ = demo
    early, late = history.snapshot(5), history.snapshot(len(history.times()) - 1)
    assert not early.incidents
    assert early.time < late.time
    assert (
        late.signals.series_index.series[: len(early.signals)]
        == early.signals.series_index.series[: len(early.signals)]
    )
    assert len(early.signals.frames) == 6


def test_counters_are_shown_as_rates(demo):
    history, _ = demo
    now = history.snapshot(100).signals
    row = now.series_index.find_row("port.rx_netdev_bytes", "n0/ew")
    assert now.series_index.series[row].unit == "By/s"
    assert 1e5 < now.latest.value[row] < 1e9


def test_the_late_rank_stands_out_among_its_peers(demo):
    history, _ = demo
    at = next(n for n in range(len(history.times())) if history.snapshot(n).incidents)
    now = history.snapshot(at).signals
    row = now.series_index.find_row("wire.onset_lag", "A:n2")
    assert {now.series_index.series[r].entity for r in now.series_index.peers_of(row)} == {"A:n0", "A:n1", "A:n3"}
    assert now.peer_z[row] > 10
    assert np.isfinite(now.trend(row)).sum() > 10


def test_evidence_is_kept_for_whom_a_rule_fires_on(demo):
    history, _ = demo
    at = next(n for n in range(len(history.times())) if any(one.rule for one in history.snapshot(n).incidents))
    scene = history.snapshot(at)
    incident = next(one for one in scene.incidents if one.rule)
    said = scene.signals.latest.evidence[incident.rule, incident.kind, incident.name]
    assert len(said.verdicts) == len(incident.evidence) + len(incident.against)


def test_rules_say_what_they_lack(demo):
    history, _ = demo
    rules = {health.rule: health for health in history.snapshot(100).rules}
    assert "wire.onset_lag" not in rules["tp-straggler-on-the-wire"].missing_signals
    assert rules["gpu-thermal-throttle-of-a-gpu"].state in ("blind", "quiet")
    assert any(health.state == "blind" for health in rules.values())


@pytest.mark.parametrize(
    ("health", "state"),
    [
        (RuleHealth("r", "c", 8), "quiet"),
        (RuleHealth("r", "c", 8, firing=1), "firing"),
        (RuleHealth("r", "c", 8, firing=1, suppressed=1), "suppressed"),
        (RuleHealth("r", "c", 8, unknown=8), "unknown"),
        (RuleHealth("r", "c", 8, unknown=8, missing_signals=("x",)), "blind"),
    ],
)
def test_the_state_of_a_rule(health, state):
    assert health.state == state


def test_of_two_nobody_stands_out_and_of_three_one_does():
    assert np.isnan(table([1.0, 9.0]).peer_z).all()
    z = table([1.0, 1.0, 9.0]).peer_z
    assert z[2] > 10
    assert abs(z[0]) < z[2]


def test_next_to_nothing_beside_nothing_is_no_news():
    assert abs(table([0.0, 0.0, 0.0, 0.001], unit="1").deviation[3]) < 1


def test_what_is_stale_has_no_deviation():
    stale = np.array([False, False, False, True])
    assert np.isnan(table([1.0, 1.0, 1.0, 9.0], stale=stale).deviation[3])


def test_rows_that_came_later_have_no_past():
    found = table([1.0, 2.0], frames=(frame(8.0, [5.0]),))
    assert found.history(np.array([0, 1])).tolist()[0] == [5.0, 1.0]
    assert np.isnan(found.history(np.array([1]))[0, 0])
    assert found.times().tolist() == [8.0, 9.0]


def scene(t):
    return ViewSnapshot(t, 0.0, 100.0, Topology())


def test_a_long_film_is_thinned_and_a_live_one_forgets_its_beginning():
    recorded, live = ViewHistory(max_cells=20), ViewHistory(live=True, max_cells=20)
    for n in range(100):
        for each in (recorded, live):
            each.add(scene(float(n)), frame(float(n), [1.0, 2.0]))
    assert recorded.times()[0] == 0.0
    assert live.times()[0] > 80
    assert live.times()[-1] == 99.0
    for each in (recorded, live):
        assert len(each.times()) <= 10
        assert each.times() == sorted(each.times())
        assert each.snapshot(3).signals.latest.time == each.times()[3]


def test_a_scene_stays_what_it_was_while_the_film_goes_on():
    history = ViewHistory(live=True)
    history.add(scene(1.0), frame(1.0, [1.0]))
    first = history.snapshot(0)
    history.add(replace(scene(2.0)), frame(2.0, [2.0, 3.0]))
    assert len(first.signals.frames) == 1
    assert len(first.signals) == 1


def test_a_part_is_kept_as_a_recording(demo, tmp_path):
    history, _ = demo
    begin = history.times()[0]
    said = history.export_recording(tmp_path / "cut", begin, begin + 20)
    assert "samples of 20 s" in said
    loaded = load(open_recording(tmp_path / "cut"), catalogue(), lambda _, __: None, 1)
    assert loaded.block.time.max() <= begin + 20
    assert not loaded.unmapped
    with pytest.raises(InputError):
        history.export_recording(tmp_path / "cut", begin, begin + 20)


def test_what_cannot_be_kept_says_so(tmp_path):
    with pytest.raises(SkewscopeError):
        ViewHistory().export_recording(tmp_path / "x", 0.0, 1.0)
