"""How a console screen is divided between its list and its pane. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ScreenLayout:
    """How a screen is divided; `kind` is full, bare (list only) or tiny."""

    kind: str
    side_by_side: bool = False
    """Whether the pane is to the right of the list instead of below it."""
    list_size: int = 0
    """Columns or rows of the list; 0 gives it the whole screen, without a pane."""


def small_layout(columns: int, lines: int) -> ScreenLayout | None:
    """Returns the layout of a screen too small for a pane, None if it is large enough."""
    if columns < 20 or lines < 3:
        return ScreenLayout("tiny")
    return ScreenLayout("bare") if columns < 60 or lines < 16 else None
