"""The matrix of a pairwise signal."""

from dataclasses import replace

import numpy as np

from skewscope.tui.render.peer_matrix import build_peer_matrix
from skewscope.tui.render.text import to_plain_text
from tests.tui.samples import (
    TOPOLOGY,
    empty,
    film,
)


def test_a_matrix_shows_each_pair_of_members():
    found = build_peer_matrix(film().snapshot(99), TOPOLOGY.groups[0], 0)
    assert (found.signal, found.unit, found.members) == ("wire.peer_bytes", "By", ("n0", "n1", "n2", "n3"))
    assert np.isnan(found.values.diagonal()).all()
    assert to_plain_text([found.pair_line(0, 1)]).startswith("n0 sees of n1: wire.peer_bytes 6.5 MB")
    assert not found.pair_line(1, 1)
    cells = found.values.copy()
    cells[0, 1] = 1e6
    odd = replace(found, values=cells)
    roles = {role for n in range(4) for _, role in odd.row_line(n, 10, 80, (3, 3))}
    assert "crit" in roles
    assert "crit" not in {role for n in range(4) for _, role in found.row_line(n, 10, 80, (3, 3))}


def test_without_series_between_members_a_matrix_is_unknown():
    assert build_peer_matrix(empty().snapshot(0), TOPOLOGY.groups[0], 3).signal == ""
    assert build_peer_matrix(empty().snapshot(0), None, 0).members == ()
    assert "?" in to_plain_text(
        [build_peer_matrix(empty().snapshot(0), TOPOLOGY.groups[0], 0).row_line(0, 10, 60, (0, 0))]
    )
