"""Background tasks and threads: none ends without a line and a count, and none is started past the helper."""

import ast
import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from bench.code_measures import parse_sources
from skewscope.adapters.runtime import tasks
from skewscope.adapters.runtime.tasks import cancel_and_wait, start_job, start_service, start_thread, wait_for_first

ROOT = Path(__file__).resolve().parents[3]
STARTERS = {"create_task", "ensure_future", "TaskGroup", "run_coroutine_threadsafe", "Thread", "Timer"}
"""Names of what starts a task or a thread."""
EXCEPTIONS = {
    "adapters/runtime/tasks.py": "the helper itself",
    "adapters/health_client.py": "the deadline of a call, in a module of the standard library alone",
    "adapters/history/database.py": "the deadline of a call",
}


@pytest.fixture(autouse=True)
def counts(monkeypatch):
    monkeypatch.setattr(tasks, "failures", type(tasks.failures)())
    return lambda: dict(tasks.failures)


async def no_wait(_seconds):
    await asyncio.sleep(0)


def test_a_job_that_fails_is_logged_and_counted(counts, caplog):
    async def fail():
        raise RuntimeError("a bug")

    async def scenario():
        job = start_job("some job", fail())
        with pytest.raises(RuntimeError):
            await job

    asyncio.run(scenario())
    assert counts() == {"some job": 1}
    assert "some job: failed" in caplog.text
    assert "RuntimeError: a bug" in caplog.text


def test_a_service_goes_on_after_each_failure_and_each_end(counts):
    begun = []

    async def run():
        begun.append(len(begun))
        if len(begun) < 3:
            raise RuntimeError("a bug")
        if len(begun) > 4:
            await asyncio.Event().wait()

    async def scenario():
        service = start_service("a service", run, no_wait)
        while len(begun) < 5:  # noqa: ASYNC110 - nothing else says so
            await asyncio.sleep(0)
        await cancel_and_wait(service)
        assert service.cancelled()

    asyncio.run(scenario())
    assert counts() == {"a service": 4}


def test_the_wait_before_a_start_doubles_and_is_bounded():
    waits = []

    async def sleep(seconds):
        waits.append(seconds)
        if len(waits) == 9:
            raise asyncio.CancelledError

    async def fail():
        raise RuntimeError

    async def scenario():
        with pytest.raises(asyncio.CancelledError):
            await start_service("a service", fail, sleep)

    asyncio.run(scenario())
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60, 60]


def test_a_service_that_is_cancelled_is_not_started_again(counts):
    async def run():
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise RuntimeError("in its clean-up") from None

    async def scenario():
        service = start_service("a service", run, no_wait)
        await asyncio.sleep(0)
        await cancel_and_wait(service)
        assert service.cancelled()

    asyncio.run(scenario())
    assert counts() == {}


def test_a_thread_goes_on_after_a_failure_until_it_returns(counts, monkeypatch):
    monkeypatch.setattr(tasks, "MIN_BACKOFF", 0.0)
    begun = []

    def run():
        begun.append(1)
        if len(begun) < 3:
            raise RuntimeError("a bug")

    start_thread("a thread", run).join(10)
    assert (len(begun), counts()) == (3, {"a thread": 2})


def test_a_process_ends_with_a_thread_that_it_cannot_do_without():
    code = "import time; from skewscope.adapters.runtime.tasks import start_vital_thread as s; s('x', lambda: 1 / 0)"
    command = [sys.executable, "-c", f"{code}; time.sleep(20)"]
    ended = subprocess.run(command, check=False, capture_output=True, timeout=15)
    assert ended.returncode == 1
    assert b"x: failed; the process ends" in ended.stderr


def test_of_several_the_first_that_ends_cancels_the_others():
    cancelled = []

    async def wait():
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(1)
            raise

    async def fail():
        raise OSError("no answer")

    async def scenario():
        await wait_for_first(wait(), asyncio.sleep(0))
        with pytest.raises(OSError, match="no answer"):
            await wait_for_first(wait(), fail())
        await asyncio.sleep(0)

    asyncio.run(scenario())
    assert cancelled == [1, 1]


def test_no_task_and_no_thread_is_started_past_the_helper():
    found = {
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path, tree in parse_sources(ROOT).items()
        if str(path.relative_to(ROOT)) not in EXCEPTIONS
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in STARTERS
    }
    assert not found, "use start_job, start_service or start_thread of adapters/runtime/tasks.py"


def test_no_call_waits_in_the_threads_in_which_libraries_look_names_up():
    found = {
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path, tree in parse_sources(ROOT).items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if node.func.attr == "to_thread"
        or (node.func.attr == "run_in_executor" and isinstance(node.args[0], ast.Constant))
    }
    assert not found, "use the threads of adapters/runtime/blocking_calls.py"
