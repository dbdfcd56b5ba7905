"""The events of the installed catalogue, ready to be looked for in lines."""

from skewscope.kb.event_reading import KnownEvents
from skewscope.kb.loader import cache_by_catalogue, catalogue


@cache_by_catalogue
def known_events() -> KnownEvents:
    """Returns the events of the catalogue."""
    return KnownEvents.of(catalogue().events.values())
