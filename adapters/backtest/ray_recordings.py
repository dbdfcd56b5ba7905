"""Judges whole recordings as tasks of a Ray cluster: each is read where it is judged, so cores add up.

A task needs the files at the same place as here, as on one machine or in a shared folder. Ray repeats a task elsewhere
where a machine is lost.
"""

import os
from collections.abc import Callable, Sequence
from typing import Any

from skewscope.adapters.backtest.backtest import BacktestOptions, run_backtest
from skewscope.adapters.backtest.ray_pool import as_input_error, connect
from skewscope.adapters.backtest.rule_set import RuleSet
from skewscope.adapters.backtest.run import RecordingOutcome
from skewscope.adapters.backtest.telemetry import NamedRecording
from skewscope.adapters.inputs.recording import Recording, input_size
from skewscope.kb.problems import InputError, Problem

RETRIES = 3
"""Times that Ray repeats a task whose worker is lost: the result does not depend on where it runs."""
WAIT_S = 1.0
"""Seconds between two reports of progress."""
BOUNDS = "SKEWSCOPE_MAX_"
"""How variables of the environment begin that raise a bound on inputs."""

Report = Callable[[str, float], None]


def judge_recordings(
    address: str, recordings: Sequence[NamedRecording], versions: Sequence[RuleSet], report: Report
) -> list[RecordingOutcome | None]:
    """Returns what versions of the rules tell of each recording; None where its files are not there for Ray's workers.

    Raises:
        InputError: no Ray answers, or a recording cannot be read.
    """
    ray = connect(address)
    try:
        judge = ray.remote(num_cpus=1, max_retries=RETRIES)(_judge_one)
        rules = ray.put(list(versions))
        bounds = {name: value for name, value in os.environ.items() if name.startswith(BOUNDS)}
        tasks = [judge.remote(one, rules, _input_sizes(one.recording), bounds) for one in recordings]
        left = tasks
        while left:
            _, left = ray.wait(left, num_returns=len(left), timeout=WAIT_S)
            report("judge recordings", 1 - len(left) / len(tasks))
        return [_result_of(ray, task) for task in tasks]
    finally:
        ray.shutdown()


def _result_of(ray: Any, task: Any) -> RecordingOutcome | None:
    try:
        found: RecordingOutcome | None = ray.get(task)
    except ray.exceptions.RayTaskError as error:
        raise as_input_error(error) from None
    except ray.exceptions.RayError as error:
        text = " ".join(str(error).split())[:200]
        raise InputError([Problem("--ray", 0, "", f"a task that was lost ({text})", "incidents")]) from None
    return found


def _judge_one(
    one: NamedRecording, versions: Sequence[RuleSet], sizes: Sequence[int], bounds: dict[str, str]
) -> RecordingOutcome | None:
    """Returns the outcome of one recording; None where its inputs are not as large here."""
    if _input_sizes(one.recording) != sizes:
        return None
    os.environ.update(bounds)
    (found,) = run_backtest([one], versions, BacktestOptions(workers=1)).recordings
    return found


def _input_sizes(recording: Recording) -> list[int]:
    """Returns the stored bytes of each input; 0 for one that cannot be read here."""
    return [input_size(recording, source) for source in recording.inputs]
