"""Sources of kind `doca-telemetry`: pages of a DOCA Telemetry Service, scraped like other pages.

Not verified against a real page: metric names come from NVIDIA's lists; labels are inferred from the page indexes in
its settings (`prometheus-fset-indexes=device_name,device_id,pod_name,^id$,@id`). It serves on port 9100 of the DPU, or
on 9189 where the Network Operator runs it on hosts.
"""

from skewscope.adapters.formats.openmetrics_grammar import Labels
from skewscope.adapters.sources import SourceContext
from skewscope.adapters.sources.common.scrape_settings import ScrapeSettings, parse_settings
from skewscope.adapters.sources.scrape import ScrapeSource
from skewscope.kb.field_reader import FieldReader
from skewscope.kb.yamlfile import FieldPath

IGNORED_LABELS = frozenset(("pod_name", "id", "@id", "_id", "tag", "source"))
"""Labels that identify the collector, not the measured entity."""


def read(fields: FieldReader, at: FieldPath, name: str) -> ScrapeSettings:
    """Parses the settings of one source; problems are added to `fields`."""
    return parse_settings(fields, at, name)


def build(settings: ScrapeSettings, context: SourceContext) -> ScrapeSource:
    """Creates the source."""
    return ScrapeSource(settings, context, normalise_labels)


def normalise_labels(labels: Labels) -> Labels:
    """Returns the labels under their common names: the device number becomes the port number."""
    own = {label: value for label, value in labels if label not in IGNORED_LABELS}
    number = own.pop("device_id", "")
    if number.isdecimal() and number.strip("0") and "port" not in own:
        own["port"] = number
    return tuple(own.items())
