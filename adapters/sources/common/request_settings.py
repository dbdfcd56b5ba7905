"""Fields of everything that makes HTTP requests: who asks, which CAs are trusted, by which proxy."""

from pathlib import Path
from urllib.parse import urlsplit

from skewscope.adapters.config.fields import read_path
from skewscope.adapters.config.secret import Secret, read_secret
from skewscope.adapters.sources.common.base import redact_message
from skewscope.adapters.sources.common.http_client import BasicAuth, FetchOptions
from skewscope.kb.field_reader import FieldReader
from skewscope.kb.yamlfile import FieldPath

REQUEST_FIELDS = ("bearer", "basic", "trust", "proxy")


def parse_request_options(fields: FieldReader, at: FieldPath, timeout: float, max_bytes: int) -> FetchOptions:
    """Parses `bearer`, `basic`, `trust` and `proxy`; problems are added to `fields`."""
    folder = Path(fields.document.file).parent
    bearer, basic = _parse_bearer(fields, (*at, "bearer"), folder), _parse_basic(fields, (*at, "basic"), folder)
    if bearer and basic:
        fields.add_problem((*at, "basic"), "bearer and basic", "one of them")
    proxy = _parse_proxy(fields, (*at, "proxy"))
    return FetchOptions(timeout, max_bytes, bearer, read_path(fields, (*at, "trust")), basic, proxy)


def _parse_bearer(fields: FieldReader, at: FieldPath, folder: Path) -> Secret | None:
    if fields.value_at(at) is None:
        return None
    fields.check_keys(at, (), ("token", "file"))
    return read_secret(fields, at, folder, least=1)


def _parse_basic(fields: FieldReader, at: FieldPath, folder: Path) -> BasicAuth | None:
    if fields.value_at(at) is None:
        return None
    fields.check_keys(at, ("user",), ("token", "file"))
    user, password = fields.required_text((*at, "user")), read_secret(fields, at, folder, least=1)
    if ":" in user or not user.isprintable():
        fields.add_problem((*at, "user"), f"{user!r:.80}", "a name without a colon")
    return BasicAuth(user, password) if password else None


def _parse_proxy(fields: FieldReader, at: FieldPath) -> str:
    text = fields.text(at)
    try:
        parts = urlsplit(text)
        good = parts.scheme == "http" and parts.hostname and parts.port and parts.username is None
    except ValueError:
        good = False
    if text and not good:
        fields.add_problem(at, f"{redact_message(text)!r:.80}", "http://HOST:PORT, without user and password")
    return text if good else ""
