"""What the labels of one series say of who there is: the part of a series from which a topology is discovered.

Many series say the same: all metrics of a GPU have its labels. What differs only in labels that name nobody, such as
the bound of a histogram, is one sighting.
"""

from collections.abc import Mapping
from typing import NamedTuple

from skewscope.adapters.discovery.hosts import HOST_LABELS
from skewscope.adapters.discovery.inferred_groups import ENGINE_LABELS, GROUP_LABELS, POD_LABELS
from skewscope.adapters.discovery.observed_series import MAX_VALUE, ObservedSeries, kinds_of_words
from skewscope.adapters.mapping.entities import DEVICE_LABELS, GPU_ID_LABELS, GPU_LABELS
from skewscope.adapters.mapping.names import HELPER_METRICS, UP_METRIC

SEEN_LABELS = frozenset(
    (
        *(*HOST_LABELS, *GPU_LABELS, *GPU_ID_LABELS, *DEVICE_LABELS, *POD_LABELS, *ENGINE_LABELS, *GROUP_LABELS),
        *("GPU_I_ID", "port", "rank", "global_rank", "member", "nranks", "parallelism", "run"),
        *("namespace", "exported_namespace", "host_ip"),
    )
)
"""The labels that an inference reads."""


class Sighting(NamedTuple):
    """What some series have in common."""

    metric: str
    """A helper's name, or the first part of a name, which is that of its exporter."""
    labels: tuple[tuple[str, str], ...]
    """Sorted."""
    kinds: frozenset[str]
    """Kinds of entities that the series measure."""

    def as_series(self) -> ObservedSeries:
        """Returns it as a series of an inference.

        The address of a pod is not that of its host: the next pod there may be another host's.
        """
        labels = dict(self.labels)
        is_of_pod = (
            "pod" in labels and self.kinds and any(label in labels for label in HOST_LABELS if label != "instance")
        )
        return ObservedSeries(
            self.metric, {k: v for k, v in labels.items() if not is_of_pod or k != "instance"}, self.kinds
        )


def see_series(
    metric: str, own: Mapping[str, str], given: Mapping[str, str], words: frozenset[str]
) -> "Sighting | None":
    """Returns what a series says; None where it says nothing of who there is.

    Args:
        metric: its name.
        own: its own labels.
        given: labels of its target, which take precedence: an own label of the same name counts
            with `exported` before it, as a Prometheus server stores it.
        words: the catalogue's words for what the metric measures.
    """
    is_helper = metric in HELPER_METRICS or metric == UP_METRIC
    kinds = frozenset() if is_helper else kinds_of_words(words)
    if not (is_helper or kinds):
        return None
    every = {f"exported_{label}" if label in given else label: value for label, value in own.items()} | dict(given)
    # Other values cannot stand in a topology.
    usable = sorted(
        (k, v) for k, v in every.items() if k in SEEN_LABELS and v and v.isprintable() and len(v) <= MAX_VALUE
    )
    return Sighting(metric if is_helper else metric.partition(":")[0].partition("_")[0], tuple(usable), kinds)
