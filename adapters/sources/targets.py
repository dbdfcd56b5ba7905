"""What is to be scraped: addresses that a config lists, that files list, or that names lead to."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from skewscope.adapters.sources.base import scrubbed
from skewscope.adapters.sources.srv import services
from skewscope.kb import yamlfile
from skewscope.kb.fields import Fields
from skewscope.kb.problems import InputError
from skewscope.kb.yamlfile import Path_

MOST_TARGETS = 20_000
SCHEMES = ("http", "https")
LOOKUP = 5.0
"""Seconds that a name may take to resolve."""

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, order=True)
class Target:
    """One page."""

    url: str
    labels: Labels = ()
    """That its series get."""


@dataclass(frozen=True, slots=True)
class Where:
    """Where targets come from; `path` and `scheme` complete addresses that are host and port only."""

    targets: tuple[Target, ...] = ()
    files: tuple[str, ...] = ()
    """Lists of targets in YAML or JSON, as Prometheus reads them."""
    names: tuple[tuple[str, int], ...] = ()
    """Names in DNS and the port of each address behind them; port 0 for SRV records, which tell it."""
    scheme: str = "http"
    path: str = "/metrics"
    labels: Labels = ()


async def found(where: Where) -> tuple[list[Target], list[str]]:
    """All targets, in order, and what is wrong in words."""
    targets, troubles = set(where.targets), []
    jobs: list[Awaitable[Iterable[Target]]] = [asyncio.to_thread(_listed, where, Path(file)) for file in where.files]
    jobs += [_resolved(where, name, port) for name, port in where.names]
    for some in await asyncio.gather(*jobs, return_exceptions=True):
        if isinstance(some, BaseException):
            troubles.append(str(some).partition("\n")[0])
        else:
            targets |= set(some)
    if len(targets) > MOST_TARGETS:
        troubles.append(f"{len(targets)} targets, of which {MOST_TARGETS} are scraped")
    return sorted(targets)[:MOST_TARGETS], troubles


def _listed(where: Where, path: Path) -> list[Target]:
    """The targets in a file.

    Raises:
        InputError: it is no list of targets.
    """
    fields = Fields(yamlfile.read(path))
    targets = [one for at in fields.items(()) for one in group(fields, at, where)]
    if fields.problems:
        raise InputError(fields.problems)
    return targets


def group(fields: Fields, at: Path_, where: Where) -> list[Target]:
    """The targets of one entry: `{targets: [HOST:PORT or URL], labels: {...}}`."""
    if not fields.known(at, ("targets",), ("labels",)):
        return []
    own = labels(fields, (*at, "labels"))
    texts = [(item, fields.some_text(item)) for item in fields.items((*at, "targets"), MOST_TARGETS)]
    made = [(item, text, address(text, where)) for item, text in texts if text]
    for item, text, url in made:
        if not url:
            fields.fault(
                item, f"{scrubbed(text)!r:.80}", "HOST:PORT, or an address that begins with http:// or https://"
            )
    return [Target(url, _merged(where.labels, own)) for _, _, url in made if url]


def labels(fields: Fields, at: Path_) -> Labels:
    """Labels as text, in order."""
    value = fields.at(at)
    if value is None:
        return ()
    if not isinstance(value, dict):
        fields.fault(at, "no mapping", "labels and their values")
        return ()
    return tuple(sorted((name, fields.some_text((*at, name))) for name in value))


def _merged(of_all: Labels, own: Labels) -> Labels:
    return tuple(sorted((dict(of_all) | dict(own)).items()))


def address(text: str, where: Where) -> str:
    """The address of a page; '' for what is none."""
    url = text if "://" in text else f"{where.scheme}://{text}{where.path}"
    try:
        parts = urlsplit(url)
        good = parts.scheme in SCHEMES and parts.hostname and "@" not in parts.netloc and parts.port != 0
    except ValueError:
        return ""
    return url if good and url.isascii() and url.isprintable() and " " not in url else ""


async def _resolved(where: Where, name: str, port: int) -> list[Target]:
    """The targets behind a name.

    Raises:
        OSError: there are none to be had.
    """
    look: Callable[[], Awaitable[Iterable[tuple[str, int]]]] = (
        (lambda: _addresses(name, port)) if port else (lambda: services(name))
    )
    try:
        async with asyncio.timeout(LOOKUP):
            places = await look()
    except (OSError, TimeoutError) as error:
        raise OSError(f"{name}: {getattr(error, 'strerror', None) or error or 'no answer'}") from None
    texts = [f"[{host}]:{at}" if ":" in host else f"{host}:{at}" for host, at in places]
    return [Target(url, where.labels) for text in texts if (url := address(text, where))]


async def _addresses(name: str, port: int) -> list[tuple[str, int]]:
    info = await asyncio.get_running_loop().getaddrinfo(name, port, type=socket.SOCK_STREAM)
    return sorted({(str(address[0]), port) for *_, address in info})


def as_mapping(target: Target) -> Mapping[str, str]:
    """The labels that a scrape gives to a target's series."""
    return {"instance": urlsplit(target.url).netloc, **dict(target.labels)}
