"""Logs of programs that no format knows: what they call an error counts, and a log without any is no refusal."""

import pytest

from skewscope.adapters.inputs.draft_recording import draft_recording
from skewscope.adapters.inputs.guessed_format import guess_format
from skewscope.adapters.inputs.known_formats import known_formats
from skewscope.adapters.inputs.log_recognition import is_any_log
from skewscope.adapters.runtime.replay import replay
from skewscope.kb.known_events import known_events
from skewscope.kb.problems import InputError, NothingKnownError

INFO = "2026-11-22 10:00:{:02} INFO  [scheduler] placed job {}\n"
WARNING = "2026-11-22 10:00:{:02} WARN  [router] the call to backend {} timed out, trying again\n"


def words_of(tmp_path, text):
    """Returns the evidence of the incidents of a log, as one text."""
    (tmp_path / "a.log").write_text(text)
    incidents = replay(draft_recording([tmp_path / "a.log"]).recording).incidents
    return " ".join(item.name for one in incidents for item in one.evidence)


ERRORS = {
    "Python": "2026-11-22 10:00:09,123 ERROR placement.py:41 -- the group was not placed in 60 s",
    "glog": "E1122 10:00:09.123456 1 backend_state.cc:210] the instance did not answer",
    "klog": "E1122 10:00:09.123456       1 controller.go:114] sync of node n3 failed on shard 7",
    "slog": 'time=2026-11-22T10:00:09.123Z level=ERROR source=sched.go:44 msg="the runner has ended"',
    "JSON": '{"time":"2026-11-22T10:00:09Z","severity":"ERROR","message":"upstream reset the stream"}',
    "traceback": "BrokenPipeError: [Errno 32] Broken pipe",
}


@pytest.mark.parametrize("line", ERRORS.values(), ids=ERRORS)
def test_what_an_unknown_program_calls_an_error_is_a_finding_with_its_words(line, tmp_path):
    text = "".join(INFO.format(second, second) for second in range(8)) + line + "\n"
    assert line.split()[-1].strip('"}]') in words_of(tmp_path, text)


def test_a_warning_of_a_failure_counts_where_it_comes_at_several_moments(tmp_path):
    often = "".join(INFO.format(n, n) + WARNING.format(n, n % 2) for n in (1, 5, 9))
    assert "timed out" in words_of(tmp_path, often)
    at_once = "".join(INFO.format(n, n) for n in range(3)) + "".join(WARNING.format(5, n) for n in range(8))
    with pytest.raises(NothingKnownError):
        words_of(tmp_path, at_once)


def test_a_line_that_is_known_is_no_unknown_error():
    line = "(EngineCore pid=8) ERROR 11-22 10:00:00 [core.py:1] EngineCore encountered a fatal error."
    assert [found.event.id for found in known_events().find(line)] == ["vllm-engine-dead"]


def test_a_log_in_which_nothing_is_wrong_is_too_little_and_prose_is_refused(tmp_path):
    with pytest.raises(NothingKnownError, match="no message or number"):
        words_of(tmp_path, "".join(INFO.format(n, "abc") for n in range(6)))
    with pytest.raises(InputError) as refusal:
        words_of(tmp_path, "Dear all,\nthe job is slow again.\nWhat can I do?\n" * 3)
    assert not isinstance(refusal.value, NothingKnownError)


def test_the_records_of_a_container_have_the_format_of_their_lines():
    row = '[GIN] 2026/01/15 - 10:00:0{} | 500 |  4.031s |  10.8.0.15 | POST     \\"/api/chat\\"\\n'
    text = "".join(f'{{"log":"{row.format(n)}","stream":"stdout","time":"2026-01-15T10:00:0{n}Z"}}\n' for n in range(4))
    assert known_formats().choose(text.encode()).id == "gin-requests"


@pytest.mark.parametrize(
    ("line", "wanted"), [("step {n}: loss = 1.48 (2.31 sec/step)", True), ("step {n} 2.31 (2.40)", False)]
)
def test_a_time_in_brackets_is_that_of_a_step_where_the_number_before_it_is_none(line, wanted):
    guess = guess_format([line.format(n=n) for n in range(20)])
    assert (guess is not None and "the time of a step in s" in guess.what) == wanted


def test_what_a_client_did_wrong_and_what_goes_well_without_is_no_error(tmp_path):
    lines = [
        "ERROR 11-22 10:00:09 [serving_chat.py:1] Error in preprocessing prompt inputs",
        "E1122 10:00:10.123456 42 cuda_dnn.cc:1] Unable to register cuDNN factory: it has already been registered",
        "ERROR: pip's dependency resolver does not currently take into account all packages",
    ]
    with pytest.raises(NothingKnownError, match="no sign of a fault"):
        words_of(tmp_path, "".join(INFO.format(n, n) + f"{line}\n" for n, line in enumerate(lines)))


MEMBER = "ts=2026-11-22T10:{:02}:{:02}Z level=info replica=llm-{} running=8 waiting={} generation_throughput={}tok/s\n"


def test_an_unknown_engine_s_lines_are_of_the_replica_that_they_name(tmp_path):
    text = ""
    for n in range(30):
        for replica in range(3):
            is_slow = replica == 1 and n >= 12
            text += MEMBER.format(n // 6, n % 6 * 10, replica, n if is_slow else 0, 90 if is_slow else 400 + n % 3)
    (tmp_path / "a.log").write_text(text)
    incidents = replay(draft_recording([tmp_path / "a.log"]).recording).incidents
    assert {one.name for one in incidents} == {"llm-1"}


def test_what_touches_a_number_is_its_unit_and_no_name():
    lines = [f"650/650 [=====] - 27s {41 + n % 2}ms/step - loss: 8.{n}" for n in range(9)]
    assert "the time of a step in ms" in guess_format(lines).what


def test_the_line_that_names_the_rank_is_shown_and_not_the_end_of_its_trace(tmp_path):
    failed = "E1122 10:00:00.000000 26 api.py:869] failed (exitcode: -9) local_rank: 5 (pid: 42) of binary: python"
    end = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:"
    assert "local_rank: 5" in words_of(tmp_path, f"{failed}\nTraceback (most recent call last):\n{end}\n")


def test_progress_bars_that_are_no_steps_are_too_little():
    bar = "Loading checkpoint shards: {}% Completed | {}/4 [00:0{}<00:0{},  1.4s/it]\n"
    assert is_any_log("".join(bar.format(25 * n, n, n, 4 - n) for n in range(4)).encode())


def test_records_of_a_training_without_times_are_too_little():
    assert is_any_log("".join(f"{{'loss': 1.{n}, 'epoch': 0.0{n}}}\n" for n in range(4)).encode())
