"""Settings that notifiers share."""

from urllib.parse import urlsplit

from skewscope.adapters.config.fields import read_bool, read_number
from skewscope.adapters.notify.base import NotificationScope
from skewscope.adapters.sources.common.base import redact_message
from skewscope.adapters.sources.common.http_client import FetchOptions
from skewscope.adapters.sources.common.request_settings import REQUEST_FIELDS, parse_request_options
from skewscope.adapters.sources.common.targets import TargetDiscovery, target_url
from skewscope.engine.model.incident import SEVERITIES
from skewscope.kb.field_reader import FieldReader
from skewscope.kb.yamlfile import FieldPath

DEFAULT_SEVERITY = "warning"
"""The lowest severity that is sent: what is worth knowing but no fault, as a rollout, wakes nobody."""
SCOPE_FIELDS = ("name", "note", "least", "after")
"""Fields of every notifier."""
SYMPTOM_FIELDS = ("symptoms",)
"""Fields of notifiers that may send symptoms."""
HTTP_FIELDS = ("timeout", *REQUEST_FIELDS)
"""Fields of notifiers that use HTTP."""
MAX_ANSWER = 1 << 16
"""Maximum bytes of an answer."""
MAX_PLACES = 32


def read_scope(fields: FieldReader, at: FieldPath, after: float = 0.0) -> NotificationScope:
    """Parses the scope; `after` is the default of the field `after`."""
    least = fields.text((*at, "least"), choice=SEVERITIES) or DEFAULT_SEVERITY
    symptoms = fields.value_at((*at, "symptoms")) is None or read_bool(fields, (*at, "symptoms"))
    min_age = read_number(fields, (*at, "after"), after, (0.0, 3600.0))
    return NotificationScope(least, not read_bool(fields, (*at, "explained")), min_age, symptoms)


def read_fetch_options(fields: FieldReader, at: FieldPath) -> FetchOptions:
    """Parses timeout, credentials, CA file and proxy of requests."""
    timeout = read_number(fields, (*at, "timeout"), 5.0, (0.1, 60.0))
    return parse_request_options(fields, at, timeout, MAX_ANSWER)


def read_link(fields: FieldReader, at: FieldPath, name: str = "link") -> str:
    """Parses an address that readers of messages follow, as the base URL of the controller; '' without one."""
    link = fields.text((*at, name))
    if link and (urlsplit(link).scheme not in ("http", "https") or "@" in urlsplit(link).netloc):
        expected = "an address that begins with http:// or https://, without a password"
        fields.add_problem((*at, name), f"{redact_message(link)!r:.80}", expected)
    return link.rstrip("/")


def read_urls(fields: FieldReader, at: FieldPath, path: str) -> tuple[str, ...]:
    """Parses a list of URLs and appends `path`; HOST:PORT becomes an http URL."""
    found = []
    for item in fields.item_paths((*at, "urls"), MAX_PLACES):
        text = fields.required_text(item)
        if not text:
            continue
        if "@" in text:
            fields.add_problem(
                item,
                "an address that contains a password",
                "an address without a password",
                "Put the secret into the field `bearer`.",
            )
            continue
        url = target_url(text, TargetDiscovery((), (), (), "http", "", ()))
        if not url:
            fields.add_problem(
                item, f"{redact_message(text)!r:.80}", "HOST:PORT, or an address that begins with http:// or https://"
            )
            continue
        found.append(url if url.endswith(path) else url.rstrip("/") + path)
    return tuple(dict.fromkeys(found))
