"""TLS handshakes: limited in time like requests, and counted as connections."""

import asyncio
import ssl

from skewscope.adapters.controller import protocol
from skewscope.adapters.controller.connection_limit import ConnectionLimit
from skewscope.adapters.runtime.tasks import start_job


class TlsHandshake(asyncio.Protocol):
    """A connection before the end of its TLS handshake; then `inner` takes over.

    uvicorn cannot set asyncio's handshake timeout, and a protocol never learns of unfinished handshakes: they could not
    be counted.
    """

    def __init__(self, inner: asyncio.Protocol, context: ssl.SSLContext, connections: ConnectionLimit) -> None:
        self._inner = inner
        self._context = context
        self._connection_limit = connections
        self._early_data: list[bytes] = []
        self._transport: asyncio.Transport | None = None
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        transport.pause_reading()
        self._transport = transport
        self._task = start_job("TLS handshake", self._run_handshake(transport))
        self._connection_limit.add(self)

    def data_received(self, data: bytes) -> None:
        """Passes on data that arrived with the end of the handshake."""
        self._early_data.append(data)

    def abort(self) -> None:
        """Closes the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    async def _run_handshake(self, transport: asyncio.Transport) -> None:
        start = asyncio.get_running_loop().start_tls
        try:
            secure = await start(
                *(transport, self, self._context), server_side=True, ssl_handshake_timeout=protocol.REQUEST_TIMEOUT
            )
        except (OSError, ValueError):
            transport.abort()  # The client does not speak TLS, or its certificate is not accepted.
            return
        finally:
            self._connection_limit.remove(self)
        if secure is None or secure.is_closing():
            return
        secure.set_protocol(self._inner)
        self._inner.connection_made(secure)
        if self._early_data:
            self._inner.data_received(b"".join(self._early_data))
