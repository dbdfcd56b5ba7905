"""What a config says of a source that scrapes."""

from dataclasses import dataclass
from pathlib import Path

from skewscope.adapters.more_fields import file, number, yes
from skewscope.adapters.secret import Secret, secret
from skewscope.adapters.sources.base import scrubbed
from skewscope.adapters.sources.fetch import Wish
from skewscope.adapters.sources.targets import SCHEMES, Target, Where, address, group, labels
from skewscope.kb.fields import Fields
from skewscope.kb.yamlfile import Path_

OPTIONAL = (
    *("name", "targets", "files", "dns", "scheme", "path", "labels", "honor_labels", "period", "timeout"),
    *("most_mib", "bearer", "trust", "note"),
)
MOST_PLACES = 1000


@dataclass(frozen=True, slots=True)
class Settings:
    """One source that scrapes."""

    name: str
    where: Where
    wish: Wish
    period: float
    honor_labels: bool = False
    """Whether the labels of a page win over those of its target."""


def settings(fields: Fields, at: Path_, name: str) -> Settings:
    """The settings of a source; faults are noted."""
    fields.known(at, ("kind",), OPTIONAL)
    period = number(fields, (*at, "period"), 1.0, (0.1, 3600.0))
    folder = Path(fields.document.file).parent
    asked = wish(fields, at, period)
    where = _where(fields, at, folder)
    if not (where.targets or where.files or where.names):
        fields.fault(at, "nothing to scrape", "targets, files or dns")
    return Settings(name, where, asked, period, yes(fields, (*at, "honor_labels")))


def wish(fields: Fields, at: Path_, period: float) -> Wish:
    """How pages are asked for that come each period: the fields `timeout`, `most_mib`, `bearer` and `trust`."""
    timeout = number(fields, (*at, "timeout"), min(10.0, period), (0.01, period))
    most = int(number(fields, (*at, "most_mib"), 64.0, (0.001, 1024.0)) * (1 << 20))
    folder = Path(fields.document.file).parent
    return Wish(timeout, most, bearer(fields, (*at, "bearer"), folder), file(fields, (*at, "trust")))


def bearer(fields: Fields, at: Path_, folder: Path) -> Secret | None:
    """The token that is sent along; None for none."""
    if fields.at(at) is None:
        return None
    fields.known(at, (), ("token", "file"))
    return secret(fields, at, folder, least=1)


def _where(fields: Fields, at: Path_, folder: Path) -> Where:
    scheme = fields.text((*at, "scheme"), choice=SCHEMES) or "http"
    path = fields.text((*at, "path")) or "/metrics"
    if not path.startswith("/"):
        fields.fault((*at, "path"), f"{path!r}", "a path that begins with '/'")
    base = Where((), (), (), scheme, path, labels(fields, (*at, "labels")))
    targets = tuple(one for item in fields.items((*at, "targets")) for one in _targets(fields, item, base))
    files = tuple(str(folder / name) for name in fields.texts((*at, "files")))
    names = tuple(_name(fields, item) for item in fields.items((*at, "dns"), MOST_PLACES))
    return Where(targets, files, names, scheme, path, base.labels)


def _targets(fields: Fields, at: Path_, base: Where) -> list[Target]:
    """The targets of one item: `HOST:PORT`, an address, or a group with labels of its own."""
    if isinstance(fields.at(at), dict):
        return group(fields, at, base)
    text = fields.some_text(at)
    url = address(text, base) if text else ""
    if text and not url:
        fields.fault(at, f"{scrubbed(text)!r:.80}", "HOST:PORT, or an address that begins with http:// or https://")
    return [Target(url, base.labels)] if url else []


def _name(fields: Fields, at: Path_) -> tuple[str, int]:
    """A name and its port: `{name: NAME, port: N}` for addresses, `{name: NAME}` for SRV records."""
    fields.known(at, ("name",), ("port",))
    return fields.text((*at, "name")), fields.count((*at, "port"), 65535)
