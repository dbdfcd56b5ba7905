"""A shard as a process: it receives rows over HTTP, ticks with the clock, answers polls. Ray runs it as an actor."""

import asyncio
import gc
import os
import socket
import threading
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import cast

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route as StarletteRoute

from skewscope.adapters.controller.auth import AccessControl
from skewscope.adapters.controller.config import ControllerConfig, ListenConfig
from skewscope.adapters.controller.controller import Controller
from skewscope.adapters.controller.server import ControllerApp, create_server, open_socket
from skewscope.adapters.fleet.shard_host import ShardHost, ShardPlan
from skewscope.adapters.fleet.shard_report import ShardReport
from skewscope.adapters.runtime.tasks import start_vital_thread
from skewscope.kb.problems import SkewscopeError

PORT_FILE = "port"
"""In the folder of a shard: where it listened last."""
JOIN_S = 10.0
"""Seconds that a stop waits for the threads of a shard."""


@dataclass
class _NoSources:
    """A shard has no sources besides agents."""

    receivers: tuple[()] = ()

    def receiver_at(self, _path: str) -> None:
        return None


@dataclass
class _ShardController:
    """What the application needs of a controller."""

    config: ControllerConfig
    receiver: ShardHost
    supervisor: _NoSources = field(default_factory=_NoSources)

    @property
    def is_judging(self) -> bool:
        return self.receiver.is_judging


class ShardApp(ControllerApp):
    """The application of a shard: rows of agents, and whether it is alive."""

    def __post_init__(self) -> None:
        self.access_control = AccessControl(self.controller.config)
        self._start_worker()
        self._asgi_app = Starlette(routes=[StarletteRoute("/healthz", _get_liveness)])


async def _get_liveness(_request: Request) -> Response:
    return PlainTextResponse("ok\n")


class ShardServer:
    """One shard with its threads."""

    def __init__(self, plan: ShardPlan, config: ControllerConfig | None = None, host: str = "127.0.0.1") -> None:
        """Goes on where the shard stopped, and starts.

        Args:
            plan: what the shard is made from.
            config: whose tokens and certificates count for rows; None: no rows come over the network.
            host: the address on which it listens.

        Raises:
            SkewscopeError: the journal cannot be used, or no port is free.
        """
        # Agents that connect from now on wait for the shard; otherwise they would be refused, and come back later.
        listening = _open_known_port(plan, host) if config is not None else None
        self.host = ShardHost(plan)
        gc.collect()
        gc.freeze()
        self._stop = threading.Event()
        # Ray starts a shard that ends again, from its journal.
        self._threads = [start_vital_thread(f"{plan.name} ticks", partial(self.host.run, self._stop))]
        if config is not None and listening is not None:
            _keep_port(plan, listening)
            self.host.url = _url_of(listening, host, is_secure=config.tls is not None)
            own = replace(config, topology=plan.topology, listen=replace(config.listen, host=host))
            app = ShardApp(cast("Controller", _ShardController(own, self.host)))
            self._web = create_server(app, config.tls)
            self._threads.append(start_vital_thread(f"{plan.name} HTTP", partial(self._serve, listening, app)))

    def _serve(self, listening: socket.socket, app: ShardApp) -> None:
        with listening:
            asyncio.run(self._web.serve([listening]))
        app.close()

    def poll(self, acknowledged: int, life: str = "") -> ShardReport:
        """Returns the newest report; see `ShardHost.poll`."""
        return self.host.poll(acknowledged, life)

    def identify(self) -> tuple[int, bool]:
        """Returns the process id, and whether the shard went on from its journal."""
        return os.getpid(), self.host.is_restored

    def close(self) -> None:
        """Stops the threads and keeps the state."""
        self._stop.set()
        if len(self._threads) > 1:
            self._web.should_exit = True
        for thread in self._threads:
            thread.join(JOIN_S)
        self.host.close()


def _open_known_port(plan: ShardPlan, host: str) -> socket.socket:
    """Returns a listening socket: where the shard listened before, so that its agents find it again, if that is free.

    Raises:
        SkewscopeError: no port is free.
    """
    try:
        return open_socket(ListenConfig(host, int((plan.folder / PORT_FILE).read_text())))
    except (OSError, ValueError, OverflowError, SkewscopeError):
        return open_socket(ListenConfig(host, 0))


def _keep_port(plan: ShardPlan, listening: socket.socket) -> None:
    with suppress(OSError):
        (plan.folder / PORT_FILE).write_text(str(listening.getsockname()[1]))


def _url_of(listening: socket.socket, host: str, *, is_secure: bool) -> str:
    port = listening.getsockname()[1]
    name = _own_address() if host in ("0.0.0.0", "::") else host  # noqa: S104 - it is compared, not listened on
    return f"{'https' if is_secure else 'http'}://{f'[{name}]' if ':' in name else name}:{port}"


def _own_address() -> str:
    """Returns the address by which other machines reach this one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        # Nothing is sent: the system only looks up the way.
        probe.connect(("192.0.2.1", 9))
        return str(probe.getsockname()[0])
