"""Texts are legible in every theme, and what is critical stands out most."""

import pytest
from textual.color import Color

from skewscope.tui.console.app import Console, ConsoleOptions
from skewscope.tui.console.launcher import THEMES, resolve_theme
from skewscope.tui.console.role_colours import MIN_CONTRAST, contrast, role_colours
from skewscope.tui.render.detail import DisplayNames
from tests.tui.samples import catalogue, film

MEASURED = [name for name in THEMES if not name.startswith("ansi")]
ROLES = ("crit", "warn", "info", "ok", "label")


def variables(theme):
    app = Console(film(), DisplayNames(catalogue()), ConsoleOptions(theme=resolve_theme(theme)))
    return app.get_css_variables()


@pytest.mark.parametrize("theme", MEASURED)
def test_each_role_is_legible_on_each_background_and_critical_leads(theme):
    found = variables(theme)
    under = [Color.parse(found[name]) for name in ("background", "surface", "primary-muted")]
    roles = {role: Color.parse(found[f"role-{role}"]) for role in ROLES}
    for role, colour in roles.items():
        assert min(contrast(colour, each) for each in under) >= MIN_CONTRAST, role
    others = max(contrast(colour, under[0]) for role, colour in roles.items() if role != "crit")
    assert contrast(roles["crit"], under[0]) > others


def test_the_contrast_of_black_and_white_is_the_largest():
    assert contrast(Color(0, 0, 0), Color(255, 255, 255)) == pytest.approx(21.0)
    assert contrast(Color(9, 9, 9), Color(9, 9, 9)) == 1.0


def test_colours_of_the_terminal_stay():
    found = variables("ansi-dark")
    assert found["role-crit"] == "ansi_red"
    assert role_colours(found)["role-ok"] == found["text-success"]
