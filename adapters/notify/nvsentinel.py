"""Notifier for NVSentinel: sends health events to a platform connector, over gRPC on its socket.

Events are for the record only (`STORE_ONLY`, never fatal, no recommended action, quarantine and drain skipped): this
notifier does not decide on actions. The message is `health_event.proto` of NVSentinel's repository. gRPC is an extra of
this package (`pip install 'skewscope[nvsentinel]'`).
"""

import importlib
import importlib.util
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from skewscope.adapters.config.fields import read_number, read_path
from skewscope.adapters.config.secret import Secret, redact_secrets
from skewscope.adapters.notify import incident_text, protobuf
from skewscope.adapters.notify.base import (
    ACTED,
    OPENED,
    RESOLVED,
    ConfiguredNotifier,
    DeliveryError,
    Notification,
    NotificationScope,
)
from skewscope.adapters.notify.settings import SCOPE_FIELDS, read_scope
from skewscope.engine.model.topology import Topology
from skewscope.kb.field_reader import FieldReader
from skewscope.kb.yamlfile import FieldPath

METHOD = "/datamodels.PlatformConnector/HealthEventOccurredV1"
DEFAULT_SOCKET = "unix:///var/run/nvsentinel.sock"
TARGET_PATTERN = re.compile(r"unix:(//)?/[\x21-\x7e]+|[A-Za-z0-9._\[\]:-]+:[0-9]{1,5}")
VERSION = 1
AGENT_NAME = "skewscope"
STORE_ONLY = 2
"""The event is stored and exported, and nothing in the cluster changes. 0 is read as 1, which permits actions."""
NO_ACTION = 0
COMPONENT_CLASSES = {"gpu": "GPU", "port": "NIC", "link": "NIC"}
"""Component classes of NVSentinel by entity kind; any other kind is the node."""
MAX_NODES = 1000
"""Maximum number of events per incident."""
MAX_TOKEN = 16_384
PATH_FIELDS = ("token_file", "trust")


@dataclass(frozen=True, slots=True)
class NvSentinelSettings:
    """Settings of one NVSentinel entry."""

    name: str
    scope: NotificationScope
    target: str = DEFAULT_SOCKET
    timeout: float = 5.0
    token_file: str = ""
    """Read again for each call, since such tokens are renewed; '' for none."""
    ca_file: str = ""
    """CA file for TLS; '' for none, which is allowed for sockets and loopback only."""


def read(fields: FieldReader, at: FieldPath, name: str) -> NvSentinelSettings:
    """Parses the settings of one entry; problems are added to `fields`."""
    fields.check_keys(at, ("kind",), (*SCOPE_FIELDS, "target", "timeout", *PATH_FIELDS, "explained"))
    if importlib.util.find_spec("grpc") is None:
        fields.add_problem(
            (*at, "kind"),
            "the library 'grpc' is not installed",
            "an installed library",
            "pip install 'skewscope[nvsentinel]'",
        )
    target = fields.text((*at, "target")) or DEFAULT_SOCKET
    if not TARGET_PATTERN.fullmatch(target):
        fields.add_problem((*at, "target"), f"{target!r:.80}", f"{DEFAULT_SOCKET}, or HOST:PORT")
    token, trust = (read_path(fields, (*at, each)) for each in PATH_FIELDS)
    if token and not fields.value_at((*at, "trust")) and not target.startswith("unix:"):
        fields.add_problem((*at, "token_file"), "a token without TLS", "the field 'trust', or a socket")
    timeout = read_number(fields, (*at, "timeout"), 5.0, (0.1, 60.0))
    # The receiver may repair nodes: it gets diagnoses only.
    scope = replace(read_scope(fields, at), symptoms=False)
    return NvSentinelSettings(name, scope, target, timeout, token, trust)


def build(settings: NvSentinelSettings, topology: Topology) -> tuple["NvSentinelNotifier", ...]:
    """Creates the only notifier of the entry."""
    return (NvSentinelNotifier(settings, topology),)


@dataclass
class NvSentinelNotifier(ConfiguredNotifier):
    """Sends health events to one platform connector."""

    settings: NvSentinelSettings
    topology: Topology
    _channel: Any = field(default=None)

    @property
    def timeout(self) -> float:
        """Seconds that one call may take."""
        return self.settings.timeout + 2.0

    async def send(self, notification: Notification) -> None:
        """Sends one event per affected node; none for an incident without nodes, and none for an action.

        Raises:
            DeliveryError: the events were not accepted.
        """
        events = encode_health_events(notification, self.topology)
        if not events or notification.update.what == ACTED:
            return
        grpc: Any = importlib.import_module("grpc")
        token = self._read_token()
        try:
            call = self._open_channel(grpc).unary_unary(METHOD)
            await call(events, timeout=self.settings.timeout, metadata=_build_metadata(token))
        except grpc.aio.AioRpcError as error:
            refused = error.code() in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.UNIMPLEMENTED)
            text = redact_secrets(str(error.details()), token)
            raise DeliveryError(f"{error.code().name}: {text}", refused=refused) from None

    def _open_channel(self, grpc: Any) -> Any:
        if self._channel is None:
            target, trust = self.settings.target, self.settings.ca_file
            if trust:
                credentials = grpc.ssl_channel_credentials(Path(trust).read_bytes())
                self._channel = grpc.aio.secure_channel(target, credentials)
            else:
                self._channel = grpc.aio.insecure_channel(target)
        return self._channel

    def _read_token(self) -> Secret | None:
        if not self.settings.token_file:
            return None
        try:
            with Path(self.settings.token_file).open(encoding="ascii") as opened:
                return Secret(opened.read(MAX_TOKEN).strip())
        except (OSError, UnicodeDecodeError):
            raise DeliveryError("no readable token") from None


def _build_metadata(token: Secret | None) -> tuple[tuple[str, str], ...]:
    return (("authorization", f"Bearer {token.text}"),) if token else ()


def encode_health_events(notification: Notification, topology: Topology) -> bytes:
    """Returns the encoded message `HealthEvents`; empty if no node is affected."""
    nodes = sorted(incident_text.nodes_of(notification.update.incident, topology))[:MAX_NODES]
    events = (protobuf.encode_message(2, _encode_event(notification, node)) for node in nodes)
    return protobuf.encode_number(1, VERSION) + b"".join(events) if nodes else b""


def _encode_event(notification: Notification, node: str) -> bytes:
    """Returns the encoded message `HealthEvent`."""
    what, why, one = notification.update
    skip = protobuf.encode_number(2, 1)
    whole, part = divmod(round(notification.t * 1e9), 10**9)
    task = [("incident", one.id), ("severity", one.severity), ("confidence", f"{one.confidence:.3f}")]
    task += [("what", what), ("why", why), ("rule", one.rule)]
    return b"".join(
        (
            protobuf.encode_number(1, VERSION),
            protobuf.encode_text(2, AGENT_NAME),
            protobuf.encode_text(3, COMPONENT_CLASSES.get(one.kind, "Node")),
            protobuf.encode_text(4, one.condition),
            protobuf.encode_number(5, 0),  # isFatal
            protobuf.encode_number(6, what == RESOLVED),  # isHealthy
            protobuf.encode_text(
                7,
                f"{incident_text.title(one)}: {incident_text.evidence_text(one)}"
                if what == OPENED
                else incident_text.title(one),
            ),
            protobuf.encode_number(8, NO_ACTION),
            protobuf.encode_message(10, protobuf.encode_text(1, one.kind) + protobuf.encode_text(2, one.name)),
            protobuf.encode_mapping(11, [(name, text) for name, text in task if text]),
            protobuf.encode_message(12, protobuf.encode_number(1, whole) + protobuf.encode_number(2, part)),
            protobuf.encode_text(13, node),
            protobuf.encode_message(14, skip),
            protobuf.encode_message(15, skip),
            protobuf.encode_number(16, STORE_ONLY),
        )
    )
