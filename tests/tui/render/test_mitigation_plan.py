"""Plans of mitigations."""

from dataclasses import replace

import pytest

from skewscope.engine.model.incident import Advice
from skewscope.engine.model.topology import Pool
from skewscope.tui.render import mitigation_plan
from skewscope.tui.render.text import to_plain_text
from tests.tui.samples import (
    ROOT,
    TOPOLOGY,
)


@pytest.mark.parametrize(
    ("advice", "lines"),
    [
        ("quarantine-node", ["- tensor-parallel A: n0 n1 n2 n3", "+ tensor-parallel A: n0 n1 n3"]),
        ("unheard-of", ["no change of the topology"]),
    ],
)
def test_a_plan_is_a_diff_of_the_topology(advice, lines):
    shown = to_plain_text(mitigation_plan.diff_lines(ROOT, Advice(advice, "scheduler", ""), TOPOLOGY))
    assert all(line in shown for line in lines)


def test_less_for_a_replica_is_more_for_the_others():
    pool = replace(TOPOLOGY, pools=(Pool("p", ("A", "B")),))
    shown = to_plain_text(
        mitigation_plan.diff_lines(
            replace(ROOT, kind="replica", name="A"), Advice("deweight-replica", "router", ""), pool
        )
    )
    assert "- pool p: A 50 %, B 50 %" in shown
    assert "+ pool p: A 33 %, B 67 %" in shown
