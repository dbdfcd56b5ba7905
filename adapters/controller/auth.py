"""Access control: bearer tokens and client certificates, three roles, and agents limited to their node."""

import hashlib
import hmac
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import ip_address

from skewscope.adapters.config import agent_tokens
from skewscope.adapters.config.secret import MAX_LENGTH
from skewscope.adapters.controller.config import ANY_NODE, ROLES, ApiToken, ControllerConfig
from skewscope.engine.model.topology import Topology

AGENT = "agent"
ANONYMOUS = "anonymous"
"""Name of a caller without a token."""


class DeniedError(Exception):
    """Access denied; `known` is whether the caller was authenticated."""

    def __init__(self, why: str, *, known: bool) -> None:
        self.known = known
        super().__init__(why)


@dataclass(frozen=True, slots=True)
class Caller:
    """An authenticated caller."""

    name: str
    role: str
    """One of `config.ROLES`, or `agent`."""
    node: str = ""
    """The node that an agent may report for, `*` for any."""
    teams: tuple[str, ...] = ()
    """Teams for which it may approve actions; empty for all."""

    def has_role(self, role: str) -> bool:
        """Returns whether it has at least this role."""
        return self.role in ROLES and ROLES.index(self.role) >= ROLES.index(role)


class AccessControl:
    """Checks the tokens of a config."""

    def __init__(self, config: ControllerConfig, find_topology: Callable[[], Topology] | None = None) -> None:
        """Constructs it.

        Args:
            config: names the tokens.
            find_topology: returns the present topology; None for that of the config.
        """
        self._config = config
        self._find_topology = find_topology or (lambda: config.topology)
        # Found by a keyed digest: the duration of a look-up reveals nothing about the tokens.
        self._key = secrets.token_bytes(32)
        self._tokens = {self._digest(token.secret.text): token for token in config.tokens}
        agents = config.agent_secret is not None or any(token.role == AGENT for token in config.tokens)
        self._loopback = config.listen.is_loopback
        protected = not self._loopback and not config.listen.unprotected
        self._open_to_agents = not agents and not protected and config.anonymous != "none"

    def _digest(self, text: str) -> bytes:
        return hmac.digest(self._key, text.encode("utf-8", "surrogateescape"), hashlib.sha256)

    def authenticate(self, authorization: str, certificate: str = "") -> Caller:
        """Returns the caller for an `Authorization` header and the name in the client's certificate.

        Raises:
            DeniedError: the token is unknown.
        """
        scheme, _, text = authorization.partition(" ")
        if authorization:
            token = self._tokens.get(self._digest(text.strip())) if scheme.lower() == "bearer" else None
            if token is None and scheme.lower() == "bearer" and (node := self._find_node(text.strip())):
                return Caller(node, AGENT, node)
            if token is None or not hmac.compare_digest(text.strip().encode(), token.secret.text.encode()):
                raise DeniedError("unknown token", known=False)
            return _caller_of(token)
        if certificate:
            return self._caller_of_certificate(certificate)
        return Caller(ANONYMOUS, self._config.anonymous)

    def _caller_of_certificate(self, name: str) -> Caller:
        """Returns the caller with a name in a valid certificate: that of a person or program, or else of a node.

        Raises:
            DeniedError: the name stands for all nodes; only a token may.
        """
        if name == ANY_NODE:
            raise DeniedError(f"no certificate may have the name {name!r}", known=False)
        role = self._config.certificate_roles.get(name)
        return Caller(name, role) if role else Caller(name, AGENT, name)

    def _find_node(self, token: str) -> str:
        """Returns the node of the topology whose derived token this is; '' for none."""
        secret, nodes = self._config.agent_secret, self._find_topology().node
        node = agent_tokens.find_node(secret, token) if secret is not None and len(token) <= MAX_LENGTH else ""
        return node if node in nodes else ""

    def authorise(self, caller: Caller, role: str, *, agents: bool = False) -> None:
        """Checks that a caller has a role; `agents` admits agents too.

        Raises:
            DeniedError: the caller lacks the role.
        """
        if not (caller.has_role(role) or (agents and caller.role == AGENT)):
            raise DeniedError(f"this needs the role {role!r}", known=caller.name != ANONYMOUS)

    def sender_node(self, caller: Caller) -> str | None:
        """Returns the node that a sender of rows may report for; None for any.

        Raises:
            DeniedError: the caller may not send rows.
        """
        if caller.role == AGENT:
            return None if caller.node == ANY_NODE else caller.node
        if not self._open_to_agents:
            raise DeniedError("rows need an agent's token", known=caller.name != ANONYMOUS)
        return None

    def is_allowed_host(self, host: str) -> bool:
        """Returns whether the Host header is accepted: on loopback, this prevents DNS rebinding by web pages."""
        if not self._loopback:
            return True
        return _is_loopback(host)


@lru_cache(1000)
def _is_loopback(host: str) -> bool:
    name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
    try:
        return name == "localhost" or ip_address(name.strip("[]")).is_loopback
    except ValueError:
        return False


def _caller_of(token: ApiToken) -> Caller:
    return Caller(token.name, token.role, token.name if token.role == AGENT else "", token.teams)
