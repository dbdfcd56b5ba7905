"""An automatic change needs two witnesses, or a node that speaks of itself."""

from dataclasses import replace

import pytest

from skewscope.engine.actions.witnesses import PROBE, find_doubt
from tests.support.acting_world import SimulatedFault, build_incident

DIAGNOSIS = build_incident(SimulatedFault("r0", 0.0, 600.0, 0.3), 60.0)


@pytest.mark.parametrize(
    ("kind", "name", "witnesses", "extra"),
    [
        ("rank", "n12", ("n9", "n12"), ()),
        ("replica", "r0", ("n0",), (PROBE,)),
        ("replica", "r0", ("n0", "n1"), ()),
        ("node", "n9", ("n9",), ()),
        ("gpu", "n9/gpu3", ("n9",), ()),
        ("port", "n9/p1", ("n9",), ()),
    ],
)
def test_enough(kind, name, witnesses, extra):
    assert find_doubt(replace(DIAGNOSIS, kind=kind, name=name, witnesses=witnesses), extra) == ""


@pytest.mark.parametrize(
    ("kind", "name", "witnesses", "extra"),
    [
        ("rank", "n12", ("n9",), ()),
        ("rank", "n12", ("n12",), ()),
        ("replica", "r0", ("n0",), ("n0",)),
        ("replica", "r0", (), (PROBE,)),
        ("node", "n12", ("n9",), ()),
        ("port", "n12/p1", ("source pages",), ()),
        ("node", "n12", (), ()),
    ],
)
def test_too_few(kind, name, witnesses, extra):
    assert find_doubt(replace(DIAGNOSIS, kind=kind, name=name, witnesses=witnesses), extra)
