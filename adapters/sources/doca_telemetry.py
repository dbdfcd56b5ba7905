"""Sources of kind `doca-telemetry`: pages of a DOCA Telemetry Service, scraped like any other.

No page of a real one was to be had: the names of its metrics are NVIDIA's own lists, but its labels are inferred from
what its settings call the indexes of a page (`prometheus-fset-indexes=device_name,device_id,pod_name,^id$,@id`). What
is read here is unverified until somebody has seen it. It serves at port 9100 of the DPU, or 9189 where the Network
Operator runs it on hosts.
"""

from skewscope.adapters.formats.openmetrics_grammar import Labels
from skewscope.adapters.sources import SourceContext
from skewscope.adapters.sources.scrape import ScrapeSource
from skewscope.adapters.sources.scrape_settings import ScrapeSettings, parse_settings
from skewscope.kb.field_reader import FieldReader
from skewscope.kb.yamlfile import FieldPath

IGNORED_LABELS = frozenset(("pod_name", "id", "@id", "_id", "tag", "source"))
"""Indexes that say who collected a number, not what it is of."""


def read(fields: FieldReader, at: FieldPath, name: str) -> ScrapeSettings:
    """The settings of one source; faults are noted."""
    return parse_settings(fields, at, name)


def build(wanted: ScrapeSettings, world: SourceContext) -> ScrapeSource:
    """The source."""
    return ScrapeSource(wanted, world, normalise_labels)


def normalise_labels(labels: Labels) -> Labels:
    """Labels of its pages as others call them: a device's number is the number of its port."""
    kept = {label: value for label, value in labels if label not in IGNORED_LABELS}
    number = kept.pop("device_id", "")
    if number.isdigit() and int(number) and "port" not in kept:
        kept["port"] = number
    return tuple(kept.items())
