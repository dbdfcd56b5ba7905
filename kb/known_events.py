"""The events of the installed catalogue, ready to be looked for in lines."""

from functools import cache

from skewscope.kb.event_reading import KnownEvents
from skewscope.kb.loader import catalogue


@cache
def known_events() -> KnownEvents:
    """Returns the events of the catalogue."""
    return KnownEvents.of(catalogue().events.values())
