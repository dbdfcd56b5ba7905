"""Sparklines and charts."""

import numpy as np
import pytest

from skewscope.tui.render import charts
from skewscope.tui.render.charts import Curve
from skewscope.tui.render.text import line_width, to_plain_text


def test_a_sparkline_shows_gaps_and_constant_series():
    assert charts.sparkline(np.array([0.0, 7.0, np.nan, 3.5]), 4) == "▁█ ▅"
    assert charts.sparkline(np.array([5.0, 5.001]), 4) == "  ▁▁"
    assert charts.sparkline(np.array([np.nan]), 3) == "   "
    assert charts.sparkline(np.array([]), 2) == "  "


@pytest.mark.parametrize("values", [[], [np.nan, np.nan], [1.0], [0.0, 0.0], [1e-12, 1e300], [-5.0, np.nan, 5.0]])
@pytest.mark.parametrize("draw", [charts.braille_chart, charts.ascii_chart])
def test_charts_fit_whatever_is_drawn(values, draw):
    rows = draw([Curve(np.array(values), "dim"), Curve(np.array([1.0, 2.0]), "crit")], 20, 5)
    assert len(rows) == 5
    assert all(line_width(row) <= 20 for row in rows)


def test_a_rising_line_rises():
    rows = to_plain_text(charts.braille_chart([Curve(np.arange(40.0), "")], 20, 5)).splitlines()
    assert rows[0].strip()
    assert rows[-1].strip()
    assert rows[0].index(rows[0].strip()[0]) > rows[-1].index(rows[-1].strip()[0])
