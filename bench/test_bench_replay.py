"""Measures the replay of whole recordings, each in its own process: seconds, times real time, peak memory.

`pytest bench/test_bench_replay.py` measures the built-in demo, and the recordings that `SKEWSCOPE_SHARED` names.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from skewscope.adapters.inputs.recording import demo_path, load, open_recording
from skewscope.kb.loader import catalogue

ROOT = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("SKEWSCOPE_SHARED") or ROOT.parent / "shared") / "recordings"
RECORDINGS = [demo_path(), *sorted(SHARED.glob("*/"))]
SCRIPT = """
import resource, sys
from skewscope.tui.cli.main import main
sys.argv = ["skewscope", "replay", sys.argv[1], "--json", "--workers", "1"]
try: main()
except SystemExit: pass
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)
"""


@pytest.mark.parametrize("folder", RECORDINGS, ids=lambda path: path.name)
def test_replay(benchmark, folder):
    def run():
        command = [sys.executable, "-c", SCRIPT, str(folder)]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)

    done = benchmark.pedantic(run, rounds=3, warmup_rounds=1)
    loaded = load(open_recording(folder), catalogue(), workers=1)
    benchmark.extra_info["seconds of data"] = round(loaded.end - loaded.start, 1)
    benchmark.extra_info["times real time"] = round((loaded.end - loaded.start) / benchmark.stats["median"], 1)
    benchmark.extra_info["peak MiB"] = round(int(done.stderr.split()[-1]) / 1024)
    print(f"\n{folder.name}: {benchmark.stats['median']:.2f} s, {benchmark.extra_info}")
