"""Sessions of browsers: a token is exchanged for a cookie, which reads pages and nothing else.

A session holds its token, so that each request is checked anew: a token that the config no longer has ends it. Sessions
are in memory only; after a restart a person logs in again.
"""

import secrets
from dataclasses import dataclass, field

COOKIE = "skewscope_session"
LIFETIME_S = 12 * 3600.0
"""Seconds after which a person logs in again: a working day, or a night on call."""
MAX_SESSIONS = 1000
ID_BYTES = 32


@dataclass
class BrowserSessions:
    """The sessions of one controller; times are those of a clock that never goes back."""

    _tokens: dict[str, tuple[str, float]] = field(default_factory=dict)
    """Token and end by id, the oldest first."""

    def open(self, token: str, now: float) -> str:
        """Begins a session and returns its id; the oldest one ends where there are too many."""
        self._tokens = {id_: held for id_, held in self._tokens.items() if held[1] > now}
        while len(self._tokens) >= MAX_SESSIONS:
            del self._tokens[next(iter(self._tokens))]
        id_ = secrets.token_urlsafe(ID_BYTES)
        self._tokens[id_] = token, now + LIFETIME_S
        return id_

    def authorization(self, cookies: str, now: float) -> str:
        """Returns the `Authorization` that a `Cookie` header stands for, '' without a session."""
        token, end = self._tokens.get(_read_cookie(cookies), ("", 0.0))
        return f"Bearer {token}" if end > now else ""


def format_cookie(id_: str, *, secure: bool) -> str:
    """Returns the `Set-Cookie` header of a session.

    Scripts cannot read it. `Lax`: it comes along when a person follows a link from a chat, not when another site embeds
    or posts something.
    """
    return f"{COOKIE}={id_}; Path=/; Max-Age={LIFETIME_S:.0f}; HttpOnly; SameSite=Lax" + ("; Secure" if secure else "")


def _read_cookie(header: str) -> str:
    """Returns the id of a session in a `Cookie` header, '' without one."""
    for part in header.split(";"):
        name, _, value = part.strip().partition("=")
        if name == COOKIE:
            return value
    return ""
