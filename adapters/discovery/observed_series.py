"""Series as an inference sees them: metric, labels, and the kinds of entities that the metric measures."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from skewscope.adapters.mapping.entities import ENTITY_KINDS
from skewscope.adapters.mapping.names import HELPER_METRICS, MetricResolver

MAX_VALUE = 1000
"""Characters of a label's value."""


class ObservedSeries(NamedTuple):
    """One series."""

    metric: str
    labels: Mapping[str, str]
    kinds: frozenset[str]
    """Kinds of entities; none for a metric that the catalogue does not know."""


def observe_series(
    found: Iterable[tuple[str, Mapping[str, str]]],
    names: MetricResolver,
    kinds: dict[str, frozenset[str]] | None = None,
) -> Iterator[ObservedSeries]:
    """Yields the series whose metrics are known, with the labels that a mapping gives them.

    Args:
        found: metrics with their labels.
        names: maps metrics.
        kinds: the kinds of entities of each metric that was met before; filled, for the next call.
    """
    kinds_of = {} if kinds is None else kinds
    for metric, labels in found:
        translated = names.translate(metric, labels)
        known, own = translated.metric, translated.labels
        if known not in kinds_of:
            # What another exporter says of engines does not show where one is.
            words = (origin.entity_word for origin in names.origins(known) if not origin.is_from_outside)
            kinds_of[known] = kinds_of_words(words)
        if kinds_of[known] or known in HELPER_METRICS:
            # Other values cannot stand in a topology.
            usable = {label: value for label, value in own.items() if value.isprintable() and len(value) <= MAX_VALUE}
            yield ObservedSeries(known, usable, kinds_of[known])


def kinds_of_words(words: Iterable[str]) -> frozenset[str]:
    """Returns the kinds of entities that the catalogue's words for what is measured stand for."""
    return frozenset(ENTITY_KINDS[word] for word in words if word in ENTITY_KINDS)
