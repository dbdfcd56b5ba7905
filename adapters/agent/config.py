"""What an agent is told in its `agent.yaml`: all faults at once, with their lines."""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from types import MappingProxyType
from urllib.parse import urlsplit

from skewscope.adapters.agent import named
from skewscope.adapters.channel import Controller
from skewscope.engine.topology_file import NODE_WITHOUT
from skewscope.kb.fields import Fields
from skewscope.kb.problems import InputError, Problem
from skewscope.kb.yamlfile import Path_, kind_of, read

DPU, HOST = "dpu", "host"
COLLECTORS: Mapping[str, float] = MappingProxyType(
    {"net": 1.0, "infiniband": 1.0, "ethtool": 1.0, "proc": 1.0, "hwmon": 10.0, "devlink": 10.0}
)
"""Collectors, and how often they read, s."""
LEAST_PERIOD, MOST_PERIOD = 1.0, 3600.0
MOST_DEVICES, MOST_TARGETS, MOST_CONTROLLERS = 64, 64, 8
MIB = 1 << 20
USUAL_BUDGET, USUAL_RING, USUAL_BUFFER = 0.25, MIB, 8 * MIB
TIME = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)\s*(ms|s|min)")
SECONDS = {"ms": 1e-3, "s": 1.0, "min": 60.0}
SIZE = re.compile(r"(\d{1,6})\s*(KiB|MiB)")
PERCENT = re.compile(r"(\d{1,3}(?:\.\d{1,2})?)\s*%")
LISTEN = re.compile(r"(\[[0-9a-fA-F:]+\]|[0-9.]+):(\d{1,5})")


@dataclass(frozen=True, slots=True)
class Target:
    """A page to relay."""

    url: str
    period: float
    timeout: float
    most_bytes: int
    labels: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Observe:
    """What of the packets is looked at, and for how much."""

    devices: tuple[str, ...] = ()
    mirrors: Mapping[str, str] = field(default_factory=dict)
    """Names of ports by devices that carry copies of their packets, and nothing to be counted."""
    budget: float = USUAL_BUDGET
    """Of one core."""
    ring: int = USUAL_RING
    """Bytes of memory for each device."""


@dataclass(frozen=True)
class Config:
    """One agent's configuration."""

    node: str
    runs_on: str = DPU
    root: str = "/"
    topology: str = ""
    """A file; '' to ask the controllers."""
    ports: Mapping[str, str] = field(default_factory=dict)
    """Names of ports by device."""
    periods: Mapping[str, float] = field(default_factory=lambda: COLLECTORS)
    """Seconds by collector; those that are off are missing."""
    observe: Observe = Observe()
    controllers: tuple[Controller, ...] = ()
    relay: tuple[Target, ...] = ()
    listen: tuple[str, int] | None = ("127.0.0.1", 9465)
    buffer: int = USUAL_BUFFER
    """Bytes of rows that are kept for each controller while it is away."""


def load(path: Path) -> Config:
    """The configuration in a file.

    Raises:
        InputError: it has faults; all of them are told.
    """
    config, problems = _read(path)
    if problems:
        raise InputError(problems)
    return config


def _read(path: Path, *, files: bool = False) -> tuple[Config, list[Problem]]:
    """The configuration in a file and its faults; also those of the `files` that it names, which may come later."""
    fields = Fields(read(path))
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
    )
    if fields.known((), ("version",), known):
        fields.version()
    config = Config(
        _node(fields),
        fields.text(("runs_on",), choice=(DPU, HOST)) or DPU,
        fields.text(("root",)) or "/",
        _beside(path, fields.text(("topology",))),
        _ports(fields, ("ports",)),
        _periods(fields),
        _observe(fields),
        tuple(_controller(fields, item, path) for item in fields.items(("controllers",), MOST_CONTROLLERS)),
        tuple(_target(fields, item) for item in fields.items(("relay",), MOST_TARGETS)),
        _listen(fields),
        _size(fields, ("buffer",), USUAL_BUFFER, (MIB, 1024 * MIB)),
    )
    _check_whole(fields, config)
    if files:
        named.note(fields, config)
    return config, sorted(set(fields.problems))


def _check_whole(fields: Fields, config: Config) -> None:
    for name, urls in (("controllers", [c.url for c in config.controllers]), ("relay", [t.url for t in config.relay])):
        for index, url in enumerate(urls):
            if url and url in urls[:index]:
                fields.fault((name, index, "url"), f"{url!r:.80} for the second time", "an address of its own")
    for index, device in enumerate(config.observe.devices):
        if config.ports and device not in config.ports:
            hint = fields.nearest(device, config.ports)
            fields.fault(("observe", "devices", index), f"{device!r}", "a device that `ports` gives a port", hint)
    if not config.controllers and config.listen is None:
        fields.fault((), "neither controllers nor listen", "somewhere for the numbers to go")
    if not config.ports and not config.topology and not config.controllers and not fields.problems:
        fields.fault((), "no ports", "ports, or a topology that names their devices")


def _node(fields: Fields) -> str:
    """The node's name: it stands there, or in the environment, as where one file serves many nodes."""
    name, env = fields.text(("node",), without=NODE_WITHOUT), fields.text(("node_env",))
    if bool(fields.at(("node",))) == bool(fields.at(("node_env",))):
        fields.fault((), "both or neither of 'node' and 'node_env'", "one of them")
    if not env:
        return name
    name = os.environ.get(env, "")
    if not name or not name.isprintable() or set(name) & set(NODE_WITHOUT):
        fields.fault(("node_env",), f"{name!r:.40} in {env}", f"a name without any of {NODE_WITHOUT!r}")
    return name


def _ports(fields: Fields, path: Path_) -> dict[str, str]:
    value = fields.at(path)
    if value is None:
        return {}
    if not isinstance(value, dict) or len(value) > MOST_DEVICES:
        fields.fault(path, kind_of(value), f"a mapping of at most {MOST_DEVICES} devices to names of ports")
        return {}
    return {device: fields.some_text((*path, device), without=">,") for device in value}


def _periods(fields: Fields) -> dict[str, float]:
    if fields.at(("collect",)) is None or not fields.known(("collect",), (), COLLECTORS):
        return dict(COLLECTORS)
    found = {}
    for name, usual in COLLECTORS.items():
        if fields.at(("collect", name)) in ("off", False):
            continue
        found[name] = _time(fields, ("collect", name), usual, (LEAST_PERIOD, MOST_PERIOD))
    return found


def _observe(fields: Fields) -> Observe:
    path = ("observe",)
    if fields.at(path) is None or not fields.known(path, (), ("devices", "mirrors", "budget", "ring")):
        return Observe()
    devices, mirrors = fields.texts((*path, "devices")), _ports(fields, (*path, "mirrors"))
    if not devices and not mirrors:
        fields.fault(path, "no devices and no mirrors", "what to observe")
    share = _matched(fields, (*path, "budget"), PERCENT, "a share of one core such as '25%'")
    budget = float(share[1]) / 100 if share else USUAL_BUDGET
    if not 0.01 <= budget <= 1:
        fields.fault((*path, "budget"), f"{budget:.0%}", "from 1% to 100%")
    return Observe(devices, mirrors, budget, _size(fields, (*path, "ring"), USUAL_RING, (MIB // 2, 256 * MIB)))


def _controller(fields: Fields, path: Path_, file: Path) -> Controller:
    fields.known(path, ("url",), ("token_env", "allow_plain_http", *named.FILES))
    url = _url(fields, (*path, "url"))
    found = {name: _beside(file, fields.text((*path, name))) for name in named.FILES}
    env = fields.text((*path, "token_env"))
    if found["token_file"] and env:
        fields.fault((*path, "token_env"), "a second place of the token", "token_file or token_env")
    if bool(found["certificate_file"]) != bool(found["key_file"]):
        fields.fault(path, "one of certificate_file and key_file", "both or neither")
    plain = url.startswith("http:") and not _loopback(url) and fields.at((*path, "allow_plain_http")) is not True
    if plain:
        hint = "Anyone on the way could read and forge it; allow_plain_http: true says that you know."
        fields.fault((*path, "url"), "http to another machine", "https", hint)
    return Controller(url, token_env=env, **found)


def _loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _target(fields: Fields, path: Path_) -> Target:
    fields.known(path, ("url",), ("period", "timeout", "most_bytes", "labels"))
    period = _time(fields, (*path, "period"), 10.0, (LEAST_PERIOD, MOST_PERIOD))
    return Target(
        _url(fields, (*path, "url")),
        period,
        _time(fields, (*path, "timeout"), min(period, 5.0), (0.05, 60.0)),
        _size(fields, (*path, "most_bytes"), 8 * MIB, (MIB // 1024, 256 * MIB)),
        tuple(_labels(fields, (*path, "labels"))),
    )


def _labels(fields: Fields, path: Path_) -> Iterator[tuple[str, str]]:
    value = fields.at(path)
    if value is None or not fields.known(path, (), value if isinstance(value, dict) else ()):
        return
    for name in sorted(value):
        yield name, fields.some_text((*path, name))


def _listen(fields: Fields) -> tuple[str, int] | None:
    value = fields.at(("listen",))
    if value in ("off", False):
        return None
    match = _matched(fields, ("listen",), LISTEN, "an address and a port such as 127.0.0.1:9465, or 'off'")
    if match is None:
        return Config.listen
    host = match[1].strip("[]")
    try:
        ip_address(host)
    except ValueError:
        fields.fault(("listen",), f"{value!r:.60}", "an IPv4 address, or an IPv6 address in brackets, and a port")
    if int(match[2]) > 65535:
        fields.fault(("listen",), f"port {match[2]}", "a port up to 65535")
    return host, int(match[2])


def _url(fields: Fields, path: Path_) -> str:
    text = fields.text(path)
    if not text:
        return ""
    try:
        parts = urlsplit(text)
        fine = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        parts, fine = None, False
    if not fine:
        fields.fault(path, f"{text!r:.80}", "an address such as https://controller:8443")
    elif parts and (parts.username or parts.password):
        fields.fault(path, "a password in an address", "none", "A token belongs in token_file.")
        return ""
    return text.rstrip("/") if fine else ""


def _time(fields: Fields, path: Path_, usual: float, span: tuple[float, float]) -> float:
    match = _matched(fields, path, TIME, "a time such as '5 s', '500 ms' or '2 min'")
    if match is None:
        return usual
    found = float(match[1]) * SECONDS[match[2]]
    if not span[0] <= found <= span[1]:
        fields.fault(path, match[0], f"from {span[0]:g} s to {span[1]:g} s")
    return found


def _size(fields: Fields, path: Path_, usual: int, span: tuple[int, int]) -> int:
    match = _matched(fields, path, SIZE, "a size such as '16 MiB'")
    if match is None:
        return usual
    found = int(match[1]) * (MIB if match[2] == "MiB" else 1024)
    if not span[0] <= found <= span[1]:
        fields.fault(path, match[0], f"from {span[0] // 1024} KiB to {span[1] // MIB} MiB")
    return found


def _matched(fields: Fields, path: Path_, form: re.Pattern[str], expected: str) -> re.Match[str] | None:
    """The match of a text; None where it is missing, or faulty and told."""
    value = fields.at(path)
    if value is None:
        return None
    match = form.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        fields.fault(path, f"{value!r:.40}", expected)
    return match


def _beside(file: Path, path: str) -> str:
    """A path that is relative to the file which names it."""
    return str(file.parent / path) if path else ""


def check(path: Path) -> tuple[Problem, ...]:
    """All that is wrong with a configuration and with the files that it names."""
    try:
        return tuple(_read(path, files=True)[1])
    except InputError as error:
        return error.problems
