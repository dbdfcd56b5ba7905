"""Settings of sources that scrape."""

from dataclasses import dataclass
from pathlib import Path

from skewscope.adapters.config.fields import read_bool, read_number
from skewscope.adapters.sources.common.base import redact_message
from skewscope.adapters.sources.common.http_client import FetchOptions
from skewscope.adapters.sources.common.request_settings import REQUEST_FIELDS, parse_request_options
from skewscope.adapters.sources.common.senders import read_reports_for
from skewscope.adapters.sources.common.targets import (
    SCHEMES,
    ScrapeTarget,
    TargetDiscovery,
    parse_group,
    parse_labels,
    target_url,
)
from skewscope.kb.field_reader import FieldReader
from skewscope.kb.yamlfile import FieldPath

OPTIONAL = (
    *("name", "targets", "files", "dns", "scheme", "path", "labels", "honor_labels", "period", "timeout"),
    *("most_mib", "reports_for", "note", *REQUEST_FIELDS),
)
MAX_NAMES = 1000
USUAL = TargetDiscovery()


@dataclass(frozen=True, slots=True)
class ScrapeSettings:
    """Settings of one source that scrapes."""

    name: str
    discovery: TargetDiscovery
    fetch_options: FetchOptions
    period: float
    honor_labels: bool = False
    """Whether labels of a page take precedence over those of its target."""
    reports_for: tuple[str, ...] = ()
    """What its targets report for besides what their labels and addresses name."""


def parse_settings(
    fields: FieldReader, at: FieldPath, name: str, usual: TargetDiscovery = USUAL, usual_period: float = 1.0
) -> ScrapeSettings:
    """Parses the settings of a source, with the usual scheme, path and period; problems are added to `fields`."""
    fields.check_keys(at, ("kind",), OPTIONAL)
    period = read_number(fields, (*at, "period"), usual_period, (0.1, 3600.0))
    folder = Path(fields.document.file).parent
    queried = parse_fetch_options(fields, at, period)
    where = _parse_discovery(fields, at, folder, usual)
    if not (where.targets or where.files or where.names):
        fields.add_problem(at, "nothing to scrape", "targets, files or dns")
    honor, reports_for = read_bool(fields, (*at, "honor_labels")), read_reports_for(fields, (*at, "reports_for"))
    return ScrapeSettings(name, where, queried, period, honor, reports_for)


def parse_fetch_options(fields: FieldReader, at: FieldPath, period: float) -> FetchOptions:
    """Parses the fields `timeout` and `most_mib` of periodic requests, and those of all requests."""
    timeout = read_number(fields, (*at, "timeout"), min(10.0, period), (0.01, period))
    most = int(read_number(fields, (*at, "most_mib"), 64.0, (0.001, 1024.0)) * (1 << 20))
    return parse_request_options(fields, at, timeout, most)


def _parse_discovery(fields: FieldReader, at: FieldPath, folder: Path, usual: TargetDiscovery) -> TargetDiscovery:
    scheme = fields.text((*at, "scheme"), choice=SCHEMES) or usual.scheme
    path = fields.text((*at, "path")) or usual.path
    if not path.startswith("/"):
        fields.add_problem((*at, "path"), f"{path!r}", "a path that begins with '/'")
    base = TargetDiscovery((), (), (), scheme, path, parse_labels(fields, (*at, "labels")))
    targets = tuple(one for item in fields.item_paths((*at, "targets")) for one in _parse_targets(fields, item, base))
    files = tuple(str(folder / name) for name in fields.texts((*at, "files")))
    names = tuple(_parse_dns_name(fields, item) for item in fields.item_paths((*at, "dns"), MAX_NAMES))
    return TargetDiscovery(targets, files, names, scheme, path, base.labels)


def _parse_targets(fields: FieldReader, at: FieldPath, base: TargetDiscovery) -> list[ScrapeTarget]:
    """Parses one item: `HOST:PORT`, a URL, or a group with labels of its own."""
    if isinstance(fields.value_at(at), dict):
        return parse_group(fields, at, base)
    text = fields.required_text(at)
    url = target_url(text, base) if text else ""
    if text and not url:
        fields.add_problem(
            at, f"{redact_message(text)!r:.80}", "HOST:PORT, or an address that begins with http:// or https://"
        )
    return [ScrapeTarget(url, base.labels)] if url else []


def _parse_dns_name(fields: FieldReader, at: FieldPath) -> tuple[str, int]:
    """Parses a name and its port: `{name: NAME, port: N}` for addresses, `{name: NAME}` for SRV records."""
    fields.check_keys(at, ("name",), ("port",))
    return fields.text((*at, "name")), fields.count((*at, "port"), 65535)
