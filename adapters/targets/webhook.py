"""A web service of the user that carries out changes, by the contract of docs/acting-hooks.md."""

from dataclasses import dataclass, field, replace

from skewscope.adapters.sources.common.http_client import FetchOptions
from skewscope.adapters.targets.common.base import BusyError, ConflictError, TargetError
from skewscope.adapters.targets.common.calls import Call, HttpCall, hide_secrets
from skewscope.adapters.targets.common.external import EXTERNAL_FIELDS, ExternalSettings, ExternalTarget, read_external
from skewscope.adapters.targets.common.settings import HTTP_FIELDS, read_base_url, read_http_options
from skewscope.adapters.targets.common.transports import request, show
from skewscope.kb.field_reader import FieldReader
from skewscope.kb.yamlfile import FieldPath

REFUSALS = {409: ConflictError, 429: BusyError, 503: BusyError}


@dataclass(frozen=True, slots=True)
class WebhookSettings:
    """Settings of one web service."""

    external: ExternalSettings
    url: str
    options: FetchOptions = field(default_factory=FetchOptions)

    def render(self, body: str) -> Call:
        """Returns the request with a body."""
        return HttpCall("POST", self.url, body)

    async def send(self, call: Call) -> str:
        """Sends a request and returns the body of the answer.

        Raises:
            BusyError: status 429 or 503.
            ConflictError: status 409.
            TargetError: another status than 200, or no answer.
        """
        if not isinstance(call, HttpCall) or (call.method, call.url) != ("POST", self.url):
            raise TargetError(f"{self.external.common.name}: a call to another address than {hide_secrets(self.url)}")
        answer = await request(call, replace(self.options, timeout=self.external.common.timeout))
        if answer.status != 200:
            kind = REFUSALS.get(answer.status, TargetError)
            raise kind(f"POST {hide_secrets(self.url)}: the answer {answer.status}: {show(answer.body)}")
        return answer.body.decode(errors="replace")


def read(fields: FieldReader, at: FieldPath, name: str) -> WebhookSettings:
    """Parses the settings of one entry; problems are added to `fields`."""
    fields.check_keys(at, ("kind", "url", "changes", "members"), (*EXTERNAL_FIELDS, *HTTP_FIELDS))
    external = read_external(fields, at, name)
    return WebhookSettings(
        external, read_base_url(fields, (*at, "url")), read_http_options(fields, at, external.common.timeout)
    )


def build(settings: WebhookSettings) -> ExternalTarget:
    """Creates the target."""
    return ExternalTarget(settings.external, settings)
