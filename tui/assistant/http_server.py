"""The server for assistants over HTTP, with the tokens, the certificate and the limits of a controller's config."""

import logging
from dataclasses import replace
from importlib.metadata import version

import uvicorn
from mcp.server import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from skewscope.adapters.controller.auth import AccessControl, DeniedError
from skewscope.adapters.controller.config import ControllerConfig, ListenConfig
from skewscope.kb.problems import SkewscopeError
from skewscope.tui.assistant.server import build_server
from skewscope.tui.assistant.tools import AssistantTools

PATH = "/mcp"
MAX_BODY = 1 << 20
"""Bytes of a request: a question is short."""
MAX_CONNECTIONS = 100

log = logging.getLogger(__name__)


def serve(tools: AssistantTools, config: ControllerConfig, host: str, port: int) -> None:
    """Serves until it is stopped.

    Raises:
        SkewscopeError: it could be reached from elsewhere without a token.
    """
    config = replace(config, listen=ListenConfig(host, port))
    if not config.listen.is_loopback and config.anonymous != "none":
        raise SkewscopeError(f"--http: {host} can be reached from elsewhere; add tokens under auth to {config.path}")
    tls = config.tls
    log.info("listening at %s://%s port %d%s", "https" if tls else "http", host, port, PATH)
    uvicorn.run(
        build_app(build_server(tools, version("skewscope")), AccessControl(config)),
        host=host,
        port=port,
        log_level="warning",
        limit_concurrency=MAX_CONNECTIONS,
        proxy_headers=False,
        server_header=False,
        ssl_certfile=tls.certificate if tls else None,
        ssl_keyfile=tls.key if tls else None,
    )


def build_app(server: MCPServer, access: AccessControl) -> ASGIApp:
    """Returns the application for HTTP: each request needs a token of the role `read`."""
    # The access control checks the host of requests, as it does for the API.
    trust = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    app = server.streamable_http_app(
        streamable_http_path=PATH, transport_security=trust, stateless_http=True, max_request_body_size=MAX_BODY
    )
    return TokenCheck(app, access)


class TokenCheck:
    """Refuses requests without a token of the API, or from web pages of other hosts."""

    def __init__(self, app: ASGIApp, access: AccessControl) -> None:
        self._app, self._access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on if it is allowed."""
        if scope["type"] == "http" and (refusal := self._find_refusal(scope)):
            await refusal(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _find_refusal(self, scope: Scope) -> JSONResponse | None:
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        if not self._access.is_allowed_host(headers.get("host", "")) or "origin" in headers:
            return JSONResponse({"error": "a request from a web page, or for another host"}, 403)
        try:
            self._access.authorise(self._access.authenticate(headers.get("authorization", "")), "read")
        except DeniedError as error:
            return JSONResponse({"error": str(error)}, 403 if error.known else 401, {"WWW-Authenticate": "Bearer"})
        return None
