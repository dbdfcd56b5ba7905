"""Describes how a signal is judged by itself."""

from skewscope.kb.model import Judgement


def describe_least(judged: Judgement, unit: str, type_: str) -> str:
    """Returns the least change that matters: `10 %`, `0.002 s`, `10 % and 0.002 s`; '' where any does."""
    relative = f"{judged.least:.0%}".replace("%", " %") if judged.least else ""
    absolute = f"{judged.floor:g} {unit}{'/s' if type_ == 'counter' else ''}" if judged.floor else ""
    return " and ".join(filter(None, (relative, absolute)))
