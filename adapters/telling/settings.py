"""What configs say of tellers alike."""

from pathlib import Path

from skewscope.adapters.more_fields import file, number, yes
from skewscope.adapters.sources.base import scrubbed
from skewscope.adapters.sources.fetch import Wish
from skewscope.adapters.sources.settings import bearer
from skewscope.adapters.sources.targets import Where, address
from skewscope.adapters.telling.base import Scope
from skewscope.engine.incident import SEVERITIES
from skewscope.kb.fields import Fields
from skewscope.kb.yamlfile import Path_

SCOPE = ("name", "note", "least", "after")
"""Fields that every teller may have."""
HTTP = ("timeout", "bearer", "trust")
"""Those of tellers that post."""
MOST_ANSWER = 1 << 16
"""Bytes of an answer."""
MOST_PLACES = 32


def scope(fields: Fields, at: Path_, after: float = 0.0) -> Scope:
    """Which incidents are wanted; `after` stands where the config names none."""
    least = fields.text((*at, "least"), choice=SEVERITIES) or SEVERITIES[0]
    return Scope(least, not yes(fields, (*at, "explained")), number(fields, (*at, "after"), after, (0.0, 3600.0)))


def wish(fields: Fields, at: Path_) -> Wish:
    """How somebody is posted to."""
    folder = Path(fields.document.file).parent
    timeout = number(fields, (*at, "timeout"), 5.0, (0.1, 60.0))
    return Wish(timeout, MOST_ANSWER, bearer(fields, (*at, "bearer"), folder), file(fields, (*at, "trust")))


def urls(fields: Fields, at: Path_, path: str) -> tuple[str, ...]:
    """Addresses of a list, each ending in a path; a bare one is HOST:PORT."""
    found = []
    for item in fields.items((*at, "urls"), MOST_PLACES):
        text = fields.some_text(item)
        if not text:
            continue
        if "@" in text:
            fields.fault(item, "an address with a password", "one without", "A secret belongs under bearer.")
            continue
        url = address(text, Where((), (), (), "http", "", ()))
        if not url:
            fields.fault(
                item, f"{scrubbed(text)!r:.80}", "HOST:PORT, or an address that begins with http:// or https://"
            )
            continue
        found.append(url if url.endswith(path) else url.rstrip("/") + path)
    return tuple(dict.fromkeys(found))
