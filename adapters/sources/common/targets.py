"""Discovers scrape targets: listed in the config, in files, or by DNS."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from skewscope.adapters.runtime.blocking_calls import FILES
from skewscope.adapters.runtime.name_lookup import names
from skewscope.adapters.sources.common.base import redact_message
from skewscope.adapters.sources.common.dns_srv import lookup_services
from skewscope.kb import yamlfile
from skewscope.kb.field_reader import FieldReader
from skewscope.kb.problems import InputError
from skewscope.kb.yamlfile import FieldPath

MAX_TARGETS = 20_000
SCHEMES = ("http", "https")
LOOKUP_TIMEOUT = 5.0
"""Seconds for the resolution of a name."""

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, order=True)
class ScrapeTarget:
    """One page."""

    url: str
    labels: Labels = ()
    """Labels added to its series."""


@dataclass(frozen=True, slots=True)
class TargetDiscovery:
    """Origins of targets; `path` and `scheme` complete addresses of the form HOST:PORT."""

    targets: tuple[ScrapeTarget, ...] = ()
    files: tuple[str, ...] = ()
    """Target lists in YAML or JSON, in Prometheus's file format."""
    names: tuple[tuple[str, int], ...] = ()
    """DNS names, each with the port of its addresses; port 0 for SRV records, which include it."""
    scheme: str = "http"
    path: str = "/metrics"
    labels: Labels = ()


async def discover_targets(where: TargetDiscovery) -> tuple[list[ScrapeTarget], list[str]]:
    """Returns all targets in order, and the problems in words."""
    targets, troubles = set(where.targets), []
    jobs: list[Awaitable[Iterable[ScrapeTarget]]] = [
        FILES.run(_read_targets, where, Path(file)) for file in where.files
    ]
    jobs += [_resolve_targets(where, name, port) for name, port in where.names]
    for some in await asyncio.gather(*jobs, return_exceptions=True):
        if isinstance(some, BaseException):
            troubles.append(str(some).partition("\n")[0])
        else:
            targets |= set(some)
    if len(targets) > MAX_TARGETS:
        troubles.append(f"{len(targets)} targets, of which {MAX_TARGETS} are scraped")
    return sorted(targets)[:MAX_TARGETS], troubles


def _read_targets(where: TargetDiscovery, path: Path) -> list[ScrapeTarget]:
    """Reads the targets of a file.

    Raises:
        InputError: the file is not a list of targets.
    """
    fields = FieldReader(yamlfile.read(path))
    targets = [one for at in fields.item_paths(()) for one in parse_group(fields, at, where)]
    if fields.problems:
        raise InputError(fields.problems)
    return targets


def parse_group(fields: FieldReader, at: FieldPath, where: TargetDiscovery) -> list[ScrapeTarget]:
    """Parses the targets of one entry: `{targets: [HOST:PORT or URL], labels: {...}}`."""
    if not fields.check_keys(at, ("targets",), ("labels",)):
        return []
    own = parse_labels(fields, (*at, "labels"))
    texts = [(item, fields.required_text(item)) for item in fields.item_paths((*at, "targets"), MAX_TARGETS)]
    made = [(item, text, target_url(text, where)) for item, text in texts if text]
    for item, text, url in made:
        if not url:
            fields.add_problem(
                item, f"{redact_message(text)!r:.80}", "HOST:PORT, or an address that begins with http:// or https://"
            )
    return [ScrapeTarget(url, _merge_labels(where.labels, own)) for _, _, url in made if url]


def parse_labels(fields: FieldReader, at: FieldPath) -> Labels:
    """Parses labels as text, in order."""
    value = fields.value_at(at)
    if value is None:
        return ()
    if not isinstance(value, dict):
        fields.add_problem(at, "no mapping", "labels and their values")
        return ()
    return tuple(sorted((name, fields.required_text((*at, name))) for name in value))


def _merge_labels(of_all: Labels, own: Labels) -> Labels:
    return tuple(sorted((dict(of_all) | dict(own)).items()))


def target_url(text: str, where: TargetDiscovery) -> str:
    """Returns the URL of a page; '' if the text is invalid."""
    url = text if "://" in text else f"{where.scheme}://{text}{where.path}"
    try:
        parts = urlsplit(url)
        good = parts.scheme in SCHEMES and parts.hostname and "@" not in parts.netloc and parts.port != 0
    except ValueError:
        return ""
    return url if good and url.isascii() and url.isprintable() and " " not in url else ""


async def _resolve_targets(where: TargetDiscovery, name: str, port: int) -> list[ScrapeTarget]:
    """Returns the targets behind a DNS name.

    Raises:
        OSError: the name does not resolve.
    """
    look: Callable[[], Awaitable[Iterable[tuple[str, int]]]] = (
        (lambda: _lookup_addresses(name, port)) if port else (lambda: lookup_services(name))
    )
    try:
        async with asyncio.timeout(LOOKUP_TIMEOUT):
            places = await look()
    except (OSError, TimeoutError) as error:
        raise OSError(f"{name}: {getattr(error, 'strerror', None) or error or 'no answer'}") from None
    texts = [f"[{host}]:{at}" if ":" in host else f"{host}:{at}" for host, at in places]
    return [ScrapeTarget(url, where.labels) for text in texts if (url := target_url(text, where))]


async def _lookup_addresses(name: str, port: int) -> list[tuple[str, int]]:
    return sorted((address, port) for address in await names.find(name))


def scrape_labels(target: ScrapeTarget) -> Mapping[str, str]:
    """Returns the labels that a scrape adds to a target's series."""
    return {"instance": urlsplit(target.url).netloc, **dict(target.labels)}
