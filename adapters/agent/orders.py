"""Carries out signed orders of controllers on the switch of this node; off unless the configuration allows it.

An order is refused and logged when it is wrongly signed, for another node, expired, issued before the agent started,
seen before, or not among what the configuration allows. Its command line is built here (`switch_commands`).
"""

import http.client
import json
import logging
import os
import shlex
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import quote

from skewscope.adapters.agent.switch_commands import Command, SwitchRights, build_commands
from skewscope.adapters.formats.order_protocol import (
    LIFETIME,
    MAX_ORDER,
    MAX_ORDERS,
    MAX_OUTPUT,
    ORDERS_PATH,
    Order,
    OrderError,
    OrderResult,
    open_order,
    result_to_json,
)
from skewscope.adapters.runtime.channel import Channel, ControllerResponse
from skewscope.adapters.runtime.tasks import start_thread

COMMAND_TIMEOUT = 10.0
POLL_WAIT = 5.0
"""Seconds that a controller keeps a request open until there is an order."""
RETRY_WAIT = 1.0
"""Seconds after a request that failed, or was answered at once."""
MAX_ANSWER = 2 * MAX_ORDERS * MAX_ORDER
MAX_NONCES = 100_000
VARIABLES = ("PATH", "HOME", "LANG", "TZ", "LD_LIBRARY_PATH", "OVS_RUNDIR")
"""What the programs of the switch get of the agent's environment, which may hold its secrets."""

log = logging.getLogger("skewscope.agent")


@dataclass(frozen=True)
class OrdersConfig:
    """The section `orders` of an agent's configuration."""

    rights: SwitchRights
    key: str = field(repr=False)


@dataclass
class OrderGuard:
    """Decides which orders are carried out."""

    node: str
    config: OrdersConfig
    started: float
    """Seconds since 1970 at which the agent started: nonces from before are not remembered."""
    _nonces: dict[str, float] = field(default_factory=dict)
    """Nonces that were seen, and when their orders expire."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def admit(self, text: object, signature: object, now: float) -> tuple[Order, tuple[Command, ...]]:
        """Returns an order and its command lines.

        Raises:
            OrderError: it must not be carried out.
        """
        order = open_order(text, signature, self.config.key)
        if order.node != self.node:
            raise OrderError(f"an order for {order.node!r:.80}")
        if not 0 < order.expires - order.issued <= LIFETIME or order.issued > now + LIFETIME:
            raise OrderError("an order that is valid for too long, or not yet; do the clocks differ?")
        if order.expires <= now:
            raise OrderError("an order that has expired; do the clocks differ?")
        if order.issued < self.started:
            raise OrderError("an order from before the start of this agent")
        with self._lock:
            self._nonces = {nonce: expires for nonce, expires in self._nonces.items() if expires > now}
            if order.nonce in self._nonces or len(self._nonces) >= MAX_NONCES:
                raise OrderError("an order that was given before")
            self._nonces[order.nonce] = order.expires
        return order, build_commands(order.operation, dict(order.parameters), self.config.rights, now)


def run_order(commands: Sequence[Command]) -> OrderResult:
    """Runs command lines that this agent has built, up to the first that fails; returns the output of all of them."""
    output = ""
    for command in commands:
        result = _run_command(command)
        if not result.ok:
            return result
        output += result.output
    if len(output) > MAX_OUTPUT:
        return OrderResult(False, f"{commands[0][0]}: an output of more than {MAX_OUTPUT} characters")
    return OrderResult(True, output)


def _run_command(command: Command) -> OrderResult:
    try:
        done = subprocess.run(  # noqa: S603 - the arguments come from a closed list
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=COMMAND_TIMEOUT,
            check=False,
            env={name: os.environ[name] for name in VARIABLES if name in os.environ},
        )
    except subprocess.TimeoutExpired:
        return OrderResult(False, f"{command[0]}: no end within {COMMAND_TIMEOUT:g} s")
    except OSError as error:
        return OrderResult(False, f"{command[0]}: {error.strerror or error}")
    if done.returncode:
        text = (done.stderr or done.stdout).decode(errors="replace")
        return OrderResult(False, f"{command[0]}: exit code {done.returncode}: {text[:1000]}")
    return OrderResult(True, done.stdout.decode(errors="replace"))


@dataclass
class OrderWorker:
    """Fetches the orders of one controller and carries them out, in a thread of its own."""

    url: str
    channel: Channel
    guard: OrderGuard
    clock: Callable[[], float]
    run: Callable[[Sequence[Command]], OrderResult] = run_order
    counts: dict[str, int] = field(default_factory=lambda: {"done": 0, "failed": 0, "refused": 0})
    """Orders by what became of them."""
    _stop: threading.Event = field(default_factory=threading.Event)
    _trouble: str = ""

    def __post_init__(self) -> None:
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Starts the thread."""
        self._thread = start_thread(f"orders {self.url}", self._work)

    def stop(self, patience: float = 0.0) -> None:
        """Lets the thread end after its present request, and waits for that at most some seconds."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(patience)

    def _work(self) -> None:
        while not self._stop.is_set():
            begun = self.clock()
            try:
                found = self.poll()
            except (OSError, http.client.HTTPException, ValueError) as error:
                self._note(f"no orders from {self.url}: {error}")
                found = 0
            else:
                self._note("")
            if not found and self.clock() - begun < RETRY_WAIT:
                self._stop.wait(RETRY_WAIT)
        self.channel.close()

    def poll(self) -> int:
        """Fetches orders and carries them out; returns how many there were.

        Raises:
            OSError, HTTPException, ValueError: there was no usable answer.
        """
        path = f"{ORDERS_PATH}?node={quote(self.guard.node, safe='')}&wait={POLL_WAIT:g}"
        answer = self.channel.get(path, "", MAX_ANSWER)
        if answer.status != HTTPStatus.OK:
            raise ValueError(f"it answers {answer.status}")
        orders = _parse_list(answer)
        for each in orders:
            if self._stop.is_set():
                self._report(each.get("id"), OrderResult(False, "refused by the agent: it stops, or reads its config"))
            else:
                self._carry_out(each)
        return len(orders)

    def _carry_out(self, item: Mapping[str, object]) -> None:
        try:
            order, commands = self.guard.admit(item.get("order"), item.get("signature"), self.clock())
        except OrderError as error:
            self.counts["refused"] += 1
            log.warning("an order from %s is refused: %s", self.url, error)
            self._report(item.get("id"), OrderResult(False, f"refused by the agent: {error}"))
            return
        result = self.run(commands)
        self.counts["done" if result.ok else "failed"] += 1
        if not order.operation.startswith(("dump-", "meter-stats")):
            shown = "; ".join(shlex.join(command) for command in commands)
            log.info("order %s: %s: %s", order.id, shown, "done" if result.ok else result.output)
        self._report(order.id, result)

    def _report(self, id_: object, result: OrderResult) -> None:
        if isinstance(id_, str) and id_.isalnum():
            self.channel.send("POST", f"{ORDERS_PATH}/{id_[:64]}/result", result_to_json(result))

    def _note(self, trouble: str) -> None:
        if trouble and trouble != self._trouble:
            log.warning("%s", trouble)
        self._trouble = trouble


def _parse_list(answer: ControllerResponse) -> list[Mapping[str, object]]:
    try:
        content = json.loads(answer.body)
    except (ValueError, RecursionError):
        raise ValueError("its answer is no JSON") from None
    orders = content.get("orders") if isinstance(content, dict) else None
    if not isinstance(orders, list) or len(orders) > MAX_ORDERS or not all(isinstance(one, dict) for one in orders):
        raise ValueError("its answer has no list of orders")
    return orders
