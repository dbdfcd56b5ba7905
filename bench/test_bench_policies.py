"""Measures a million changes of facts in both matchers, with the built-in policies: same conclusions, constant memory.

`pytest bench/test_bench_policies.py -s` prints changes a second and the memory of the library's process at the
start, in the middle and at the end. `SKEWSCOPE_CHANGES` sets another number of changes.
"""

import os
import resource
import sys
import time
from pathlib import Path
from random import Random

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from skewscope.adapters.runtime.durable import DurableMatcher
from skewscope.engine.advice.advice import Fact, ReferenceMatcher, build_fact
from skewscope.engine.advice.policy import compile_policies
from skewscope.engine.model.incident import SEVERITIES
from skewscope.rules.policy import load
from tests.support.policies import diagnosis, topology

CHANGES = int(os.environ.get("SKEWSCOPE_CHANGES", "1000000"))
LOOK_EVERY = 1000
PATIENCE_S = 60.0
"""A worker that is slow on a busy machine is not what is looked for here."""
ENTITIES = 40
TRIED = ("spread-flows", "chunk-prefill", "balance-by-work", "quarantine-node")


def change(random: Random, topics: list[str]) -> tuple[Fact, bool]:
    """A fact, and whether it is removed."""
    entity = f"rank A:n{random.randrange(ENTITIES)}"
    sure = random.choice([0.3, 0.5, 0.6, 0.7, 0.8, 0.9])
    what = random.choice(
        [
            diagnosis(random.choice(topics), entity, random.choice(SEVERITIES), sure),
            topology(entity, random.choice([1, 4])),
            build_fact("maintenance", entity),
            build_fact("tried", entity, random.choice(TRIED)),
        ]
    )
    return what, random.random() < 0.45


def resident(pid: int) -> float:
    """Returns the memory of a process in MiB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")
def test_soak():
    pytest.importorskip("durable.lang")
    made, random = compile_policies(load()[0]), Random(11)
    topics = sorted({kind.partition(":")[2] for kind in made.by_kind if kind.startswith("diagnosis:")})
    reference, one = ReferenceMatcher(made), DurableMatcher(made, deadline_s=PATIENCE_S)
    memory, begun = [], time.perf_counter()
    try:
        for step in range(CHANGES):
            what, gone = change(random, topics)
            for matcher in (reference, one):
                matcher.retract(what.kind, what.entity) if gone else matcher.assert_fact(what)
            if step % LOOK_EVERY == 0:
                assert one.conclusions() == reference.conclusions()
            if step in {CHANGES // 10, CHANGES // 2, CHANGES - 1}:
                memory.append(resident(one.pid or 0))
        assert one.conclusions() == reference.conclusions()
        assert (one.restarts, one.fallback_reason) == (0, "")
    finally:
        one.close()
    pace = CHANGES / (time.perf_counter() - begun)
    told = ", ".join(f"{size:.0f}" for size in memory)
    print(f"\n{CHANGES} changes, {pace:.0f} a second through both; MiB at a tenth, half and the end: {told}")
    assert memory[-1] < 1.2 * memory[0] + 5
