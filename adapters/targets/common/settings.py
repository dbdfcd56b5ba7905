"""Settings that targets share: members, HTTP options, the probe of a worker."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from skewscope.adapters.config.fields import read_number
from skewscope.adapters.sources.common.base import redact_message
from skewscope.adapters.sources.common.http_client import FetchOptions
from skewscope.adapters.sources.common.request_settings import REQUEST_FIELDS, parse_request_options
from skewscope.adapters.sources.common.targets import TargetDiscovery, target_url
from skewscope.adapters.targets.common.probe import ProbeSettings
from skewscope.adapters.targets.common.transports import MAX_ANSWER
from skewscope.kb.field_reader import FieldReader
from skewscope.kb.yamlfile import FieldPath, type_label

COMMON_FIELDS = ("name", "note", "members", "timeout")
"""Fields of every target."""
HTTP_FIELDS = REQUEST_FIELDS
"""Further fields of targets that are called over HTTP."""
PROBE_FIELDS = ("probe",)
ADDRESS_HINT = "Addresses are shown in plans and logs. Write a token into a file, and `bearer: {file: FILE}` beside it."
MAX_MEMBERS = 100_000
MAX_ARGUMENTS = 50
DEFAULT_TIMEOUT = 5.0
ADDRESS_HOST = re.compile(r"[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\]")
"""Host of an address: a name, IPv4, or IPv6 in brackets."""


@dataclass(frozen=True, slots=True)
class TargetSettings:
    """Settings of every target."""

    name: str
    members: tuple[tuple[str, str], ...] = ()
    """Names of entities of the topology, and the target's own names for them, sorted."""
    timeout: float = DEFAULT_TIMEOUT
    """Seconds for one call."""


class HasCommonSettings(Protocol):
    """Settings of a kind of target."""

    @property
    def common(self) -> TargetSettings:
        """What every target has."""
        ...


class NamedTarget:
    """A target that takes its name and its members from its settings."""

    settings: HasCommonSettings

    @property
    def name(self) -> str:
        """Name in the config."""
        return self.settings.common.name

    @property
    def members(self) -> Mapping[str, str]:
        """The target's names of its members, by the name of their entity in the topology."""
        return dict(self.settings.common.members)


def read_common(fields: FieldReader, at: FieldPath, name: str) -> TargetSettings:
    """Parses the fields of every target; `members` maps names of the topology to names of the target."""
    return TargetSettings(
        name,
        read_members(fields, (*at, "members")),
        read_number(fields, (*at, "timeout"), DEFAULT_TIMEOUT, (0.1, 60.0)),
    )


def read_members(fields: FieldReader, at: FieldPath) -> tuple[tuple[str, str], ...]:
    """Parses a mapping of names of entities to names of members; each member is named once."""
    value = fields.value_at(at)
    if not isinstance(value, dict) or not value or len(value) > MAX_MEMBERS:
        found = "no value" if value is None else type_label(value)
        hint = "Write the name in the topology, and after it the name that the target uses: {r0: worker-0}."
        fields.add_problem(at, found, f"a mapping of 1 to {MAX_MEMBERS} names", hint)
        return ()
    found_members: dict[str, str] = {}
    for entity in value:
        member = fields.required_text((*at, entity))
        if member in found_members.values():
            fields.add_problem((*at, entity), f"{member!r} for the second time", "a member of its own")
        elif member:
            found_members[str(entity)] = member
    return tuple(sorted(found_members.items()))


def read_base_url(fields: FieldReader, at: FieldPath, hint: str = ADDRESS_HINT) -> str:
    """Parses an address without secrets and without a path at its end; HOST:PORT becomes an http URL.

    Addresses are shown in plans, logs and errors, so nothing in them may be secret: no user, no query.
    """
    text = fields.required_text(at)
    plain = text and not set("@?#") & set(text)
    url = target_url(text, TargetDiscovery((), (), (), "http", "", ())) if plain else ""
    if text and not url:
        expected = "HOST:PORT, or an address that begins with http:// or https://, without user, password, ? and #"
        head, query, _ = text.partition("?")
        shown = redact_message(head) + ("?***" if query else "")
        fields.add_problem(at, f"{shown!r:.80}", expected, "" if plain else hint)
    return url.rstrip("/")


def read_http_options(fields: FieldReader, at: FieldPath, timeout: float) -> FetchOptions:
    """Parses credentials, CA file and proxy of the calls over HTTP."""
    return parse_request_options(fields, at, timeout, MAX_ANSWER)


def read_probe(fields: FieldReader, at: FieldPath, default_path: str = "") -> ProbeSettings | None:
    """Parses `probe`; None where there is none and no path is the default.

    Without `model` a GET of `path` is timed; with it, a completion of `tokens` tokens by that model.
    """
    here = (*at, "probe")
    if fields.value_at(here) is None:
        return ProbeSettings(default_path) if default_path else None
    fields.check_keys(here, (), ("path", "model", "tokens", "timeout"))
    path = fields.text((*here, "path")) or default_path
    if not path.startswith("/"):
        fields.add_problem((*here, "path"), f"{path!r:.80}", "a path that begins with /")
    return ProbeSettings(
        path,
        fields.text((*here, "model")),
        int(read_number(fields, (*here, "tokens"), ProbeSettings.tokens, (1, 1024))),
        read_number(fields, (*here, "timeout"), ProbeSettings.timeout, (0.1, 120.0)),
    )


def check_addresses(fields: FieldReader, at: FieldPath, members: tuple[tuple[str, str], ...]) -> None:
    """Adds a problem for each member that is no HOST:PORT."""
    for entity, member in members:
        host, _, port = member.rpartition(":")
        if not ADDRESS_HOST.fullmatch(host) or not port.isdecimal() or not 0 < int(port[:6]) < 65536:
            fields.add_problem((*at, entity), f"{member!r:.80}", "the address of a worker as HOST:PORT")


def read_command(fields: FieldReader, at: FieldPath, default: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Parses a program and its arguments, which are started without a shell; required where there is no default."""
    value = fields.value_at(at)
    if value is None and default:
        return default
    if not isinstance(value, list) or not 0 < len(value) <= MAX_ARGUMENTS:
        found = "no value" if value is None else type_label(value)
        expected = f"a list of 1 to {MAX_ARGUMENTS} words: the program and its arguments"
        fields.add_problem(at, found, expected, "There is no shell: write [nginx, -s, reload], not one line of text.")
        return ()
    return fields.texts(at)
