"""Backtests in this process, in others and on Ray tell the same; rules come from files, folders and ids."""

from dataclasses import replace

import pytest

from skewscope.adapters.backtest import backtest, pools, ray_recordings
from skewscope.adapters.backtest.backtest import BacktestOptions, run_backtest
from skewscope.adapters.backtest.rule_set import load_rule_set
from skewscope.adapters.backtest.telemetry import NamedRecording, TelemetrySpan, open_telemetry
from skewscope.adapters.runtime.processes import WorkerProcess
from skewscope.kb.loader import catalogue
from skewscope.kb.problems import InputError
from skewscope.rules.loader import RULES_FOLDER
from tests.support.process_work import die

pytestmark = pytest.mark.slow

RULE = "tp-straggler-on-the-wire"


def rules(where=RULE, **how):
    return load_rule_set(where, catalogue(), **how)


def opened(path, tmp_path):
    return open_telemetry(str(path), TelemetrySpan(), tmp_path, lambda _stage, _share: None)


def told(outcome):
    return [[one.as_line() for one in incidents] for each in outcome.recordings for incidents in each.incidents]


def late(folder, seconds=9):
    """The rule with a longer hold, in a file of its own."""
    text = (RULES_FOLDER / f"{RULE}.yaml").read_text()
    file = folder / f"{RULE}.yaml"
    file.write_text(text.replace("fire: {score: 5, hold: 4*s}", f"fire: {{score: 5, hold: {seconds}*s}}"))
    return file


def test_processes_tell_what_this_process_tells(brief, moment, tmp_path):
    recordings = [opened(path, tmp_path) for path in (brief, moment)]
    versions = [rules(), rules(str(late(tmp_path)))]
    here = run_backtest(recordings, versions, BacktestOptions(workers=1))
    there = run_backtest(recordings, versions, BacktestOptions(workers=2))
    assert told(there) == told(here)
    assert [len(one) for one in told(here)] == [1, 1, 0, 0]


def test_ray_tells_what_this_process_tells(brief, tmp_path):
    pytest.importorskip("ray")
    here, there = (run_backtest([opened(brief, tmp_path)], [rules()], BacktestOptions(1, ray)) for ray in ("", "local"))
    assert told(there) == told(here)


def test_ray_reads_whole_recordings_where_it_judges_them(brief, moment, tmp_path):
    pytest.importorskip("ray")
    recordings = [opened(path, tmp_path) for path in (brief, moment, brief)]
    versions = [rules(), rules(str(late(tmp_path)))]
    here, there = (run_backtest(recordings, versions, BacktestOptions(1, ray)) for ray in ("", "local"))
    assert told(there) == told(here)
    assert [one.name for one in there.recordings] == ["brief", "moment", "brief (2)"]


def test_recordings_that_are_not_there_for_ray_are_fed_to_it(brief, moment, tmp_path, monkeypatch):
    recordings = [opened(path, tmp_path) for path in (brief, moment, brief)]
    here = run_backtest(recordings, [rules()], BacktestOptions(1))

    def judge(_address, recordings, _versions, _report):
        return [None, here.recordings[1], None]

    monkeypatch.setattr(ray_recordings, "judge_recordings", judge)
    monkeypatch.setattr(backtest, "_open_pool", lambda *_: pools.LocalPool())
    there = run_backtest(recordings, [rules()], BacktestOptions(1, "local"))
    assert told(there) == told(here)
    assert there.recordings[1] is here.recordings[1]


def test_a_task_judges_nothing_whose_files_are_others(brief, moment, tmp_path):
    one = opened(brief, tmp_path)
    sizes = ray_recordings._input_sizes(one.recording)
    assert sum(sizes) > 0
    assert ray_recordings._judge_one(one, [rules()], [size + 1 for size in sizes], {}) is None
    found = ray_recordings._judge_one(one, [rules()], sizes, {})
    assert [incident.condition for incident in found.incidents[0]] == ["tp-straggler"]


def test_a_worker_that_dies_is_an_error():
    track = pools.ProcessTrack(WorkerProcess(die))
    track.finish()
    with pytest.raises(InputError, match="worker process died"):
        track.wait()
    track.process.close()


def test_progress_grows_to_the_end(moment, tmp_path):
    shares = []
    one = opened(moment, tmp_path)
    found = run_backtest([one, one], [rules()], BacktestOptions(workers=1), lambda _stage, share: shares.append(share))
    assert [each.name for each in found.recordings] == ["moment", "moment (2)"]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


def test_a_single_rule_is_judged_alone_or_among_the_others(tmp_path):
    alone, among = rules(str(late(tmp_path))), rules(str(late(tmp_path)), with_others=True)
    assert [rule.id for rule in alone.rules] == [RULE]
    assert (alone.symptoms, among.symptoms) == (False, True)
    assert {rule.id: rule.hash for rule in among.rules}[RULE] == alone.rules[0].hash != rules().rules[0].hash
    assert len(among.rules) > 90
    assert among.tried == alone.tried == (RULE,)


@pytest.mark.parametrize("where", ["no-such-rule", "."])
def test_what_holds_no_rule_is_refused(where, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="no rule"):
        rules(where)


def test_a_file_with_a_fault_is_refused(tmp_path):
    file = late(tmp_path)
    file.write_text(file.read_text().replace("wire.round_period", "wire.round_perod"))
    with pytest.raises(InputError, match="round_perod"):
        rules(str(file))


def test_a_server_needs_a_span(tmp_path):
    with pytest.raises(InputError, match="--since and --until"):
        opened("http://localhost:1", tmp_path)


def test_a_span_clips_a_recording(brief, tmp_path):
    whole = opened(brief, tmp_path)
    begin = run_backtest([whole], [rules()], BacktestOptions(workers=1)).recordings[0].start
    span = TelemetrySpan(begin + 10, begin + 20)
    part = open_telemetry(str(brief), span, tmp_path, lambda _stage, _share: None)
    assert part == NamedRecording(whole.name, replace(whole.recording, start=begin + 10, end=begin + 20))
