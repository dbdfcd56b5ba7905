"""NVSentinel: health events to a platform connector, over gRPC on its socket.

Every event is for the record only (`STORE_ONLY`, never fatal, no action recommended, quarantine and drain skipped):
what is to be done about a diagnosis is not decided by sending it there. The message is that of `health_event.proto` in
NVSentinel's repository. gRPC is an extra of this package (`pip install 'skewscope[nvsentinel]'`).
"""

import importlib
import importlib.util
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from skewscope.adapters.more_fields import file, number
from skewscope.adapters.secret import Secret, hidden
from skewscope.adapters.telling import protobuf, words
from skewscope.adapters.telling.base import OPENED, RESOLVED, Configured, Letter, Scope, TellError
from skewscope.adapters.telling.settings import SCOPE, scope
from skewscope.engine.topology import Topology
from skewscope.kb.fields import Fields
from skewscope.kb.yamlfile import Path_

METHOD = "/datamodels.PlatformConnector/HealthEventOccurredV1"
SOCKET = "unix:///var/run/nvsentinel.sock"
TARGET = re.compile(r"unix:(//)?/[\x21-\x7e]+|[A-Za-z0-9._\[\]:-]+:[0-9]{1,5}")
VERSION = 1
AGENT = "skewscope"
STORE_ONLY = 2
"""Kept and exported, and nothing in the cluster is changed. 0 is read as 1, which lets others act."""
NO_ACTION = 0
CLASSES = {"gpu": "GPU", "port": "NIC", "link": "NIC"}
"""Their names for what is hit; anything else is the node."""
MOST_NODES = 1000
"""Events for one incident."""
MOST_TOKEN = 16_384
PATH_FIELDS = ("token_file", "trust")


@dataclass(frozen=True, slots=True)
class Settings:
    """One entry of the config."""

    name: str
    scope: Scope
    target: str = SOCKET
    timeout: float = 5.0
    token_file: str = ""
    """Read anew for each call, for such tokens are renewed; '' where none is wanted."""
    trust: str = ""
    """File of the authorities for TLS; '' for none, which only sockets and loopback are used with."""


def read(fields: Fields, at: Path_, name: str) -> Settings:
    """The settings of one entry; faults are noted."""
    fields.known(at, ("kind",), (*SCOPE, "target", "timeout", *PATH_FIELDS, "explained"))
    if importlib.util.find_spec("grpc") is None:
        fields.fault((*at, "kind"), "no library 'grpc'", "an installed one", "pip install 'skewscope[nvsentinel]'")
    target = fields.text((*at, "target")) or SOCKET
    if not TARGET.fullmatch(target):
        fields.fault((*at, "target"), f"{target!r:.80}", f"{SOCKET}, or HOST:PORT")
    token, trust = (file(fields, (*at, each)) for each in PATH_FIELDS)
    if token and not fields.at((*at, "trust")) and not target.startswith("unix:"):
        fields.fault((*at, "token_file"), "a token without TLS", "the field 'trust', or a socket")
    timeout = number(fields, (*at, "timeout"), 5.0, (0.1, 60.0))
    return Settings(name, scope(fields, at), target, timeout, token, trust)


def build(settings: Settings, topology: Topology) -> tuple["NvSentinel", ...]:
    """Its only teller."""
    return (NvSentinel(settings, topology),)


@dataclass
class NvSentinel(Configured):
    """Sends health events to one platform connector."""

    settings: Settings
    topology: Topology
    _channel: Any = field(default=None)

    @property
    def patience(self) -> float:
        """Seconds that one call may take."""
        return self.settings.timeout + 2.0

    async def send(self, letter: Letter) -> None:
        """Sends the events of one letter, one for each node that is hit; none for what has no node.

        Raises:
            TellError: they were not taken.
        """
        events = health_events(letter, self.topology)
        if not events:
            return
        grpc: Any = importlib.import_module("grpc")
        token = self._token()
        try:
            call = self._opened(grpc).unary_unary(METHOD)
            await call(events, timeout=self.settings.timeout, metadata=_metadata(token))
        except grpc.aio.AioRpcError as error:
            refused = error.code() in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.UNIMPLEMENTED)
            said = hidden(str(error.details()), token)
            raise TellError(f"{error.code().name}: {said}", refused=refused) from None

    def _opened(self, grpc: Any) -> Any:
        if self._channel is None:
            target, trust = self.settings.target, self.settings.trust
            if trust:
                credentials = grpc.ssl_channel_credentials(Path(trust).read_bytes())
                self._channel = grpc.aio.secure_channel(target, credentials)
            else:
                self._channel = grpc.aio.insecure_channel(target)
        return self._channel

    def _token(self) -> Secret | None:
        if not self.settings.token_file:
            return None
        try:
            with Path(self.settings.token_file).open(encoding="ascii") as opened:
                return Secret(opened.read(MOST_TOKEN).strip())
        except (OSError, UnicodeDecodeError):
            raise TellError("no readable token") from None


def _metadata(token: Secret | None) -> tuple[tuple[str, str], ...]:
    return (("authorization", f"Bearer {token.text}"),) if token else ()


def health_events(letter: Letter, topology: Topology) -> bytes:
    """The message `HealthEvents`; empty where no node is hit."""
    nodes = sorted(words.nodes_of(letter.told.incident, topology))[:MOST_NODES]
    events = (protobuf.message(2, _event(letter, node)) for node in nodes)
    return protobuf.number(1, VERSION) + b"".join(events) if nodes else b""


def _event(letter: Letter, node: str) -> bytes:
    """The message `HealthEvent`."""
    what, why, one = letter.told
    skip = protobuf.number(2, 1)
    whole, part = divmod(round(letter.t * 1e9), 10**9)
    kept = [("incident", one.id), ("severity", one.severity), ("confidence", f"{one.confidence:.3f}")]
    kept += [("what", what), ("why", why), ("rule", one.rule)]
    return b"".join(
        (
            protobuf.number(1, VERSION),
            protobuf.text(2, AGENT),
            protobuf.text(3, CLASSES.get(one.kind, "Node")),
            protobuf.text(4, one.condition),
            protobuf.number(5, 0),  # is never fatal
            protobuf.number(6, what == RESOLVED),  # whether it is healthy again
            protobuf.text(7, f"{words.title(one)}: {words.because(one)}" if what == OPENED else words.title(one)),
            protobuf.number(8, NO_ACTION),
            protobuf.message(10, protobuf.text(1, one.kind) + protobuf.text(2, one.name)),
            protobuf.mapping(11, [(name, text) for name, text in kept if text]),
            protobuf.message(12, protobuf.number(1, whole) + protobuf.number(2, part)),
            protobuf.text(13, node),
            protobuf.message(14, skip),
            protobuf.message(15, skip),
            protobuf.number(16, STORE_ONLY),
        )
    )
