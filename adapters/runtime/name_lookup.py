"""Addresses of host names, looked up in threads of their own, with a deadline, and kept for a while.

One lookup of a name is under way at a time, for all who ask for it. Where the name server does not answer, addresses
that are known go on being used.
"""

import asyncio
import socket
from dataclasses import dataclass, field
from typing import Any

from skewscope.adapters.runtime.blocking_calls import NAMES
from skewscope.adapters.runtime.clock import read_uptime
from skewscope.adapters.runtime.tasks import start_job

DEADLINE_S, PATIENCE_S = 5.0, 0.5
"""Seconds to wait for a name server: without and with addresses of before."""
FRESH_S, USABLE_S = 30.0, 3600.0
"""Seconds for which addresses are not looked up again, and for which they are used if that fails."""
MAX_NAMES = 4096

Addresses = tuple[str, ...]
"""Numbers of a host, in the system's order of preference."""


@dataclass
class NameLookup:
    """Addresses by name."""

    _known: dict[str, tuple[float, Addresses]] = field(default_factory=dict)
    """When they were looked up, and the addresses."""
    _pending: dict[str, "asyncio.Task[Addresses]"] = field(default_factory=dict)

    async def find(self, host: str) -> Addresses:
        """Returns the addresses of a host.

        Raises:
            OSError: there is no such name, or no answer in time.
        """
        looked_up, addresses = self._known.get(host, (0.0, ()))
        age = read_uptime() - looked_up
        if addresses and age < FRESH_S:
            return addresses
        is_usable = bool(addresses) and age < USABLE_S
        task = self._pending.get(host)
        if task is None or task.done():
            task = self._pending[host] = start_job("name lookup", self._look_up(host), is_awaited=True)
        try:
            async with asyncio.timeout(PATIENCE_S if is_usable else DEADLINE_S):
                return await asyncio.shield(task)
        except (OSError, UnicodeError, TimeoutError) as error:
            if is_usable:
                return addresses
            why = getattr(error, "strerror", None) or str(error) or f"no answer of the name server in {DEADLINE_S:g} s"
            raise OSError(f"{host}: {why}") from None

    async def _look_up(self, host: str) -> Addresses:
        try:
            found = await NAMES.run(socket.getaddrinfo, host, None, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
        finally:
            self._pending.pop(host, None)
        addresses = tuple(dict.fromkeys(_format_address(address) for *_, address in found))
        self._known.pop(host, None)
        self._known[host] = read_uptime(), addresses
        if len(self._known) > MAX_NAMES:
            del self._known[next(iter(self._known))]
        return addresses


def _format_address(address: tuple[Any, ...]) -> str:
    """Returns the number of a host; of a link-local one with its interface."""
    host, *more = address
    return f"{host}%{more[2]}" if len(more) == 3 and more[2] and "%" not in str(host) else str(host)


names = NameLookup()
"""Of this process."""
