"""The pages of artefacts show what `skewscope diagnose` answers."""

import pytest

from tests.support.artefact_incidents import INCIDENTS, answer, split_page


@pytest.mark.slow
@pytest.mark.parametrize("page", INCIDENTS)
def test_a_page_shows_the_answer_of_its_command(tmp_path, page):
    before, shown, _ = split_page(page)
    assert f"skewscope diagnose {INCIDENTS[page][0]}" in before
    assert answer(page, tmp_path) == shown
