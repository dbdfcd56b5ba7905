"""Colours of the roles for each theme: legible, and what is critical stands out most. Pure.

A theme's own colours are kept as far as they are legible; they are blended towards black or white as far as needed.
"""

from collections.abc import Mapping, Sequence

from textual.color import Color

MIN_CONTRAST = 4.5
"""Of small text (WCAG 2.2, success criterion 1.4.3, level AA)."""
CALM_CONTRAST = 7.5
"""Contrast of the calmer roles at most, so that there is room above them for what is critical."""
CRITICAL_LEAD = 1.1
"""Contrast of what is critical over that of any other role."""
STEPS = 40
_CALM_ROLES = {"warn": "warning", "info": "primary", "ok": "success", "label": "secondary"}
"""Roles by the names that themes have for their colours."""
_BACKGROUNDS = ("background", "surface", "primary-muted")
"""What is under texts: the screen, dialogs and the footer, the cursor."""


def role_colours(variables: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables of the roles' colours; a terminal's own colours stay as they are."""
    found = {role: variables[f"text-{name}"] for role, name in {**_CALM_ROLES, "crit": "error"}.items()}
    if any(value.startswith("ansi") for value in found.values()):
        return {f"role-{role}": value for role, value in found.items()}
    under = [Color.parse(variables[name]) for name in _BACKGROUNDS]
    calm = {role: _calm(Color.parse(found[role]), under) for role in _CALM_ROLES}
    least = CRITICAL_LEAD * max(contrast(colour, under[0]) for colour in calm.values())
    critical = _raise(Color.parse(found["crit"]), under[:1], least)
    colours = {**calm, "crit": _raise(critical, under, MIN_CONTRAST)}
    return {f"role-{role}": colour.hex for role, colour in colours.items()}


def contrast(one: Color, other: Color) -> float:
    """Returns the contrast ratio of two colours (WCAG 2.2): 1 for equal ones, 21 for black and white."""
    bright, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


def _luminance(colour: Color) -> float:
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in colour.normalized]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _calm(colour: Color, under: Sequence[Color]) -> Color:
    """Returns a colour that is legible on all backgrounds, and no stronger than needed above CALM_CONTRAST."""
    softer = (colour.blend(under[0], step / STEPS) for step in range(STEPS))
    soft = next((one for one in softer if contrast(one, under[0]) <= CALM_CONTRAST), colour)
    return _raise(soft, under, MIN_CONTRAST)


def _raise(colour: Color, under: Sequence[Color], least: float) -> Color:
    """Returns a colour blended towards black or white until its contrast to all backgrounds suffices."""
    end = max((Color(0, 0, 0), Color(255, 255, 255)), key=lambda one: contrast(one, under[0]))
    stronger = (colour.blend(end, step / STEPS) for step in range(STEPS + 1))
    return next((one for one in stronger if all(contrast(one, each) >= least for each in under)), end)
