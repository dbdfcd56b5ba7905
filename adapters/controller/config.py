"""Parses `skewscope.yaml`, the controller's config. All problems are reported at once, each with line and hint.

Unknown fields are errors. `${NAME}` stands for an environment variable in secrets, and only there.
"""

import ssl
from collections.abc import Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Protocol

from skewscope.adapters import notify
from skewscope.adapters.actions.settings import ActionSettings, check_members, read_actions
from skewscope.adapters.config.fields import read_bool, read_number
from skewscope.adapters.config.secret import SECRET_HINT, Secret, read_secret
from skewscope.adapters.config.site_knowledge import SiteKnowledge, read_knowledge
from skewscope.adapters.controller.fleet_config import read_fleet
from skewscope.adapters.controller.kubernetes_lease import read_lease_object
from skewscope.adapters.controller.lease import DEFAULT_LEASE, LeaseConfig
from skewscope.adapters.controller.recorder import RecordingRetention
from skewscope.adapters.controller.silences import MAX_DAYS, MAX_SHARE, SilenceLimits
from skewscope.adapters.controller.store_file import is_database
from skewscope.adapters.controller.store_place import STORE_ENDS
from skewscope.adapters.fleet.fleet_settings import FleetSettings
from skewscope.adapters.formats.file_kinds import find_refusal, has_anything, has_file, has_folder
from skewscope.adapters.sources import source_kinds
from skewscope.adapters.sources.common.senders import check_reports_for
from skewscope.adapters.targets import target_kinds
from skewscope.adapters.targets.common.fingerprint import name_by_content
from skewscope.engine.model.topology import Topology
from skewscope.engine.model.topology_file import parse_topology
from skewscope.kb import yamlfile
from skewscope.kb.field_reader import FieldReader
from skewscope.kb.problems import InputError, Problem
from skewscope.kb.yamlfile import FieldPath, type_label

ROLES = ("none", "read", "approve", "admin")
"""Roles; each includes those before it."""
ANY_NODE = "*"
LEAST_AGENT_SECRET = 32
"""Least characters of the secret from which tokens are derived: who guesses it offline has all of them."""
DAY = 86400.0
GIB = 1 << 30
DEFAULT_HOST, DEFAULT_PORT = "127.0.0.1", 8470
MAX_COMPONENTS = 1000
"""Maximum number of sources, and of notifiers."""
DEFAULT_NAMES = {"sources": "source", "tell": "teller"}
MAX_TOKENS = 20_000
LOCAL_HOSTS = ("localhost",)


@dataclass(frozen=True, slots=True)
class ApiToken:
    """A token and the role that it gives."""

    name: str
    """Shown name; for an agent, the node that it may report for, `*` for any."""
    role: str
    """One of `ROLES`, or `agent`."""
    secret: Secret
    teams: tuple[str, ...] = ()
    """Teams for whose pools and groups it may approve actions; empty for all."""


@dataclass(frozen=True, slots=True)
class TlsConfig:
    """Files of a certificate; `clients` is the CA file for client certificates, '' where none are required."""

    certificate: str
    key: str
    clients: str = ""


@dataclass(frozen=True, slots=True)
class ListenConfig:
    """Address of the API."""

    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    unprotected: bool = False
    """Whether an address beyond loopback is allowed without tokens."""

    @property
    def is_loopback(self) -> bool:
        """Returns whether only the local machine can reach it."""
        return _is_loopback(self.host)


class SettingsReader(Protocol):
    """Parses the fields of one kind of source or notifier."""

    def read(self, fields: FieldReader, at: FieldPath, name: str) -> Hashable:
        """Parses the settings of one entry; problems are added to `fields`."""
        ...


@dataclass(frozen=True, slots=True)
class ComponentConfig:
    """One source or one notifier entry."""

    kind: str
    name: str
    settings: Hashable


@dataclass(frozen=True)
class ControllerConfig:
    """The parsed config."""

    path: Path
    topology_path: Path | None
    """None where no topology is declared."""
    topology: Topology
    """What is declared; while the controller runs, with what it has discovered."""
    sources: tuple[ComponentConfig, ...] = ()
    listen: ListenConfig = field(default_factory=ListenConfig)
    tls: TlsConfig | None = None
    tokens: tuple[ApiToken, ...] = ()
    """Tokens of persons, programs and agents."""
    anonymous: str = "read"
    """Role of a caller without token."""
    store: Path = Path("skewscope.db")
    store_retention: float = 0.0
    """Seconds that resolved incidents are kept; 0 for ever."""
    recording_path: Path | None = None
    retention: RecordingRetention = field(default_factory=RecordingRetention)
    grace: float = 0.25
    """Seconds after the end of a tick in which its samples may still arrive."""
    notifiers: tuple[ComponentConfig, ...] = ()
    """Notifier entries."""
    leader: LeaseConfig | None = None
    """Leader election between several controllers."""
    silences: SilenceLimits = field(default_factory=SilenceLimits)
    """Limits above which a silence needs an admin."""
    targets: tuple[ComponentConfig, ...] = ()
    """Systems that actions may change."""
    actions: ActionSettings = field(default_factory=ActionSettings)
    fleet: FleetSettings | None = None
    """Shards of a fleet beyond one process; None: this process judges all nodes."""
    agent_secret: Secret | None = None
    """From which the token of each node is derived; None: tokens are listed only."""
    speakers: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """By group: nodes whose agents may say something of the group and its members."""
    certificate_roles: Mapping[str, str] = field(default_factory=dict)
    """Roles of persons and programs by the name in their client certificate; every other name is that of a node."""
    knowledge: SiteKnowledge | None = None
    """What the site knows beside what is installed."""
    discovers: bool = False
    """Whether the labels of telemetry add to the topology, for as long as there is telemetry."""


OPTIONAL_FIELDS = (
    "topology",
    "discover",
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
    "targets",
    "actions",
    "fleet",
    "knowledge",
    "note",
)
"""Optional fields of the file; only the version is required."""


def read(path: Path) -> ControllerConfig:
    """Parses the config in a file.

    Raises:
        InputError: all problems of the config and the topology.
    """
    fields = FieldReader(yamlfile.read(path))
    folder = path.parent
    if not fields.check_keys((), ("version",), OPTIONAL_FIELDS):
        raise InputError(fields.problems)
    fields.check_version()
    _check_variables(fields)
    topology_path, cluster = _parse_topology(fields, folder)
    placed = (*_parse_tokens(fields, folder), *_parse_agent_tokens(fields, folder, cluster))
    _check_unique_secrets(fields, placed)
    tokens = tuple(token for _, token in placed)
    targets = _parse_targets(fields, cluster)
    listen = _parse_listen(fields)
    config = ControllerConfig(
        path,
        topology_path,
        cluster,
        _parse_components(fields, "sources", source_kinds(), ("agents",)),
        listen,
        _parse_tls(fields, folder),
        tokens,
        _parse_anonymous(fields, tokens),
        _parse_store(fields, folder),
        DAY * read_number(fields, ("store", "retention_days"), 0.0, (0.0, 36500.0)),
        _parse_record(fields, folder),
        RecordingRetention(
            3600.0 * read_number(fields, ("record", "retention_hours"), 24.0, (0.1, 1e6)),
            int(GIB * read_number(fields, ("record", "retention_gib"), 50.0, (0.01, 1e6))),
        ),
        _parse_grace(fields),
        _parse_components(fields, "tell", notify.kinds()),
        _parse_leader(fields, folder),
        _parse_limits(fields),
        targets,
        read_actions(fields, cluster, [one.name for one in targets]),
        read_fleet(fields, folder),
        _parse_agent_secret(fields, folder),
        _parse_speakers(fields, cluster),
        _parse_certificate_roles(fields, cluster),
        read_knowledge(fields, folder),
        discovers=_parse_discover(fields, topology_path),
    )
    if not (listen.is_loopback or listen.unprotected):
        _check_exposure(fields, config)
    check_reports_for(fields, cluster)
    _check_files(fields, config)
    _check_recipients(fields, config)
    if fields.problems:
        raise InputError(set(fields.problems))
    return config


def _check_recipients(fields: FieldReader, config: ControllerConfig) -> None:
    """Reports recipients of links that are no notifiers."""
    links = config.actions.links
    if links is None or fields.problems:
        return
    built = (notify.kinds()[one.kind].build(one.settings, config.topology) for one in config.notifiers)
    names = sorted(notifier.name for some in built for notifier in some)
    for name in links.recipients:
        if name not in names:
            hint = fields.suggest_name(name, names)
            fields.add_problem(("actions", "links", "recipients", name), f"{name!r:.80}", "a notifier of `tell`", hint)


def read_at_start(path: Path) -> ControllerConfig:
    """Parses the config in a file, and looks at the file of its store too: not for a process that has that open.

    Raises:
        InputError: all problems of the config and the topology; or that the store is another file.
    """
    config = read(path)
    if has_file(config.store) and not is_database(config.store):
        found, hint = f"{config.store.name!r}, which is no database", "Give the store a name of its own."
        raise InputError([Problem(str(path), 0, "store.path", found, "a database, or a new file", hint)])
    return config


def _check_exposure(fields: FieldReader, config: ControllerConfig) -> None:
    """Reports a controller that is reachable from elsewhere without authentication."""
    host = config.listen.host
    if all(token.role == "agent" for token in config.tokens):
        hint = "Add tokens under auth, or say `unprotected: true` under listen."
        fields.add_problem(("listen",), f"{host} without tokens", "loopback, or tokens that protect it", hint)
    elif config.anonymous != "none":
        found, hint = f"{config.anonymous!r} for all who reach {host}", "Say `unprotected: true` under listen."
        fields.add_problem(("auth", "anonymous"), found, "'none' where it can be reached from elsewhere", hint)


def _check_files(fields: FieldReader, config: ControllerConfig) -> None:
    """Reports files that would be written over others."""
    tls = config.tls or TlsConfig("", "", "")
    others = {Path(name).resolve(): "a file of TLS" for name in (tls.certificate, tls.key, tls.clients) if name}
    others |= {config.path.resolve(): "this file"}
    others |= {config.topology_path.resolve(): "the topology"} if config.topology_path else {}
    lock = ("leader", "lock"), config.leader.path if config.leader else None
    for at, path in ((("store", "path"), config.store), lock):
        if path is not None and (place := path.resolve()) in others:
            fields.add_problem(at, f"{path.name!r}, which is {others[place]}", "a file of its own")
        elif path is not None:
            others[place] = "the " + at[0]
            if path == config.store:
                others |= {place.with_name(place.name + end): "a file beside the store" for end in STORE_ENDS}


def _check_variables(fields: FieldReader) -> None:
    """Reports `${NAME}` outside of secrets."""
    for at, value in _iter_texts((), fields.document.data):
        if "${" in value and at[-1] not in ("token", "password"):
            fields.add_problem(
                at,
                f"{value!r:.60}",
                "text without a variable",
                f"Variables are replaced in secrets only. {SECRET_HINT}",
            )


def _iter_texts(at: FieldPath, value: Any) -> Iterator[tuple[FieldPath, str]]:
    if isinstance(value, str):
        yield at, value
    elif isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _iter_texts((*at, key), inner)


def _parse_topology(fields: FieldReader, folder: Path) -> tuple[Path | None, Topology]:
    name = fields.text(("topology",))
    if not name:
        return None, Topology()
    path = folder / name
    try:
        found, problems = parse_topology(yamlfile.read(path))
    except InputError as error:
        found, problems = Topology(), error.problems
    fields.problems += problems
    return path, Topology() if problems else found


def _parse_discover(fields: FieldReader, topology_path: Path | None) -> bool:
    """Returns whether the topology is discovered: by default where none is declared."""
    if fields.value_at(("discover",)) is None:
        if topology_path is None and fields.value_at(("fleet",)) is not None:
            fields.add_problem(("topology",), "no value", "a topology, out of which the shards of a fleet are cut")
        return topology_path is None
    found = read_bool(fields, ("discover",))
    if found and fields.value_at(("fleet",)) is not None:
        fields.add_problem(("discover",), "true beside fleet", "one of the two", "Shards are cut out of a topology.")
    if not found and topology_path is None:
        fields.add_problem(
            ("discover",), "false without a topology", "true, or a topology", "Name its file: `topology:`."
        )
    return found


def _parse_mapping(fields: FieldReader, at: FieldPath, required: tuple[str, ...], optional: tuple[str, ...]) -> str:
    """Checks the field names of an optional mapping; returns the text of its first required field."""
    if fields.value_at(at) is None:
        return ""
    fields.check_keys(at, required, optional)
    return fields.text((*at, required[0]))


def _parse_store(fields: FieldReader, folder: Path) -> Path:
    path = folder / (_parse_mapping(fields, ("store",), ("path",), ("retention_days",)) or "skewscope.db")
    if found := _find_no_file(path):
        fields.add_problem(("store", "path"), found, "a file in a folder that is there")
    return path


def _find_no_file(path: Path) -> str:
    """Returns why there can be no regular file at a path, in words; '' if there can be or is one."""
    if refusal := find_refusal(path):
        return f"{str(path)!r:.60}, which cannot be a name ({refusal})"
    if not has_folder(path.parent):
        return f"no folder {str(path.parent)!r}"
    if has_folder(path):
        return f"a folder, {str(path)!r}"
    return f"{str(path)!r}, which is no regular file" if has_anything(path) and not has_file(path) else ""


def _parse_record(fields: FieldReader, folder: Path) -> Path | None:
    name = _parse_mapping(fields, ("record",), ("path",), ("retention_hours", "retention_gib"))
    if name and (refusal := find_refusal(folder / name)):
        fields.add_problem(("record", "path"), f"{name!r:.60}, which cannot be a name ({refusal})", "a folder")
    elif name and has_anything(folder / name) and not has_folder(folder / name):
        fields.add_problem(("record", "path"), f"{name!r}, which is not a folder", "a folder")
    return folder / name if name else None


def _parse_leader(fields: FieldReader, folder: Path) -> LeaseConfig | None:
    if fields.value_at(("leader", "kubernetes")) is not None:
        return read_lease_object(fields)
    name = _parse_mapping(fields, ("leader",), ("lock",), ("lease", "kubernetes"))
    lease = read_number(fields, ("leader", "lease"), DEFAULT_LEASE, (1.0, 600.0))
    if name and (found := _find_no_file(folder / name)):
        hint = "All controllers need the same file, on storage that they share."
        fields.add_problem(("leader", "lock"), found, "a file in a folder", hint)
    return LeaseConfig(folder / name, lease) if name else None


def _parse_limits(fields: FieldReader) -> SilenceLimits:
    at = ("silences",)
    if fields.value_at(at) is not None:
        fields.check_keys(at, (), ("most_share", "most_days"))
    return SilenceLimits(
        read_number(fields, (*at, "most_share"), MAX_SHARE, (0.0, 1.0)),
        read_number(fields, (*at, "most_days"), MAX_DAYS, (0.01, 366.0)),
    )


def _parse_targets(fields: FieldReader, cluster: Topology) -> tuple[ComponentConfig, ...]:
    """Parses `targets` and checks their members against the topology."""
    found = _parse_components(fields, "targets", target_kinds())
    if cluster.nodes and not fields.problems:
        for at, one in zip(fields.item_paths(("targets",)), found, strict=True):
            check_members(fields, at, target_kinds()[one.kind].build(one.settings), cluster)
    return found


def _parse_grace(fields: FieldReader) -> float:
    if fields.value_at(("engine",)) is not None:
        fields.check_keys(("engine",), (), ("grace",))
    return read_number(fields, ("engine", "grace"), ControllerConfig.grace, (0.0, 5.0))


def _parse_listen(fields: FieldReader) -> ListenConfig:
    at = ("listen",)
    if fields.value_at(at) is None:
        return ListenConfig()
    fields.check_keys(at, (), ("host", "port", "unprotected"))
    host = fields.text((*at, "host")) or DEFAULT_HOST
    if host not in LOCAL_HOSTS and not _is_address(host):
        fields.add_problem(
            (*at, "host"), f"{host!r}", "an address to listen on, or localhost", "0.0.0.0 is every IPv4 one."
        )
    port = fields.value_at((*at, "port"))
    if port is not None and (isinstance(port, bool) or not isinstance(port, int) or not 0 <= port < 65536):
        fields.add_problem((*at, "port"), f"{type_label(port)} ({port!r:.40})", "a port from 0 to 65535")
        port = None
    return ListenConfig(host, DEFAULT_PORT if port is None else port, read_bool(fields, (*at, "unprotected")))


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _is_loopback(host: str) -> bool:
    return host in LOCAL_HOSTS or (_is_address(host) and ip_address(host).is_loopback)


def _parse_tls(fields: FieldReader, folder: Path) -> TlsConfig | None:
    at = ("tls",)
    if fields.value_at(at) is None:
        return None
    fields.check_keys(at, ("certificate", "key"), ("clients",))
    found = TlsConfig(*(_parse_file(fields, (*at, name), folder) for name in ("certificate", "key", "clients")))
    if found.certificate and found.key:
        with _check_usable(fields, (*at, "certificate"), "a certificate in PEM form, and its key, without a password"):
            # Without a callback OpenSSL would prompt on the terminal.
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(found.certificate, found.key, password=str)
    if found.clients:
        with _check_usable(fields, (*at, "clients"), "certificates of authorities in PEM form"):
            ssl.create_default_context(cafile=found.clients)
    return found


@contextmanager
def _check_usable(fields: FieldReader, at: FieldPath, expected: str) -> Iterator[None]:
    """Reports files that OpenSSL cannot use."""
    try:
        yield
    except OSError as error:
        why = getattr(error, "reason", "") or error.strerror or type(error).__name__
        fields.add_problem(at, f"files that cannot be used ({why.replace('_', ' ').lower()})", expected)


def _parse_file(fields: FieldReader, at: FieldPath, folder: Path) -> str:
    name = fields.text(at)
    if name and not has_file(folder / name):
        fields.add_problem(
            at,
            f"no file {name!r}",
            "a file in PEM form",
            "Paths are relative to the folder of this file.",
        )
        return ""
    return str(folder / name) if name else ""


def _check_unique_secrets(fields: FieldReader, placed: Iterable[tuple[FieldPath, ApiToken]]) -> None:
    """Reports secrets that are used twice: the two callers could not be distinguished."""
    first: dict[str, ApiToken] = {}
    for at, token in placed:
        other = first.setdefault(token.secret.text, token)
        if other is not token:
            who = f"the secret of {other.name!r}, whose role is {other.role!r}"
            fields.add_problem(at, who, "a secret of its own")


def _parse_tokens(fields: FieldReader, folder: Path) -> Iterator[tuple[FieldPath, ApiToken]]:
    if fields.value_at(("auth",)) is not None:
        fields.check_keys(("auth",), (), ("tokens", "certificates", "anonymous"))
    seen: set[str] = set()
    for at in fields.item_paths(("auth", "tokens"), MAX_TOKENS):
        if not fields.check_keys(at, ("name", "role"), ("token", "file", "teams")):
            continue
        name, role = fields.text((*at, "name")), fields.text((*at, "role"), choice=ROLES[1:])
        if name in seen:
            fields.add_problem((*at, "name"), f"{name!r} for the second time", "a name of its own")
        seen.add(name)
        if (found := read_secret(fields, at, folder)) is not None:
            yield at, ApiToken(name, role, found, fields.texts((*at, "teams")))


def _parse_certificate_roles(fields: FieldReader, cluster: Topology) -> Mapping[str, str]:
    """Returns the roles by the names in certificates; none of them is a node, whose agent has the same name."""
    found: dict[str, str] = {}
    for at in fields.item_paths(("auth", "certificates"), MAX_TOKENS):
        if not fields.check_keys(at, ("name", "role"), ()):
            continue
        name, role = fields.text((*at, "name")), fields.text((*at, "role"), choice=ROLES[1:])
        if name in found or name in cluster.node or name == ANY_NODE:
            reason = "for the second time" if name in found else "which names a node" if name != ANY_NODE else "for all"
            fields.add_problem((*at, "name"), f"{name!r}, {reason}", "a name of its own, in a certificate")
        found[name] = role
    if found and fields.value_at(("tls", "clients")) is None:
        fields.add_problem(("auth", "certificates"), "no tls.clients", "the CA of client certificates in tls.clients")
    return found


def _parse_agent_tokens(fields: FieldReader, folder: Path, cluster: Topology) -> Iterator[tuple[FieldPath, ApiToken]]:
    if fields.value_at(("agents",)) is not None:
        fields.check_keys(("agents",), (), ("tokens", "secret", "speakers"))
    for at in fields.item_paths(("agents", "tokens"), MAX_TOKENS):
        if not fields.check_keys(at, ("node",), ("token", "file")):
            continue
        node = fields.text((*at, "node"))
        if node and node != ANY_NODE and cluster.nodes and node not in cluster.node:
            hint = fields.suggest_name(node, cluster.node)
            fields.add_problem((*at, "node"), f"an unknown node {node!r}", "a node of the topology, or '*'", hint)
        if (found := read_secret(fields, at, folder)) is not None:
            yield at, ApiToken(node, "agent", found)


def _parse_agent_secret(fields: FieldReader, folder: Path) -> Secret | None:
    """Returns the secret from which the tokens of nodes are derived; None for none."""
    at: FieldPath = ("agents", "secret")
    if fields.value_at(at) is None:
        return None
    fields.check_keys(at, (), ("token", "file"))
    return read_secret(fields, at, folder, LEAST_AGENT_SECRET)


def _parse_speakers(fields: FieldReader, cluster: Topology) -> Mapping[str, frozenset[str]]:
    """Returns, by group, the nodes that may speak for it."""
    found: dict[str, frozenset[str]] = {}
    for at in fields.item_paths(("agents", "speakers"), MAX_TOKENS):
        if not fields.check_keys(at, ("group", "node"), ()):
            continue
        names = []
        for kind, known in (("group", cluster.group), ("node", cluster.node)):
            name = fields.text((*at, kind))
            if name and cluster.nodes and name not in known:
                hint = fields.suggest_name(name, known)
                fields.add_problem((*at, kind), f"an unknown {kind} {name!r}", f"a {kind} of the topology", hint)
            names.append(name)
        group, node = names
        found[group] = found.get(group, frozenset()) | {node}
    return found


def _parse_anonymous(fields: FieldReader, tokens: tuple[ApiToken, ...]) -> str:
    role = fields.text(("auth", "anonymous"), choice=ROLES)
    return role or ("none" if any(token.role != "agent" for token in tokens) else "read")


def _parse_components(
    fields: FieldReader, what: str, known: Mapping[str, SettingsReader], used: tuple[str, ...] = ()
) -> tuple[ComponentConfig, ...]:
    """Parses a list of entries whose fields depend on their kind."""
    found: dict[str, ComponentConfig] = {}
    paths: dict[str, str] = {}
    for at in fields.item_paths((what,), MAX_COMPONENTS):
        if not isinstance(fields.value_at(at), dict):
            fields.add_problem(at, type_label(fields.value_at(at)), "a mapping with kind and name")
            continue
        kind = fields.text((*at, "kind"), choice=known)
        name = fields.text((*at, "name")) or _default_name(what, at, fields.value_at(at), kind)
        if fields.value_at((*at, "kind")) is None:
            fields.add_problem((*at, "kind"), "no value", "the field 'kind'")
        if name in found or name in used:
            fields.add_problem((*at, "name"), f"{name!r} for the second time", "a name of its own")
        if kind:
            found[name] = ComponentConfig(kind, name, known[kind].read(fields, at, name))
            path = getattr(found[name].settings, "path", "")
            if path and path in paths:
                fields.add_problem(
                    (*at, "path"), f"{path!r}, which {paths[path]!r} has", "a path of its own", "Add a name."
                )
            paths.setdefault(path, name)
    return tuple(found.values())


def _default_name(what: str, at: FieldPath, entry: Mapping[str, Any], kind: str) -> str:
    """Returns the name of an entry without one. What is changed at a target outlives its place in the list."""
    return name_by_content(kind, entry) if what == "targets" else f"{DEFAULT_NAMES[what]} {at[-1]}"
