"""Fixtures for all tests."""

import gc
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from skewscope.adapters.inputs.excerpt import write_excerpt
from skewscope.adapters.inputs.recording import clip_recording, demo_path, load, open_recording
from skewscope.adapters.runtime.replay import ReplayResult, replay
from skewscope.adapters.view.builder import ViewHistory
from skewscope.kb.loader import catalogue

# How long an example takes, or making one up, depends on what else the machine does: no law. Laws that need more
# examples than these ask for them; `.ci/run` tries more of all others.
EXAMPLES = int(os.environ.get("SKEWSCOPE_EXAMPLES", "20"))
settings.register_profile("here", deadline=None, max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("here")

OBJECTS_PER_COLLECTION = 50_000

# A busy machine may need longer for a test than a command may take by itself.
os.environ.setdefault("SKEWSCOPE_MAX_SECONDS", "600")

# pytest-xdist sets it to the width of its terminal; output that is piped follows it.
os.environ.pop("COLUMNS", None)

root = Path(__file__).resolve().parent.parent


def pytest_sessionstart() -> None:
    """Ends the run where programs are lacking that were promised: tests would be skipped that are wanted."""
    promised = os.environ.get("SKEWSCOPE_REQUIRE", "").split()
    if not promised:
        return
    from tests.support.target_requirements import list_broken_promises  # noqa: PLC0415 - it loads a good deal

    if broken := list_broken_promises(promised):
        pytest.exit(f"SKEWSCOPE_REQUIRE: not installed: {'; '.join(broken)}", returncode=4)


def pytest_collection_finish() -> None:
    """Makes the search for garbage rare, a sixth of the time otherwise, and exempts what was collected and imported."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(OBJECTS_PER_COLLECTION)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Returns more workers than processors, since many tests wait for other processes and for the clock."""
    asked = os.environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS", "")
    return int(asked) if asked.isdecimal() else len(os.sched_getaffinity(0)) + 2


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real recordings, which is not part of the repository; the test is skipped without it."""
    found = Path(os.environ.get("SKEWSCOPE_SHARED") or root.parent / "shared")
    if not found.is_dir():
        pytest.skip(f"no shared folder at {found} (set SKEWSCOPE_SHARED)")
    return found


@pytest.fixture(scope="session")
def demo() -> tuple[ViewHistory, ReplayResult]:
    """The first 75 s of the demo, with one fault that ends and one that begins: its view history and its result."""
    film = ViewHistory()
    whole = open_recording(demo_path())
    begin = load(whole, catalogue(), workers=1).start
    return film, replay(clip_recording(whole, None, begin + 75), history=film)


@pytest.fixture(scope="session")
def brief(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first 35 s of the demo, in which a rank becomes slow: a short recording with a fault."""
    return cut_demo(tmp_path_factory.mktemp("recordings") / "brief", 35)


@pytest.fixture(scope="session")
def moment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first 5 s of the demo: a short recording without a fault."""
    return cut_demo(tmp_path_factory.mktemp("recordings") / "moment", 5)


def cut_demo(folder: Path, seconds: float) -> Path:
    """Writes the first seconds of the demo as a recording, and returns its folder."""
    whole = open_recording(demo_path())
    begin = load(whole, catalogue(), workers=1).start
    write_excerpt(whole, folder, begin, begin + seconds)
    return folder
