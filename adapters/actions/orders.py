"""Orders that wait for the agent of a node, and their results: signed here, carried out there."""

import asyncio
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from skewscope.adapters.config.secret import Secret
from skewscope.adapters.formats.order_protocol import LIFETIME, MAX_ORDERS, OPERATIONS, Order, OrderResult, sign_order
from skewscope.adapters.targets.common.base import TargetError


@dataclass
class _Waiting:
    order: Order
    result: "asyncio.Future[OrderResult]"
    fetched: bool = False


@dataclass
class OrderBook:
    """The orders of one target to the agent of its node. To be used in one event loop."""

    node: str
    key: Secret
    clock: Callable[[], float]
    """Seconds since 1970."""
    _waiting: dict[str, _Waiting] = field(default_factory=dict)
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    async def give(self, operation: str, parameters: Mapping[str, str], seconds: float) -> str:
        """Gives an order and returns its output.

        An order that is not carried out in time expires, at the agent too.

        Raises:
            TargetError: the agent refused it, it failed, or there was no result in time.
        """
        assert operation in OPERATIONS
        if len(self._waiting) >= MAX_ORDERS:
            raise TargetError(f"{self.node}: more than {MAX_ORDERS} orders wait for its agent")
        now = self.clock()
        given = tuple(sorted(parameters.items()))
        order = Order(
            *(secrets.token_hex(16), self.node, operation, given, now, now + min(seconds, LIFETIME)),
            secrets.token_hex(16),
        )
        future: asyncio.Future[OrderResult] = asyncio.get_running_loop().create_future()
        self._waiting[order.id] = _Waiting(order, future)
        self._news.set()
        try:
            async with asyncio.timeout(seconds):
                result = await future
        except TimeoutError:
            what = "has not reported its result" if self._waiting[order.id].fetched else "has not fetched the order"
            raise TargetError(f"{operation}: the agent of {self.node} {what} within {seconds:g} s") from None
        finally:
            del self._waiting[order.id]
        if not result.ok:
            raise TargetError(f"{operation} at {self.node}: {result.output[:1000]}")
        return result.output

    def fetch(self) -> list[dict[str, str]]:
        """Returns the orders that were not fetched before, signed."""
        found = []
        for each in self._waiting.values():
            if not each.fetched:
                each.fetched = True
                text = each.order.encode()
                found.append({"id": each.order.id, "order": text, "signature": sign_order(text, self.key.text)})
        self._news.clear()
        return found

    async def wait(self, seconds: float) -> None:
        """Waits until an order was given, at most some seconds."""
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            pass

    def is_waiting(self, id_: str) -> bool:
        """Returns whether an order of this book waits for its result."""
        return id_ in self._waiting

    def report(self, id_: str, result: OrderResult) -> bool:
        """Notes the result of an order; returns whether it was awaited, and fetched before."""
        waiting = self._waiting.get(id_)
        if waiting is None or not waiting.fetched or waiting.result.done():
            return False
        waiting.result.set_result(result)
        return True
