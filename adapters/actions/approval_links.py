"""Signed links by which a person decides about a proposal or acknowledges an incident: making and checking. Pure.

A link names the action, its revision, the person and its end. The revision changes with each decision, so a link counts
for one decision at most; it opens nothing else, and no session comes with it.
"""

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from skewscope.adapters.config.secret import Secret
from skewscope.engine.actions.action import Action

DEFAULT_LIFETIME = 900.0
"""Seconds that a link can be used: as long as a proposal waits by default."""
LEAST_KEY = 32
MAX_TEXT = 2000
"""Characters of the signed text of a link."""
ACKNOWLEDGE_LIFETIME = 86_400.0
"""Seconds that an acknowledgement can be given: until the shift after the next. It changes no cluster."""
PATH, ACKNOWLEDGE_PATH = "/act", "/ack"
"""Pages of links, which are also what they are signed for: one for the first opens nothing under the second."""


@dataclass(frozen=True)
class LinkSettings:
    """Links in notifications of proposals."""

    public_url: str
    """Where a person reaches the controller, without a slash at its end."""
    key: Secret
    recipients: Mapping[str, str] = field(default_factory=dict)
    """Who reads the messages of a notifier: a person, by the notifier's name. Others get no link."""
    lifetime: float = DEFAULT_LIFETIME
    login: bool = False
    """Whether a decision needs a token of the role `approve` too, whose name it then has."""


ActionLink = Callable[[Action, str], str]
"""Returns where the reader of a notifier decides about an action; '' for nowhere."""


def no_link(_action: Action, _notifier: str) -> str:
    """Returns no address."""
    return ""


class LinkError(Exception):
    """A link that cannot be used; `status` is the status of the answer."""

    def __init__(self, status: int, why: str) -> None:
        self.status = status
        super().__init__(why)


@dataclass(frozen=True, slots=True)
class LinkClaim:
    """What a link says."""

    action: str
    """Id of the action, or of the incident to acknowledge."""
    revision: str
    """Of the action; '' of an incident."""
    who: str
    expires: float
    """Seconds since 1970."""


def find_revision(action: Action) -> str:
    """Returns what changes with every decision about an action, and with its plan."""
    told = [action.state, list(action.approvers), [what for _, what in action.history], list(action.plan.calls)]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()[:16]


def make_link(settings: LinkSettings, action: Action, notifier: str, t: float) -> str:
    """Returns the address at which the reader of a notifier decides about a proposal; '' where none is configured."""
    who = settings.recipients.get(notifier, "")
    if not who:
        return ""
    return _format_link(settings, PATH, [action.id, find_revision(action), who, round(t + settings.lifetime)])


def make_acknowledge_link(settings: LinkSettings, incident: str, notifier: str, t: float) -> str:
    """Returns the address at which the reader of a notifier acknowledges an incident; '' where none is configured."""
    who = settings.recipients.get(notifier, "")
    return _format_link(settings, ACKNOWLEDGE_PATH, [incident, "", who, round(t + ACKNOWLEDGE_LIFETIME)]) if who else ""


def _format_link(settings: LinkSettings, path: str, claim: list[str | int]) -> str:
    text = base64.urlsafe_b64encode(json.dumps(claim).encode()).decode().rstrip("=")
    return f"{settings.public_url}{path}/{claim[0]}?t={text}.{_sign(settings, path, text)}"


def read_link(settings: LinkSettings, text: str, t: float, path: str = PATH) -> LinkClaim:
    """Returns what a link for a path says.

    Raises:
        LinkError: it is not ours, or its time is over.
    """
    # A program that makes addresses clickable may take the end of the sentence with it.
    signed, _, signature = text[:MAX_TEXT].rstrip(".,;").partition(".")
    if not hmac.compare_digest(_sign(settings, path, signed).encode(), signature.encode("utf-8", "replace")):
        raise LinkError(403, "this link was not made by this controller")
    try:
        action, revision, who, expires = json.loads(base64.urlsafe_b64decode(signed + "=" * (-len(signed) % 4)))
        claim = LinkClaim(str(action), str(revision), str(who), float(expires))
    except (ValueError, TypeError, binascii.Error, RecursionError):
        raise LinkError(403, "this link cannot be read") from None
    if t > claim.expires:
        raise LinkError(410, "this link is too old: look at what is open now")
    return claim


def check_claim(claim: LinkClaim, id_: str, action: Action | None) -> Action:
    """Returns the action for which a link was made, as it was then.

    Raises:
        LinkError: it is another one, is not known any more, or was decided or changed since.
    """
    if claim.action != id_ or action is None:
        raise LinkError(404, "there is no such proposal any more")
    if find_revision(action) != claim.revision:
        raise LinkError(409, f"this was decided or changed since the link was sent: it is {action.state} by now")
    return action


def _sign(settings: LinkSettings, path: str, text: str) -> str:
    signed = f"skewscope-{path.removeprefix('/')}:{text}".encode("utf-8", "replace")
    digest = hmac.digest(settings.key.text.encode(), signed, hashlib.sha256)
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")
