"""Parses `agent.yaml`, the agent's configuration: all problems are reported at once, with their lines."""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from skewscope.adapters.agent import file_checks
from skewscope.adapters.agent.collectors import collector_kinds
from skewscope.adapters.agent.order_settings import parse_orders
from skewscope.adapters.agent.orders import OrdersConfig
from skewscope.adapters.runtime.channel import ControllerEndpoint
from skewscope.engine.model.topology_file import NODE_WITHOUT
from skewscope.kb.field_reader import FieldReader
from skewscope.kb.problems import InputError, Problem
from skewscope.kb.yamlfile import FieldPath, read, type_label

DPU, HOST = "dpu", "host"
MIN_PERIOD, MAX_PERIOD = 1.0, 3600.0
MAX_DEVICES, MAX_TARGETS, MAX_CONTROLLERS = 64, 64, 8
MIB = 1 << 20
DEFAULT_BUDGET, DEFAULT_RING, DEFAULT_BUFFER = 0.25, MIB, 8 * MIB
TIME = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)\s*(ms|s|min)")
SECONDS = {"ms": 1e-3, "s": 1.0, "min": 60.0}
SIZE = re.compile(r"(\d{1,6})\s*(KiB|MiB)")
PERCENT = re.compile(r"(\d{1,3}(?:\.\d{1,2})?)\s*%")
LISTEN = re.compile(r"(\[[0-9a-fA-F:]+\]|[0-9.]+):(\d{1,5})")


def default_periods() -> dict[str, float]:
    """Returns the seconds between two reads of each collector, by name."""
    return {name: kind.PERIOD for name, kind in collector_kinds().items()}


@dataclass(frozen=True, slots=True)
class RelayTarget:
    """A page to relay."""

    url: str
    period: float
    timeout: float
    max_bytes: int
    labels: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class ObserveConfig:
    """Settings of packet observation."""

    devices: tuple[str, ...] = ()
    mirrors: Mapping[str, str] = field(default_factory=dict)
    """Port names by devices that carry copies of their packets; such devices have no counters of their own."""
    budget: float = DEFAULT_BUDGET
    """Share of one core."""
    ring: int = DEFAULT_RING
    """Bytes of memory per device."""


@dataclass(frozen=True)
class AgentConfig:
    """The parsed configuration."""

    node: str
    runs_on: str = DPU
    root: str = "/"
    topology: str = ""
    """A file; '' to ask the controllers."""
    ports: Mapping[str, str] = field(default_factory=dict)
    """Port names by device."""
    periods: Mapping[str, float] = field(default_factory=default_periods)
    """Seconds by collector; disabled ones are absent."""
    observe: ObserveConfig = ObserveConfig()
    controllers: tuple[ControllerEndpoint, ...] = ()
    relay: tuple[RelayTarget, ...] = ()
    listen: tuple[str, int] | None = ("127.0.0.1", 9465)
    buffer: int = DEFAULT_BUFFER
    """Maximum bytes of rows queued per controller."""
    orders: OrdersConfig | None = None
    """What controllers may have changed on the switch; None for nothing."""


def load(path: Path) -> AgentConfig:
    """Loads the configuration in a file.

    Raises:
        InputError: all problems of the configuration.
    """
    config, problems = _parse(path)
    if problems:
        raise InputError(problems)
    return config


def _parse(path: Path, *, files: bool = False) -> tuple[AgentConfig, list[Problem]]:
    """Returns the configuration in a file and its problems; `files` also checks the files that it names."""
    fields = FieldReader(read(path))
    known = (
        "node",
        "node_env",
        "runs_on",
        "root",
        "topology",
        "ports",
        "collect",
        "observe",
        "controllers",
        "relay",
        "listen",
        "buffer",
        "orders",
    )
    if fields.check_keys((), ("version",), known):
        fields.check_version()
    config = AgentConfig(
        _parse_node(fields),
        fields.text(("runs_on",), choice=(DPU, HOST)) or DPU,
        fields.text(("root",)) or "/",
        _resolve_path(path, fields.text(("topology",))),
        _parse_ports(fields, ("ports",)),
        _parse_periods(fields),
        _parse_observe(fields),
        tuple(_parse_controller(fields, item, path) for item in fields.item_paths(("controllers",), MAX_CONTROLLERS)),
        tuple(_parse_target(fields, item) for item in fields.item_paths(("relay",), MAX_TARGETS)),
        _parse_listen(fields),
        _parse_size(fields, ("buffer",), DEFAULT_BUFFER, (MIB, 1024 * MIB)),
        parse_orders(fields, path),
    )
    _check_whole(fields, config)
    if files:
        file_checks.check_files(fields, config)
    return config, sorted(set(fields.problems))


def _check_whole(fields: FieldReader, config: AgentConfig) -> None:
    for name, urls in (("controllers", [c.url for c in config.controllers]), ("relay", [t.url for t in config.relay])):
        for index, url in enumerate(urls):
            if url and url in urls[:index]:
                fields.add_problem((name, index, "url"), f"{url!r:.80} for the second time", "an address of its own")
    for index, device in enumerate(config.observe.devices):
        if config.ports and device not in config.ports:
            hint = fields.suggest_name(device, config.ports)
            fields.add_problem(("observe", "devices", index), f"{device!r}", "a device that `ports` gives a port", hint)
    if not config.controllers and config.listen is None:
        fields.add_problem((), "neither controllers nor listen", "somewhere for the numbers to go")
    if config.orders is not None and not config.controllers:
        fields.add_problem(("orders",), "orders without controllers", "controllers that may give them")
    if not config.ports and not config.topology and not config.controllers and not fields.problems:
        fields.add_problem((), "no ports", "ports, or a topology that names their devices")


def _parse_node(fields: FieldReader) -> str:
    """Returns the node's name: from the file, or from the environment where one file serves many nodes."""
    name, env = fields.text(("node",), without=NODE_WITHOUT), fields.text(("node_env",))
    if bool(fields.value_at(("node",))) == bool(fields.value_at(("node_env",))):
        fields.add_problem((), "both or neither of 'node' and 'node_env'", "one of them")
    if not env:
        return name
    name = os.environ.get(env, "")
    if not name or not name.isprintable() or set(name) & set(NODE_WITHOUT):
        fields.add_problem(("node_env",), f"{name!r:.40} in {env}", f"a name without any of {NODE_WITHOUT!r}")
    return name


def _parse_ports(fields: FieldReader, path: FieldPath) -> dict[str, str]:
    value = fields.value_at(path)
    if value is None:
        return {}
    if not isinstance(value, dict) or len(value) > MAX_DEVICES:
        fields.add_problem(path, type_label(value), f"a mapping of at most {MAX_DEVICES} devices to names of ports")
        return {}
    return {device: fields.required_text((*path, device), without=">,") for device in value}


def _parse_periods(fields: FieldReader) -> dict[str, float]:
    usual_periods = default_periods()
    if fields.value_at(("collect",)) is None or not fields.check_keys(("collect",), (), usual_periods):
        return usual_periods
    found = {}
    for name, usual in usual_periods.items():
        if fields.value_at(("collect", name)) in ("off", False):
            continue
        found[name] = _parse_time(fields, ("collect", name), usual, (MIN_PERIOD, MAX_PERIOD))
    return found


def _parse_observe(fields: FieldReader) -> ObserveConfig:
    path = ("observe",)
    if fields.value_at(path) is None or not fields.check_keys(path, (), ("devices", "mirrors", "budget", "ring")):
        return ObserveConfig()
    devices, mirrors = fields.texts((*path, "devices")), _parse_ports(fields, (*path, "mirrors"))
    if not devices and not mirrors:
        fields.add_problem(path, "no devices and no mirrors", "what to observe")
    share = _match_text(fields, (*path, "budget"), PERCENT, "a share of one core such as '25%'")
    budget = float(share[1]) / 100 if share else DEFAULT_BUDGET
    if not 0.01 <= budget <= 1:
        fields.add_problem((*path, "budget"), f"{budget:.0%}", "from 1% to 100%")
    return ObserveConfig(
        devices, mirrors, budget, _parse_size(fields, (*path, "ring"), DEFAULT_RING, (MIB // 2, 256 * MIB))
    )


def _parse_controller(fields: FieldReader, path: FieldPath, file: Path) -> ControllerEndpoint:
    fields.check_keys(path, ("url",), ("token_env", "allow_plain_http", *file_checks.FILE_FIELDS))
    url = _parse_url(fields, (*path, "url"))
    found = {name: _resolve_path(file, fields.text((*path, name))) for name in file_checks.FILE_FIELDS}
    env = fields.text((*path, "token_env"))
    if found["token_file"] and env:
        fields.add_problem((*path, "token_env"), "a second place of the token", "token_file or token_env")
    if bool(found["certificate_file"]) != bool(found["key_file"]):
        fields.add_problem(path, "one of certificate_file and key_file", "both or neither")
    plain = (
        url.startswith("http:") and not _is_loopback(url) and fields.value_at((*path, "allow_plain_http")) is not True
    )
    if plain:
        hint = "It is neither encrypted nor authenticated; set allow_plain_http: true to accept that."
        fields.add_problem((*path, "url"), "http to another machine", "https", hint)
    return ControllerEndpoint(url, token_env=env, **found)


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _parse_target(fields: FieldReader, path: FieldPath) -> RelayTarget:
    fields.check_keys(path, ("url",), ("period", "timeout", "most_bytes", "labels"))
    period = _parse_time(fields, (*path, "period"), 10.0, (MIN_PERIOD, MAX_PERIOD))
    return RelayTarget(
        _parse_url(fields, (*path, "url")),
        period,
        _parse_time(fields, (*path, "timeout"), min(period, 5.0), (0.05, 60.0)),
        _parse_size(fields, (*path, "most_bytes"), 8 * MIB, (MIB // 1024, 256 * MIB)),
        tuple(_parse_labels(fields, (*path, "labels"))),
    )


def _parse_labels(fields: FieldReader, path: FieldPath) -> Iterator[tuple[str, str]]:
    value = fields.value_at(path)
    if value is None or not fields.check_keys(path, (), value if isinstance(value, dict) else ()):
        return
    for name in sorted(value):
        yield name, fields.required_text((*path, name))


def _parse_listen(fields: FieldReader) -> tuple[str, int] | None:
    value = fields.value_at(("listen",))
    if value in ("off", False):
        return None
    match = _match_text(fields, ("listen",), LISTEN, "an address and a port such as 127.0.0.1:9465, or 'off'")
    if match is None:
        return AgentConfig.listen
    host = match[1].strip("[]")
    try:
        ip_address(host)
    except ValueError:
        fields.add_problem(("listen",), f"{value!r:.60}", "an IPv4 address, or an IPv6 address in brackets, and a port")
    if int(match[2]) > 65535:
        fields.add_problem(("listen",), f"port {match[2]}", "a port up to 65535")
    return host, int(match[2])


def _parse_url(fields: FieldReader, path: FieldPath) -> str:
    text = fields.text(path)
    if not text:
        return ""
    try:
        parts = urlsplit(text)
        fine = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        parts, fine = None, False
    if not fine:
        fields.add_problem(path, f"{text!r:.80}", "an address such as https://controller:8443")
    elif parts and (parts.username or parts.password):
        fields.add_problem(path, "a password in an address", "none", "A token belongs in token_file.")
        return ""
    return text.rstrip("/") if fine else ""


def _parse_time(fields: FieldReader, path: FieldPath, usual: float, span: tuple[float, float]) -> float:
    match = _match_text(fields, path, TIME, "a time such as '5 s', '500 ms' or '2 min'")
    if match is None:
        return usual
    found = float(match[1]) * SECONDS[match[2]]
    if not span[0] <= found <= span[1]:
        fields.add_problem(path, match[0], f"from {span[0]:g} s to {span[1]:g} s")
    return found


def _parse_size(fields: FieldReader, path: FieldPath, usual: int, span: tuple[int, int]) -> int:
    match = _match_text(fields, path, SIZE, "a size such as '16 MiB'")
    if match is None:
        return usual
    found = int(match[1]) * (MIB if match[2] == "MiB" else 1024)
    if not span[0] <= found <= span[1]:
        fields.add_problem(path, match[0], f"from {span[0] // 1024} KiB to {span[1] // MIB} MiB")
    return found


def _match_text(fields: FieldReader, path: FieldPath, form: re.Pattern[str], expected: str) -> re.Match[str] | None:
    """Returns the match of a text; None if it is missing, or invalid and reported."""
    value = fields.value_at(path)
    if value is None:
        return None
    match = form.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        fields.add_problem(path, f"{value!r:.40}", expected)
    return match


def _resolve_path(file: Path, path: str) -> str:
    """Resolves a path relative to the file that names it."""
    return str(file.parent / path) if path else ""


def check(path: Path) -> tuple[Problem, ...]:
    """Returns all problems of a configuration and of the files that it names."""
    try:
        return tuple(_parse(path, files=True)[1])
    except InputError as error:
        return error.problems
