"""Line plots over time as SVG, without a library."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

WIDTH, PANEL_HEIGHT, LEFT, RIGHT, TOP, GAP = 860, 180, 70, 20, 50, 56
COLOURS = ("#1b6ca8", "#c0392b", "#2e8b57", "#8e44ad", "#7f6000")
STYLE = "text{font:12px sans-serif;fill:#222}.t{font-weight:bold}.g{stroke:#ddd}.s{fill:#f3d9b1;opacity:.5}"

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Panel:
    """One plot; all panels share their time axis."""

    title: str
    lines: Mapping[str, Points]
    """Seconds and values, by the name of the line; infinite values are drawn at the top."""
    spans: Sequence[tuple[float, float, str]] = field(default=())
    """Start, end and label of spans in the background."""


def draw_plot(title: str, panels: Sequence[Panel], end: float) -> str:
    """Returns an SVG document with the panels above each other, from 0 to `end` seconds."""
    height = TOP + len(panels) * (PANEL_HEIGHT + GAP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}">',
        f'<style>{STYLE}</style><rect width="{WIDTH}" height="{height}" fill="#fff"/>',
        f'<text class="t" x="{LEFT}" y="22">{escape(title)}</text>',
    ]
    for number, panel in enumerate(panels):
        parts += _draw_panel(panel, TOP + 14 + number * (PANEL_HEIGHT + GAP), end)
    return "\n".join([*parts, "</svg>", ""])


def _draw_panel(panel: Panel, top: float, end: float) -> list[str]:
    values = [value for points in panel.lines.values() for _, value in points if math.isfinite(value)]
    highest = _round_up(max(values, default=1.0))
    inner = WIDTH - LEFT - RIGHT
    bottom = top + PANEL_HEIGHT

    def place(t: float, value: float) -> tuple[float, float]:
        share = min(value / highest, 1.0) if math.isfinite(value) else 1.0
        return LEFT + inner * t / end, bottom - PANEL_HEIGHT * share

    parts = [f'<text class="t" x="{LEFT}" y="{top - 8:.0f}">{escape(panel.title)}</text>']
    for start, stop, label in panel.spans:
        x, right = place(start, 0.0)[0], place(stop, 0.0)[0]
        parts.append(
            f'<rect class="s" x="{x:.1f}" y="{top:.1f}" width="{max(right - x, 1.0):.1f}" height="{PANEL_HEIGHT}"/>'
            f'<text x="{x + 4:.1f}" y="{top + 14:.1f}">{escape(label)}</text>'
        )
    for step in range(5):
        y = bottom - PANEL_HEIGHT * step / 4
        parts.append(f'<line class="g" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{highest * step / 4:g}</text>')
    for step in range(int(end // 20) + 1):
        x = place(20.0 * step, 0.0)[0]
        parts.append(f'<text x="{x:.1f}" y="{bottom + 16:.1f}" text-anchor="middle">{20 * step} s</text>')
    for number, (name, points) in enumerate(panel.lines.items()):
        colour = COLOURS[number % len(COLOURS)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(t, value) for t, value in points))
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.8"/>')
        x = WIDTH - RIGHT - 150 * (len(panel.lines) - number)
        parts.append(f'<text x="{x}" y="{top - 8:.0f}" style="fill:{colour}">— {escape(name)}</text>')
    return parts


def _round_up(value: float) -> float:
    """Returns the next of 1, 2, 4, 5 and 8 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(value)) if value > 0 else 1.0
    return next(step * power for step in (1.0, 2.0, 4.0, 5.0, 8.0, 10.0) if step * power >= value * 0.999)
