"""`skewscope.yaml`: what a controller is to do. Every fault is told at once, with its line and what to do.

Unknown fields are faults. `${NAME}` stands for an environment variable in secrets, and nowhere else.
"""

import ssl
from collections.abc import Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Protocol

from skewscope.adapters import telling
from skewscope.adapters.controller.leader import LEASE, Lock
from skewscope.adapters.controller.recorder import Retention
from skewscope.adapters.controller.silences import MOST_DAYS, MOST_SHARE, Limits
from skewscope.adapters.more_fields import number, yes
from skewscope.adapters.secret import HOW, Secret, secret
from skewscope.adapters.sources import kinds
from skewscope.engine.topology import Topology
from skewscope.engine.topology_file import topology
from skewscope.kb import yamlfile
from skewscope.kb.fields import Fields
from skewscope.kb.problems import InputError
from skewscope.kb.yamlfile import Path_, kind_of

ROLES = ("none", "read", "approve", "admin")
"""What somebody may do; each may do what those before it may."""
ANY = "*"
DAY = 86400.0
GIB = 1 << 30
HOST, PORT = "127.0.0.1", 8470
MOST_WANTED = 1000
"""Sources, and tellers."""
UNNAMED = {"sources": "source", "tell": "teller"}
MOST_TOKENS = 20_000
HOSTS = ("localhost",)


@dataclass(frozen=True, slots=True)
class Token:
    """A token, and who it makes of its bearer."""

    name: str
    """For people; for an agent, the node that it may speak for, `*` for any."""
    role: str
    """One of `ROLES`, or `agent`."""
    secret: Secret


@dataclass(frozen=True, slots=True)
class Tls:
    """Files of a certificate; `clients` are the authorities of those that may come, '' where none needs one."""

    certificate: str
    key: str
    clients: str = ""


@dataclass(frozen=True, slots=True)
class Listen:
    """Where the API is."""

    host: str = HOST
    port: int = PORT
    unprotected: bool = False
    """Whether it may be beyond loopback without tokens."""

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach it."""
        return _loopback(self.host)


class Kind(Protocol):
    """What knows the fields of one kind of source or teller."""

    def read(self, fields: Fields, at: Path_, name: str) -> Hashable:
        """The settings of one of them; faults are noted in `fields`."""
        ...


@dataclass(frozen=True, slots=True)
class Wanted:
    """One source, or one entry of those who are told."""

    kind: str
    name: str
    settings: Hashable


@dataclass(frozen=True)
class Config:
    """All of it."""

    path: Path
    topology_path: Path
    topology: Topology
    sources: tuple[Wanted, ...] = ()
    listen: Listen = field(default_factory=Listen)
    tls: Tls | None = None
    tokens: tuple[Token, ...] = ()
    """Of people, programs and agents."""
    anonymous: str = "read"
    """The role of who brings no token."""
    store: Path = Path("skewscope.db")
    store_retention: float = 0.0
    """Seconds that resolved incidents are kept; 0 for ever."""
    record: Path | None = None
    retention: Retention = field(default_factory=Retention)
    grace: float = 0.25
    """Seconds after a tick's end in which its samples may still come."""
    tell: tuple[Wanted, ...] = ()
    """Who is told what was found."""
    leader: Lock | None = None
    """By what several controllers agree on which of them tells."""
    silences: Limits = field(default_factory=Limits)
    """Beyond which a silence needs an admin."""


OPTIONAL = (
    "sources",
    "listen",
    "tls",
    "auth",
    "agents",
    "store",
    "record",
    "engine",
    "tell",
    "leader",
    "silences",
    "note",
)
"""Fields of the file; its version and topology must be there."""


def read(path: Path) -> Config:
    """The config in a file.

    Raises:
        InputError: everything that is wrong with it and with the topology.
    """
    fields = Fields(yamlfile.read(path))
    folder = path.parent
    if not fields.known((), ("version", "topology"), OPTIONAL):
        raise InputError(fields.problems)
    fields.version()
    _no_variables(fields)
    topology_path, cluster = _topology(fields, folder)
    placed = (*_tokens(fields, folder), *_agents(fields, folder, cluster))
    _own_secrets(fields, placed)
    tokens = tuple(token for _, token in placed)
    listen = _listen(fields)
    config = Config(
        path,
        topology_path,
        cluster,
        _wanted(fields, "sources", kinds(), ("agents",)),
        listen,
        _tls(fields, folder),
        tokens,
        _anonymous(fields, tokens),
        _store(fields, folder),
        DAY * number(fields, ("store", "retention_days"), 0.0, (0.0, 36500.0)),
        _record(fields, folder),
        Retention(
            3600.0 * number(fields, ("record", "retention_hours"), 24.0, (0.1, 1e6)),
            int(GIB * number(fields, ("record", "retention_gib"), 50.0, (0.01, 1e6))),
        ),
        _grace(fields),
        _wanted(fields, "tell", telling.kinds()),
        _leader(fields, folder),
        _limits(fields),
    )
    if not (listen.loopback or listen.unprotected):
        _exposed(fields, config)
    if fields.problems:
        raise InputError(set(fields.problems))
    return config


def _exposed(fields: Fields, config: Config) -> None:
    """Faults of a controller that can be reached from elsewhere by who need not say who he is."""
    host = config.listen.host
    if all(token.role == "agent" for token in config.tokens):
        hint = "Add tokens under auth, or say `unprotected: true` under listen."
        fields.fault(("listen",), f"{host} without tokens", "loopback, or tokens that protect it", hint)
    elif config.anonymous != "none":
        found, hint = f"{config.anonymous!r} for all who reach {host}", "Say `unprotected: true` under listen."
        fields.fault(("auth", "anonymous"), found, "'none' where it can be reached from elsewhere", hint)


def _no_variables(fields: Fields) -> None:
    """Faults of `${NAME}` where no secret stands."""
    for at, value in _texts((), fields.document.data):
        if "${" in value and at[-1] not in ("token", "password"):
            fields.fault(at, f"{value!r:.60}", "text without a variable", f"Only secrets are taken from there. {HOW}")


def _texts(at: Path_, value: Any) -> Iterator[tuple[Path_, str]]:
    if isinstance(value, str):
        yield at, value
    elif isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _texts((*at, key), inner)


def _topology(fields: Fields, folder: Path) -> tuple[Path, Topology]:
    name = fields.text(("topology",))
    path = folder / (name or "topology.yaml")
    if not name:
        return path, Topology()
    try:
        found, problems = topology(yamlfile.read(path))
    except InputError as error:
        found, problems = Topology(), error.problems
    fields.problems += problems
    return path, Topology() if problems else found


def _mapping(fields: Fields, at: Path_, required: tuple[str, ...], optional: tuple[str, ...]) -> str:
    """The text of the first required field of a mapping that may be missing, after checking its fields' names."""
    if fields.at(at) is None:
        return ""
    fields.known(at, required, optional)
    return fields.text((*at, required[0]))


def _store(fields: Fields, folder: Path) -> Path:
    path = folder / (_mapping(fields, ("store",), ("path",), ("retention_days",)) or "skewscope.db")
    if not path.parent.is_dir() or path.is_dir():
        found = f"no folder {str(path.parent)!r}" if not path.parent.is_dir() else f"a folder, {str(path)!r}"
        fields.fault(("store", "path"), found, "a file in a folder that is there")
    return path


def _record(fields: Fields, folder: Path) -> Path | None:
    name = _mapping(fields, ("record",), ("path",), ("retention_hours", "retention_gib"))
    if name and (folder / name).exists() and not (folder / name).is_dir():
        fields.fault(("record", "path"), f"{name!r}, which is no folder", "a folder")
    return folder / name if name else None


def _leader(fields: Fields, folder: Path) -> Lock | None:
    name = _mapping(fields, ("leader",), ("lock",), ("lease",))
    lease = number(fields, ("leader", "lease"), LEASE, (1.0, 600.0))
    if name and not (folder / name).parent.is_dir():
        hint = "All controllers need the same file, on storage that they share."
        fields.fault(("leader", "lock"), f"no folder {str((folder / name).parent)!r}", "a file in a folder", hint)
    return Lock(folder / name, lease) if name else None


def _limits(fields: Fields) -> Limits:
    at = ("silences",)
    if fields.at(at) is not None:
        fields.known(at, (), ("most_share", "most_days"))
    return Limits(
        number(fields, (*at, "most_share"), MOST_SHARE, (0.0, 1.0)),
        number(fields, (*at, "most_days"), MOST_DAYS, (0.01, 366.0)),
    )


def _grace(fields: Fields) -> float:
    if fields.at(("engine",)) is not None:
        fields.known(("engine",), (), ("grace",))
    return number(fields, ("engine", "grace"), Config.grace, (0.0, 5.0))


def _listen(fields: Fields) -> Listen:
    at = ("listen",)
    if fields.at(at) is None:
        return Listen()
    fields.known(at, (), ("host", "port", "unprotected"))
    host = fields.text((*at, "host")) or HOST
    if host not in HOSTS and not _address(host):
        fields.fault((*at, "host"), f"{host!r}", "an address to listen on, or localhost", "0.0.0.0 is every IPv4 one.")
    port = fields.at((*at, "port"))
    if port is not None and (isinstance(port, bool) or not isinstance(port, int) or not 0 <= port < 65536):
        fields.fault((*at, "port"), f"{kind_of(port)} ({port!r:.40})", "a port from 0 to 65535")
        port = None
    return Listen(host, PORT if port is None else port, yes(fields, (*at, "unprotected")))


def _address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _loopback(host: str) -> bool:
    return host in HOSTS or (_address(host) and ip_address(host).is_loopback)


def _tls(fields: Fields, folder: Path) -> Tls | None:
    at = ("tls",)
    if fields.at(at) is None:
        return None
    fields.known(at, ("certificate", "key"), ("clients",))
    found = Tls(*(_file(fields, (*at, name), folder) for name in ("certificate", "key", "clients")))
    if found.certificate and found.key:
        with _usable(fields, (*at, "certificate"), "a certificate in PEM form, and its key, without a password"):
            # Asked on a terminal else, where nobody is.
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(found.certificate, found.key, password=str)
    if found.clients:
        with _usable(fields, (*at, "clients"), "certificates of authorities in PEM form"):
            ssl.create_default_context(cafile=found.clients)
    return found


@contextmanager
def _usable(fields: Fields, at: Path_, expected: str) -> Iterator[None]:
    """Notes a file that OpenSSL can do nothing with."""
    try:
        yield
    except OSError as error:
        why = getattr(error, "reason", "") or error.strerror or type(error).__name__
        fields.fault(at, f"files that cannot be used ({why.replace('_', ' ').lower()})", expected)


def _file(fields: Fields, at: Path_, folder: Path) -> str:
    name = fields.text(at)
    if name and not (folder / name).is_file():
        fields.fault(at, f"no file {name!r}", "a file in PEM form", "Paths are told from the folder of this file.")
        return ""
    return str(folder / name) if name else ""


def _own_secrets(fields: Fields, placed: Iterable[tuple[Path_, Token]]) -> None:
    """Faults of secrets that stand for somebody else already: nobody could tell the two apart."""
    first: dict[str, Token] = {}
    for at, token in placed:
        other = first.setdefault(token.secret.text, token)
        if other is not token:
            who = f"the secret of {other.name!r}, whose role is {other.role!r}"
            fields.fault(at, who, "a secret of its own")


def _tokens(fields: Fields, folder: Path) -> Iterator[tuple[Path_, Token]]:
    if fields.at(("auth",)) is not None:
        fields.known(("auth",), (), ("tokens", "anonymous"))
    seen: set[str] = set()
    for at in fields.items(("auth", "tokens"), MOST_TOKENS):
        if not fields.known(at, ("name", "role"), ("token", "file")):
            continue
        name, role = fields.text((*at, "name")), fields.text((*at, "role"), choice=ROLES[1:])
        if name in seen:
            fields.fault((*at, "name"), f"{name!r} for the second time", "a name of its own")
        seen.add(name)
        if (found := secret(fields, at, folder)) is not None:
            yield at, Token(name, role, found)


def _agents(fields: Fields, folder: Path, cluster: Topology) -> Iterator[tuple[Path_, Token]]:
    if fields.at(("agents",)) is not None:
        fields.known(("agents",), (), ("tokens",))
    for at in fields.items(("agents", "tokens"), MOST_TOKENS):
        if not fields.known(at, ("node",), ("token", "file")):
            continue
        node = fields.text((*at, "node"))
        if node and node != ANY and cluster.nodes and node not in cluster.node:
            hint = fields.nearest(node, cluster.node)
            fields.fault((*at, "node"), f"an unknown node {node!r}", "a node of the topology, or '*'", hint)
        if (found := secret(fields, at, folder)) is not None:
            yield at, Token(node, "agent", found)


def _anonymous(fields: Fields, tokens: tuple[Token, ...]) -> str:
    role = fields.text(("auth", "anonymous"), choice=ROLES)
    return role or ("none" if any(token.role != "agent" for token in tokens) else "read")


def _wanted(fields: Fields, what: str, known: Mapping[str, Kind], taken: tuple[str, ...] = ()) -> tuple[Wanted, ...]:
    """The entries of a list whose fields depend on their kind."""
    found: dict[str, Wanted] = {}
    paths: dict[str, str] = {}
    for at in fields.items((what,), MOST_WANTED):
        if not isinstance(fields.at(at), dict):
            fields.fault(at, kind_of(fields.at(at)), "a mapping with kind and name")
            continue
        kind = fields.text((*at, "kind"), choice=known)
        name = fields.text((*at, "name")) or f"{UNNAMED[what]} {at[-1]}"
        if fields.at((*at, "kind")) is None:
            fields.fault((*at, "kind"), "no value", "the field 'kind'")
        if name in found or name in taken:
            fields.fault((*at, "name"), f"{name!r} for the second time", "a name of its own")
        if kind:
            found[name] = Wanted(kind, name, known[kind].read(fields, at, name))
            path = getattr(found[name].settings, "path", "")
            if path and path in paths:
                fields.fault((*at, "path"), f"{path!r}, which {paths[path]!r} has", "a path of its own", "Add a name.")
            paths.setdefault(path, name)
    return tuple(found.values())
