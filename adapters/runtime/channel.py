"""One kept HTTP connection to a controller, with what proves who we are."""

import http.client
import json
import os
import ssl
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from skewscope.adapters.formats.row_protocol import CONTENT_TYPE, ROWS_PATH

MAX_RESPONSE_BYTES = 1 << 16
MAX_API_RESPONSE_BYTES = 4 << 20
"""Bytes of an answer to people."""
MAX_TOKEN = 4096
TIMEOUT = 10.0


@dataclass(frozen=True, slots=True)
class ControllerEndpoint:
    """Where a controller is, and what proves who it is and who we are; each '' where there is none."""

    url: str
    token_file: str = ""
    token_env: str = ""
    ca_file: str = ""
    certificate_file: str = ""
    key_file: str = ""


@dataclass(frozen=True, slots=True)
class ControllerResponse:
    """An answer as it came."""

    status: int
    body: bytes
    retry_after: str = ""
    etag: str = ""


class Channel:
    """One kept connection to a controller."""

    def __init__(self, controller: ControllerEndpoint, timeout: float = TIMEOUT) -> None:
        self._endpoint = controller
        self._timeout = timeout
        self._http: http.client.HTTPConnection | None = None

    def post(self, body: bytes) -> ControllerResponse:
        """The answer to a body of rows."""
        return self._request("POST", ROWS_PATH, body, {"Content-Type": CONTENT_TYPE})

    def get(self, path: str, etag: str, most: int) -> ControllerResponse:
        """The answer to a question; `etag` is what is known already."""
        return self._request("GET", path, None, {"If-None-Match": etag} if etag else {}, most)

    def send(self, method: str, path: str, told: object = None) -> ControllerResponse:
        """The answer to something that is told as JSON."""
        body = None if told is None else json.dumps(told).encode()
        return self._request(
            method, path, body, {} if body is None else {"Content-Type": "application/json"}, MAX_API_RESPONSE_BYTES
        )

    def _request(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str], most: int = MAX_RESPONSE_BYTES
    ) -> ControllerResponse:
        """One exchange; the connection is kept where that went well."""
        parts = urlsplit(self._endpoint.url)
        headers = {**headers, **_authorization(self._endpoint)}
        for fresh in (False, True):
            try:
                if self._http is None:
                    fresh = True  # noqa: PLW2901 - nothing was kept
                    self._http = self._connect()
                self._http.request(method, parts.path + path, body, headers)
                answer = self._http.getresponse()
                text = answer.read(most + 1)
                if len(text) > most:
                    raise http.client.HTTPException(f"an answer of more than {most} bytes")
                return ControllerResponse(
                    answer.status, text, answer.headers.get("Retry-After", ""), answer.headers.get("ETag", "")
                )
            except (OSError, http.client.HTTPException):
                self.close()
                # A kept connection may have been closed by the other side meanwhile.
                if fresh:
                    raise
        raise AssertionError  # pragma: no cover - the second attempt answers or raises

    def close(self) -> None:
        """Ends the connection."""
        if self._http is not None:
            self._http.close()
            self._http = None

    def _connect(self) -> http.client.HTTPConnection:
        parts = urlsplit(self._endpoint.url)
        host = parts.hostname or ""
        if parts.scheme == "http":
            return http.client.HTTPConnection(host, parts.port, timeout=self._timeout)
        context = ssl.create_default_context(cafile=self._endpoint.ca_file or None)
        if self._endpoint.certificate_file:
            context.load_cert_chain(self._endpoint.certificate_file, self._endpoint.key_file)
        return http.client.HTTPSConnection(host, parts.port, timeout=self._timeout, context=context)


def _authorization(controller: ControllerEndpoint) -> dict[str, str]:
    """The token, read each time: it may be renewed while we run."""
    token = os.environ.get(controller.token_env, "") if controller.token_env else ""
    if controller.token_file:
        with Path(controller.token_file).open(encoding="ascii") as file:
            token = file.read(MAX_TOKEN).strip()
    if not token:
        return {}
    if not token.isprintable():
        raise ValueError("the token holds characters that do not print")
    return {"Authorization": f"Bearer {token}"}
