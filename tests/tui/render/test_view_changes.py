"""Changes between snapshots as lines."""

from dataclasses import replace

import pytest

from skewscope.engine.model.incident import Explanation
from skewscope.tui.render.detail import DisplayNames
from skewscope.tui.render.view_changes import diff_snapshots
from tests.tui.samples import (
    CHILD,
    ENDED,
    INCIDENTS,
    ROOT,
    SOURCES,
    T0,
    catalogue,
    scene,
    snapshot,
)

WORDS = DisplayNames(catalogue(), INCIDENTS)


def told(before, after):
    return [c.to_line().split(" ", 1)[1] for c in diff_snapshots(before and scene(before), scene(after), WORDS)]


def test_a_line_for_each_change():
    first = told(None, snapshot(50, (ROOT, CHILD)))
    assert first[0] == (
        "opened: critical, Tensor-parallel straggler on rank n2, 94 % sure, time of a round 8.7→21.6 ms (2.5×), "
        "do: Compare the GPUs' clocks [tp-straggler@n2#1]"
    )
    assert first[2].startswith("explained: Pipeline bubble on group B, caused by Tensor-parallel straggler on rank n2")
    assert not told(snapshot(50, INCIDENTS), snapshot(51, INCIDENTS))


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"state": "resolved", "resolved_at": T0 + 60}, "resolved"),
        ({"severity": "info"}, "severity"),
        ({"name": "n3"}, "moved"),
        ({"explained_by": Explanation(CHILD.id, "caused")}, "explained"),
        ({"confidence": 0.2}, "less likely"),
    ],
)
def test_changes_are_named(change, what):
    lines = told(snapshot(50, (ROOT,)), snapshot(60, (replace(ROOT, **change),)))
    assert [each.split(":")[0] for each in lines] == [what]


def test_reopened_incidents_and_silent_sources_are_reported():
    assert told(snapshot(50, (ENDED,)), snapshot(51, (replace(ENDED, state="firing"),)))[0].startswith("reopened: ")
    before, after = snapshot(50), replace(snapshot(51), sources=(replace(SOURCES[1], reporting=3), *SOURCES[2:]))
    assert told(before, after) == ["silent: node telemetry: 3 of 8 nodes"]
