"""How screens of different sizes are divided."""

import pytest

from skewscope.tui.console.screen_layout import small_layout
from skewscope.tui.console.screens.base import ScreenModel


@pytest.mark.parametrize(
    ("size", "kind"),
    [((80, 24), "full"), ((59, 24), "bare"), ((80, 15), "bare"), ((19, 24), "tiny"), ((80, 2), "tiny")],
)
def test_small_screens_get_a_list_and_smaller_ones_a_word(size, kind):
    found = small_layout(*size)
    assert (found.kind if found else "full") == kind


@pytest.mark.parametrize("lines", range(16, 60))
def test_the_list_leaves_room_for_the_detail(lines):
    page = ScreenModel(None)
    page.count = 1000
    assert 4 <= page.layout(80, lines).list_size <= lines - 10
