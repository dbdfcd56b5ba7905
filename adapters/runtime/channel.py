"""Persistent HTTP connection to a controller, with authentication."""

import http.client
import json
import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from skewscope.adapters.config.tls_context import ClientTls, client_context
from skewscope.adapters.formats.row_protocol import CONTENT_TYPE, ROWS_PATH

MAX_RESPONSE_BYTES = 1 << 16
MAX_API_RESPONSE_BYTES = 4 << 20
"""Limit on responses of the API for people."""
MAX_TOKEN = 4096
TIMEOUT = 10.0


@dataclass(frozen=True, slots=True)
class ControllerEndpoint:
    """Address of a controller and the files that authenticate both sides; each '' where unused."""

    url: str
    token_file: str = ""
    token_env: str = ""
    ca_file: str = ""
    certificate_file: str = ""
    key_file: str = ""


@dataclass(frozen=True, slots=True)
class ControllerResponse:
    """Response to one request."""

    status: int
    body: bytes
    retry_after: str = ""
    etag: str = ""
    location: str = ""
    """Where the request should go instead."""


class Channel:
    """Persistent connection to one controller."""

    def __init__(self, controller: ControllerEndpoint, timeout: float = TIMEOUT) -> None:
        self._endpoint = controller
        self._timeout = timeout
        self._http: http.client.HTTPConnection | None = None

    def post(self, body: bytes) -> ControllerResponse:
        """Posts a body of rows."""
        return self._request("POST", ROWS_PATH, body, {"Content-Type": CONTENT_TYPE})

    def get(self, path: str, etag: str, most: int) -> ControllerResponse:
        """Gets a path, at most `most` bytes; `etag` is that of the known version."""
        return self._request("GET", path, None, {"If-None-Match": etag} if etag else {}, most)

    def send(self, method: str, path: str, data: object = None) -> ControllerResponse:
        """Sends a request with a JSON body."""
        body = None if data is None else json.dumps(data).encode()
        return self._request(
            method, path, body, {} if body is None else {"Content-Type": "application/json"}, MAX_API_RESPONSE_BYTES
        )

    def _request(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str], most: int = MAX_RESPONSE_BYTES
    ) -> ControllerResponse:
        """Performs one exchange; keeps the connection if it succeeds."""
        parts = urlsplit(self._endpoint.url)
        headers = {**headers, **_authorization(self._endpoint)}
        for fresh in (False, True):
            try:
                if self._http is None:
                    fresh = True  # noqa: PLW2901 - no open connection
                    self._http = self._connect()
                self._http.request(method, parts.path + path, body, headers)
                answer = self._http.getresponse()
                text = answer.read(most + 1)
                if len(text) > most:
                    raise http.client.HTTPException(f"a response of more than {most} bytes")
                names = ("Retry-After", "ETag", "Location")
                return ControllerResponse(answer.status, text, *(answer.headers.get(name, "") for name in names))
            except (OSError, http.client.HTTPException):
                self.close()
                # The server may have closed the persistent connection meanwhile.
                if fresh:
                    raise
        raise AssertionError  # pragma: no cover - the second attempt answers or raises

    def close(self) -> None:
        """Closes the connection."""
        if self._http is not None:
            self._http.close()
            self._http = None

    def _connect(self) -> http.client.HTTPConnection:
        parts = urlsplit(self._endpoint.url)
        host = parts.hostname or ""
        if parts.scheme == "http":
            return http.client.HTTPConnection(host, parts.port, timeout=self._timeout)
        endpoint = self._endpoint
        context = client_context(ClientTls(endpoint.ca_file, endpoint.certificate_file, endpoint.key_file))
        return http.client.HTTPSConnection(host, parts.port, timeout=self._timeout, context=context)


def _authorization(controller: ControllerEndpoint) -> dict[str, str]:
    """Returns the authorization header; the token is read each time, since it may be renewed."""
    token = os.environ.get(controller.token_env, "") if controller.token_env else ""
    if controller.token_file:
        with Path(controller.token_file).open(encoding="ascii") as file:
            token = file.read(MAX_TOKEN).strip()
    if not token:
        return {}
    if not token.isprintable():
        raise ValueError("the token has characters that are not printable")
    return {"Authorization": f"Bearer {token}"}
